"""Asking models about the episodes of a run: each question once, with the answers in a file of the run's folder.

A run that is resumed, or asks the same again, pays once. A question without an answer is counted; above a share of
`MOST_MISSING` the iteration stops with a sentence.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from turncredit.agents.errors import RequestFailed
from turncredit.agents.prompts.dialogue import Message
from turncredit.agents.prompts.prompt import View
from turncredit.agents.trajectory import Group, sampling_seed
from turncredit.curriculum.annotation import Annotator, Notes
from turncredit.curriculum.lessons import Lesson
from turncredit.engines.base import Request, Sampler, SamplerSettings, parse_sampler
from turncredit.engines.wrappers import make_sampler
from turncredit.tools.bounded_input import parse_json, read_lines
from turncredit.training.config.run import Run
from turncredit.training.config.seeds import Seeds
from turncredit.training.errors import TrainingError

__all__ = ["Annotations", "AnswerFile", "run_annotations"]

MOST_MISSING = 0.2
"""Share of questions without an answer above which an iteration stops."""


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
