"""Where a vLLM server may listen. vLLM guards /v1 with its key but not /invocations (0.32)."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator

from twinrig.domain.errors import FieldError
from twinrig.domain.profile import Profile
from twinrig.messages import message

_MAX_HOST_CHARS = 253
_LABEL = re.compile(r"[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?")
LOWEST_PORT = 1024
HIGHEST_PORT = 65535


def check_network(profile: Profile) -> Iterator[FieldError]:
    """Address, port, and no open door without a key."""
    network = profile.network
    port: object = network.port
    if isinstance(port, bool) or not isinstance(port, int) or not _port_in_range(port):
        yield FieldError(
            "network.port",
            message(
                "must be a number from {low} to {high}, not {value}",
                low=LOWEST_PORT,
                high=HIGHEST_PORT,
                value=repr(port),
            ),
        )
    if not _is_address(network.host):
        yield FieldError(
            "network.host", message("must be an address such as 127.0.0.1, or a host name")
        )
        return
    if is_loopback(network.host):
        return
    if not network.key_name:
        yield FieldError(
            "network.key_name",
            message("is needed when other machines can reach the server; set an API key"),
        )
    dev_mode = profile.env.get("VLLM_SERVER_DEV_MODE")
    if dev_mode is not None and dev_mode.value not in ("", "0"):
        yield FieldError(
            "env.VLLM_SERVER_DEV_MODE",
            message("opens commands without a key; use it with the address 127.0.0.1 only"),
        )


def is_loopback(host: str) -> bool:
    """Whether only programs of the same machine reach this address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _port_in_range(port: int) -> bool:
    return LOWEST_PORT <= port <= HIGHEST_PORT


def _is_address(host: object) -> bool:
    if not isinstance(host, str) or not host or len(host) > _MAX_HOST_CHARS:
        return False
    try:
        ipaddress.ip_address(host)
    except ValueError:
        looks_like_ip = host.replace(".", "").isdigit() or ":" in host
        return not looks_like_ip and all(_is_label(part) for part in host.split("."))
    return True


def _is_label(part: str) -> bool:
    return _LABEL.fullmatch(part) is not None
