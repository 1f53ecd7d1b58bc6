"""Runs of several environments: who plays how often, what is kept apart, and that nothing else changes."""

import json
import tomllib
from collections import Counter

import pytest
import torch
import toys.corridor
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file
from toys.training_helpers import trajectory, turn

from turncredit.agents.files.trajectory_files import read_trajectories
from turncredit.agents.trajectory import Group
from turncredit.curriculum.errors import BadState, CurriculumError
from turncredit.curriculum.task_order import TaskSampler
from turncredit.envs import register
from turncredit.envs.info import NO_FORKS
from turncredit.envs.parts import MIXTURE
from turncredit.evaluation.results import EvaluationResult
from turncredit.task_ids import part_of
from turncredit.training import ConfigError, Run, train
from turncredit.training.parts import prepare
from turncredit.training.preflight.effects import effective_toml
from turncredit.training.run_folder.checkpoint import Checkpoints
from turncredit.training.run_folder.metrics import part_metrics, play_metrics
from turncredit.training.run_folder.run_instructions import with_instructions

torch.set_num_threads(1)
HOUSE, SEARCH, ROOMS = "turncredit/Household-v0", "turncredit/Search-v0", f"toys.corridor:{toys.corridor.ID}"
MIX = [
    {"id": ROOMS, "weight": 2, "kwargs": {"lengths": [3, 4]}, "evaluation": {"random_start": True}},
    {
        "id": HOUSE,
        "kwargs": {"levels": ["tiny", "small"]},
        "agent": {"max_turns": 3},
        "evaluation": {"split": "held_out"},
    },
]
NAMES = ("corridor", "household/tiny", "household/small")
TABLE = {
    "threads": 1,
    "trajectory_format": ".jsonl",
    "env": {"mix": MIX},
    "agent": {"max_turns": 4, "max_tokens": 8, "prompt": {"name": "window", "history": 1}},
    "policy": {"new": {"vocab": 280, "hidden": 32, "layers": 1, "heads": 1}, "context": 700},
    "imitation": {"episodes": 6, "epochs": 1, "batch_tokens": 600, "won_only": False},
    "train": {"iterations": 4, "groups": 4, "group_size": 2, "distinct_tasks": 12, "lr": 1e-3},
    "credit": {"method": "reinforce_pp"},
    "checkpoints": {"every": 2, "keep": 3},
    "evaluation": {"episodes": 7, "every": 2, "episodes_during_training": 3},
}


class Unforkable(toys.corridor.Corridor):
    metadata = toys.corridor.Corridor.metadata | {NO_FORKS: "it never repeats itself"}


class Unlisted(toys.corridor.Corridor):
    """It does not say what is possible."""

    def _info(self, *, valid):
        info = super()._info(valid=valid)
        del info["admissible_actions"]
        return info


def make_run(folder, *overrides):
    return Run.parse(TABLE, [f'output="{folder}"', *overrides])


def weights(folder, step):
    return load_file(Checkpoints(folder / "checkpoints").path(step) / "model.safetensors")


def events(folder, phase):
    read = map(json.loads, (folder / "metrics.jsonl").read_text().splitlines())
    return [event for event in read if event["phase"] == phase]


def timeless(event):
    return {key: value for key, value in event.items() if "second" not in key and not key.endswith("_memory")}


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("mixture") / "run"
    train(make_run(folder))
    return folder


def test_every_part_has_its_share_of_the_groups(finished):
    counts = Counter()
    for iteration in range(1, 5):
        played = list(read_trajectories(finished / "trajectories" / f"{iteration:06d}.jsonl"))
        groups = Counter(part_of(task, NAMES) for task in {one.task for one in played})
        assert groups["corridor"] in (2, 3)
        counts += groups
    assert counts["corridor"] == pytest.approx(16 * 2 / 3, abs=1)
    assert counts["household/tiny"] == pytest.approx(16 / 6, abs=1)
    assert counts["household/small"] == pytest.approx(16 / 6, abs=1)


def test_each_part_is_played_within_its_own_limits(finished):
    played = [one for file in (finished / "trajectories").iterdir() for one in read_trajectories(file)]
    longest = {name: max(len(one.turns) for one in played if part_of(one.task, NAMES) == name) for name in NAMES}
    assert longest == {"corridor": 4, "household/tiny": 3, "household/small": 3}


