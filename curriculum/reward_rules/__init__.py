"""Our own reward rules: one function in a file of its own, and one line in `catalogue`."""
