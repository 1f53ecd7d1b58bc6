"""Episodes that begin in the middle of another: the laws, over environments, prompt builders and ways to get there."""

from __future__ import annotations

import asyncio
import copy
import functools
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import gymnasium
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from toys.chromium import need_chromium
from toys.corridor import Corridor
from toys.tokens import CHATML, Bytes, ChatBytes
from toys.wanderer import Parrot, Wanderer

from turncredit.agents.agent import Agent
from turncredit.agents.errors import AgentError, EnvLost, ForkRefused, StoreError
from turncredit.agents.files.trajectory_files import TrajectoryWriter, from_json, read_trajectories, to_json
from turncredit.agents.prompts.prompt import Conversation, Window
from turncredit.agents.prompts.templates import PLAIN, REACT
from turncredit.agents.rollouts.env_pool import EnvPool, EnvWorker
from turncredit.agents.rollouts.forks import Fork, Snapshots
from turncredit.agents.rollouts.retracing import retrace
from turncredit.agents.rollouts.rollout import rollout
from turncredit.agents.rollouts.rollout_stream import is_replacement, member_number
from turncredit.agents.trajectory import Group, Trajectory, grouped, sampling_seed
from turncredit.envs import make
from turncredit.envs.errors import HostDied
from turncredit.envs.toolenv import ToolEnv

Env = gymnasium.Env[Any, Any]
Make = Callable[[], Env]


class Account:
    """Money that has to become the task's."""

    def __init__(self, goal: str) -> None:
        self.goal, self.money = int(goal), 0

    def pay(self, amount: int) -> int:
        """Pay some money in."""
        self.money += amount
        return self.money


def account() -> ToolEnv[str, Account]:
    """Tools of one's own, which cannot be saved."""
    return ToolEnv(
        {"two": "2", "five": "5"},
        start=Account,
        tools=lambda account: [account.pay],
        check=lambda account, answer: account.money == account.goal,
        state=lambda account: account.money,
        plan=lambda account: [],
    )


ENVS: dict[str, Make] = {
    "corridor": Corridor,
    "household": functools.partial(make, "turncredit/Household-v0", level="tiny"),
    "shop": functools.partial(make, "turncredit/WebShop-v0", level="tiny"),
    "search": functools.partial(make, "turncredit/Search-v0"),
    "code": functools.partial(make, "turncredit/Code-v0"),
    "bash": functools.partial(make, "turncredit/Bash-v0"),
    "phone": functools.partial(make, "turncredit/Android-v0"),
    "tools": account,
}
SLOW = ("code", "bash")
PROMPTS = {
    "conversation": lambda: Agent(max_turns=6),
    "react": lambda: Agent(Conversation(REACT), parser="think-action", max_turns=6),
    "window": lambda: Agent(Window(PLAIN, 2), max_turns=6),
    "chat": lambda: Agent(max_turns=6, chat=ChatBytes(CHATML)),
}


def played(name: str, agent: Agent, seed: int = 0, **options: Any) -> Trajectory:
    """An episode of at least three turns."""
    env = ENVS[name]()
    tasks = env.get_wrapper_attr("task_ids")(5)
    env.close()
    for number in range(20):
        (group,) = rollout(agent, sampler(agent), [tasks[number % len(tasks)]], make=ENVS[name], seed=seed + number)
        (trajectory,) = group.trajectories
        if len(trajectory.turns) >= 3 and trajectory.finished:
            return trajectory
    raise AssertionError("no episode is long enough")


@functools.cache
def parent(name: str, prompt: str) -> tuple[Agent, Trajectory]:
    agent = PROMPTS[prompt]()
    return agent, played(name, agent)


def sampler(agent: Agent) -> Wanderer:
    return Wanderer(tokenizer=agent.chat or Bytes(), parser=agent.parser)


def same(one: Trajectory, other: Trajectory) -> bool:
    """Whether two episodes are equal but for their names and times."""
    return replace(one, id="", seconds=0.0, fork_of=None, fork_turn=None) == replace(
        other, id="", seconds=0.0, fork_of=None, fork_turn=None
    )


def repeated(name: str, agent: Agent, fork: Fork, **options: Any) -> Trajectory:
    """A fork whose answers are those of its parent."""
    parrot = Parrot([turn.text for turn in fork.trajectory.turns], agent.chat or Bytes())
    (group,) = rollout(agent, parrot, [fork], make=ENVS[name], **options)
    assert parrot.asked == list(range(fork.turn, len(fork.trajectory.turns)))
    return group.trajectories[0]


