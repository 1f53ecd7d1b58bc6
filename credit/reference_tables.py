"""The tables of columns, credit rules and token transforms in docs/credit.md, rendered from the code.

python -m turncredit.credit.reference_tables docs/credit.md        updates them
"""

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from turncredit.credit.catalogue import CATALOGUE
from turncredit.credit.columns import COLUMNS, REQUIRED
from turncredit.credit.errors import CreditError
from turncredit.credit.registry import CreditRule
from turncredit.credit.tokens.catalogue import TRANSFORMS

BEGIN, END = "<!-- rendered by turncredit.credit.reference_tables -->", "<!-- end of the rendered part -->"
COLUMNS_BEGIN, COLUMNS_END = "<!-- columns, rendered -->", "<!-- end of the columns -->"
PLACES = {"turncredit.credit.outcome": "Outcome level", "turncredit.credit.turn": "Turn level"}


def reference() -> str:
    """Return the tables as Markdown: our rules by level, and the token transforms."""
    parts = []
    for place, title in PLACES.items():
        entries = sorted(
            (e for e in CATALOGUE if e.function.__module__.startswith(place)), key=lambda entry: entry.name
        )
        parts.append(f"### {title}\n\n{_rules(entries)}")
    header = ("name", "title", "arXiv", "evidence", "use")
    rows = [(f"`{t.name}`", t.title, t.arxiv or "", t.evidence, t.use) for t in TRANSFORMS]
    parts.append(f"### Transforms of token advantages\n\n{_table(header, sorted(rows))}")
    return "\n\n".join(parts)


def columns() -> str:
    """Return the columns of the table of turns as Markdown."""
    rows = [(f"`{name}`", "yes" if name in REQUIRED else "", column.meaning) for name, column in COLUMNS.items()]
    return _table(("column", "required", "meaning"), rows)


def renewed(text: str) -> str:
    """Return a document with the parts between the marks rendered again.

    Args:
        text: the document.

    Raises:
        CreditError: a mark is missing.
    """
    return _between(BEGIN, END, reference(), _between(COLUMNS_BEGIN, COLUMNS_END, columns(), text))


def _between(begin: str, end: str, part: str, text: str) -> str:
    before, found, rest = text.partition(begin)
    _, closed, after = rest.partition(end)
    if not found or not closed:
        raise CreditError(f"the document lacks the marks {begin!r} and {end!r}")
    return f"{before}{begin}\n\n{part}\n\n{end}{after}"


def _rules(entries: Iterable[CreditRule]) -> str:
    header = ("name", "title", "arXiv", "needs", "evidence", "use")
    return _table(
        header,
        [
            (f"`{e.name}`", e.title, e.arxiv or "", ", ".join(f"`{name}`" for name in e.needs), e.evidence, e.use)
            for e in entries
        ],
    )


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


if __name__ == "__main__":
    for name in sys.argv[1:]:
        path = Path(name)
        path.write_text(renewed(path.read_text(encoding="utf-8")), encoding="utf-8")
