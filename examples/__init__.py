"""Examples: the files of runs, and an environment made of tools."""
