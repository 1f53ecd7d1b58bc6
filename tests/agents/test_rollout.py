"""Rollouts: what is recorded, what a failing environment costs, determinism, limits and Ctrl-C."""

from __future__ import annotations

import asyncio
import concurrent.futures
import dataclasses
import os
import re
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import pytest
from toys.corridor import Corridor
from toys.tokens import Bytes

from turncredit.agents.agent import Agent
from turncredit.agents.errors import (
    AgentError,
    ContextOverflow,
    EngineFailed,
    Interrupted,
    RequestFailed,
    UnreadableAnswer,
)
from turncredit.agents.files.trajectory_files import TrajectoryWriter, read_trajectories
from turncredit.agents.prompts.prompt import Conversation, Window
from turncredit.agents.prompts.templates import PLAIN, REACT
from turncredit.agents.rollouts.env_pool import EnvPool
from turncredit.agents.rollouts.rollout import RolloutReport, arollout, play, rollout
from turncredit.agents.trajectory import Group, Trajectory, sampling_seed
from turncredit.engines.base import Completion, Request
from turncredit.engines.expert import Expert
from turncredit.engines.scripted import Random, Scripted

TASK = "open-3-1"  # three rooms, the key in the first: take key, go east, unlock door, go east
WIN = ["take key", "go east", "unlock door", "go east"]


def one(agent: Agent, sampler: Any, task: str = TASK, **options: Any) -> Trajectory:
    """Return the single trajectory of a rollout."""
    return rollout(agent, sampler, [task], make=options.pop("make", Corridor), **options)[0].trajectories[0]


def timeless(groups: list[Group]) -> list[Group]:
    """Return the groups without the clock."""
    return [
        Group(group.task, tuple(dataclasses.replace(episode, seconds=0.0) for episode in group.trajectories))
        for group in groups
    ]


class Mute(Exception):
    """Its message raises."""

    def __str__(self) -> str:
        raise ZeroDivisionError


def throw(error: BaseException) -> Any:
    raise error


class Failing(Corridor):
    """A corridor that does something bad in tasks of five rooms, at the second action."""

    def __init__(self, bad: Callable[[], Any]) -> None:
        super().__init__()
        self.bad = bad
        self.steps = 0
        self.closed = False

    def reset(self, **options: Any) -> Any:
        assert not self.closed
        self.steps = 0
        return super().reset(**options)

    def step(self, action: str) -> Any:
        self.steps += 1
        if self._length == 5 and self.steps == 2:
            return self.bad()
        return super().step(action)

    def close(self) -> None:
        self.closed = True


def broken() -> None:
    raise ZeroDivisionError("the ceiling fell")


class Unreliable(Scripted):
    """Plays a script, and fails in tasks of five rooms, at the second turn."""

    def __init__(self, error: Exception) -> None:
        super().__init__(["look"] * 9)
        self.error = error

    def action(self, request: Request) -> str:
        if "-5-" in request.episode and request.turn == 1:
            raise self.error
        return super().action(request)


# what is recorded


def test_a_won_episode_is_recorded_turn_by_turn() -> None:
    episode = one(Agent(), Scripted(WIN), seed=7)
    assert (episode.id, episode.task, episode.task_type, episode.seed) == ("open-3-1#0@7", TASK, "open", 7)
    assert (episode.stop, episode.won, episode.score, episode.reward, episode.error) == (
        "terminated",
        True,
        1.0,
        1.0,
        None,
    )
    assert [turn.action for turn in episode.turns] == WIN
    assert [turn.reward for turn in episode.turns] == [0, 0, 0, 1]
    assert episode.turns[0].observation.endswith("Your task is to: reach room 3.")
    assert episode.turns[1].observation == "You take the key."
    assert episode.turns[0].state == "room=1 key=1 open=0 coin=3"
    assert episode.turns[3].state == "room=2 key=0 open=1 coin=3"
    assert episode.final_state == "room=3 key=0 open=1 coin=3"
    assert episode.final_observation.startswith("You are in room 3 of 3.")
    assert (episode.unparsable, episode.inadmissible) == (0, 0)


