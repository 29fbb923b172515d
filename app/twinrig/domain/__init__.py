"""Plain data and rules of the product; standard library only, no I/O."""
