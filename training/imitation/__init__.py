"""Imitation: demonstrations, their players, and the warm start."""
