"""Numbers as people read them: memory in GiB, spans of time in words, T/s with few digits."""

from __future__ import annotations

from twinrig.messages import Message, message

GIB = 1024**3
NOT_AVAILABLE = message("Not available")


def number(value: float) -> str:
    """Few digits: 7.26 -> "7.3", 123.4 -> "123"; whole numbers stay whole."""
    if value == int(value) or abs(value) >= 99.95:
        return str(round(value))
    return f"{value:.1f}"


def gib(size_bytes: float) -> str:
    """ "11.9" for 11.9 GiB."""
    return f"{size_bytes / GIB:.1f}"


def duration(seconds: float) -> Message:
    """A span of time in its two largest units."""
    whole = max(0, round(seconds))
    if whole < 60:
        return message("{seconds} s", seconds=whole)
    if whole < 3600:
        return message("{minutes} min {seconds} s", minutes=whole // 60, seconds=whole % 60)
    if whole < 86400:
        return message("{hours} h {minutes} min", hours=whole // 3600, minutes=whole % 3600 // 60)
    return message("{days} d {hours} h", days=whole // 86400, hours=whole % 86400 // 3600)
