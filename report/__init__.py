"""Reports: pages, pictures and tables of runs, for a command line or a notebook.

>>> from turncredit.report import compare_credit, write_report
>>> write_report("runs/mine", "mine.html")  # doctest: +SKIP
>>> compare_credit("runs/mine", "gigpo,grpo").correlation  # doctest: +SKIP

Importing this package is cheap: a module is imported when one of its names is first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from turncredit.report.credit_comparison import RuleComparison, compare_credit, compare_rules
    from turncredit.report.credit_picture import write_credit_picture
    from turncredit.report.credit_settings import CreditSettings
    from turncredit.report.errors import ReportError
    from turncredit.report.figures import Estimate, Points, save_curves, save_curves_and_dots, save_scatters
    from turncredit.report.plots import Curve, terminal_plot
    from turncredit.report.run_report.html import report_page, write_report
    from turncredit.report.run_report.report_data import ReportData, open_report
    from turncredit.report.run_report.server import LiveServer

_MODULES = {
    "CreditSettings": "credit_settings",
    "Curve": "plots",
    "Estimate": "figures",
    "LiveServer": "run_report.server",
    "Points": "figures",
    "ReportData": "run_report.report_data",
    "ReportError": "errors",
    "RuleComparison": "credit_comparison",
    "compare_credit": "credit_comparison",
    "compare_rules": "credit_comparison",
    "open_report": "run_report.report_data",
    "report_page": "run_report.html",
    "save_curves": "figures",
    "save_curves_and_dots": "figures",
    "save_scatters": "figures",
    "terminal_plot": "plots",
    "write_credit_picture": "credit_picture",
    "write_report": "run_report.html",
}

__all__ = [
    "CreditSettings",
    "Curve",
    "Estimate",
    "LiveServer",
    "Points",
    "ReportData",
    "ReportError",
    "RuleComparison",
    "compare_credit",
    "compare_rules",
    "open_report",
    "report_page",
    "save_curves",
    "save_curves_and_dots",
    "save_scatters",
    "terminal_plot",
    "write_credit_picture",
    "write_report",
]


def __getattr__(name: str) -> Any:
    """Import the module of a public name when the name is first used."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"turncredit.report.{_MODULES[name]}"), name)
