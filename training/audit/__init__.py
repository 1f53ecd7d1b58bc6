"""Audit of a run folder: are prompts, masks, texts, log-probabilities and versions what the run says they are?"""

from turncredit.training.audit.checks import ITERATION_CHECKS, TRAJECTORY_CHECKS
from turncredit.training.audit.findings import AuditProblem, AuditResult, Place
from turncredit.training.audit.folder import FOLDER_CHECKS
from turncredit.training.audit.report import AuditOptions, AuditReport, audit

__all__ = [
    "FOLDER_CHECKS",
    "ITERATION_CHECKS",
    "TRAJECTORY_CHECKS",
    "AuditOptions",
    "AuditProblem",
    "AuditReport",
    "AuditResult",
    "Place",
    "audit",
]