@pytest.mark.parametrize("suspect", [False, True])
def test_an_environment_in_a_call_when_its_process_ended_is_a_suspect(suspect: bool) -> None:
    """So its task is played in a process of its own before it takes others along once more."""

    def killed() -> Any:
        lost = HostDied("the process ended", 9)
        lost.suspect = suspect
        raise lost

    with pytest.raises(EnvLost) as failure:
        asyncio.run(EnvWorker(killed).reset(None, 0))
    assert failure.value.suspect is suspect


@pytest.mark.parametrize("prompt", PROMPTS)
@pytest.mark.parametrize("name", ENVS)
def test_a_fork_that_repeats_its_parent_ends_like_it(name: str, prompt: str) -> None:
    agent, trajectory = parent(name, prompt)
    before = to_json(trajectory)
    snapshots = asyncio.run(retrace(agent, sampler(agent), EnvWorker(ENVS[name]), trajectory))
    assert len(snapshots) == (0 if name == "tools" else len(trajectory.turns))
    for turn in range(len(trajectory.turns)) if name not in SLOW else (1, len(trajectory.turns) - 1):
        for store in (None, snapshots):  # by replay, and by a snapshot where there is one
            fork = repeated(name, agent, Fork(trajectory, turn), snapshots=store)
            assert same(fork, trajectory)
            assert (fork.fork_of, fork.fork_turn) == (trajectory.id, turn)
    assert to_json(trajectory) == before


@pytest.mark.parametrize("prompt", PROMPTS)
@pytest.mark.parametrize("name", ENVS)
def test_forks_take_over_what_lies_before_and_play_the_rest_anew(name: str, prompt: str) -> None:
    agent, trajectory = parent(name, prompt)
    snapshots = asyncio.run(retrace(agent, sampler(agent), EnvWorker(ENVS[name]), trajectory))
    turn = len(trajectory.turns) // 2
    groups = [
        rollout(agent, sampler(agent), [Fork(trajectory, turn)], make=ENVS[name], size=4, snapshots=store)
        for store in (None, snapshots)
    ]
    by_replay, by_snapshot = (group.trajectories for (group,) in groups)
    assert all(map(same, by_replay, by_snapshot))
    for member, fork in enumerate(by_replay):
        assert fork.id == Fork(trajectory, turn).name(member)
        assert fork.turns[:turn] == trajectory.turns[:turn]
        assert (fork.turns[turn].prompt, fork.turns[turn].state) == (
            trajectory.turns[turn].prompt,
            trajectory.turns[turn].state,
        )
        assert len(fork.turns) <= agent.max_turns
    assert len({tuple(turn.text for turn in fork.turns) for fork in by_replay}) > 1  # seeds of their own


@pytest.mark.parametrize("name", ["household", "shop", "corridor", "tools"])
@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_forks_of_forks(name: str, data: st.DataObject) -> None:
    agent, trajectory = parent(name, data.draw(st.sampled_from(list(PROMPTS))))
    for depth in range(3):
        turn = data.draw(st.integers(0, len(trajectory.turns) - 1), f"turn at depth {depth}")
        (group,) = rollout(agent, sampler(agent), [Fork(trajectory, turn)], make=ENVS[name], size=2)
        child = group.trajectories[1]
        assert child.turns[:turn] == trajectory.turns[:turn]
        assert child.fork_of == trajectory.id
        assert same(repeated(name, agent, Fork(child, turn)), child)
        assert from_json(to_json(child)) == child
        trajectory = child


@pytest.mark.parametrize("name", ["household", "corridor"])
def test_episodes_leave_snapshots_while_they_are_played(name: str) -> None:
    agent, snapshots = PROMPTS["conversation"](), Snapshots()
    task = parent(name, "conversation")[1].task
    (group,) = rollout(agent, sampler(agent), [task], make=ENVS[name], size=2, seed=3, snapshots=snapshots)
    first, second = group.trajectories
    assert len(snapshots) == len(first.turns) + len(second.turns)
    broken = replace(first, seed=999, task="no such task")  # a replay would fail
    fork = Fork(broken, len(first.turns) - 1, snapshot=snapshots.find(Fork(first, len(first.turns) - 1)))
    (forks,) = rollout(agent, sampler(agent), [fork], make=ENVS[name])
    assert forks.trajectories[0].finished
    snapshots.drop(first.id)
    assert len(snapshots) == len(second.turns)
    assert snapshots.find(Fork(first, 0)) is None


