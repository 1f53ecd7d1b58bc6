"""Exceptions of reports; each message is one sentence that says what to do.

    ReportError     there is nothing to report at a path, a picture cannot be drawn, or no credit rule can be applied

What lies below raises its own: `TrainingError` for the settings of a run, `CreditError` for credit rules, `AgentError`
for files of trajectories.
"""


class ReportError(Exception):
    """A report was asked for something that it cannot show; the message is the whole explanation."""
