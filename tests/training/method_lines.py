"""The lines of docs/methods.md, for the tests that compare what they do with numbers worked out by hand.

The rules are those that the line's own words make of a run, with their options; the numbers come from the paper's
formula, written again in the test, and never from the rule. A line without an entry for what it sets fails.
"""

from __future__ import annotations

from test_methods import PLAIN, ROWS, words
from test_training_loop import make_run

from turncredit.training import Run
from turncredit.training.sampling.sampling_rules import SamplingRules

METHODS = {name.strip().partition(" ([")[0]: words(cell) for name, cell in ROWS}


def run_of(method, folder):
    """The run that a line makes."""
    table = make_run(folder).model_dump(exclude_unset=True)
    return Run.parse(table, [*PLAIN, *METHODS[method]])


def rules_of(run):
    """Its rules of sampling, without annotators."""
    section = run.sampling.model_copy(update={"annotators": []})  # one of them loads an encoder
    return SamplingRules.of(section, seed=0, groups=run.train.groups, weights={})


def methods_with(*starts):
    """The lines with a word that begins so."""
    return [name for name, cell in METHODS.items() if any(word.startswith(starts) for word in cell)]
