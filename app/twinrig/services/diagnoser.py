"""Diagnoses a log of any size, from a file or a stream, in flat memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import BinaryIO

from twinrig.diagnosis.explain import Report, conclude
from twinrig.diagnosis.normalise import LogDecoder
from twinrig.diagnosis.rule_files import load_shipped
from twinrig.diagnosis.rules import Rules
from twinrig.diagnosis.scan import LogScan

CHUNK_BYTES = 1024 * 1024
MAX_LINE_CHARS = 64 * 1024
"""A longer line is cut: a file without line ends must not fill the memory."""


class Diagnoser:
    """Holds the rules; ``context`` are facts that no log tells (see the failure catalogue 6)."""

    def __init__(self, rules: Rules) -> None:
        self.rules = rules

    @classmethod
    def shipped(cls, read_text: Callable[[str], str]) -> Diagnoser:
        """With the rules of this installation. Raises RulesError when they are unusable."""
        return cls(load_shipped(read_text))

    def diagnose(self, source: BinaryIO, context: Mapping[str, str] | None = None) -> Report:
        """Read ``source`` to its end. Raises OSError as reading does, and nothing else."""
        scan = LogScan(self.rules, context)
        decoder = LogDecoder()
        while chunk := source.read(CHUNK_BYTES):
            scan.feed([line[:MAX_LINE_CHARS] for line in decoder.feed(chunk)])
        scan.feed([line[:MAX_LINE_CHARS] for line in decoder.finish()])
        exit_text = (context or {}).get("exit", "")
        return conclude(scan, exit_text, self.rules, context)
