"""Text of a shop product as the shop's search index has it."""

from __future__ import annotations

from typing import Any


def contents(item: dict[str, Any]) -> str:
    """Title, description, first bullet point and options of a product, in lower case."""
    points = item["small_description"]
    points = points if isinstance(points, list) else [points]
    options = {
        name.lower(): [one["value"].strip().replace("/", " | ").lower() for one in values]
        for name, values in (item["customization_options"] or {}).items()
        if values is not None
    }
    said = ", and ".join(f"{name}: {', '.join(values)}" for name, values in options.items())
    return " ".join([item["name"], item["full_description"], points[0] if points else "", said]).lower()
