"""For which CUDA major are downloaded wheels? Told by their names, before anything is installed."""

from __future__ import annotations

import re
from collections.abc import Sequence

_TAG = re.compile(r"[+.]cu(\d{2})\d")
_RUNTIME = re.compile(r"nvidia_cuda_runtime(?:_cu(\d{2}))?-(\d+)\.", re.IGNORECASE)


def wrong_wheel(names: Sequence[str], cuda: int, engine: str) -> str:
    """The first wheel that is built for another CUDA major; "" = none is.

    ``engine`` is the engine's package: of it and of torch the name tells the truth.
    A wheel whose name tells nothing is judged by the runtime library that came with it.
    """
    for name in names:
        package = name.partition("-")[0].lower()
        found = _TAG.search(name)
        if package in ("torch", engine) and found is not None and int(found[1]) != cuda:
            return name
        runtime = _RUNTIME.match(name)
        if runtime is not None and int(runtime[1] or runtime[2]) > cuda:
            return name
    return ""
