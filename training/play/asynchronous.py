"""Asynchronous rollouts: episodes go on while the learner updates, at most a number of versions ahead.

Group n of the stream may begin when n < (staleness + version + 1) * tasks + spare; the rule is AReaL's (arXiv
2505.24298), the spare groups are APRIL's (arXiv 2509.18521). An iteration takes the groups that were complete first.
Unfinished episodes wait while new weights are loaded and go on under them, in the middle of an answer if the engine can
be interrupted. Nothing is generated twice, and each token knows its version. With staleness 0 and spare groups,
episodes also wait during the update.

In order, an iteration takes the groups of its own number, and checkpoints and new weights wait for all groups in play.
Then batch k is played by version max(0, k - staleness), and the run repeats bit for bit as a synchronous one does.

The episodes run on the event loop of a thread. Finished members are written to the run's folder "groups" at once, so
that a run that was killed loses no finished group.

Not included: interrupting the answers of servers. New weights wait for those in progress, one turn at most.
"""

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, suppress

from turncredit.agents.agent import Agent
from turncredit.agents.errors import SamplerError
from turncredit.agents.rollouts.rollout_options import RolloutOptions, RolloutReport
from turncredit.agents.rollouts.rollout_stream import GroupSpec, GroupStream
from turncredit.agents.trajectory import Group, Trajectory
from turncredit.engines.background import BackgroundLoop
from turncredit.engines.pausable import PausableSampler
from turncredit.training.config.sections import TrainSection
from turncredit.training.engine.engine import RunEngine
from turncredit.training.play.groups_in_play import GroupsInPlay
from turncredit.training.play.played import Played, refuse_empty
from turncredit.training.run_folder.events import Reporter
from turncredit.training.run_folder.trajectory_store import TrajectoryStore
from turncredit.training.tasks.environments import Environments
from turncredit.training.types import State

POLL = 0.2
"""Seconds between two looks for Ctrl-C and for progress while the learner waits."""


