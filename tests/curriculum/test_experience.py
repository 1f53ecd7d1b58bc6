"""Experience: what is admitted, what is evicted, and that a killed run finds it again; and the replay rules."""

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from turncredit.agents.trajectory import Group, Trajectory, Turn
from turncredit.credit.advantages import Advantages
from turncredit.credit.errors import BadOption
from turncredit.curriculum.errors import BadSetting, CurriculumError
from turncredit.curriculum.replay import ReplayBatch, ReplayRule
from turncredit.curriculum.replay_rules.catalogue import CATALOGUE, get_replay_rule
from turncredit.curriculum.stored_episodes import Admission, Index, StoredEpisode, select
from turncredit.training.sampling.experience import Experience


def episode(name, reward, turns=2):
    turn = Turn((1, 2), (3,), (-0.5,), 0, "a door", "open", "open", "closed", 0.0, True)
    played = (*[turn] * (turns - 1), replace(turn, reward=reward))
    return Trajectory(
        name, name.split("#")[0], None, 7, played, "terminated", reward > 0.5, reward, "end", "", None, 0.0
    )


def advantages_of(groups):
    """Each turn gets its episode's reward minus the mean of the group."""
    rows = [
        (group.task, member.id, turn, member.reward - np.mean([other.reward for other in group.finished]))
        for group in groups
        for member in group.finished
        for turn in range(len(member.turns))
    ]
    tasks, names, turns, values = (
        np.array(column, dtype=kind)
        for column, kind in zip(zip(*rows, strict=True), (object, object, np.int64, np.float64), strict=True)
    )
    count = len(rows)
    return Advantages(tasks, names, turns, values, np.ones(count, dtype=bool), np.ones(count))


def groups_of(iteration, *rewards):
    """One group of a task named after its place for each list of rewards."""
    return [
        Group(f"task{place}", tuple(episode(f"task{place}#{n}@{iteration}", r) for n, r in enumerate(members)))
        for place, members in enumerate(rewards)
    ]


def stored(tmp_path, admission, *iterations):
    experience = Experience(tmp_path / "experience", admission)
    for number, rewards in enumerate(iterations):
        groups = groups_of(number, *rewards)
        experience.add(groups, advantages_of(groups), number)
    return experience


@pytest.mark.parametrize(
    ("keep", "expected"),
    [
        ("success", ["task0#0@0", "task1#0@0", "task1#1@0"]),
        ("positive", ["task0#0@0"]),
        ("mixed", ["task0#0@0", "task0#1@0"]),
        ("all", ["task0#0@0", "task0#1@0", "task1#0@0", "task1#1@0", "task2#0@0"]),
    ],
)
def test_what_is_admitted(tmp_path, keep, expected):
    experience = stored(tmp_path, Admission(keep=keep), [[1.0, 0.0], [1.0, 1.0], [0.0]])
    assert [row.id for row in experience.index.episodes] == expected
    assert [trajectory.id for trajectory in experience.read(expected)] == expected


def test_old_episodes_and_those_that_are_too_many_leave(tmp_path):
    experience = stored(tmp_path, Admission(per_task=2, age=2), [[1.0]], [[1.0]], [[1.0]], [[1.0]])
    assert [row.id for row in experience.index.episodes] == ["task0#0@2", "task0#0@3"]
    experience = stored(tmp_path, Admission(total=1), [[1.0], [1.0]])
    assert len(experience.index) == 1


@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 9)), max_size=30), st.integers(1, 3), st.integers(1, 10)
)
def test_what_stays_is_bounded_ordered_and_stable(episodes, per_task, total):
    rows = [StoredEpisode(f"e{n}", task, n, 1.0, 0.1, True, turns, 5) for n, (task, turns) in enumerate(episodes)]
    for order in ("newest", "shortest"):
        admission = Admission(per_task=per_task, total=total, order=order)
        kept = select(rows, admission, 30)
        assert len(kept) <= total
        assert all(sum(row.task == task for row in kept) <= per_task for task in "abc")
        assert list(kept) == [row for row in rows if row in kept]
        assert select(kept, admission, 30) == kept


def test_a_killed_run_finds_every_episode_of_its_checkpoint(tmp_path):
    experience = stored(tmp_path, Admission(), [[1.0, 0.0]], [[1.0, 1.0]])
    state = json.loads(json.dumps(experience.state()))
    groups = groups_of(2, [1.0])  # played after the checkpoint, and lost with the process
    experience.add(groups, advantages_of(groups), 2)
    resumed = Experience(tmp_path / "experience", Admission())
    resumed.load_state(state)
    assert resumed.index == stored(tmp_path, Admission(), [[1.0, 0.0]], [[1.0, 1.0]]).index
    assert [trajectory.reward for trajectory in resumed.read(["task0#0@1"])] == [1.0]


