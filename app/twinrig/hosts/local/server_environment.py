"""The environment of a server: a clean base, then what the profile asks for."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePosixPath

from twinrig.domain.launch import LaunchSpec
from twinrig.hosts.local.proc_table import RUN_ID_VARIABLE

_ALLOWED = frozenset(
    {"HOME", "USER", "LOGNAME", "LANG", "LANGUAGE", "TZ", "TMPDIR", "PATH"}
    | {"SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"}
    | {"http_proxy", "https_proxy", "no_proxy", "all_proxy"}
    | {"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY"}
)
_ALLOWED_PREFIXES = ("LC_", "XDG_")
_DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def base_environment(inherited: Mapping[str, str]) -> dict[str, str]:
    """What may be inherited; ``NCCL_*``, ``VLLM_*``, ``CUDA_*`` and the like never are."""
    return {
        name: value
        for name, value in inherited.items()
        if name in _ALLOWED or name.startswith(_ALLOWED_PREFIXES)
    }


def server_environment(
    inherited: Mapping[str, str], spec: LaunchSpec, run_id: str
) -> dict[str, str]:
    """Exact environment for ``spec``. The folder of its program comes first on ``PATH``.

    The run id is the last entry: retitling overwrites the environment from its start.
    """
    environment = base_environment(inherited)
    path = environment.get("PATH") or _DEFAULT_PATH
    program = PurePosixPath(spec.argv[0])
    environment["PATH"] = f"{program.parent}:{path}" if program.is_absolute() else path
    for name in spec.unset:
        environment.pop(name, None)
    environment.update(spec.env)
    environment.pop(RUN_ID_VARIABLE, None)
    environment[RUN_ID_VARIABLE] = run_id
    return environment
