"""Reads the answer about a model folder."""

from __future__ import annotations

from dataclasses import dataclass, field

from twinrig.checks.judging import key_values, tagged
from twinrig.domain.checks import ProbeOutput

WEIGHT_SUFFIXES = (".safetensors", ".bin", ".pt", ".pth", ".gguf")
MAX_HEADER_BYTES = 100_000_000
"""Limit of the safetensors format itself."""

_NOT_WEIGHTS = frozenset({"training_args.bin", "optimizer.pt", "scheduler.pt", "rng_state.pth"})


@dataclass(frozen=True)
class Header:
    """Start of a safetensors file: header length and end of the last tensor; None = no number."""

    name: str
    length: int | None
    end: int | None


@dataclass(frozen=True)
class ModelAnswer:
    """``exists`` is "yes", "no", "file" or "unreadable", "" when the answer is no answer."""

    exists: str
    filesystem: str = ""
    real_path: str = ""
    sizes: dict[str, int] = field(default_factory=dict)
    shards: tuple[str, ...] = ()
    headers: tuple[Header, ...] = ()
    broken: tuple[str, ...] = ()
    unreadable: tuple[str, ...] = ()
    near: tuple[str, ...] = ()

    @property
    def weights(self) -> tuple[tuple[str, int], ...]:
        """Name and size of each weight file; safetensors alone when there are any."""
        names = [n for n in self.sizes if n.endswith(WEIGHT_SUFFIXES) and n not in _NOT_WEIGHTS]
        if any(name.endswith(".safetensors") for name in names):
            names = [name for name in names if name.endswith(".safetensors")]
        return tuple((name, self.sizes[name]) for name in sorted(names))

    @property
    def weight_bytes(self) -> int:
        """Sum over the weight files."""
        return sum(size for _, size in self.weights)

    @property
    def missing(self) -> tuple[str, ...]:
        """Files that the index names but the folder lacks, and links that lead nowhere."""
        gone = [name for name in self.shards if name not in self.sizes]
        return tuple(dict.fromkeys([*gone, *(n for n in self.broken if _is_weight(n))]))

    def damaged(self) -> tuple[str, ...]:
        """Safetensors files that cannot be whole, told by their header and size."""
        return tuple(h.name for h in self.headers if _cut(h, self.sizes.get(h.name, 0)))


def _is_weight(name: str) -> bool:
    return name.endswith(WEIGHT_SUFFIXES)


def _cut(header: Header, size: int) -> bool:
    if header.length is None or not 2 <= header.length <= MAX_HEADER_BYTES:
        return True
    if header.end is None:
        # A file without tensors has no end; its size is that of the header.
        return size < 8 + header.length
    return size < 8 + header.length + header.end


def parse_model(output: ProbeOutput) -> ModelAnswer:
    """Lines that are not understood are skipped; ``exists`` stays "" when there are none."""
    values = key_values(output)
    sizes: dict[str, int] = {}
    for line in tagged(output, "file"):
        size, _, name = line.partition(" ")
        if size.isdecimal() and name:
            sizes[name] = int(size)
    return ModelAnswer(
        exists=values.get("exists", ""),
        filesystem=values.get("filesystem", ""),
        real_path=values.get("real", ""),
        sizes=sizes,
        shards=tagged(output, "shard"),
        headers=tuple(_header(line) for line in tagged(output, "header")),
        broken=tagged(output, "broken"),
        unreadable=tagged(output, "unreadable"),
        near=tagged(output, "near"),
    )


def _header(line: str) -> Header:
    length, end, name = (*line.split(" ", 2), "", "")[:3]
    return Header(
        name,
        int(length) if length.isdecimal() else None,
        int(end) if end.isdecimal() else None,
    )