class AsynchronousRollouts:
    """Plays groups on a thread of its own.

    Args:
        section: the `[train]` section.
        agent: plays.
        engine: samples; it must not share the learner's module if episodes go on during an update.
        report: receives ticks.
        environments: where it plays.
        groups: the groups in play.
        store: stores the trajectories that an iteration takes.
    """

    def __init__(
        self,
        section: TrainSection,
        agent: Agent,
        engine: RunEngine,
        report: Reporter,
        *,
        environments: Environments,
        groups: GroupsInPlay,
        store: TrajectoryStore,
    ) -> None:
        self._train, self._agent, self._engine, self._report = section, agent, engine, report
        self._environments, self._store, self._sampling = environments, store, groups.sampling
        self._thread = BackgroundLoop("turncredit-rollouts")
        self._lock = threading.Condition()  # guards the two below
        self._groups = groups
        self._failure: BaseException | None = None
        self._sampler: PausableSampler | None = None
        self._stream: GroupStream | None = None
        self._playing: asyncio.Task[None] | None = None
        self._room = asyncio.Event()  # set when the capacity may have grown
        self._returned = self._loaded = time.perf_counter()
        self._waited = 0.0  # seconds of the learner since then

    # -- what the loop calls --

    def load(self, version: int) -> None:
        """Let the episodes wait, and give the learner's weights to the engine."""
        _ = self._engine.sampler  # opened here, on the main thread
        if not self._train.staleness.updates:  # else the engine has not slept
            self._engine.make_room()
        self._thread.call(self._load(version))

    def next(self, step: int) -> Played:
        """Let the episodes go on, and return the groups of the next iteration as soon as there are enough."""
        assert self._sampler is not None, "next() before load()"
        self._thread.call(self._resume())
        with self._lock:
            self._wait_for(lambda: len(self._groups.takable()) == self._train.groups)
            sampled = self._groups.take(step)
        metrics, report = self._thread.call(self._measured())
        if not self._train.staleness.updates:
            self._engine.rest()
        groups = [played.counted for played in sampled if not played.dropped]
        refuse_empty(groups, step)
        with self._store.iteration(step + 1) as store:
            for played in sampled:
                for trajectory in played.group.trajectories:
                    store(trajectory)
        self._sampling.finished(step, sampled)
        return Played(
            groups,
            report,
            step,
            self._train.oldest,
            {**self._sampling.metrics(sampled), **metrics},
            forest=self._sampling.forest,
            skip_truncated=self._sampling.skip_truncated,
            each_path=self._train.forks.shared == "each",
            sampled=sampled,
        )

    def settle(self) -> None:
        """Wait for all groups that may begin with these weights, if groups are taken in order."""
        if not self._train.staleness.deterministic:
            return
        with self._lock:
            self._wait_for(lambda: self._groups.settled)

    def _wait_for(self, holds: Callable[[], bool]) -> None:
        """Wait until a condition holds, with progress; the lock is held, but for the time of waiting."""
        started = time.perf_counter()
        while not holds():
            if self._failure is not None:
                raise self._failure
            self._lock.wait(POLL)
            self._tick()
        self._waited += time.perf_counter() - started

    def saved(self, step: int) -> None:
        """Remove the files of groups that a checkpoint has trained on."""
        with self._lock:
            self._groups.saved(step)

    def state(self) -> State:
        """Return what was drawn, and which groups were begun and not trained on."""
        with self._lock:
            return {"tasks": self._sampling.draws.state(), "groups": self._groups.state()}

    def load_state(self, state: State) -> None:
        """Continue with the finished members of all groups that the checkpoint has not trained on."""
        self._sampling.draws.load_state(state["tasks"])
        self._groups.load_state(state["groups"])

    def close(self) -> None:
        """End the episodes in play; their finished members stay on disk."""
        with suppress(SamplerError):
            self._thread.call(self._stop())
        self._thread.close()
        self._sampling.close()

    # -- what runs on the thread --

    async def _load(self, version: int) -> None:
        if self._sampler is None:
            self._sampler = PausableSampler(self._engine.sampler)
            # One stream for the whole run: members of a group may begin under one version and end under another, and a
            # group that an iteration does not take goes on. `_specs` holds groups back until they may begin, so the
            # capacity rule is in `GroupsInPlay` alone.
            options: RolloutOptions = {
                "concurrency": self._train.concurrency,
                "replacements": self._train.replacements,
                "teachers": self._sampling.teachers,
            }
            self._stream = GroupStream(self._agent, self._sampler, self._specs(), options, self._keep)
        assert self._stream is not None
        # Episodes wait between two tokens, or between two turns where the engine cannot be interrupted. Without this,
        # one answer would be sampled by half-loaded weights.
        await self._sampler.pause()
        await self._engine.load_here(version)
        with self._lock:
            self._groups.load(version)
        self._loaded = time.perf_counter()
        self._stream.end_quarantine()

    async def _resume(self) -> None:
        """Go on; what the engine did since the weights were loaded, an evaluation perhaps, does not count."""
        assert self._sampler is not None
        elsewhere = time.perf_counter() - self._loaded
        self._sampler.leave_out(elsewhere)
        self._returned += elsewhere
        await self._sampler.resume()
        self._room.set()
        if self._playing is None:
            self._playing = asyncio.create_task(self._play())

    async def _measured(self) -> tuple[dict[str, float], RolloutReport]:
        """Return metrics and counts since the last iteration; episodes that must wait for the update do so from now."""
        assert self._sampler is not None
        assert self._stream is not None
        if not self._train.staleness.updates:
            await self._sampler.pause()
        usage, end = self._sampler.usage(), time.perf_counter()
        report, self._stream.report = self._stream.report, RolloutReport()
        report.seconds, self._returned = end - self._returned, end
        waited, self._waited = self._waited, 0.0
        metrics = {
            "rollout_seconds": waited,  # the time that they cost; they go on during the update
            "learner_idle": waited / max(report.seconds, 1e-9),
            "engine_idle": usage.idle / usage.seconds,
            "requests": usage.requests,
            "complete_groups": float(len(self._groups.complete)),
            "open_groups": float(len(self._groups.unused) - len(self._groups.complete)),
            "playing": float(self._stream.playing),
        }
        return metrics, report

    async def _play(self) -> None:
        """Play the stream, and hand over every group when it is complete."""
        assert self._stream is not None
        try:
            with self._environments.pool() as pool:
                async with aclosing(self._stream.play(pool)) as complete:
                    async for spec, group in complete:
                        self._hand_over(spec, group)
        except asyncio.CancelledError:
            self._fail(SamplerError("the rollouts were cancelled"))
            raise
        except Exception as error:
            self._fail(error)

    def _fail(self, error: Exception) -> None:
        """Let the learner raise an error."""
        with self._lock:
            self._failure = error
            self._lock.notify()

    def _hand_over(self, spec: GroupSpec, group: Group) -> None:
        with self._lock:
            self._groups.end(spec.number, group)
            self._room.set()  # if it is dropped, another one may begin
            self._lock.notify()

    async def _specs(self) -> AsyncIterator[GroupSpec]:
        """Yield the groups of before the run was resumed, then new ones when there is room for them.

        The stream pulls from this generator on its own thread, while the learner's thread raises the capacity.
        """
        for drawn, played in list(self._groups.resumed()):
            await self._may_begin(drawn.number)
            yield self._sampling.spec(drawn, played)
        while True:
            await self._may_begin(self._groups.next)
            with self._lock:
                drawn = self._groups.begin()
            yield self._sampling.spec(drawn)

    async def _may_begin(self, number: int) -> None:
        """Wait until a group may begin."""
        while number >= self._groups.capacity:
            self._room.clear()
            await self._room.wait()

    def _keep(self, spec: GroupSpec, trajectory: Trajectory) -> None:
        with self._lock:
            self._groups.keep(spec.number, trajectory)

    async def _stop(self) -> None:
        if self._playing is not None:
            self._playing.cancel()
            with suppress(asyncio.CancelledError):
                await self._playing

    def _tick(self) -> None:
        """Show how many episodes of the next iteration are finished."""
        total = self._train.groups * self._train.group_size
        self._report.tick("rollout", min(self._groups.members, total), total)
