"""This Linux machine."""
