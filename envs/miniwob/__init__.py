"""MiniWoB++ tasks in a real browser: `turncredit/MiniWoB-v0`, and one id for each task."""
