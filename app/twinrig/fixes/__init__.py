"""Fixes, one module each, registered in ``registry``."""
