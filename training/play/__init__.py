"""Play: the episodes of an iteration, turn by turn or beside the updates, and what was played."""
