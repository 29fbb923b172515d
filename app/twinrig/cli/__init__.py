"""Every journey in a terminal."""
