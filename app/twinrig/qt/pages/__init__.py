"""Pages of the panel: thin widgets over view models; ``registry`` lists them."""
