"""The process that owns one server: starts it, keeps it, tells about it, ends it."""
