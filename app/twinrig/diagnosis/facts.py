"""What is known beside the decisive line: the caller's context, and what the log itself says.

A fact is a name with a text. The caller's context wins over what was read in the log.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True)
class FactPattern:
    """Reads facts from a line that holds ``needle``. Without a group the value is ``value``."""

    name: str
    needle: str
    pattern: re.Pattern[str]
    value: str = ""


def _fact(name: str, needle: str, pattern: str, value: str = "") -> FactPattern:
    return FactPattern(name, needle, re.compile(pattern), value)


FACT_PATTERNS: tuple[FactPattern, ...] = (
    _fact("vllm", "V1 LLM engine (v", r"LLM engine \(v(\d+(?:\.\d+)+)"),
    _fact("vllm", "API server version", r"API server version (\d+(?:\.\d+)+)"),
    _fact("vllm", "version ", r"█ +version (\d+(?:\.\d+)+)"),
    _fact("exllamav3", "exllamav3", r"exllamav3 version: (\d+(?:\.\d+)+)"),
    _fact("exllamav3", "exllamav3", r"exllamav3-(\d+(?:\.\d+)+)-py3-none-any\.whl"),
    _fact("engine", "tabbyAPI", r"tabbyAPI", "tabbyapi"),
    _fact("engine", "exllamav3", r"exllamav3", "tabbyapi"),
    _fact("engine", "vllm", r"vllm[/ ]|vllm-env", "vllm"),
    _fact("wsl_version", "WSL version:", r"WSL version: (\d+(?:\.\d+)+)"),
    _fact(
        "platform", "WSL", r"[Ii]n WSL\b|WSL is detected|on WSL2|microsoft-standard-WSL2", "wsl2"
    ),
    _fact("platform", "misc dxg", r"misc dxg: dxgk", "wsl2"),
    _fact("platform", "NVRM", r"NVRM: ", "linux"),
    _fact("platform", "generic", r"\b\d+\.\d+\.\d+-\d+-generic\b", "linux"),
    _fact("compute_capability", "RTX 50", r"NVIDIA GeForce RTX 50[5-9]0", "12.0"),
    _fact("compute_capability", "sm_120", r"CUDA capability sm_120", "12.0"),
    _fact("model_path", "/mnt/", r"(/mnt/[a-z]/[^'\",\s]+)"),
    _fact("tensor_parallel", "tensor_parallel_size", r"'tensor_parallel_size': (\d+)"),
    _fact("tensor_parallel", "-tp", r"(?:\s|^)-tp (\d+)"),
    _fact("tensor_parallel", "tensor-parallel-size", r"--tensor-parallel-size[ =](\d+)"),
    _fact("tensor_parallel", "Loading with", r"Loading with tensor parallel", "2"),
    _fact("tensor_parallel", "Loading with", r"Loading with (?:autosplit|a manual)", "1"),
    _fact("launched", "nohup", r"wsl(?:\.exe)? .*(nohup)"),
    _fact("task_running", "Result", r"Result\W+267009", "yes"),
    _fact("task_running", "0x41301", r"Result\W.*0x41301", "yes"),
    _fact("draft", "Draft:", r"Draft: \d+ / \d+", "yes"),
    _fact("draft", "for drafting", r"for drafting", "yes"),
)

_ENVIRONMENT = re.compile(r"\b((?:NCCL|GLOO|VLLM|PYTORCH|CUDA|TORCH|HF)_[A-Z0-9_]+)=([^\s'\",;]+)")
_SET_BY = re.compile(r"\b(NCCL_\w+) set by environment to ([^\s.]+)")
ENVIRONMENT_NEEDLES = ("NCCL_", "VLLM_", "PYTORCH_", "CUDA_")
_QUOTES = re.compile(r"[Tt]ry|[Ss]et |[Uu]se |run with|consider|[Pp]assing|incompatible|setting ")


NOTED = "noted."
"""Before the name of a fact that may be out of date, such as a version noted in a profile."""
_ALIASES = {"exllamav3_version": "exllamav3", "vllm_version": "vllm"}


class FactBook:
    """Collects facts; the first value of a name stays, as a start says it first.

    What is given wins over the log; what is only noted counts where neither tells.
    """

    def __init__(self, context: Mapping[str, str]) -> None:
        given = {_ALIASES.get(name, name): value for name, value in context.items()}
        self._given = {n: value for n, value in given.items() if not n.startswith(NOTED)}
        self._noted = {
            n.removeprefix(NOTED): value for n, value in given.items() if n.startswith(NOTED)
        }
        self._read: dict[str, str] = {}

    def read(self, pattern: FactPattern, line: str) -> None:
        """Take a fact from a line, if the pattern finds it there."""
        if pattern.name not in self._read and (found := pattern.pattern.search(line)):
            self._read[pattern.name] = pattern.value or found[1]

    def read_environment(self, line: str) -> None:
        """Variables set before a command, or told by NCCL; advice in a message sets nothing."""
        for name, value in _SET_BY.findall(line):
            self._read.setdefault(name, value)
        if "=" in line and not _QUOTES.search(line):
            for name, value in _ENVIRONMENT.findall(line):
                self._read.setdefault(name, value)

    def knows(self, name: str) -> bool:
        """Whether a fact was read or given."""
        return name in self._read or name in self._given or name in self._noted

    def facts(self) -> Mapping[str, str]:
        """Everything known."""
        merged = {**self._noted, **self._read, **self._given}
        allocator = " ".join(
            merged[name]
            for name in ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF")
            if name in merged
        )
        if allocator:
            merged.setdefault("allocator", allocator)
        return MappingProxyType(merged)
