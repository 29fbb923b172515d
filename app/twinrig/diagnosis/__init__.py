"""From log lines to a cause; no I/O."""
