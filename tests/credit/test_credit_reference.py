"""docs/credit.md: its tables say what the registries say, and its adapters take ten lines each."""

import re
from pathlib import Path

import pytest

from turncredit.credit import CATALOGUE, CreditError
from turncredit.credit.reference_tables import BEGIN, END, reference, renewed
from turncredit.credit.tokens import TRANSFORMS

DOCUMENT = (Path(__file__).resolve().parents[2] / "docs" / "credit.md").read_text(encoding="utf-8")


def test_the_tables_are_what_the_registries_say():
    assert renewed(DOCUMENT) == DOCUMENT, "write it anew: python -m turncredit.credit.reference_tables docs/credit.md"


def test_every_estimator_and_transform_has_one_line():
    lines = reference().splitlines()
    for entry in (*CATALOGUE, *TRANSFORMS):
        found = [line for line in lines if line.startswith(f"| `{entry.name}` | {entry.title} |")]
        assert len(found) == 1, entry.name
        assert entry.use in found[0]
        assert entry.evidence in found[0]
    names = [re.match(r"\| `(\w+)`", line) for line in lines]
    assert len([name for name in names if name]) == len(CATALOGUE) + len(TRANSFORMS)


def test_rendering_needs_its_marks():
    with pytest.raises(CreditError, match="lacks the marks"):
        renewed(DOCUMENT.replace(END, ""))
    stale = re.sub(rf"{BEGIN}.*{END}", f"{BEGIN} old {END}", DOCUMENT, flags=re.DOTALL)
    assert stale != DOCUMENT
    assert renewed(stale) == DOCUMENT


def test_each_adapter_is_shown_in_at_most_ten_lines():
    blocks = re.findall(r"^```python\n(.*?)^```$", DOCUMENT, re.DOTALL | re.MULTILINE)
    for name in ("from_verl", "from_sequences", "from_trl", "import pandas", "import polars"):
        (block,) = [block for block in blocks if name in block]
        assert len([line for line in block.splitlines() if line]) <= 10
        assert "turncredit.credit.adapters" in block