def test_what_cannot_be_parsed_is_not_sent_but_costs_a_turn_and_is_told() -> None:
    episode = one(Agent(max_turns=6), Scripted(["", "fly", *WIN]))
    first, second, third = episode.turns[:3]
    assert (first.action, first.valid, first.text) == (None, False, "")
    assert second.observation == (
        "Nothing was done: the answer was empty. Expected: one action on one line and nothing else."
    )
    assert (second.action, second.valid) == ("fly", False)
    assert third.observation == "Nothing happens."
    assert first.state == second.state == third.state
    assert (episode.unparsable, episode.inadmissible, episode.won, len(episode.turns)) == (1, 1, True, 6)


def test_the_limit_of_turns_counts_what_could_not_be_parsed() -> None:
    episode = one(Agent(max_turns=5), Scripted(["", "", *WIN]))
    assert (episode.stop, episode.won, len(episode.turns)) == ("turns", False, 5)
    assert episode.score == pytest.approx(2 / 3)


def test_an_environment_that_cuts_the_episode_is_told_apart() -> None:
    def make() -> gymnasium.Env[str, str]:
        return gymnasium.wrappers.TimeLimit(Corridor(), 3)

    assert one(Agent(), Scripted(["look"] * 9), make=make).stop == "truncated"


def test_ids_are_given_and_kept_as_sampled() -> None:
    tokenizer = Bytes()
    episode = one(Agent(), Scripted(WIN, tokenizer=tokenizer))
    for before, after in zip(episode.turns, episode.turns[1:], strict=False):
        whole = before.prompt + before.response
        assert after.prompt[: len(whole)] == whole
        assert tokenizer.decode(after.prompt[len(whole) :]) == f"\n{after.observation}\n> "
    assert tokenizer.decode(episode.turns[0].prompt) == episode.turns[0].observation + "\n> "
    assert tokenizer.decode(episode.turns[0].response) == "take key<|end|>"


def test_a_window_and_listed_actions_reach_the_prompt() -> None:
    tokenizer = Bytes()
    agent = Agent(Window(REACT, 1), "think-action")
    episode = one(agent, Scripted(WIN, parser="think-action", tokenizer=tokenizer))
    assert episode.won
    text = tokenizer.decode(episode.turns[2].prompt)
    assert "Possible actions: go west, look, unlock door" in text
    assert "Action: go east" in text
    assert "Action: take key" not in text


def test_a_context_that_outgrows_the_model_ends_the_episode_and_says_so() -> None:
    sampler = Scripted(["look"] * 50, tokenizer=Bytes())
    sampler.context = 400
    episode = one(Agent(max_tokens=8), sampler)
    assert episode.stop == "tokens"
    assert episode.error is not None
    assert "the model's context of 400" in episode.error
    assert 0 < len(episode.turns) < 50
    assert all(len(turn.prompt) + 8 <= 400 for turn in episode.turns)
    sampler.context = 20
    assert (one(Agent(), sampler).stop, one(Agent(), sampler).turns) == ("tokens", ())


def test_a_sampler_that_finds_no_room_ends_the_episode_as_tokens() -> None:
    class Full(Scripted):
        async def sample(self, request: Request) -> Completion:
            if request.turn == 2:
                raise ContextOverflow("no room for a token")
            return await super().sample(request)

    episode = one(Agent(), Full(WIN))
    assert (episode.stop, episode.error, len(episode.turns)) == ("tokens", "no room for a token", 2)


def test_an_answer_that_no_model_could_read_again_loses_the_episode() -> None:
    """It is the player's own doing, unlike a request that failed."""

    class Speaker(Scripted):
        def __init__(self, failure: RequestFailed) -> None:
            super().__init__(WIN)
            self.failure = failure

        async def sample(self, request: Request) -> Completion:
            if request.turn == 2:
                raise self.failure
            return await super().sample(request)

    lost = one(Agent(), Speaker(UnreadableAnswer("turn 2: a token that stands for an image")))
    assert (lost.stop, lost.won, lost.finished, len(lost.turns)) == ("answer", False, True, 2)
    assert lost.error == "turn 2: a token that stands for an image"
    failed = one(Agent(), Speaker(RequestFailed("the server is gone")))
    assert (failed.stop, failed.finished) == ("error", False)


# groups and seeds


def test_members_of_a_group_share_the_start_and_differ_in_their_sampling() -> None:
    def make() -> Corridor:
        return Corridor(lengths=(12,), random_start=True)

    tasks = ["fetch-12-3", "open-12-5"]
    groups = rollout(Agent(), Random(), tasks, make=make, size=8, seed=3)
    assert [group.task for group in groups] == tasks
    for group in groups:
        assert len({episode.turns[0].state for episode in group.trajectories}) == 1
        assert len({tuple(turn.action for turn in episode.turns) for episode in group.trajectories}) == 8
        assert [episode.id for episode in group.trajectories] == [f"{group.task}#{k}@3" for k in range(8)]
    other = rollout(Agent(), Random(), tasks, make=make, size=8, seed=4)
    assert [a.turns[0].state for g in groups for a in g.trajectories] != [
        a.turns[0].state for g in other for a in g.trajectories
    ]


