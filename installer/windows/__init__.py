"""Builds the Windows release on Linux: staged folder, per-user installer, portable zip."""
