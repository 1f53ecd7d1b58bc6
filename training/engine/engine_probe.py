"""A probe of the engine after each load of new weights: does it compute with the weights of the learner?

The engine samples a few short answers to fixed prompts with fixed seeds; the learner scores the same tokens. The gap is
the mean of |sampled - recomputed| log-probability in nats. An engine in bfloat16 differs from float32 by 0.03 to 0.05,
one in float32 by less than 0.001; a layer that was not updated costs 0.1 and more.

Not included: engines that share the learner's module (see `shares_module`), whose weights cannot differ.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from turncredit.agents.errors import RequestFailed
from turncredit.agents.prompts.dialogue import Prompt
from turncredit.agents.prompts.prompt import View
from turncredit.agents.token_experts import TurnExperts
from turncredit.agents.trajectory import Group, Trajectory, Turn
from turncredit.engines.base import Completion, Request, Sampler
from turncredit.training.batch.batch import Batch, pack
from turncredit.training.batch.scores import Scores
from turncredit.training.errors import EngineMismatch

REQUESTS = 8
"""Answers that are sampled; with `TOKENS` each, the probe has up to 64 tokens."""

TOKENS = 8

GROWTH = 20.0
"""How many times the gap of the first load a later gap may be, before the limit of the run is reached."""

FLOOR = 0.01
"""Gap in nats that is never too large after the first load, however small the first one was."""

MOVED = 0.005
"""Change of the learner's log-probabilities (mean, nats) that must change the engine's answers."""

Score = Callable[[Batch], Scores]


@dataclass(frozen=True, slots=True)
class ProbeGap:
    """The result of one probe.

    Attributes:
        version: of the weights that were loaded.
        mean: of |sampled - recomputed|, nats.
        largest: of the same.
        tokens: number of sampled tokens.
        stale: how far the learner's log-probabilities moved (mean, nats) while the engine answered exactly as before;
            0 if the engine answered differently, or for the first time.
    """

    version: int
    mean: float
    largest: float
    tokens: int
    stale: float = 0.0

    def metrics(self) -> dict[str, float]:
        """Return the gap as metrics: probe_gap and probe_gap_max, nats."""
        return {"probe_gap": self.mean, "probe_gap_max": self.largest}


@dataclass(frozen=True, slots=True)
class ProbeAnswers:
    """What an engine has answered to the prompts of a probe.

    Attributes:
        version: of the weights that it had loaded.
        completions: one for each request that was answered.
        batch: of the same, for the learner to score.
    """

    version: int
    completions: tuple[Completion, ...]
    batch: Batch


class EngineProbe:
    """Compares engine and learner on fixed prompts.

    Args:
        prompts: real prompts; the requests take them by turns.
        limit: largest mean gap, nats; 0: none.
        seed: of the sampling.

    Raises:
        ValueError: there is no prompt.
    """

    def __init__(self, prompts: Sequence[Prompt], *, limit: float = 0.1, seed: int = 0) -> None:
        if not prompts or not all(prompt.ids for prompt in prompts):
            raise ValueError("a probe needs at least one prompt, and no empty ones")
        self._prompts, self._limit, self._seed = list(prompts), limit, seed
        self._answers: list[Completion] = []
        self._scores: NDArray[np.float64] = np.zeros(0)
        self._first: float | None = None

    async def measure(self, sampler: Sampler, score: Score, version: int) -> ProbeGap:
        """Return the gap of an engine with the weights that it has just loaded.

        Args:
            sampler: the engine.
            score: returns the learner's log-probabilities of a batch, at temperature 1.
            version: of the weights.

        Raises:
            EngineMismatch: the engine answers with another version.
            SamplerError: from the engine.
        """
        return self.compare(await self.ask(sampler, version), score)

    async def ask(self, sampler: Sampler, version: int) -> "ProbeAnswers":
        """Return an engine's answers, for `compare`, without those that could not be read again: with an image in them.

        Args:
            sampler: the engine.
            version: of the weights that it has just loaded.

        Raises:
            EngineMismatch: the engine answers with another version.
            SamplerError: from the engine.
        """
        asked = [self._request(number) for number in range(REQUESTS)]
        outcomes = await asyncio.gather(*(sampler.sample(request) for request in asked), return_exceptions=True)
        for request in asked:
            sampler.forget(request.episode)
        requests, answers = list[Request](), list[Completion]()
        for request, outcome in zip(asked, outcomes, strict=True):
            if isinstance(outcome, Completion):
                requests.append(request)
                answers.append(outcome)
            elif not isinstance(outcome, RequestFailed):
                raise outcome
        if not answers:
            raise next(outcome for outcome in outcomes if isinstance(outcome, RequestFailed))
        versions = sorted({answer.version for answer in answers})
        if versions != [version]:
            raise EngineMismatch(f"weights of version {version} were loaded, but the engine answered with {versions}")
        return ProbeAnswers(version, tuple(answers), _batch(requests, answers))

    def compare(self, asked: "ProbeAnswers", score: Score) -> ProbeGap:
        """Return the gap between an engine's answers and the learner, whose weights have not changed since.

        Args:
            asked: from `ask`.
            score: returns the learner's log-probabilities of a batch, at temperature 1.
        """
        batch, answers = asked.batch, list(asked.completions)
        recomputed = score(batch).logprobs[batch.mask]
        gaps = np.abs(batch.old[batch.mask] - recomputed)
        gaps = np.where(np.isfinite(gaps), gaps, np.inf)
        same = [(completion.tokens, completion.logprobs) for completion in answers] == [
            (completion.tokens, completion.logprobs) for completion in self._answers
        ]
        stale = float(np.abs(recomputed - self._scores).mean()) if same else 0.0
        self._answers, self._scores = answers, recomputed
        return ProbeGap(asked.version, float(gaps.mean()), float(gaps.max()), len(gaps), stale)

    def check(self, gap: ProbeGap) -> None:
        """Compare a gap with the limit, and after the first load also with the first gap.

        Raises:
            EngineMismatch: it is too large, or the engine did not change; the message names the likely cause.
        """
        if not self._limit:
            return
        if gap.stale > MOVED:
            raise EngineMismatch(
                f"the engine did not take the weights of version {gap.version}: its answers to the probe are the same "
                f"as before, but the learner's log-probabilities moved by {gap.stale:.3g} nats on average; see "
                "docs/engines.md"
            )
        limit = self._limit if self._first is None else min(self._limit, max(FLOOR, GROWTH * self._first))
        if gap.mean > limit:
            raise EngineMismatch(self._too_large(gap, limit))
        if self._first is None:
            self._first = gap.mean

    def _too_large(self, gap: ProbeGap, limit: float) -> str:
        difference = (
            f"the log-probabilities of engine and learner differ by {gap.mean:.3g} nats on average (at most "
            f"{gap.largest:.3g}) over the {gap.tokens} tokens of the probe, more than {limit:.3g}, after weights of "
            f"version {gap.version} were loaded"
        )
        if self._first is None:
            cause = (
                "at the first load the likely cause is that the engine runs another model, in another type or with "
                "another rope configuration; an engine with quantized weights needs a larger sampler.gap_limit"
            )
        else:
            cause = (
                f"the first load had {self._first:.3g}, so the likely cause is that the engine did not take the new "
                "weights completely (a tied output layer, a prefix cache of old weights)"
            )
        return f"{difference}; {cause}; see docs/engines.md"

    def _request(self, number: int) -> Request:
        prompt = self._prompts[number % len(self._prompts)]
        return Request(
            episode=f"probe#{number}@{self._seed}",
            turn=0,
            prompt=prompt.ids,
            messages=(),
            images=prompt.shown,
            seed=self._seed + number,
            view=View("", "", None, 0),
            max_tokens=TOKENS,
        )


def shares_module(sampler: Sampler, module: Any) -> bool:
    """Return whether a sampler computes with the learner's own module, so that its weights cannot differ.

    The in-process transformers sampler does unless it has another type or device than the learner.
    """
    return sampler.module is module


def _batch(requests: Sequence[Request], answers: Sequence[Completion]) -> Batch:
    """Return the batch of the answers, one sequence each."""
    return pack([Group("probe", tuple(_trajectory(*pair) for pair in zip(requests, answers, strict=True)))])


def _trajectory(request: Request, answer: Completion) -> Trajectory:
    turn = Turn(
        prompt=request.prompt,
        response=answer.tokens,
        logprobs=answer.logprobs,
        version=answer.version,
        observation="",
        text=answer.text,
        action=None,
        state="",
        reward=0.0,
        valid=False,
        shown=request.images,
        experts=None if answer.experts is None else TurnExperts(answer.experts),
    )
    return Trajectory(
        id=request.episode,
        task="probe",
        task_type=None,
        seed=0,
        turns=(turn,),
        stop="turns",
        won=False,
        score=0.0,
        final_state="",
        final_observation="",
        error=None,
        seconds=0.0,
    )