def test_a_task_that_comes_twice_makes_two_different_groups() -> None:
    first, second = rollout(Agent(), Random(), ["open-5-2"] * 2, make=Corridor, size=2)
    assert [episode.id for episode in second.trajectories] == ["open-5-2#2@0", "open-5-2#3@0"]
    assert timeless([first]) != timeless([second])


def test_sampling_seeds_are_stable_over_processes() -> None:
    assert sampling_seed("open-3-1#0@7") == 4307701937806030578  # pinned: stored runs are repeated by it
    assert len({sampling_seed(name) for name in ("a#0@0", "a#1@0", "a#0@1", "b#0@0")}) == 4


@pytest.mark.parametrize("deadline", [None, 30.0])
def test_repeated_and_with_other_concurrency_it_is_the_same(deadline: float | None) -> None:
    tasks = Corridor().task_ids(8)
    agent = Agent(Conversation(PLAIN))

    def run(concurrency: int) -> list[Group]:
        sampler = Random(tokenizer=Bytes())
        return timeless(
            rollout(agent, sampler, tasks, make=Corridor, size=3, seed=5, concurrency=concurrency, deadline=deadline)
        )

    assert run(4) == run(4) == run(1) == run(64)


def test_environments_are_limited_and_used_again() -> None:
    made: list[Corridor] = []
    alive = 0

    class Counted(Corridor):
        def __init__(self) -> None:
            super().__init__()
            made.append(self)

    with EnvPool(Counted) as pool:
        for _ in range(3):
            rollout(Agent(), Random(), Corridor().task_ids(6), make=pool, size=2, concurrency=4)
        alive = len(made)
    assert alive == 4


def test_only_live_episodes_are_sampled() -> None:
    asked: list[str] = []

    class Watched(Expert):
        async def sample(self, request: Request) -> Completion:
            asked.append(request.episode)
            await asyncio.sleep(0)
            return await super().sample(request)

    groups = rollout(Agent(), Watched(), ["open-3-1", "fetch-5-4"], make=Corridor)
    turns = [len(episode.turns) for group in groups for episode in group.trajectories]
    assert len(asked) == sum(turns)
    assert turns[0] < turns[1]


