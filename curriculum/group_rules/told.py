"""Group rules that show what the run has learned in words: lessons, and attempts that failed."""

from __future__ import annotations

from collections.abc import Collection

from turncredit.agents.prompts.hints import TurnNotes
from turncredit.credit.errors import BadOption
from turncredit.credit.option_checks import check_number
from turncredit.curriculum.growth import Growth, MoreEpisodes, OpenGroup
from turncredit.curriculum.lessons import Lesson

HEADING = "Lessons from earlier attempts:"
MISTAKE = "An earlier attempt at this task failed. Find its mistake first, and do not repeat it:"


def lessons(
    group: OpenGroup, *, kinds: tuple[str, ...] | list[str] = ("experience",), most: int = 16, heading: str = HEADING
) -> Growth:
    """Show lessons to all episodes of a group, the worthiest first.

    At most size episodes in 1 round.

    Args:
        group: the group.
        kinds: of the lessons.
        most: most lessons.
        heading: line before them.

    Source: Training-Free GRPO, arXiv 2510.08191, where the whole library is part of the system text.
    """
    check_number("most", most, 1, whole=True)
    if isinstance(kinds, str) or not all(isinstance(kind, str) for kind in kinds):
        raise BadOption(f"kinds must be a list of names, got {kinds!r}")
    chosen = _worthiest(group, kinds)
    if group.round or not chosen:
        return Growth()
    text = "\n".join([heading, *(f"- {lesson.text}" for lesson in chosen[:most])])
    return Growth((MoreEpisodes(group.size, hint=text),))


def slea(
    group: OpenGroup,
    *,
    golden: int = 2,
    warnings: int = 1,
    alike: float = 0.85,
    longest: int = 800,
) -> Growth:
    """Show lessons turn by turn: those about states whose text is like that of the turn.

    At most size episodes in 1 round.

    Args:
        group: the group; the annotator `reflect` writes warnings.
        golden: most lessons of the kinds "golden" and "experience" that a turn shows.
        warnings: most lessons of the kind "warning".
        alike: least similarity of the two texts, in (0, 1].
        longest: characters that a turn shows.

    Source: SLEA-RL, arXiv 2603.18079, by a note. There, golden experience has three levels.
    """
    check_number("golden", golden, 0, whole=True)
    check_number("warnings", warnings, 0, whole=True)
    check_number("alike", alike, 0.0, 1.0, open_low=True)
    check_number("longest", longest, 1, whole=True)
    kinds = (golden, ("golden", "experience")), (warnings, ("warning",))
    shelves = tuple(
        (most, tuple((lesson.key, lesson.text) for lesson in _worthiest(group, names) if lesson.key))
        for most, names in kinds
    )
    if group.round or not any(notes for _, notes in shelves):
        return Growth()
    return Growth((MoreEpisodes(group.size, notes=TurnNotes(shelves, alike, longest)),))


def _worthiest(group: OpenGroup, kinds: Collection[str]) -> list[Lesson]:
    """Return the lessons of some kinds, those of the highest score first."""
    return sorted((lesson for lesson in group.lessons if lesson.kind in kinds), key=lambda lesson: -lesson.score)


def self_reflection(group: OpenGroup, *, below: float = 0.5, heading: str = MISTAKE) -> Growth:
    """Show one failed attempt at its task to all episodes of a group whose task was seldom won.

    The task rule of the same name can say so as well: its option `reflect` of a group.

    At most size episodes in 1 round.

    Args:
        group: the group; the annotator `attempts` keeps failed attempts.
        below: share of won episodes at the last visit from which nothing is shown.
        heading: line before the attempt.

    Source: R3's in-context self-refinement, arXiv 2601.19620.
    """
    check_number("below", below, 0.0, 1.0)
    attempts = [lesson for lesson in group.lessons if lesson.kind == "attempt" and lesson.key == group.task]
    lost = bool(group.options.get("reflect")) or group.record.get("success", 1.0) < below
    if group.round or not attempts or not lost:
        return Growth()
    attempt = attempts[int(group.rng.integers(len(attempts)))]
    return Growth((MoreEpisodes(group.size, hint=f"{heading}\n{attempt.text}"),))
