"""Pure functions from a model and settings to bytes per GPU."""