@pytest.mark.parametrize("way", ["processes", "workers", "deadline"])
def test_forks_are_the_same_wherever_they_are_played(way: str) -> None:
    agent, trajectory = parent("household", "conversation")
    forks = [Fork(trajectory, turn) for turn in range(len(trajectory.turns))]
    expected = rollout(agent, sampler(agent), forks, make=ENVS["household"], size=3)
    snapshots = asyncio.run(retrace(agent, sampler(agent), EnvWorker(ENVS["household"]), trajectory))
    for store in (None, snapshots):
        if way == "workers":
            with EnvPool(ENVS["household"], workers=2) as pool:
                groups = rollout(agent, sampler(agent), forks, make=pool, size=3, snapshots=store, concurrency=6)
        else:
            options: dict[str, Any] = {"processes": 2} if way == "processes" else {"deadline": 30.0}
            groups = rollout(
                agent, sampler(agent), forks, make=ENVS["household"], size=3, snapshots=store, concurrency=6, **options
            )
        for group, other in zip(groups, expected, strict=True):
            assert [fork.id for fork in group.trajectories] == [fork.id for fork in other.trajectories]
            assert all(map(same, group.trajectories, other.trajectories))


def test_a_fork_begins_after_a_kill(tmp_path: Path) -> None:
    agent, trajectory = parent("shop", "window")
    (group,) = rollout(agent, sampler(agent), [Fork(trajectory, 1)], make=ENVS["shop"], size=2)
    with TrajectoryWriter(tmp_path / "forks.jsonl") as writer:
        for member in (trajectory, *group.trajectories):
            writer.write(member)
    (tmp_path / "forks.jsonl").write_bytes((tmp_path / "forks.jsonl").read_bytes() + b'{"version": 1, "id": "h')
    with pytest.warns(UserWarning, match="incomplete"):
        stored = list(read_trajectories(tmp_path / "forks.jsonl"))
    assert stored == [trajectory, *group.trajectories]
    assert [member.id for member in grouped(reversed(stored))[0].trajectories] == [member.id for member in stored]
    again = rollout(agent, sampler(agent), [Fork(stored[2], 1)], make=ENVS["shop"])[0].trajectories[0]
    assert again.id == f"{trajectory.task}#0/1.1/1.0@{trajectory.seed}"
    assert again.turns[0] == trajectory.turns[0]


def test_turns_that_are_taken_over_keep_their_versions() -> None:
    agent, trajectory = parent("household", "conversation")
    older = replace(
        trajectory,
        turns=tuple(
            replace(turn, version=number, switches=((1, number + 1),)) for number, turn in enumerate(trajectory.turns)
        ),
    )
    newer = sampler(agent)
    newer.version = 9
    (fork,) = rollout(agent, newer, [Fork(older, 3)], make=ENVS["household"])[0].trajectories
    assert [turn.version for turn in fork.turns[:3]] == [0, 1, 2]
    assert {turn.version for turn in fork.turns[3:]} == {9}
    assert fork.turns[:3] == older.turns[:3]
    assert older.turns[0].versions[:2] == fork.turns[0].versions[:2] == (0, 1)


def test_a_sampler_is_told_whose_fork_an_episode_is() -> None:
    agent, trajectory = parent("corridor", "conversation")
    asked: list[tuple[int, str]] = []

    class Asked(Wanderer):
        async def sample(self, request: Any) -> Any:
            asked.append((request.turn, request.parent))
            return await super().sample(request)

    wanderer = Asked(tokenizer=None, parser=agent.parser)
    rollout(agent, wanderer, [Fork(trajectory, 1)], make=ENVS["corridor"])
    turns = [turn for turn, _ in asked]
    assert turns[0] == 1
    assert asked == [(turn, trajectory.id) for turn in turns]
    asked.clear()
    rollout(agent, wanderer, [trajectory.task], make=ENVS["corridor"])
    assert {origin for _, origin in asked} == {""}