# failures of the environment


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (broken, "ZeroDivisionError in step(): the ceiling fell"),
        (lambda: 3, "step() must return (observation"),
        (lambda: (b"bytes", 0.0, False, False, {}), "the observation must be a string"),
        (lambda: ("text", float("nan"), False, False, {}), "the reward must be finite, got nan"),
        (lambda: ("text", 0.0, False, False, {"score": float("nan")}), "the score must be finite, got nan"),
        (lambda: ("text", 0.0, False, False, None), "info must be a mapping, got NoneType"),
        (lambda: ("text", 0.0, False, False, {"score": "high"}), "step() must return (observation"),
        (
            lambda: ("text", 0.0, False, False, {"admissible_actions": [3]}),
            "an action in info must be a string",
        ),
        (lambda: (_ for _ in ()).throw(SystemExit(3)), "SystemExit in step()"),
        (lambda: next(iter(())), "StopIteration in step()"),
        (lambda: throw(asyncio.CancelledError()), "CancelledError in step()"),
        (lambda: throw(concurrent.futures.CancelledError()), "CancelledError in step()"),
        (lambda: throw(GeneratorExit()), "GeneratorExit in step()"),
        (lambda: throw(BaseException("of its own")), "BaseException in step(): of its own"),
        (lambda: throw(Mute()), "Mute in step(): (its message cannot be read: ZeroDivisionError)"),
        (lambda: ("text", 1e308, False, False, {}), "the reward must be at most 1e+100 in size, got 1e+308"),
        (lambda: ("text", 10**400, False, False, {}), "int too large to convert to float"),
        (lambda: ("text", 0.0, False, False, {"score": -1e101}), "the score must be at most 1e+100 in size"),
        (lambda: ("text", 0.0, False, False, {"extras": {"value": 1e308}}), "extras['value'] must be at most 1e+100"),
        (
            lambda: ("text", 0.0, False, False, {"extras": {"multi": [1.0, float("nan")]}}),
            "column 'multi' must be finite",
        ),
        (lambda: ("text", 0.0, False, False, {"extras": {"tokens": 0.5}}), "must not contain 'tokens'"),
        (lambda: ("text", 0.0, False, False, {"extras": {"reward": 0.5}}), "must not contain 'reward'"),
        (lambda: ("text", 0.0, False, False, {"extras": {"entrpy": 0.5}}), "unknown column 'entrpy'; did you mean"),
        (lambda: (_ for _ in ()).throw(TimeoutError("net")), "TimeoutError in step(): net"),
    ],
)
@pytest.mark.parametrize("deadline", [None, 20.0])
def test_a_failing_environment_ends_its_own_episode_only(
    bad: Callable[[], Any], words: str, deadline: float | None
) -> None:
    report = RolloutReport()
    tasks = ["open-3-1", "open-5-1", "open-4-1"]
    groups = rollout(
        Agent(), Expert(), tasks, make=lambda: Failing(bad), size=2, concurrency=1, deadline=deadline, report=report
    )
    failed = groups[1].trajectories
    assert [episode.stop for group in groups for episode in group.trajectories] == ["terminated"] * 2 + [
        "error"
    ] * 2 + ["terminated"] * 2
    assert words.split(":")[0].split(" in ")[0] in str(failed[0].error)
    if deadline is None:
        assert words in str(failed[0].error)
    assert [turn.action for turn in failed[0].turns] == ["take key", "go east"]
    assert (failed[0].won, failed[0].finished, groups[1].finished) == (False, False, ())
    assert (report.errors, report.restarts, report.episodes, report.quarantined) == (2, 2, 6, [])
    assert "2 errors" in report.sentence()


def test_an_environment_that_fails_to_close_or_has_a_plan_that_raises_ends_nothing_else() -> None:
    class Slamming(Corridor):
        def close(self) -> None:
            raise GeneratorExit

        @property
        def plan(self) -> Any:
            raise asyncio.CancelledError

    groups = rollout(Agent(), Scripted(WIN), [TASK, "open-3-2"], make=Slamming)
    assert [episode.stop for group in groups for episode in group.trajectories] == ["error"] * 2
    assert "CancelledError in plan" in str(groups[0].trajectories[0].error)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (lambda done: throw(asyncio.CancelledError()), "the sampler was cancelled from within"),
        (lambda done: dataclasses.replace(done, tokens=(1,), logprobs=(float("nan"),)), "the log-probability nan"),
        (lambda done: dataclasses.replace(done, tokens=(1,), logprobs=(0.5,)), r"the log-probability 0\.5, expected"),
        (lambda done: dataclasses.replace(done, tokens=(1, 2), logprobs=(-0.5,)), "2 token ids with 1 log-prob"),
        (lambda done: dataclasses.replace(done, tokens=(-1,), logprobs=(-0.5,)), "the token id -1, expected"),
        (lambda done: dataclasses.replace(done, extras={"value": float("inf")}), "must be finite, got inf"),
    ],
)
def test_an_answer_that_cannot_be_used_ends_its_own_episode_only(
    answer: Callable[[Completion], Completion], words: str
) -> None:
    class Odd(Expert):
        async def sample(self, request: Request) -> Completion:
            done = await super().sample(request)
            return answer(done) if request.episode.startswith("open-5-1") and request.turn == 1 else done

    report = RolloutReport()
    groups = rollout(Agent(), Odd(), ["open-3-1", "open-5-1", "open-4-1"], make=Corridor, report=report)
    assert [group.trajectories[0].stop for group in groups] == ["terminated", "error", "terminated"]
    assert re.search(words, str(groups[1].trajectories[0].error))
    assert (report.errors, report.restarts) == (1, 0)


def test_three_errors_in_a_row_put_a_task_into_quarantine() -> None:
    report = RolloutReport()
    groups = rollout(
        Agent(), Expert(), ["open-5-1", "open-3-1"], make=lambda: Failing(broken), size=6, concurrency=1, report=report
    )
    assert [len(group.trajectories) for group in groups] == [3, 6]
    assert (report.errors, report.skipped, report.quarantined) == (3, 3, ["open-5-1"])
    assert "in quarantine: open-5-1 (3 episodes not played)" in report.sentence()


