"""Where a vLLM server may listen, and what its key does not guard (vLLM 0.32 as read and run)."""

from __future__ import annotations

from collections.abc import Iterator

from twinrig.domain.errors import FieldError
from twinrig.domain.profile import Profile
from twinrig.engines.field_rules import check_address, is_loopback
from twinrig.messages import message

UNGUARDED_PATHS = (
    "/health",
    "/metrics",
    "/version",
    "/ping",
    "/invocations",
    "/tokenize",
    "/detokenize",
    "/load",
    "/scale_elastic_ep",
    "/generative_scoring",
    "/docs",
    "/openapi.json",
)
"""Answer without the key; only paths below /v1 and a few more ask for it."""


def check_network(profile: Profile) -> Iterator[FieldError]:
    """Address, port, and no open door without a key."""
    yield from check_address(profile)
    if is_loopback(profile.network.host):
        return
    dev_mode = profile.env.get("VLLM_SERVER_DEV_MODE")
    if dev_mode is not None and dev_mode.value not in ("", "0"):
        yield FieldError(
            "env.VLLM_SERVER_DEV_MODE",
            message("opens commands without a key; use it with the address 127.0.0.1 only"),
        )
