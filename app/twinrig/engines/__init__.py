"""Servers that Twinrig can run; one module each, registered in ``registry``."""
