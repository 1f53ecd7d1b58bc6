"""Transforms of token advantages on a packed batch, between credit and the objective."""
