"""What fills each column of the table of turns that a credit rule, a reward rule or an objective may ask for.

A run in which nothing fills a column is refused, with what could. A test fills each of them as this table says.
"""

from collections.abc import Iterable
from typing import Literal, NamedTuple

__all__ = ["SOURCES", "ColumnSource", "choices"]

Kind = Literal["every run", "annotator", "environment", "key", "reward rule", "learner"]


class ColumnSource(NamedTuple):
    """Something that fills a column.

    Attributes:
        kind: what it is; "every run" and "learner" need no key.
        words: the words of a command line that make a run fill the column.
        note: note for the documentation.
    """

    kind: Kind
    words: tuple[str, ...] = ()
    note: str = ""


def _annotator(text: str, note: str = "", *, judge: bool = False) -> ColumnSource:
    asks = ('sampling.judge="openai:MODEL@URL"',) if judge else ()
    return ColumnSource("annotator", (f"sampling.annotators=[{text}]", *asks), note)


_TREES = ColumnSource("key", ('train.forks={where="contested", roots=2}',), "or a group rule")
_TABLE = ColumnSource("every run")
_LEARNER = ColumnSource("learner")

SOURCES: dict[str, tuple[ColumnSource, ...]] = {
    **dict.fromkeys(("state", "action", "next_state", "valid", "tokens", "logprob", "unfinished"), (_TABLE,)),
    "hindsight": (_TABLE,),
    **dict.fromkeys(("tree", "parent", "forked", "fork_turn"), (_TREES,)),
    "source": (
        ColumnSource(
            "key", ('sampling.groups=["rl_plus"]', 'sampling.teachers=["expert"]'), "a group rule with teachers"
        ),
        _LEARNER,
    ),
    "value": (ColumnSource("key", ("train.forks={values=1}",), "the mean of forks"),),
    "role": (_annotator('{name="kinds", column="role", per="turn", patterns={planner="plan"}}', "the kind of a turn"),),
    "label": (_annotator('"answers"'),),
    "metric": (_annotator('"text_vector"'), _annotator('{name="judge", column="metric"}', judge=True)),
    "multi": (_annotator('"several"', "with what the environment reports, such as `harm` of the phone"),),
    "repeated": (_annotator('"repeated"'),),
    "length_budget": (_annotator('"budgets"'),),
    "answer": (_annotator('"wordings"'),),
    "wording": (_annotator('"wordings"'),),
    "question": (_annotator('"wordings"'),),
    "facts": (_annotator('"facts"'),),
    "supported": (_annotator('"facts"'),),
    "refused": (_annotator('"facts"'),),
    "used": (_annotator('{name="matches", pattern="TOOL"}'),),
    "parallel": (_annotator('{name="matches", column="parallel", pattern="<parallel>", of="answers"}'),),
    "format": (_annotator('"kinds"'),),
    "first_right": (_annotator('"verdict"', judge=True),),
    "judge": (_annotator('"judge"', judge=True),),
    "preferred": (_annotator('"pairwise"', judge=True),),
    "plan_score": (_annotator('{name="judge", column="plan_score"}', judge=True),),
    "confidence": (_annotator('{name="judge", column="confidence"}', judge=True),),
    "entities": (
        ColumnSource("environment", ('env.id="turncredit/Search-v0"',), "with the `entities` of its questions"),
    ),
    "coverage": (ColumnSource("environment", ('env.id="turncredit/Search-v0"',), "the gold passages that were read"),),
    "process": (ColumnSource("environment", ('env.id="turncredit/Search-v0"',), "turns that read gold passages"),),
    "keep": (ColumnSource("reward rule", ('sampling.rewards=["genrm_pairs"]',)),),
    **dict.fromkeys(("ref", "rollout", "entropy", "mean_logprob", "old_mean_logprob"), (_LEARNER,)),
    **dict.fromkeys(("outcome", "group"), (_LEARNER,)),
}
"""Column -> what fills it, ours first."""


def choices(columns: Iterable[str]) -> str:
    """Return what could fill columns, as the end of a sentence.

    >>> choices(["label"])
    '; the column \'label\' is filled by sampling.annotators=["answers"]'

    Args:
        columns: names of columns; one of which nothing is known has no choice but the environment.
    """
    ways = {name: [" and ".join(source.words) for source in SOURCES.get(name, ()) if source.words] for name in columns}
    return "".join(f"; the column {name!r} is filled by {', or '.join(way)}" for name, way in ways.items() if way)


def table() -> str:
    """Return the columns and what fills them, as Markdown."""
    lines = ["| column | filled by |", "|---|---|"]
    for name, sources in sorted(SOURCES.items()):
        ways = [" ; ".join(f"`{word}`" for word in source.words) or source.kind for source in sources]
        notes = [f" ({source.note})" if source.note else "" for source in sources]
        lines.append(f"| `{name}` | {', or '.join(map(''.join, zip(ways, notes, strict=True)))} |")
    return "\n".join(lines)
