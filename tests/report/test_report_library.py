"""Reports from Python: nothing of the command line is imported, and mistakes are exceptions of the reports."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from toys.report_runs import write_run

from turncredit.report import ReportError, compare_credit, report_page, write_credit_picture, write_report

SCRIPT = """
import sys
from turncredit.report import ReportError, compare_credit, save_curves, write_credit_picture, write_report
folder, out = sys.argv[1:]
notes = write_report(folder, f"{out}/page.html", credit=["gigpo"])
task = write_credit_picture(folder, f"{out}/graph.svg", "gigpo,grpo")
correlation = compare_credit(folder, ["gigpo", "grpo"]).correlation
try:
    write_report(f"{folder}/nothing", f"{out}/no.html")
except ReportError as error:
    print(error)
print([name for name in sys.modules if name == "typer" or name.startswith("turncredit.cli")])
"""


def test_a_notebook_needs_no_command_line(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run")
    words = [sys.executable, "-c", SCRIPT, str(run), str(tmp_path)]
    sentence, modules = subprocess.run(words, capture_output=True, text=True, check=True).stdout.splitlines()
    assert "does not exist" in sentence
    assert modules == "[]"
    assert (tmp_path / "page.html").read_text(encoding="utf-8").startswith("<!doctype html>")
    assert (tmp_path / "graph.svg").read_text(encoding="utf-8").startswith("<svg")


def test_a_page_as_text_is_the_page_of_the_file(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run")
    write_report(run, tmp_path / "page.html")
    assert report_page(run) == (tmp_path / "page.html").read_text(encoding="utf-8")


def test_rules_are_compared_as_names_or_as_one_text(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run")
    by_names, by_text = compare_credit(run, ["gigpo", "grpo"]), compare_credit(run, "gigpo,grpo")
    assert by_names.as_dict() == by_text.as_dict()
    assert list(by_names.results) == ["gigpo", "grpo"]
    assert next(iter(compare_credit(run, options={"gamma": 0.5}).results)) == "gigpo"  # the run's own comes first


def test_mistakes_are_report_errors(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run")
    with pytest.raises(ReportError, match="no evaluations"):
        write_report(run, tmp_path / "page.html", against=[tmp_path])
    with pytest.raises(ReportError, match="holds no task 'nowhere'"):
        compare_credit(run, task="nowhere")
    with pytest.raises(ReportError, match="must end in one of"):
        write_credit_picture(run, tmp_path / "graph.txt")
    with pytest.raises(ReportError, match=r"got .gigpo:gamma=0.9.; an option is a word of its own, such as gamma=0.9"):
        compare_credit(run, "grpo,gigpo:gamma=0.9")
    with pytest.raises(ReportError, match="has no option 'gama'"):
        compare_credit(run, "gigpo", options={"gama": 1.0})
