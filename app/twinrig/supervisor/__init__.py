"""The process that owns a server; no Qt, no window."""
