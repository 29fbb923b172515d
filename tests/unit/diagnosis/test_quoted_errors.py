"""People ask their model about errors; a log that holds such a prompt tells of no failure."""

from __future__ import annotations

import pytest

from fixtures.rule_samples import SHIPPED, expanded
from twinrig.diagnosis.explain import diagnose

QUOTES = (
    "my log says RuntimeError: NCCL error: unhandled cuda error, what now?",
    "Explain ImportError: libcudart.so.13: cannot open shared object file",
    "why OSError: [Errno 98] Address already in use",
    "write code that prints No space left on device",
    "what is no kernel image is available for execution on the device",
    "pidfd_getfd: Operation not permitted, how to fix",
    "CUDA error: an illegal memory access was encountered",
    "The NVIDIA driver on your system is too old (found version 12060)",
    "fatal error: Python.h: No such file or directory",
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB",
    "Wsl/Service/E_UNEXPECTED",
    "Last Result 0x80070002",
    "GPU is lost. Reboot the system",
    "OSError: [Errno 24] Too many open files",
    "vllm: command not found",
    "Traceback (most recent call last): KeyError: 'a'",
)


@pytest.mark.parametrize("quote", QUOTES)
def test_a_prompt_in_the_log_is_no_failure(quote: str) -> None:
    for text in (
        f"$TABBY 1.4.2\n$TREADY\n$TINFO Prompt: {quote}\n$TINFO {quote}",
        "$VLLM 0.30.0\n$READY\n(APIServer pid=1) INFO 11-02 09:20:40 [logger.py:40] Received"
        f" request cmpl-1: prompt: '{quote}', params: SamplingParams(n=1)\n$STATS 21.0 1 0",
    ):
        found = diagnose(expanded(text), "", SHIPPED, {})
        assert found.kind == "healthy", found.findings
        assert not [d for d in found.findings if d.confidence != "info"]
