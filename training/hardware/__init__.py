"""Hardware: what a run needs of a machine, planned before it starts: memory, cards, commands."""