def test_metrics_and_evaluations_tell_the_parts_apart(finished):
    for event in events(finished, "train"):
        groups = {name for name in NAMES if f"success/{name}" in event}
        assert sum(event[f"episodes/{name}"] for name in groups) == event["episodes"] == 8
        mean = sum(event[f"episodes/{name}"] * event[f"reward/{name}"] for name in groups) / 8
        assert mean == pytest.approx(event["reward"])
    whole = EvaluationResult.load(finished / "after.json")
    assert whole.panel.parts() == NAMES
    assert Counter(part_of(task, NAMES) for task in whole.panel.tasks) == {
        "corridor": 3,
        "household/tiny": 2,
        "household/small": 2,
    }
    summary = whole.summary()
    assert sum(rate.n for rate in summary.by_part.values()) == summary.success.n == 7
    assert sum(rate.k for rate in summary.by_part.values()) == summary.success.k
    first, during, last = events(finished, "evaluation")
    assert [event["n"] for event in (first, during, last)] == [7, 3, 7]
    assert [during[f"n/{name}"] for name in NAMES] == [1, 1, 1]
    for name, rate in summary.by_part.items():
        assert (last[f"success/{name}"], last[f"low/{name}"], last[f"high/{name}"]) == (rate.value, rate.low, rate.high)


def test_a_panel_has_the_tasks_that_each_part_would_have_alone(finished):
    alone = Run.parse(
        {**TABLE, "env": {"id": HOUSE, "kwargs": {"level": "tiny"}}},
        ['evaluation.env={split = "held_out"}', "evaluation.episodes=2"],
    )
    tasks = EvaluationResult.load(finished / "after.json").panel.tasks
    own = [f"household/tiny/{task}" for task in prepare(alone).panel.tasks]
    assert [task for task in tasks if task.startswith("household/tiny/")] == own
    assert all("/held_out/" in task for task in tasks if task.startswith("household"))


def test_a_run_that_is_resumed_repeats(finished, tmp_path):
    folder = tmp_path / "run"
    train(make_run(folder, "train.iterations=2"))
    train(make_run(folder), resume=True)
    one, other = weights(finished, 4), weights(folder, 4)
    assert all(torch.equal(one[name], other[name]) for name in one)
    assert [*map(timeless, events(finished, "train"))][2:] == [*map(timeless, events(folder, "train"))][2:]


def test_the_file_of_a_run_says_it_again(finished):
    run = Run.load(finished / "run.toml")
    assert run.env.mix == MIX
    assert run.env.id == MIXTURE
    assert Run.parse(tomllib.loads(effective_toml(run))) == run


def test_credit_does_not_mix_the_parts(tmp_path):
    """The advantages of each part are those of a batch that has it alone, also with a rule that whitens the batch."""
    prepared = prepare(make_run(tmp_path))
    groups = [
        Group(
            f"{name}/t{number}",
            tuple(
                trajectory(
                    [turn([1], [2], reward=scale * member)],
                    name=f"{name}/t{number}#{member}@0",
                    task=f"{name}/t{number}",
                )
                for member in range(3)
            ),
        )
        for name, scale in (("corridor", 1.0), ("household/tiny", 50.0))
        for number in range(2)
    ]
    from turncredit.agents.steps import steps_of
    from turncredit.credit import get
    from turncredit.training.assign.credit_assignment import CreditAssignment

    assignment = CreditAssignment.of(
        get("reinforce_pp"), prepared.seeds, None, None,
        rewards=prepared.sampling.rewards(), agent=None, context=9, parts=NAMES,
    )  # fmt: skip
    whole = assignment.advantages(steps_of(groups), groups, 0, 0.0)
    for half in (groups[:2], groups[2:]):
        alone = get("reinforce_pp")(steps_of(half))
        ids = [one.id for group in half for one in group.trajectories]
        assert whole.aligned(ids, [0] * 6).values.tolist() == alone.aligned(ids, [0] * 6).values.tolist()
    mixed = get("reinforce_pp")(steps_of(groups))
    assert mixed.values.tolist() != whole.values.tolist()


def test_demonstrations_come_by_the_weights_too(tmp_path):
    many = "train.distinct_tasks=0"  # the parts list different numbers of tasks
    prepared = prepare(make_run(tmp_path, many, "imitation.env={}"))
    drawn = Counter(part_of(task, NAMES) for task in prepared.demonstrated.stream(0).next(12))
    assert drawn == {"corridor": 8, "household/tiny": 2, "household/small": 2}
    table = {**TABLE, "env": {"mix": [{**MIX[1], "imitation": {"levels": ["medium"]}}]}}
    prepared = prepare(Run.parse(table, [f'output="{tmp_path}"']))
    assert {*prepared.demonstrated.weights} == {"household/medium"}
    assert all(task.startswith("household/medium/train/") for task in prepared.demonstrated.tasks)
    assert {*prepared.environments.weights} == {"household/tiny", "household/small"}


