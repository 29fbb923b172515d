"""The composition root: picks the target and wires everything."""
