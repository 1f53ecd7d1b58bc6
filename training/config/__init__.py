"""The configuration of a run: its sections, its file, and what its keys change."""
