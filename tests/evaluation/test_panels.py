"""Panels: a sample of what an environment lists, the same for everybody who asks."""

import gymnasium
import pytest
from hypothesis import given
from hypothesis import strategies as st
from toys.corridor import ID, Corridor

from turncredit.agents.errors import EvaluationError
from turncredit.envs import register
from turncredit.evaluation.panels import draw, draw_by_part, draw_tasks, make_panel

TASKS = st.lists(st.text(max_size=3), unique=True, max_size=20)


@given(TASKS, st.integers(0, 25), st.integers(0, 2**31))
def test_a_sample_has_each_task_once_in_its_order(tasks, count, seed):
    drawn = draw(tasks, count, seed)
    assert len(drawn) == min(count, len(tasks))
    assert list(drawn) == [task for task in tasks if task in drawn]
    assert drawn == draw(tasks, count, seed)


def test_every_task_is_drawn_as_often_as_any_other():
    counts = dict.fromkeys("abcdefgh", 0)
    for seed in range(4000):
        for task in draw("abcdefgh", 2, seed):
            counts[task] += 1
    assert all(abs(count - 1000) < 5 * (4000 * 0.25 * 0.75) ** 0.5 for count in counts.values()), counts


def test_a_panel_belongs_to_its_environment_and_seed():
    one, again, other = (make_panel(ID, {"lengths": [3, 4, 5]}, 6, seed) for seed in (0, 0, 1))
    assert one == again
    assert one.tasks != other.tasks
    assert (one.env, one.kwargs, one.seed) == (ID, {"lengths": [3, 4, 5]}, 0)
    everything = tuple(Corridor().task_ids())
    assert make_panel(ID, {}, 99).tasks == everything
    assert one.tasks != everything[:6]


def test_generated_tasks_are_sampled_of_those_listed_and_more_are_made_where_they_do_not_suffice():
    some = make_panel("turncredit/Household-v0", {"level": "tiny", "split": "held_out"}, 20)
    numbers = [int(task.rsplit("/", 1)[1]) for task in some.tasks]
    assert numbers == sorted(numbers)
    assert max(numbers) > 500
    assert len(make_panel("turncredit/Household-v0", {"level": "tiny"}, 1200).tasks) == 1200


def test_a_small_panel_of_original_games_has_every_type_of_task(data_dir):
    kwargs = {"games": str(data_dir / "alfworld"), "split": "valid_seen"}
    tasks = make_panel("turncredit/Household-v0", kwargs, 40).tasks
    assert len({task.split("/")[1].split("-")[0] for task in tasks}) == 6


class Silent(Corridor):
    """It lists no tasks."""

    task_ids = None


def test_an_environment_that_lists_nothing_is_named():
    register("toys/Silent-v0", f"{__name__}:Silent")
    with pytest.raises(EvaluationError, match=r"toys/Silent-v0 does not list its tasks"):
        draw_tasks(gymnasium.make("toys/Silent-v0"), 3, 0)
    with pytest.raises(EvaluationError, match=r"toys/Silent-v0 does not list its tasks"):
        make_panel("toys/Silent-v0", {}, 3)


@given(st.lists(st.integers(0, 9), min_size=1, max_size=4), st.integers(0, 40), st.integers(0, 99))
def test_parts_have_equal_shares_of_a_sample_as_far_as_they_have_tasks(sizes, count, seed):
    names = [f"p{k}" for k in range(len(sizes))]
    tasks = [f"{name}/{k}" for name, size in zip(names, sizes, strict=True) for k in range(size)]
    drawn = draw_by_part(tasks, count, seed, names)
    assert len(drawn) == len(set(drawn)) == min(count, len(tasks))
    assert list(drawn) == [task for task in tasks if task in drawn]
    shares = [sum(task.startswith(f"{name}/") for task in drawn) for name in names]
    fewest = min((share for share, size in zip(shares, sizes, strict=True) if share < size), default=max(shares))
    assert max(shares) <= fewest + 1
    assert draw_by_part(tasks, count, seed, ()) == draw(tasks, count, seed)


def test_a_panel_of_a_mixture_is_a_sample_of_each_part():
    house = {"level": "tiny", "split": "held_out"}
    parts = [{"id": ID}, {"id": "turncredit/Household-v0", "kwargs": house}]
    panel = make_panel("turncredit/Mixture-v0", {"parts": parts}, 40)
    assert panel.parts() == ("corridor", "household")
    own = make_panel("turncredit/Household-v0", house, 40 - len(Corridor().task_ids()))  # those are fewer than half
    assert panel.tasks == (
        *(f"corridor/{task}" for task in Corridor().task_ids()),
        *(f"household/{task}" for task in own.tasks),
    )
    assert make_panel(ID, {}, 3).parts() == ()
