"""Annotators: columns of the table of turns that a model must fill in, or that only the texts and tokens tell.

    async def annotator(groups, *, ask, lessons, **options) -> Notes

`lessons` are those of the run so far, for an annotator that takes them. `ask` sends a chat to a model and returns its
answer, or None if it could not be had. Answers are kept in a file of the run's folder, so that a run which is resumed,
or asks the same again, pays once. A failed question is data: the row gets the column's missing value and is counted;
above a share of `MOST_MISSING` the iteration stops with a sentence. Packages offer annotators in the group
`turnwise.annotators`.
"""

from __future__ import annotations

import asyncio
import hashlib
import inspect
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Protocol

from turnwise.agents.errors import RequestFailed
from turnwise.agents.prompts.dialogue import Message
from turnwise.agents.prompts.prompt import View
from turnwise.agents.rollouts.episode import sampling_seed
from turnwise.agents.samplers.base import Request, Sampler, SamplerSettings, parse_sampler
from turnwise.agents.samplers.wrappers import make_sampler
from turnwise.agents.trajectory import Extra, Group
from turnwise.credit import Steps
from turnwise.credit.columns import KEYS, converted
from turnwise.credit.key_codes import Coder
from turnwise.registry import Registry
from turnwise.tools.bounded_input import parse_json, read_lines
from turnwise.training.config.run import Run
from turnwise.training.config.seeds import Seeds
from turnwise.training.errors import TrainingError
from turnwise.training.sampling.lessons import Lesson, LessonEdit
from turnwise.training.sampling.rule_registry import SamplingRule, rule_registry

__all__ = ["ANNOTATORS", "Annotations", "Annotator", "AnswerFile", "Ask", "Notes", "annotated", "run_annotations"]

MOST_MISSING = 0.2
"""Share of questions without an answer above which an iteration stops."""

Place = tuple[str, int]
"""A turn: id of the trajectory, number of the turn."""


class Ask(Protocol):
    """Sends a chat to a model."""

    def __call__(
        self, messages: Sequence[Message], *, temperature: float = 0.0, max_tokens: int = 64
    ) -> Awaitable[str | None]:
        """Return the answer; None if there is none."""


@dataclass(frozen=True, slots=True)
class Notes:
    """What an annotator found out.

    Attributes:
        columns: for each column, the values of turns.
        missing: for each column, the value of turns that have none.
        edits: changes of the run's lessons.
    """

    columns: Mapping[str, Mapping[Place, Extra]] = field(default_factory=dict)
    missing: Mapping[str, Extra] = field(default_factory=dict)
    edits: tuple[LessonEdit, ...] = ()


@dataclass(frozen=True)
class Annotator(SamplingRule):
    """An annotator: `async function(groups, *, ask, options) -> Notes`."""

    GIVEN = frozenset({"ask", "lessons"})

    @property
    def asks(self) -> bool:
        """Whether it needs a model."""
        return "ask" in self.parameters

    async def __call__(self, groups: Sequence[Group], ask: Ask, lessons: Sequence[Lesson] = ()) -> Notes:
        """Return the notes of some groups.

        Args:
            groups: the episodes.
            ask: the model.
            lessons: of the run so far.

        Raises:
            TrainingError: the function returned something else than notes.
        """
        arguments = {"ask": ask, "lessons": lessons}
        result = self.function(groups, **{name: value for name, value in arguments.items() if name in self.parameters})
        notes = await result if inspect.isawaitable(result) else result
        if not isinstance(notes, Notes):
            raise TrainingError(f"the annotator {self.name!r} must return Notes, got {type(notes).__name__}")
        return notes

    @property
    def columns(self) -> frozenset[str]:
        """Names of the columns that it fills in."""
        return frozenset(asyncio.run(self((), _silent)).columns)

    def check(self) -> None:
        """Annotate no group."""
        _ = self.columns


async def _silent(messages: Sequence[Message], *, temperature: float = 0.0, max_tokens: int = 64) -> None:
    """Have no answer."""


ANNOTATORS: Registry[Annotator] = rule_registry("annotator", "turnwise.annotators", Annotator)


