"""Ablations: variants times seeds, their processes, results and summaries."""