def test_files_go_with_the_checkpoint_that_no_longer_needs_them(tmp_path):
    experience = stored(tmp_path, Admission(per_task=1), [[1.0]], [[1.0]])
    folder = tmp_path / "experience"
    assert len(list(folder.iterdir())) == 2
    experience.saved()
    assert [path.name for path in folder.iterdir()] == ["000001.jsonl"]
    experience.clear()
    experience.saved()
    assert not folder.exists()


def test_impossible_admissions_are_refused():
    with pytest.raises(BadSetting, match=r"experience\.keep must be one of success, positive, mixed, all; got 'won'"):
        Admission(keep="won")
    with pytest.raises(BadSetting, match=r"sampling\.experience\.per_task must be an integer of at least 1, got 0"):
        Admission(per_task=0)


# -- replay rules --


def index_of(*rows):
    return Index(tuple(StoredEpisode(f"e{n}", *row) for n, row in enumerate(rows)))


def ask(rule, index, iteration=1, total=10, **more):
    return rule(index, iteration=iteration, total=total, rng=np.random.default_rng(0), **more)


def test_spear_fires_once_there_is_enough_and_empties_the_store():
    rule = get_replay_rule("spear", batch=2, factor=1.0, warmup=0)
    index = index_of(*[("a", 0, 1.0, 0.5, True, 2, 9)] * 3, ("b", 0, 0.0, 0.1, False, 2, 9))
    first = ask(rule, index_of(("a", 0, 1.0, 0.5, True, 2, 9)), scores=(0.25, 0.75))
    assert not first.ids
    second = ask(rule, index, scores=(0.5,), state=first.state)
    assert second.ids == ("e0", "e1", "e2")
    assert second.advantage == (0.5, 0.5, 0.5)
    assert second.empty
    assert second.state == {"means": [0.25, 0.75, 0.5], "calls": [2]}


def test_dots_replays_whole_groups_of_earlier_iterations():
    index = index_of(("a", 0, 1.0, 0.5, True, 2, 9), ("a", 0, 0.0, -0.5, False, 2, 9), ("b", 3, 1.0, 0.9, True, 2, 9))
    replay = ask(get_replay_rule("dots_rr", groups=4), index, iteration=4)
    assert (replay.ids, replay.advantage) == (("e0", "e1"), (0.5, -0.5))
    assert not ask(get_replay_rule("dots_rr", first=4), index, iteration=4).ids


def test_rorecomp_compensates_every_few_iterations():
    rule = get_replay_rule("rorecomp", least=2, most=2, batch=1)
    index = index_of(("a", 0, 1.0, 0.5, True, 2, 9), ("a", 1, 0.0, -0.5, False, 2, 9))
    states, chosen = None, []
    for iteration in range(1, 6):
        replay = ask(rule, index, iteration=iteration, state=states)
        states = replay.state
        chosen.append(replay.ids)
    assert chosen == [(), ("e0",), (), ("e0",), ()]


def test_the_shortest_success_of_each_task():
    index = index_of(("a", 0, 1.0, 0.5, True, 9, 9), ("a", 1, 1.0, 0.5, True, 4, 9), ("b", 1, 0.0, 0.5, False, 1, 9))
    assert ask(get_replay_rule("successes"), index).ids == ("e1",)


@pytest.mark.parametrize("name", [rule.name for rule in CATALOGUE])
def test_every_rule_accepts_an_empty_store_and_repeats_itself(name):
    rule = get_replay_rule(name)
    assert ask(rule, Index(), scores=(0.5,)).ids == ()
    index = index_of(*[(task, number, 1.0, 0.1, True, 3, 9) for number in range(4) for task in "abc"])
    assert ask(rule, index, iteration=5, scores=(0.1,)) == ask(rule, index, iteration=5, scores=(0.1,))
    numbers = [option for option, default in rule.options.items() if isinstance(default, int | float)]
    for option in numbers:
        with pytest.raises(BadOption, match=option):
            get_replay_rule(name, **{option: "many"})


def test_a_rule_cannot_choose_what_is_not_stored():
    rule = ReplayRule("mine", "Mine", None, "our reading", "", lambda index: ReplayBatch(("e9",), (1.0,)))
    with pytest.raises(CurriculumError, match="'e9', which is not stored"):
        ask(rule, Index())
    with pytest.raises(CurriculumError, match="one finite advantage an episode"):
        ReplayBatch(("a",), (float("nan"),))
