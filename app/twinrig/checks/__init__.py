"""Preflight checks, one module each, registered in ``registry``."""
