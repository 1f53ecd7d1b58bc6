"""`turncredit credit`: credit rules on stored trajectories, side by side or against the truth."""

from turncredit.cli.credit.command import credit

__all__ = ["credit"]