def test_metrics_of_parts_are_those_of_their_groups():
    def episode(part, member, won):
        return trajectory([turn([1], [2])], name=f"{part}/t#{member}@0", task=f"{part}/t", won=won)

    groups = [
        Group(f"{part}/t", tuple(episode(part, member, member < wins) for member in range(4)))
        for part, wins in (("a", 1), ("b", 3))
    ]
    metrics = part_metrics(groups, ("a", "b", "c"))
    assert {name: metrics[name] for name in metrics if name.startswith("success/")} == {
        "success/a": 0.25,
        "success/b": 0.75,
    }
    assert play_metrics(groups)["success"] == 0.5
    assert part_metrics(groups, ()) == {}


def test_without_parts_the_tasks_come_as_ever():
    """The stream of every run that was made before there were mixtures."""
    assert TaskSampler(list("abcdef"), seed=5).next(12) == [*"becdfacafedb"]
    assert TaskSampler(list("abcdef"), seed=5).state_dict() == {"seed": 5, "count": 6, "position": 0}


@given(
    st.lists(st.integers(1, 7), min_size=1, max_size=4),
    st.lists(st.integers(1, 5), min_size=4, max_size=4),
    st.integers(0, 50),
)
def test_a_mixed_stream_is_that_of_each_part_by_the_weights(sizes, shares, cut):
    names = [f"p{k}" for k in range(len(sizes))]
    tasks = [f"{name}/{k}" for name, size in zip(names, sizes, strict=True) for k in range(size)]
    weights_ = dict(zip(names, shares, strict=False))
    whole = TaskSampler(tasks, 3, weights_).next(cut + 20)
    for name, size in zip(names, sizes, strict=True):
        own = [task for task in whole if task.startswith(f"{name}/")]
        assert own == [f"{name}/{task}" for task in TaskSampler([str(k) for k in range(size)], 3).next(len(own))]
        share = weights_[name] / sum(weights_.values())
        assert abs(len(own) - share * len(whole)) < 1
    first, second = TaskSampler(tasks, 3, weights_), TaskSampler(tasks, 3, weights_)
    first.next(cut)
    second.load_state_dict(first.state_dict())
    assert second.next(20) == whole[cut:]
    assert [second.at(k) for k in range(cut + 20)] == whole


def test_other_weights_are_another_stream():
    stream = TaskSampler(["a/1", "b/1"], 0, {"a": 1, "b": 2})
    with pytest.raises(BadState, match="weights"):
        TaskSampler(["a/1", "b/1"], 0, {"a": 1, "b": 1}).load_state_dict(stream.state_dict())
    with pytest.raises(CurriculumError, match="'b' has no task"):
        TaskSampler(["a/1"], 0, {"a": 1, "b": 1})


@pytest.mark.parametrize(
    ("env", "sentence"),
    [
        ({"id": HOUSE, "mix": MIX}, "env.id names one environment, and env.mix several"),
        ({"mix": [{"name": "a"}]}, "env.mix: a part must be a table with an id"),
        ({"mix": [{"id": SEARCH, "weight": 0}]}, "env.mix: the weight of the part 'search' must be a number > 0"),
        ({"mix": [{"id": SEARCH}, {"id": SEARCH}]}, "env.mix: two parts have the name 'search'"),
        ({"mix": [{"id": SEARCH, "wieght": 1}]}, "env.mix: a part has no key 'wieght'; did you mean 'weight'"),
        ({"mix": [{"id": SEARCH, "evaluation": "held_out"}]}, "env.mix: evaluation must be a table"),
        ({"mix": [{"id": SEARCH, "agent": {"temperature": 2}}]}, "temperature of 'search' cannot be set"),
        ({"mix": "search"}, "env.mix"),
        ({"mix": ["search"]}, "env.mix"),
    ],
)
def test_wrong_tables_are_refused_when_the_file_is_read(env, sentence):
    with pytest.raises(ConfigError, match=sentence):
        Run.parse({"env": env})


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"mix": [{"id": "turncredit/Serch-v0"}]}, "did you mean 'turncredit/Search-v0'"),
        ({"mix": [{"id": SEARCH, "kwargs": {"levels": ["tinny"]}}]}, "unknown level 'tinny'"),
        ({"mix": [{"id": SEARCH, "kwargs": {"level": "tiny"}, "agent": {"parsr": "bare"}}]}, "did you mean 'parser'"),
        ({"mix": [{"id": ROOMS}], "kwargs": {"split": "train"}}, "Corridor-v0 has no argument 'split'"),
        ({"id": HOUSE, "kwargs": {"levels": ["tiny", "smal"]}}, "unknown level 'smal'"),
    ],
)
def test_what_does_not_exist_is_refused_before_anything_is_trained(change, sentence, tmp_path):
    with pytest.raises(Exception, match=sentence):
        prepare(Run.parse({**TABLE, "env": change}, [f'output="{tmp_path}/run"']))


