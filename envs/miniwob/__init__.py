"""The tasks of MiniWoB++ in a real browser: `turnwise/MiniWoB-v0`, and an id for each task."""
