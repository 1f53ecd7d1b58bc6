"""Estimators that tell the turns of an episode apart: by state, history, transition, branch, role or value."""
