"""Estimators that look at the outcome of episodes: every turn of an episode gets the same advantage."""
