"""`turncredit rollout`: groups of episodes without training."""

from turncredit.cli.playing.command import rollout

__all__ = ["rollout"]
