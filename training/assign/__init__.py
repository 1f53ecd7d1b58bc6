"""Assign: one advantage for every turn that was played, from rewards, scores of tokens and stored rules."""