class AnswerFile:
    """Answers of models by what was asked, one JSON line each; a line that was not finished is ignored.

    Args:
        path: of the file; it is made with the first answer.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._answers: dict[str, str] = {}
        self._mend = b""  # ends the line of a writer that was killed
        if path.exists():
            self._mend = b"\n"
            for line in read_lines(path):
                try:
                    record = parse_json(line, str(path))
                    self._answers[record["key"]] = record["answer"]
                except (ValueError, KeyError, TypeError):  # the writer was killed
                    continue

    def get(self, key: str) -> str | None:
        """Return an answer; None if it is not known."""
        return self._answers.get(key)

    def put(self, key: str, answer: str) -> None:
        """Keep an answer."""
        self._answers[key] = answer
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("ab") as file:
            file.write(self._mend + json.dumps({"key": key, "answer": answer}).encode("ascii") + b"\n")
        self._mend = b""


@dataclass(slots=True)
class Annotations:
    """Annotates the groups of a run.

    Attributes:
        annotators: are asked in their order.
        open_sampler: opens the model that answers; None: annotators that ask were refused before the run.
        model: its name, which is part of what an answer is kept under.
        answers: answers so far.
        concurrency: most questions at a time.
    """

    annotators: Sequence[Annotator]
    open_sampler: Callable[[], Sampler] | None
    model: str
    answers: AnswerFile
    concurrency: int = 16
    asked: int = 0
    failed: int = 0
    cost: float = 0.0
    _sampler: Sampler | None = None

    def close(self) -> None:
        """Close the model."""
        if self._sampler is not None:
            self._sampler.close()

    @property
    def sampler(self) -> Sampler:
        """The model that answers."""
        if self._sampler is None:
            assert self.open_sampler is not None, "refused before the run"
            self._sampler = self.open_sampler()
        return self._sampler

    def of(self, groups: Sequence[Group], lessons: Sequence[Lesson] = ()) -> tuple[list[Notes], dict[str, float]]:
        """Return the notes of all annotators, and what they cost.

        Args:
            groups: the episodes.
            lessons: of the run so far.

        Returns:
            Notes, and questions (answered by the model), questions_failed, questions_cost.

        Raises:
            TrainingError: too many questions had no answer.
        """
        self.asked, self.failed, self.cost = 0, 0, 0.0
        notes = asyncio.run(self._annotate(groups, lessons))
        if self.failed > MOST_MISSING * max(1, self.asked):
            raise TrainingError(
                f"{self.failed} of {self.asked} questions of the annotators had no answer from {self.model}; "
                f"an iteration stops above {MOST_MISSING:.0%}. What was answered is kept, and --resume goes on"
            )
        return notes, {"questions": self.asked, "questions_failed": self.failed, "questions_cost": self.cost}

    async def _annotate(self, groups: Sequence[Group], lessons: Sequence[Lesson]) -> list[Notes]:
        limit = asyncio.Semaphore(self.concurrency)
        waiting: dict[str, asyncio.Task[str | None]] = {}  # equal questions wait for one answer

        async def answer(key: str, messages: tuple[Message, ...], temperature: float, max_tokens: int) -> str | None:
            async with limit:
                return await self._answer(key, messages, temperature, max_tokens)

        async def ask(messages: Sequence[Message], *, temperature: float = 0.0, max_tokens: int = 64) -> str | None:
            question = tuple(messages)
            key = _key(self.model, question, temperature, max_tokens)
            if key not in waiting:
                waiting[key] = asyncio.create_task(answer(key, question, temperature, max_tokens))
            return await waiting[key]

        return [await annotator(groups, ask, lessons) for annotator in self.annotators]

    async def _answer(self, key: str, messages: tuple[Message, ...], temperature: float, max_tokens: int) -> str | None:
        if (answer := self.answers.get(key)) is not None:
            return answer
        self.asked += 1
        request = Request(
            f"{key}#0@0", 0, (), messages, sampling_seed(key), View("", "", None, 0), temperature=temperature,
            max_tokens=max_tokens,
        )  # fmt: skip
        try:
            completion = await self.sampler.sample(request)
        except RequestFailed:
            self.failed += 1
            return None
        finally:
            self.sampler.forget(request.episode)
        price = completion.extras.get("request_cost", 0.0)
        self.cost += price if isinstance(price, int | float) else 0.0
        self.answers.put(key, completion.text)
        return completion.text


def annotated(steps: Steps, notes: Sequence[Notes]) -> Steps:
    """Return the table with the columns of notes.

    Args:
        steps: table of the turns.
        notes: of the same trajectories; a later column of a name replaces an earlier one.

    Raises:
        TrainingError: a turn has no value, and its column no missing value.
    """
    turns = list(zip(steps.ids("trajectory").tolist(), steps.turn.tolist(), strict=True))
    for note in notes:
        for name, values in note.columns.items():
            steps = _with_column(steps, name, [_value(note, name, values, turn) for turn in turns])
    return steps


def _value(note: Notes, name: str, values: Mapping[Place, Extra], turn: Place) -> Extra:
    if turn in values:
        return values[turn]
    if name not in note.missing:
        raise TrainingError(
            f"turn {turn[1]} of {turn[0]} has no value in the column {name!r}, which names no missing value"
        )
    return note.missing[name]


def _with_column(steps: Steps, name: str, values: list[Extra]) -> Steps:
    if name not in KEYS:
        return replace(steps, extra={**steps.extra, name: converted(name, values)})
    coder = Coder()
    codes = coder.encode(values)
    return replace(steps, extra={**steps.extra, name: codes}, names={**steps.names, name: tuple(coder.names)})


def _key(model: str, messages: Sequence[Message], temperature: float, max_tokens: int) -> str:
    text = json.dumps([model, list(messages), temperature, max_tokens], sort_keys=True, default=str)
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def run_annotations(run: Run, annotators: Sequence[Annotator]) -> Annotations | None:
    """Return what annotates the groups of a run; None without annotators. The judge is opened when it is first asked.

    Args:
        run: the configuration.
        annotators: of the run.
    """
    if not annotators:
        return None
    engine, model, url = parse_sampler(run.sampling.judge)
    settings = SamplerSettings(model=model, url=url, seed=Seeds(run.seed).of("judge"))
    opened = partial(make_sampler, engine, settings) if run.sampling.judge else None
    return Annotations(annotators, opened, run.sampling.judge, AnswerFile(run.folder / "annotations" / "answers.jsonl"))