@pytest.mark.parametrize("way", ["replay", "snapshot"])
def test_screens_are_seen_again(way: str) -> None:
    agent = Agent(max_turns=4)
    screens = functools.partial(make, "turncredit/Android-v0", observation="screen", size=[180, 400])
    trajectory = parent("phone", "conversation")[1]
    wanderer = Wanderer(tokenizer=None, parser=agent.parser)
    (group,) = rollout(agent, wanderer, [trajectory.task], make=screens, seed=trajectory.seed)
    (whole,) = group.trajectories
    store = asyncio.run(retrace(agent, wanderer, EnvWorker(screens), whole)) if way == "snapshot" else None
    seen: list[tuple[int, bytes]] = []

    class Looking(Parrot):
        images = True

        async def sample(self, request: Any) -> Any:
            seen.extend((request.turn, part.image.tobytes()) for part in request.view.images)
            return await super().sample(request)

    looking = Looking([turn.text for turn in whole.turns])
    rollout(agent, looking, [Fork(whole, 0)], make=screens)
    first = dict(seen)
    seen.clear()
    (fork,) = rollout(agent, looking, [Fork(whole, 2)], make=screens, snapshots=store)[0].trajectories
    assert same(fork, whole)
    assert seen
    assert all(first[turn] == image for turn, image in seen)


@pytest.mark.waits
@pytest.mark.parametrize("env_id", ["turncredit/MiniWoB-v0", "turncredit/WebShopBrowser-v0"])
def test_pages_in_a_browser_are_played_again(env_id: str) -> None:
    need_chromium(miniwob="MiniWoB" in env_id)
    agent, pages = Agent(max_turns=4), functools.partial(make, env_id)
    env = pages()
    task = env.get_wrapper_attr("task_ids")(2)[1]
    env.close()
    with EnvPool(pages) as pool:
        (group,) = rollout(agent, sampler(agent), [task], make=pool, concurrency=1)
        (whole,) = group.trajectories
        parrot = Parrot([turn.text for turn in whole.turns], Bytes())
        (fork,) = rollout(agent, parrot, [Fork(whole, len(whole.turns) - 1)], make=pool, concurrency=1)[0].trajectories
    assert same(fork, whole)


def test_a_fork_in_a_file_begins_at_one_of_its_turns() -> None:
    _, trajectory = parent("corridor", "conversation")
    fork = replace(trajectory, fork_of="open-3-1#9@0", fork_turn=1)
    assert from_json(to_json(fork)) == fork
    assert "fork" not in to_json(trajectory)
    for wrong in (-1, len(trajectory.turns) + 1):
        with pytest.raises(StoreError, match="fork_turn must be one of"):
            from_json(to_json(replace(fork, fork_turn=wrong)))


# -- what is refused --


class Clock(Corridor):
    """A corridor whose third observation, or state, is another one each time."""

    times = 0

    def __init__(self, column: str) -> None:
        super().__init__()
        self._column, self._steps = column, 0

    def reset(self, **options: Any) -> Any:
        self._steps = 0
        return super().reset(**options)

    def step(self, action: str) -> Any:
        observation, reward, terminated, truncated, info = super().step(action)
        self._steps += 1
        if self._steps == 2:
            Clock.times += 1
            if self._column == "text":
                observation += f" It is {Clock.times} o'clock."
            elif self._column == "reward":
                reward = Clock.times / 1000
            else:
                info = {**info, "state": f"{Clock.times} o'clock"}
        return observation, reward, terminated, truncated, info

    @property
    def snapshot(self) -> Any:
        raise AttributeError("snapshot")


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (
            "state",
            r"the fork of open-3-1#0@0 at turn 4 is refused: at turn 2 the state key is '2 o'clock', but '1",
        ),
        ("text", r"at turn 2 the observation is .* but .* was recorded"),
        ("reward", r"at turn 1 the reward is 0.002, but 0.001 was recorded; .* does not repeat its episodes"),
    ],
)
def test_an_environment_that_does_not_repeat_itself_is_refused(column: str, message: str) -> None:
    Clock.times = 0
    agent = Agent(max_turns=6)
    make_clock = functools.partial(Clock, column)
    parrot = Parrot(["look"] * 6, tokenizer=Bytes())
    (group,) = rollout(agent, parrot, ["open-3-1"], make=make_clock)
    (fork,) = rollout(agent, parrot, [Fork(group.trajectories[0], 4)], make=make_clock)[0].trajectories
    assert fork.stop == "error"
    assert re.search(message, str(fork.error).replace('"', "'"))
    Clock.times = 5
    with pytest.raises(ForkRefused):
        asyncio.run(retrace(agent, parrot, EnvWorker(make_clock), group.trajectories[0]))
    assert rollout(agent, parrot, [Fork(group.trajectories[0], 1)], make=make_clock)[0].trajectories[0].finished


