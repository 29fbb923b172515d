"""How much memory a model needs on each card. Pure functions: configuration in, plan out."""
