"""Batches: turns as token sequences, with their advantages."""
