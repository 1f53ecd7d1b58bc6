"""Episodes: an agent, a sampler and environments played until the end, many at once.

Every episode is a coroutine of its own: it awaits its completion and steps its environment, so only live episodes are
sampled and stepped, and nobody waits for the slowest. What an environment does wrong ends its own episode as ``error``
(kept with its turns, counted), never those of its siblings; what the *sampler* raises ends the rollout, since no
episode could go on.

Repeated with the same seed, inline environments and a deterministic sampler, a rollout gives the same trajectories bit
for bit (but for ``seconds``). Left out on purpose: sharing work among machines.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import gymnasium

from turnwise.agents.agent import Agent
from turnwise.agents.errors import AgentError, ContextOverflow, Interrupted
from turnwise.agents.prompt import Exchange, View
from turnwise.agents.samplers.base import Completion, Request, Sampler
from turnwise.agents.seat import Answer, Make, Pool, Seat, SeatFailure
from turnwise.agents.trajectory import Group, Stop, Trajectory, Turn

QUARANTINE = 3
"""Errors in a row after which a task is not played again."""

LONGEST_TEXT = 20_000
"""Most characters of an answer that are kept and parsed."""


@dataclass(slots=True)
class RolloutReport:
    """What happened in a rollout, in numbers."""

    episodes: int = 0
    turns: int = 0
    unparsable: int = 0
    inadmissible: int = 0
    errors: int = 0
    restarts: int = 0
    """Environments that were closed after a failure, to be made anew."""
    skipped: int = 0
    """Episodes that were not played because their task was in quarantine."""
    prompt_tokens: int = 0
    response_tokens: int = 0
    seconds: float = 0.0
    quarantined: list[str] = field(default_factory=list)
    reasons: Counter[str] = field(default_factory=Counter)
    """Message of every failure -> how often."""

    def count(self, trajectory: Trajectory) -> None:
        """Add a finished episode."""
        self.episodes += 1
        self.turns += len(trajectory.turns)
        self.unparsable += trajectory.unparsable
        self.inadmissible += trajectory.inadmissible
        self.prompt_tokens += sum(len(turn.prompt) for turn in trajectory.turns)
        self.response_tokens += sum(len(turn.response) for turn in trajectory.turns)
        if trajectory.stop == "error":
            self.errors += 1
            self.reasons[str(trajectory.error)] += 1

    def sentence(self) -> str:
        """Return the report in one line, with the most frequent failure."""
        text = f"{self.episodes} episodes, {self.turns} turns in {self.seconds:.1f} s"
        if self.errors:
            reason, times = self.reasons.most_common(1)[0]
            text += f"; {self.errors} errors ({times} times: {reason}), {self.restarts} environments restarted"
        if self.quarantined:
            text += f"; in quarantine: {', '.join(self.quarantined)} ({self.skipped} episodes not played)"
        return text


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
    return await _Episode(agent, sampler, Seat(lambda: env), _Job(task, seed, name, sampling_seed(name))).play()


def sampling_seed(episode_id: str) -> int:
    """Return the sampling seed of an episode, 63 bits: a hash of (task, member, seed), stable over processes."""
    return int.from_bytes(hashlib.blake2b(episode_id.encode(), digest_size=8).digest(), "big") >> 1


def rollout(
    agent: Agent,
    sampler: Sampler,
    tasks: Sequence[str],
    *,
    make: Make | Pool,
    size: int = 1,
    seed: int = 0,
    concurrency: int = 64,
    deadline: float | None = None,
    on_finish: Callable[[Trajectory], None] | None = None,
    report: RolloutReport | None = None,
) -> list[Group]:
    """Return one group for every task, in the order of the tasks.

    The members of a group start in the same state (same task, same seed of the environment) and differ in their
    sampling seed, which is a hash of (task, member, seed). A task that comes twice makes two groups with different
    sampling seeds.

    Args:
        agent: prompts, parser, limits.
        sampler: the model.
        tasks: ids of task instances.
        make: makes an environment; or a `Pool`, which keeps its environments for the next call.
        size: episodes of each task (G).
        seed: of the environments and, by hash, of the sampling.
        concurrency: most environments alive, and so most episodes at once.
        deadline: seconds for each reset and step; environments then run on threads. None: inline, no limit.
        on_finish: called with every trajectory as it finishes (to store it, to show progress).
        report: filled with counts.

    Returns:
        The groups. One is smaller than ``size`` where its task was put into quarantine (three errors in a row).

    Raises:
        Interrupted: Ctrl-C; it carries the groups with what was finished.
        AgentError: called inside a running event loop, or with values out of range.

    """
    _outside_of_a_loop()
    state = _Rollout(agent, sampler, tasks, size, seed, on_finish, report or RolloutReport())
    try:
        asyncio.run(state.run(make, concurrency, deadline))
    except KeyboardInterrupt:
        raise Interrupted(state.groups()) from None
    return state.groups()


async def arollout(
    agent: Agent,
    sampler: Sampler,
    tasks: Sequence[str],
    *,
    make: Make | Pool,
    size: int = 1,
    seed: int = 0,
    concurrency: int = 64,
    deadline: float | None = None,
    on_finish: Callable[[Trajectory], None] | None = None,
    report: RolloutReport | None = None,
) -> list[Group]:
    """Return what `rollout` returns, for callers that already run an event loop; the arguments are the same.

    When it is cancelled, every trajectory that was finished has been given to ``on_finish``.
    """
    state = _Rollout(agent, sampler, tasks, size, seed, on_finish, report or RolloutReport())
    await state.run(make, concurrency, deadline)
    return state.groups()


def _outside_of_a_loop() -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise AgentError("rollout() was called inside a running event loop; use `await arollout(...)` there")


@dataclass(frozen=True, slots=True)
class _Job:
    """One episode to be played."""

    task: str
    seed: int
    name: str
    sampling_seed: int
    place: tuple[int, int] = (0, 0)
    """Index of the group, index of the member."""


class _Rollout:
    """The state of one rollout: what is to be played, what was played, and which tasks failed."""

    def __init__(
        self,
        agent: Agent,
        sampler: Sampler,
        tasks: Sequence[str],
        size: int,
        seed: int,
        on_finish: Callable[[Trajectory], None] | None,
        report: RolloutReport,
    ) -> None:
        if size < 1:
            raise AgentError(f"size is {size}: 1 or more episodes of each task were wanted")
        self.agent, self.sampler, self.tasks = agent, sampler, list(tasks)
        self.on_finish, self.report = on_finish, report
        self.done: list[dict[int, Trajectory]] = [{} for _ in self.tasks]
        self.failed_in_a_row: Counter[str] = Counter()
        self.jobs: deque[_Job] = deque()
        members: Counter[str] = Counter()
        for index, task in enumerate(self.tasks):
            for member in range(size):
                name = f"{task}#{members[task]}@{seed}"
                members[task] += 1
                self.jobs.append(_Job(task, seed, name, sampling_seed(name), (index, member)))

    async def run(self, make: Make | Pool, concurrency: int, deadline: float | None) -> None:
        """Play all jobs with at most ``concurrency`` environments."""
        if concurrency < 1:
            raise AgentError(f"concurrency is {concurrency}: 1 or more environments were wanted")
        if isinstance(make, Pool) and deadline is not None:
            raise AgentError("a Pool has its own deadline: give it to the Pool, not to the rollout")
        pool = make if isinstance(make, Pool) else Pool(make, deadline)
        start = time.perf_counter()
        workers = [asyncio.create_task(self._work(pool)) for _ in range(min(concurrency, len(self.jobs)))]
        try:
            await asyncio.gather(*workers)
        finally:
            for worker in workers:
                worker.cancel()
            await asyncio.gather(*workers, return_exceptions=True)
            self.report.seconds += time.perf_counter() - start
            if pool is not make:
                pool.close()

    def groups(self) -> list[Group]:
        """Return what is finished, in the order of the tasks and of the members."""
        return [
            Group(task, tuple(found[member] for member in sorted(found)))
            for task, found in zip(self.tasks, self.done, strict=True)
        ]

    async def _work(self, pool: Pool) -> None:
        seat = pool.take()
        before = seat.failures
        try:
            while self.jobs:
                job = self.jobs.popleft()
                if self.failed_in_a_row[job.task] >= QUARANTINE:
                    self.report.skipped += 1
                    continue
                self._finish(job, await _Episode(self.agent, self.sampler, seat, job).play())
                await asyncio.sleep(0)  # a sampler that never waits must not shut out Ctrl-C
        except BaseException:
            seat.close()  # it may be in the middle of a call
            raise
        finally:
            self.report.restarts += seat.failures - before
            pool.give_back(seat)

    def _finish(self, job: _Job, trajectory: Trajectory) -> None:
        index, member = job.place
        self.done[index][member] = trajectory
        self.report.count(trajectory)
        if trajectory.stop != "error":
            self.failed_in_a_row[job.task] = 0
        else:
            self.failed_in_a_row[job.task] += 1
            if self.failed_in_a_row[job.task] == QUARANTINE:
                self.report.quarantined.append(job.task)
        if self.on_finish is not None:
            self.on_finish(trajectory)


class _Episode:
    """One episode while it is played."""

    def __init__(self, agent: Agent, sampler: Sampler, seat: Seat, job: _Job) -> None:
        self.agent, self.sampler, self.seat, self.job = agent, sampler, seat, job
        self.read = agent.reads.read
        self.turns: list[Turn] = []
        self.memory: list[Exchange] = []
        self.previous: tuple[int, ...] = ()
        self.observation = ""
        self.start = ""
        self.answer: Answer | None = None
        self.plan: Callable[[], list[str]] | None = None
        self.error: str | None = None

    async def play(self) -> Trajectory:
        """Play it to its end."""
        started = time.perf_counter()
        stop: Stop
        try:
            stop = await self._run()
        except SeatFailure as failure:
            stop, self.error = "error", str(failure)
            self.seat.discard()
        except ContextOverflow as overflow:
            stop, self.error = "tokens", str(overflow)
        finally:
            self.sampler.forget(self.job.name)
        return self._trajectory(stop, time.perf_counter() - started)

    async def _run(self) -> Stop:
        self.answer = answer = await self.seat.reset(self.job.task, self.job.seed)
        self.start = self.observation = answer.observation
        self.plan = self.seat.planner()
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
        reward, valid = 0.0, False
        try:
            if parsed.action is None:
                self.observation = agent.correction(str(parsed.why))
            else:
                listed = before.admissible
                valid = listed is None or parsed.action in listed
                self.answer = after = await self.seat.step(parsed.action)
                self.observation = after.observation
                reward, valid = after.reward, (valid if after.valid is None else after.valid)
        finally:
            self._write(view, completion, prompt, text, parsed.action, before.state, reward, valid)

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
            )
        )
        self.memory.append(Exchange(view.observation, text, action, prompt, response))
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


def _clean(text: str) -> str:
    """Return the text cut to a length that can be kept, and without lone surrogates (they cannot be written)."""
    text = text[:LONGEST_TEXT]
    return text if text.isascii() else text.encode("utf-8", "replace").decode()
