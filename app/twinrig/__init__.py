"""Twinrig: serve one large language model on two GPUs, without a terminal."""

__version__ = "0.1.0"
