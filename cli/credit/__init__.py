"""`turnwise credit`: credit rules on stored trajectories, side by side or against the truth."""

from turnwise.cli.credit.command import credit

__all__ = ["credit"]
