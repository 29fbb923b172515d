"""The demo rig: a simulated machine with two cards."""
