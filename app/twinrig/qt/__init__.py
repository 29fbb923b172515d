"""The panel; the only package that imports PySide6."""
