"""States: what a table of the curriculum remembers, as JSON can hold it."""

from typing import Any

State = dict[str, Any]
"""The state of a table by name."""
