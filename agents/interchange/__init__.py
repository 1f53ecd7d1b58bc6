"""Trajectories in the formats of other programs, in and out: one module a format, one table of them."""