def test_a_success_ends_a_row_of_errors() -> None:
    count = 0

    def sometimes() -> Any:
        nonlocal count
        count += 1
        if count % 3:
            raise OSError("flaky")
        return "You are well.", 1.0, True, False, {"won": True}

    report = RolloutReport()
    rollout(Agent(), Expert(), ["open-5-1"], make=lambda: Failing(sometimes), size=9, concurrency=1, report=report)
    assert (report.errors, report.skipped, report.quarantined) == (6, 0, [])


def test_construction_and_reset_failures_are_episodes_too() -> None:
    def make() -> Corridor:
        raise OSError("no display")

    report = RolloutReport()
    groups = rollout(Agent(), Expert(), ["open-3-1"], make=make, size=2, report=report)
    assert [episode.error for episode in groups[0].trajectories] == ["OSError in the construction: no display"] * 2
    groups = rollout(Agent(), Expert(), ["open-9-9", "open-3-1"], make=Corridor)
    assert "UnknownTask in reset()" in str(groups[0].trajectories[0].error)
    assert groups[1].trajectories[0].won


def test_a_plan_that_fails_is_the_environments_failure() -> None:
    class Lost(Corridor):
        def plan(self) -> list[str]:
            raise RuntimeError("no way")

    episode = one(Agent(), Expert(), make=Lost)
    assert (episode.stop, episode.error) == ("error", "RuntimeError in plan(): no way")


def test_a_hanging_environment_is_left_behind_at_its_deadline() -> None:
    release = threading.Event()
    made: list[Failing] = []

    def hang() -> Any:
        release.wait(600)
        raise OSError("too late")

    def make() -> Failing:
        made.append(Failing(hang))
        return made[-1]

    start = time.monotonic()
    groups = rollout(Agent(), Expert(), ["open-5-1", "open-3-1", "open-4-1"], make=make, concurrency=1, deadline=2.0)
    assert time.monotonic() - start < 120
    stops = [episode.stop for group in groups for episode in group.trajectories]
    assert stops == ["error", "terminated", "terminated"]
    assert groups[0].trajectories[0].error == "step() took longer than 2 seconds"
    assert len(made) == 2
    release.set()
    for _ in range(6000):
        if made[0].closed:
            break
        time.sleep(0.01)
    assert made[0].closed  # its own thread closes it once the call comes back


def test_a_failing_sampler_ends_the_rollout_with_its_own_error() -> None:
    class Gone(Random):
        async def sample(self, request: Request) -> Completion:
            if request.turn == 3:
                raise ConnectionError("the model is gone")
            return await super().sample(request)

    finished: list[Trajectory] = []
    with pytest.raises(ConnectionError, match="the model is gone"):
        rollout(Agent(), Gone(), ["open-5-3"] * 9, make=Corridor, on_finish=finished.append)


# loops and Ctrl-C


def test_inside_a_running_loop_the_asynchronous_form_serves() -> None:
    async def inside() -> tuple[list[Group], Trajectory]:
        with pytest.raises(AgentError, match="await arollout"):
            rollout(Agent(), Expert(), [TASK], make=Corridor)
        groups = await arollout(Agent(), Expert(), [TASK], make=Corridor)
        return groups, await play(Agent(), Expert(), Corridor(), TASK, 0)

    groups, alone = asyncio.run(inside())
    assert timeless(groups) == timeless([Group(TASK, (alone,))])


