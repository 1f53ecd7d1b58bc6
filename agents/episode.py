"""One episode: prompt, sample, parse, step, write down, until something ends it.

Left out on purpose: everything about many episodes (`rollout`), and cutting of prompts.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import gymnasium

from turnwise.agents.agent import Agent
from turnwise.agents.env_pool import Answer, EnvFailure, EnvWorker
from turnwise.agents.errors import ContextOverflow, SamplerError
from turnwise.agents.prompt import Exchange, View
from turnwise.agents.samplers.base import Completion, Request, Sampler
from turnwise.agents.trajectory import Extra, Stop, Trajectory, Turn, check_extras

LONGEST_TEXT = 20_000
"""Most characters of an answer that are kept and parsed."""


async def play(
    agent: Agent,
    sampler: Sampler,
    env: gymnasium.Env[Any, Any],
    task: str,
    seed: int,
    episode_id: str | None = None,
) -> Trajectory:
    """Return one episode of the task, played in the given environment (which stays open unless it fails).

    Args:
        agent: prompts, parser, limits.
        sampler: the model.
        env: any Gymnasium environment with text in and out.
        task: id of the task instance.
        seed: of the environment's reset; the sampling seed follows from it and the id.
        episode_id: ``task#member@seed``; the first member when None.

    """
    name = episode_id or f"{task}#0@{seed}"
    return await Episode(agent, sampler, EnvWorker(lambda: env), Job(task, seed, name, sampling_seed(name))).play()


def sampling_seed(episode_id: str) -> int:
    """Return the sampling seed of an episode, 63 bits: a hash of (task, member, seed), stable over processes."""
    return int.from_bytes(hashlib.blake2b(episode_id.encode(), digest_size=8).digest(), "big") >> 1


@dataclass(frozen=True, slots=True)
class Job:
    """One episode to be played."""

    task: str
    seed: int
    name: str
    sampling_seed: int
    place: tuple[int, int] = (0, 0)
    """Index of the group, index of the member."""


class Episode:
    """One episode while it is played."""

    def __init__(self, agent: Agent, sampler: Sampler, worker: EnvWorker, job: Job) -> None:
        self.agent, self.sampler, self.worker, self.job = agent, sampler, worker, job
        self.read = agent.reads.read
        self.lists = agent.prompt.template.lists
        self.turns: list[Turn] = []
        self.memory: list[Exchange] = []
        self.previous: tuple[int, ...] = ()
        self.observation = ""
        self.start = ""
        self.answer: Answer | None = None
        self.plan: Callable[[], list[str]] | None = None
        self.error: str | None = None
        self.extras: dict[str, Extra] = {}

    async def play(self) -> Trajectory:
        """Play it to its end."""
        started = time.perf_counter()
        stop: Stop
        try:
            stop = await self._run()
        except EnvFailure as failure:
            stop, self.error = "error", str(failure)
            self.worker.discard()
        except ContextOverflow as overflow:
            stop, self.error = "tokens", str(overflow)
        finally:
            self.sampler.forget(self.job.name)
        return self._trajectory(stop, time.perf_counter() - started)

    async def _run(self) -> Stop:
        self.answer = answer = await self.worker.reset(self.job.task, self.job.seed)
        self.start = self.observation = answer.observation
        self.extras = dict(answer.extras)
        self.plan = self.worker.planner()
        for turn in range(self.agent.max_turns):
            view = View(self.start, self.observation, self.answer.admissible, turn)
            prompt = self._prompt(view)
            if prompt is None:
                return "tokens"
            await self._turn(view, prompt)
            if self.answer.terminated:
                return "terminated"
            if self.answer.truncated:
                return "truncated"
        return "turns"

    def _prompt(self, view: View) -> tuple[int, ...] | None:
        """Return the ids of this turn's prompt, None when prompt and response would outgrow the model."""
        tokenizer = self.sampler.tokenizer
        if tokenizer is None:
            return ()
        prompt = self.agent.encode(self.agent.prompt.build(self.memory, view), self.previous, tokenizer)
        context = self.sampler.context
        if context is not None and len(prompt) + self.agent.max_tokens > context:
            self.error = (
                f"turn {view.turn}: a prompt of {len(prompt)} tokens and {self.agent.max_tokens} for the answer are "
                f"more than the {context} that the model takes"
            )
            return None
        return prompt

    async def _turn(self, view: View, prompt: tuple[int, ...]) -> None:
        """Sample, parse, step, and write down what happened, also when the step fails."""
        agent, before = self.agent, self.answer
        assert before is not None
        completion = await self.sampler.sample(
            Request(
                self.job.name,
                view.turn,
                prompt,
                self.job.sampling_seed,
                view,
                self.plan,
                agent.temperature,
                agent.top_p,
                agent.max_tokens,
                agent.stop,
            )
        )
        text = _clean(completion.text)
        parsed = self.read(text)
        reward, valid, extras = 0.0, False, self.extras | _extras(completion)
        try:
            if parsed.action is None:
                self.observation = agent.correction(str(parsed.why))
            else:
                listed = before.admissible
                valid = listed is None or parsed.action in listed
                self.answer = after = await self.worker.step(parsed.action)
                self.observation = after.observation
                extras |= after.extras
                reward, valid = after.reward, (valid if after.valid is None else after.valid)
        finally:
            self._write(view, completion, prompt, text, parsed.action, before.state, reward, valid, extras)

    def _write(
        self,
        view: View,
        completion: Completion,
        prompt: tuple[int, ...],
        text: str,
        action: str | None,
        state: str,
        reward: float,
        valid: bool,
        extras: dict[str, Extra],
    ) -> None:
        response = completion.tokens
        self.turns.append(
            Turn(
                prompt,
                response,
                completion.logprobs,
                completion.version,
                view.observation,
                text,
                action,
                state,
                reward,
                valid,
                view.admissible if self.lists else None,
                extras,
            )
        )
        self.memory.append(Exchange(view.observation, text, action))
        self.previous = prompt + response

    def _trajectory(self, stop: Stop, seconds: float) -> Trajectory:
        answer = self.answer
        won = False
        if answer is not None and stop != "error":
            won = answer.won if answer.won is not None else stop == "terminated" and self.turns[-1].reward > 0
        return Trajectory(
            id=self.job.name,
            task=self.job.task,
            task_type=None if answer is None else answer.task_type,
            seed=self.job.seed,
            turns=tuple(self.turns),
            stop=stop,
            won=won,
            score=float(won) if answer is None or answer.score is None else answer.score,
            final_state="" if answer is None else answer.state,
            final_observation=self.observation,
            error=self.error,
            seconds=seconds,
        )


def _extras(completion: Completion) -> dict[str, Extra]:
    try:
        return check_extras(completion.extras)
    except TypeError as error:
        raise SamplerError(f"the sampler's completion: {error}") from error


def _clean(text: str) -> str:
    """Return the text cut to a length that can be kept, and without lone surrogates (they cannot be written)."""
    text = text[:LONGEST_TEXT]
    return text if text.isascii() else text.encode("utf-8", "replace").decode()
