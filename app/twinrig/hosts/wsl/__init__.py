"""The Linux side of a Windows computer, reached through ``wsl.exe``."""
