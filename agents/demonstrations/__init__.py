"""Demonstrations in files of other formats, as trajectories and tokens."""
