"""Tasks: the environments of a run, and which groups it plays next."""
