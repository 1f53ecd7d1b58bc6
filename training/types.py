"""States: what a checkpoint keeps of each part of a run."""

from typing import Any

State = dict[str, Any]
"""The state of a part by name, as JSON can hold it; that of the learner, as torch can."""