def test_rules_across_keys_ask_every_part(tmp_path):
    register("toys/Unforkable-v0", Unforkable)
    register("toys/UnlistedPart-v0", Unlisted)
    silent = {"id": "toys/UnlistedPart-v0"}

    def checked(mix, *overrides):
        prepare(Run.parse({**TABLE, "env": {"mix": mix}}, [f'output="{tmp_path}/run"', *overrides]))

    noise = "imitation.demonstrator.noise=0.2"
    checked([silent, {"id": ROOMS}], noise)  # mistakes are made where actions are listed
    with pytest.raises(ConfigError, match="noise needs an environment that lists its admissible actions"):
        checked([silent], noise)
    forks = ('train.forks={where="uniform", roots=1}', "credit.method=gigpo")
    with pytest.raises(ConfigError, match=r"train.forks needs an environment that can be.*it never repeats itself"):
        checked([{"id": ROOMS}, {"id": "toys/Unforkable-v0"}], *forks)
    with pytest.raises(ConfigError, match="needs 'metric' for every turn"):
        checked([{"id": ROOMS}, silent], "credit.method=spo_single_stream")


def test_arguments_of_a_purpose_come_last():
    mix = [{"id": SEARCH, "evaluation": {"level": "tiny"}}, {"id": HOUSE, "kwargs": {"level": "medium"}}]
    changes = ['evaluation.env={split = "held_out"}', 'imitation.env={level = "large"}']
    run = Run.parse({"env": {"kwargs": {"level": "small"}, "mix": mix}}, changes)
    from turncredit.envs.registration import parts_of

    def levels(kwargs):
        return {part.name: dict(part.kwargs) for part in parts_of(run.env.id, **kwargs)}

    assert levels(run.env.arguments()) == {"search": {"level": "small"}, "household": {"level": "medium"}}
    assert levels(run.evaluation_kwargs()) == {
        "search": {"level": "tiny", "split": "held_out"},
        "household": {"level": "medium", "split": "held_out"},
    }
    assert levels(run.demonstration_kwargs()) == {"search": {"level": "large"}, "household": {"level": "large"}}


def test_a_pretrained_model_is_asked_as_each_environment_wants(tmp_path):
    table = {"env": {"mix": [{"id": SEARCH}, {"id": HOUSE}]}, "policy": {"model": str(tmp_path)}}
    run = with_instructions(Run.parse(table))
    assert run.agent.parser == "think-action"
    assert run.env.agents()["search"]["parser"] == "with-thoughts"
    assert "household" not in run.env.agents()
    own = with_instructions(
        Run.parse({**table, "env": {"mix": [{"id": SEARCH, "agent": {"max_tokens": 7}}]}, "agent": {"max_turns": 9}})
    )
    assert (own.agent.parser, own.env.agents()["search"]["max_tokens"]) == ("with-thoughts", 7)
    written = Run.parse(tomllib.loads(effective_toml(run)))
    assert written.env.agents() == run.env.agents()


@pytest.mark.waits
def test_two_processes_and_workers_play_what_one_process_plays(tmp_path):
    played = []
    for name, override in (
        ("one", "processes=1"),
        ("two", "processes=2"),
        ("workers", "env.workers={count=2, deterministic=true}"),
    ):
        train(make_run(tmp_path / name, override, "train.iterations=1", "evaluation.episodes=0"))
        (file,) = (tmp_path / name / "trajectories").iterdir()
        played.append(sorted((one.id, one.turns[0].prompt, one.turns[0].state) for one in read_trajectories(file)))
    assert played[0] == played[1] == played[2]


@pytest.mark.waits
def test_rollouts_beside_updates_have_the_same_tasks(tmp_path):
    tasks = []
    for name, staleness in (
        ("behind", "train.staleness={updates=1, deterministic=true}"),
        ("in-turn", "train.staleness=0"),
    ):
        train(make_run(tmp_path / name, staleness, "train.iterations=2", "evaluation.episodes=0"))
        files = sorted((tmp_path / name / "trajectories").iterdir())
        tasks.append([sorted({one.task for one in read_trajectories(file)}) for file in files])
    assert tasks[0] == tasks[1]