def test_the_prompt_must_be_the_one_that_the_parent_had() -> None:
    _, trajectory = parent("household", "conversation")
    other = PROMPTS["window"]()
    (fork,) = rollout(other, sampler(other), [Fork(trajectory, 2)], make=ENVS["household"])[0].trajectories
    assert fork.stop == "error"
    assert "built by another agent or tokenizer" in str(fork.error)


def test_an_environment_that_says_that_it_cannot_be_forked() -> None:
    class Real(Corridor):
        metadata: ClassVar[dict[str, Any]] = {**Corridor.metadata, "no_forks": "it is real"}

    agent, trajectory = parent("corridor", "conversation")
    (fork,) = rollout(agent, sampler(agent), [Fork(trajectory, 1)], make=Real)[0].trajectories
    assert fork.error == "an episode of this environment cannot be forked: it is real"


def test_the_turn_must_exist() -> None:
    _, trajectory = parent("corridor", "conversation")
    for turn in (-1, len(trajectory.turns)):
        with pytest.raises(AgentError, match=f"0 to {len(trajectory.turns) - 1}; got {turn}"):
            Fork(trajectory, turn)


def test_names_of_forks_are_read_where_names_of_members_are() -> None:
    _, trajectory = parent("corridor", "conversation")
    name = Fork(trajectory, 2).name(1_000_003)
    assert (member_number(name), is_replacement(name)) == (1_000_003, True)
    assert Fork(trajectory, 2, repeat=True).name(0) != Fork(trajectory, 2).name(0)
    names = [Fork(trajectory, turn).name(k) for turn in range(3) for k in range(100)] + [trajectory.id]
    assert len({sampling_seed(name) for name in names}) == len(names)
    groups = rollout(Agent(max_turns=3), Wanderer(), [Fork(trajectory, 1)] * 2, make=Corridor, size=2)
    assert [fork.id.rpartition(".")[2][:1] for group in groups for fork in group.trajectories] == ["0", "1", "2", "3"]


# -- chance in the environment --


class Dice(Corridor):
    """A corridor that says a number that it draws."""

    def step(self, action: str) -> Any:
        observation, _, terminated, truncated, info = super().step(action)
        number = int(self.np_random.integers(10**6))
        return f"{observation} {number}", float(number % 7), terminated, truncated, info


@pytest.mark.parametrize("way", ["replay", "snapshot", "workers"])
def test_chance_goes_on_as_it_was_unless_fresh_noise_is_asked_for(way: str) -> None:
    agent = Agent(max_turns=5)
    parrot = Parrot(["look"] * 6, tokenizer=Bytes())
    (group,) = rollout(agent, parrot, ["open-3-1"], make=Dice)
    (trajectory,) = group.trajectories
    store = None if way == "replay" else asyncio.run(retrace(agent, parrot, EnvWorker(Dice), trajectory))

    def forks(**options: Any) -> list[Trajectory]:
        with EnvPool(Dice, workers=int(way == "workers")) as pool:
            fork = Fork(trajectory, 2, **options)
            return list(rollout(agent, parrot, [fork], make=pool, size=8, snapshots=store)[0].trajectories)

    assert all(same(fork, trajectory) for fork in forks())
    fresh = forks(fresh=True)
    assert {fork.turns[2].prompt for fork in fresh} == {trajectory.turns[2].prompt}
    assert len({fork.turns[3].observation for fork in fresh}) == 8
    assert all(map(same, fresh, forks(fresh=True)))  # each seed belongs to its fork
    repeats = forks(fresh=True, repeat=True)
    assert {fork.turns[2].text for fork in repeats} == {trajectory.turns[2].text}
    assert len({fork.turns[2].reward for fork in repeats}) > 1
    assert {fork.fork_turn for fork in repeats} == {3}


def test_a_repeated_answer_may_end_the_episode() -> None:
    agent, actions = Agent(max_turns=9), ["take key", "go east", "unlock door", "go east"]
    parrot = Parrot(actions, tokenizer=Bytes())
    (group,) = rollout(agent, parrot, ["open-3-1"], make=Corridor)
    (trajectory,) = group.trajectories
    assert trajectory.won
    (fork,) = rollout(agent, parrot, [Fork(trajectory, 3, repeat=True)], make=Corridor)[0].trajectories
    assert same(fork, trajectory)
    assert copy.copy(Group("t", (fork,))).finished
