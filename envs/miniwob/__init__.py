"""MiniWoB++ tasks in a real browser: `turnwise/MiniWoB-v0`, and one id for each task."""
