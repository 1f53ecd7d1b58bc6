"""Processes: children, forks, deadlines, what makes a failure, and serving over HTTP."""
