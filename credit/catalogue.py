"""Our estimators, one line each: name, title, arXiv id, columns needed, evidence, when to take it, function.

Left out on purpose: the options; a function's signature and docstring have them.
"""

from turnwise.credit.outcome.grpo import grpo
from turnwise.credit.registry import Entry, register
from turnwise.credit.turn.gigpo import gigpo

OURS = (
    # The outcome of episodes.
    Entry("grpo", "Group Relative Policy Optimization", "2402.03300", (), "reference code",
          "The outcome alone: every turn of an episode gets the same advantage.", grpo),
    # Turns told apart.
    Entry("gigpo", "Group-in-Group Policy Optimization", "2505.10978", ("state",), "reference code",
          "Outcome plus standing among turns from the same state; states must recur within a task.", gigpo),
)  # fmt: skip

for _entry in OURS:
    register(_entry)
