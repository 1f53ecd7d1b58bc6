"""Sampling: the rules of `turncredit.curriculum` in a run, with its models, its files and what it remembers."""