@pytest.mark.parametrize("slow", [False, True])
def test_ctrl_c_keeps_what_is_finished(slow: bool, tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    count = 0

    class Waits(Random):
        async def sample(self, request: Request) -> Completion:
            if slow:
                await asyncio.sleep(0)
            return await super().sample(request)

    with TrajectoryWriter(path) as writer:

        def finish(trajectory: Trajectory) -> None:
            nonlocal count
            writer.write(trajectory)
            count += 1
            if count == 5:
                os.kill(os.getpid(), signal.SIGINT)

        with pytest.raises(Interrupted, match="finished episode") as caught:
            rollout(Agent(), Waits(), ["open-3-1"] * 5000, make=Corridor, concurrency=2, on_finish=finish)
    finished = [episode for group in caught.value.groups for episode in group.trajectories]
    assert 5 <= len(finished) < 100
    assert sorted(episode.id for episode in read_trajectories(path)) == sorted(episode.id for episode in finished)
    assert isinstance(caught.value, KeyboardInterrupt)


@pytest.mark.parametrize(
    ("error", "options", "words"),
    [
        (AgentError, {"size": 0}, "size must be >= 1, got 0"),
        (AgentError, {"concurrency": 0}, "concurrency must be >= 1, got 0"),
        (AgentError, {"processes": 0}, "processes must be >= 1, got 0"),
        (AgentError, {"make": EnvPool(Corridor), "deadline": 1.0}, "an EnvPool has its own deadline"),
        (TypeError, {"concurency": 2}, "concurency"),
    ],
)
def test_options_that_cannot_be_used_are_refused(error: type[Exception], options: dict[str, Any], words: str) -> None:
    with pytest.raises(error, match=words):
        rollout(Agent(), Random(), [TASK], **{"make": Corridor, **options})


def test_one_environment_cannot_serve_two_episodes_at_once() -> None:
    env = Corridor()
    with pytest.raises(AgentError, match="already in use"):
        rollout(Agent(), Random(), ["open-4-1", "open-4-2"], make=lambda: env, concurrency=2)
    for _ in range(2):
        groups = rollout(Agent(), Expert(), ["open-4-1", "open-4-2"], make=lambda: env, concurrency=1)
        assert all(group.trajectories[0].won for group in groups)


def test_no_tasks_make_no_groups() -> None:
    assert rollout(Agent(), Random(), [], make=Corridor) == []


# requests and engines that fail


def test_a_failed_request_ends_its_episode_alone_and_quarantines_no_task() -> None:
    report, made = RolloutReport(), []

    def make() -> Corridor:
        made.append(Corridor())
        return made[-1]

    tasks = ["open-5-1", TASK]
    sampler = Unreliable(RequestFailed("the server hung up"))
    failed, played = rollout(
        Agent(max_turns=3), sampler, tasks, make=make, size=5, report=report, concurrency=1, seed=1
    )
    assert [episode.stop for episode in failed.trajectories] == ["error"] * 5  # more than the errors of a quarantine
    assert {episode.error for episode in failed.trajectories} == {"the server hung up"}
    assert [len(episode.turns) for episode in failed.trajectories] == [1] * 5
    assert [episode.stop for episode in played.trajectories] == ["turns"] * 5
    assert (report.errors, report.quarantined, report.skipped, report.restarts) == (5, [], 0, 0)
    assert len(made) == 1  # the environment is as good as before


def test_a_failed_engine_ends_the_rollout_and_what_was_finished_is_kept(tmp_path: Path) -> None:
    finished: list[Trajectory] = []
    sampler = Unreliable(EngineFailed("the server is gone"))
    with pytest.raises(EngineFailed, match="the server is gone") as caught:
        rollout(
            Agent(max_turns=3),
            sampler,
            [TASK, "open-5-1", "open-3-2"],
            make=Corridor,
            concurrency=1,
            on_finish=finished.append,
        )
    assert [episode.task for episode in finished] == [TASK]
    assert caught.value.groups is not None
    assert [len(group.trajectories) for group in caught.value.groups] == [1, 0, 0]


def test_tokens_of_a_model_without_ids_are_those_that_its_server_counted() -> None:
    class Counting(Scripted):
        async def sample(self, request: Request) -> Completion:
            answer = await super().sample(request)
            counts = {"prompt_tokens": 10 + request.turn, "response_tokens": 2, "request_cost": 0.5}
            return dataclasses.replace(answer, extras=counts, finish="length" if request.turn else "refusal")

    report = RolloutReport()
    episode = one(Agent(), Counting(WIN), report=report)
    assert (report.prompt_tokens, report.response_tokens) == (10 + 11 + 12 + 13, 8)
    assert episode.cost == 2.0
    assert (episode.truncated_answers, episode.refused_answers, episode.empty_answers) == (3, 1, 0)


def test_the_report_has_the_seconds_in_environments_that_are_called_on_the_event_loop():
    class Slow(Corridor):
        def step(self, action):
            time.sleep(0.005)
            return super().step(action)

    here, elsewhere = RolloutReport(), RolloutReport()
    rollout(Agent(), Expert(), ["open-3-1"], make=Slow, size=2, report=here)
    rollout(Agent(), Expert(), ["open-3-1"], make=Slow, size=2, deadline=60.0, report=elsewhere)
    assert 0.005 * here.turns <= here.environment_seconds <= here.seconds
    assert elsewhere.environment_seconds == 0.0  # on threads, others go on meanwhile
