"""Training end to end on the corridor: what is written, what goes on after a kill, what is refused."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
import toys.corridor
from safetensors.torch import load_file
from toys.tokens import CHATML
from toys.warm_processes import WarmPopen

import turncredit.training.parts as parts_module
import turncredit.training.preflight.remarks as run_remarks
from turncredit.agents.errors import FolderInUse, PromptError, StoreError
from turncredit.agents.files.trajectory_files import read_trajectories
from turncredit.agents.models.model_folder import ModelFolder, load_model, load_tokenizer
from turncredit.credit import Advantages, BadOption, CreditRule
from turncredit.credit.registry import RULES
from turncredit.engines import Random
from turncredit.envs import register
from turncredit.evaluation.panels import Panel
from turncredit.evaluation.results import EvaluationResult
from turncredit.training import ConfigError, Run, RunExists, train
from turncredit.training.errors import NoDemonstrations, TrainingError
from turncredit.training.learner.learner import Learner
from turncredit.training.learner.policy import save_policy
from turncredit.training.parts import prepare
from turncredit.training.play import rollouts
from turncredit.training.preflight.effects import effective_toml
from turncredit.training.run_folder.checkpoint import Checkpoints

torch.set_num_threads(1)
TESTS = Path(__file__).resolve().parents[1]
ENV = f"toys.corridor:{toys.corridor.ID}"

TABLE = {
    "threads": 1,
    "trajectory_format": ".jsonl",
    "env": {"id": ENV, "kwargs": {"lengths": [3, 4]}},
    "agent": {"max_turns": 6, "max_tokens": 8},
    "policy": {"new": {"vocab": 280, "hidden": 32, "layers": 1, "heads": 1}, "context": 400},
    "imitation": {"episodes": 10, "epochs": 3, "lr": 5e-3, "batch_tokens": 600, "demonstrator": {"noise": 0.2}},
    "train": {"iterations": 5, "groups": 2, "group_size": 3, "optimizer_steps": 2, "lr": 1e-3},
    "checkpoints": {"every": 2, "keep": 3},
    "evaluation": {"episodes": 4, "every": 2, "episodes_during_training": 2, "env": {"random_start": True}},
}


def make_run(folder, *overrides):
    return Run.parse(TABLE, [f'output="{folder}"', *overrides])


def weights(folder, step):
    return load_file(Checkpoints(folder / "checkpoints").path(step) / "model.safetensors")


def lines(folder):
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def timeless(events):
    return [
        {key: value for key, value in event.items() if "second" not in key and not key.endswith("_memory")}
        for event in events
    ]


def assert_same_weights(first, other):
    assert first.keys() == other.keys()
    assert all(torch.equal(first[name], other[name]) for name in first)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """An uninterrupted run, with the events that it gave."""
    folder, events = tmp_path_factory.mktemp("run") / "whole", []
    outcome = train(make_run(folder), on_event=events.append)
    assert (outcome.finished, outcome.step) == (True, 5)
    return folder, events


def test_everything_is_written(finished):
    folder, events = finished
    names = {path.name for path in folder.iterdir()}
    assert names >= {"run.toml", "meta.json", "metrics.jsonl", "panel.json", "before.json", "after.json"}
    assert Checkpoints(folder / "checkpoints").steps() == [2, 4, 5]
    assert json.loads((folder / "meta.json").read_text())["packages"]["torch"] == version("torch")
    assert Run.load(folder / "run.toml") == make_run(folder)
    written = [json.dumps(event).replace("NaN", "null") for event in events if event["phase"] not in ("tick", "begin")]
    assert lines(folder) == list(map(json.loads, written))  # what is unknown is null
    for step in range(1, 6):
        assert len(list(read_trajectories(folder / f"trajectories/{step:06d}.jsonl"))) == 6


def test_the_warm_start_leaves_its_losses(finished):
    folder, events = finished
    ticks = [event for event in events if event.get("what") == "imitation"]
    told = [event for event in lines(folder) if event["phase"] == "imitation" and "step" in event]
    assert len(ticks) < 50  # so that every step is told
    assert [(record["step"], record["loss"]) for record in told] == [
        (record["done"], record["loss"]) for record in ticks
    ]
    assert told[-1]["step"] == told[-1]["steps"] == len(ticks)
    assert told[-1]["loss"] < told[0]["loss"]


def test_metrics_are_those_of_the_stored_trajectories(finished):
    folder, _ = finished
    for event in lines(folder):
        if event["phase"] != "train":
            continue
        played = list(read_trajectories(folder / f"trajectories/{event['iteration']:06d}.jsonl"))
        turns = sum(len(episode.turns) for episode in played)
        assert event["episodes"] == len(played) == 6
        assert event["success"] == pytest.approx(sum(episode.won for episode in played) / 6)
        assert event["turns"] == pytest.approx(turns / 6)
        assert event["unparsable"] == pytest.approx(sum(episode.unparsable for episode in played) / turns)
        assert event["inadmissible"] == pytest.approx(sum(episode.inadmissible for episode in played) / turns)
        assert {turn.version for episode in played for turn in episode.turns} == {event["iteration"] - 1}
        assert event["gap_max"] < 1e-3
        prompts = event["prompt_tokens_per_second"] * event["rollout_seconds"]
        assert prompts == pytest.approx(sum(episode.prompt_tokens for episode in played))
        assert 2**26 < event["process_memory"] < 2**36
        assert event["left"] == 5 - event["iteration"]
        assert 0 <= event["entropy"] < 6
        assert event["updates"] + event["without_signal"] + event["skipped"] == 2


def test_prefixes_are_shared_in_a_run(finished, tmp_path):
    run = make_run(
        tmp_path / "run", "train.iterations=1", "evaluation.episodes=0", "train.micro_batch.share_prefixes=true"
    )
    train(run)
    ours, theirs = lines(run.folder), lines(finished[0])
    steps = [
        [event["loss"] for event in events if event["phase"] == "imitation" and "step" in event]
        for events in (ours, theirs)
    ]
    assert len(steps[0]) > 1
    assert steps[0] == pytest.approx(steps[1], rel=1e-3)
    (event,) = [event for event in ours if event["phase"] == "train"]
    assert 0.0 < event["update_shared"] < 0.9
    assert event["updates"] == 2
    assert not any("update_shared" in event for event in theirs)


def test_the_size_of_the_model_is_written(finished):
    folder, _ = finished
    (event,) = (event for event in lines(folder) if event["phase"] == "model")
    size = sum(tensor.numel() for tensor in weights(folder, 5).values())
    assert (event["parameters"], event["trained"]) == (size, size)
    (told,) = (event for event in lines(folder) if event["phase"] == "imitation" and "demonstrations" in event)
    assert (told["parameters"], told["trained"]) == (size, size)


def test_evaluations_are_of_one_panel(finished):
    folder, _ = finished
    panel = Panel.load(folder / "panel.json")
    assert len(panel.tasks) == 4
    assert panel.kwargs == {"lengths": [3, 4], "random_start": True}
    before, after = EvaluationResult.load(folder / "before.json"), EvaluationResult.load(folder / "after.json")
    assert before.panel == after.panel == panel
    between = EvaluationResult.load(folder / "evaluations/000002.json")
    assert len(between.panel.tasks) == 2
    assert set(between.panel.tasks) < set(panel.tasks)
    assert sorted(path.name for path in (folder / "evaluations").iterdir()) == [f"00000{k}.json" for k in (0, 2, 4, 5)]


def test_a_panel_is_a_sample_that_is_the_same_for_every_seed(finished, tmp_path):
    folder, _ = finished
    panel = Panel.load(folder / "panel.json")
    other = prepare(make_run(tmp_path, "seed=1"))
    assert other.panel == panel
    everything = toys.corridor.Corridor(lengths=(3, 4)).task_ids()
    assert list(panel.tasks) == [task for task in everything if task in panel.tasks]
    assert list(panel.tasks) != everything[:4]


def test_a_pool_is_a_sample_of_all_kinds_of_tasks(tmp_path):
    everything = prepare(make_run(tmp_path, "env.kwargs.lengths=[9, 10]")).environments.tasks
    assert len(everything) == 34
    sized = ("env.kwargs.lengths=[9, 10]", "train.distinct_tasks=8")
    pools = [prepare(make_run(tmp_path, *sized, f"seed={k}")).environments.tasks for k in "001"]
    assert pools[0] == pools[1] != pools[2]
    for pool in pools:
        assert len(pool) == 8
        assert list(pool) == [task for task in everything if task in pool]  # in the environment's order, each once
        assert {task.split("-")[1] for task in pool} == {"9", "10"}  # the first eight are all of length 9
    whole = prepare(make_run(tmp_path, "train.distinct_tasks=99", "evaluation.episodes=99"))
    assert whole.environments.tasks == whole.panel.tasks == tuple(toys.corridor.Corridor(lengths=(3, 4)).task_ids())


COUNTED = []


def counting(steps, *, step=1, state=None):
    """A rule with memory: every episode's outcome less the mean of all that it has seen so far."""
    seen = {"calls": 0, "total": np.zeros(2)} if state is None else state
    COUNTED.append(seen["calls"])
    outcome = steps.reward - seen["total"][0] / max(1.0, seen["total"][1])
    total = seen["total"] + [steps.reward.sum(), len(steps)]
    return Advantages.of(steps, outcome, state={"calls": seen["calls"] + step, "total": total})


def test_what_a_credit_rule_remembers_is_carried_on_and_kept(tmp_path, monkeypatch):
    entry = CreditRule("counting", "Counting", None, "our reading", "For this test.", counting)
    monkeypatch.setitem(RULES._items, "counting", entry)
    overrides = ["credit.method=counting", "credit.options.step=2", "evaluation.episodes=0", "train.iterations=4"]
    COUNTED.clear()
    train(make_run(tmp_path / "whole", *overrides))
    assert COUNTED == [0, 2, 4, 6]
    COUNTED.clear()
    train(make_run(tmp_path / "parts", *overrides[:-1], "train.iterations=3"))
    train(make_run(tmp_path / "parts", *overrides), resume=True)
    assert COUNTED == [0, 2, 4, 6]
    assert_same_weights(weights(tmp_path / "whole", 4), weights(tmp_path / "parts", 4))
    with pytest.raises(BadOption, match="no option 'state'"):
        prepare(make_run(tmp_path, "credit.method=counting", "credit.options.state=1"))


def test_a_seed_decides_everything(finished, tmp_path):
    folder, _ = finished
    train(make_run(tmp_path / "again"))
    assert_same_weights(weights(folder, 5), weights(tmp_path / "again", 5))
    assert timeless(lines(folder))[1:] == timeless(lines(tmp_path / "again"))[1:]
    train(make_run(tmp_path / "other", "seed=1", "train.iterations=1", "evaluation.episodes=0", "checkpoints.every=1"))
    assert not torch.equal(weights(folder, 2)["model.norm.weight"], weights(tmp_path / "other", 1)["model.norm.weight"])


CHILD = """
import sys, time
from turncredit.training import Run, train
run, moment, left = Run.load(sys.argv[1]), sys.argv[2], int(sys.argv[3])
def tell(event):
    global left
    left -= " ".join(str(event.get(key, "")) for key in ("phase", "what", "done")) == moment
    if left == 0:
        print("here", flush=True)
        time.sleep(600)  # to be killed now, and not some time later
train(run, on_event=tell)
"""


@pytest.mark.waits
@pytest.mark.parametrize(
    "moment",
    [
        pytest.param("tick imitation 2", id="warm-start"),
        pytest.param("tick checkpoint 2", id="after-a-checkpoint"),
        pytest.param("tick rollout 4", id="in-a-rollout"),
    ],
)
def test_killed_and_resumed_it_ends_with_the_same_weights(finished, tmp_path, moment):
    """kill -9 of a real process, then train --resume here; for the rollout, at the second one after a checkpoint."""
    whole, _ = finished
    folder, file = tmp_path / "killed", tmp_path / "run.toml"
    run = make_run(folder)
    prepare(run)
    file.write_text(effective_toml(run))
    environment = {**os.environ, "PYTHONPATH": str(TESTS)}
    words = [str(file), moment, "4" if "rollout" in moment else "1"]
    child = WarmPopen([sys.executable, "-c", CHILD, *words], stdout=subprocess.PIPE, text=True, env=environment)
    assert "here\n" in child.stdout
    child.kill()
    assert child.wait() == -signal.SIGKILL
    resumed = []
    outcome = train(Run.load(file), resume=True, on_event=resumed.append)
    assert outcome.finished
    first = next((event["done"] for event in resumed if event.get("what") == "resumed"), None)
    assert first == {"warm-start": None}.get(moment, first)
    if "rollout" in moment:
        assert first == 2  # killed in the fourth iteration: the third is done again
    assert_same_weights(weights(whole, 5), weights(folder, 5))
    assert timeless(lines(folder))[1:] == timeless(lines(whole))[1:]
    for step in range(1, 6):
        name = f"trajectories/{step:06d}.jsonl"
        expected, other = (list(read_trajectories(root / name)) for root in (whole, folder))
        assert [t.turns for t in sorted(expected, key=lambda t: t.id)] == [
            t.turns for t in sorted(other, key=lambda t: t.id)
        ]


class Killed(BaseException):
    """Ends a run as SIGKILL does, with nothing saved."""


def cut(path):
    path.write_bytes(path.read_bytes()[:-40])


@pytest.mark.parametrize(
    ("change", "played"),
    [
        pytest.param(lambda files: None, [5], id="whole"),
        pytest.param(lambda files: cut(files / "000004.jsonl"), [4, 5], id="cut"),
        pytest.param(lambda files: (files / "000003.jsonl").unlink(), [3, 4, 5], id="the first is lost"),
        pytest.param(lambda files: (files / "000003.jsonl").write_text("[]\n"), [3, 4, 5], id="damaged"),
    ],
)
def test_finished_rollouts_outlive_a_run_that_is_killed_in_an_update(finished, tmp_path, monkeypatch, change, played):
    """The run dies in the update of iteration 4, and resumes after iteration 2."""
    whole, _ = finished
    folder, calls = tmp_path / "run", []
    update, play = Learner.update, rollouts.rollout

    def die(self, batch, objective, plan):
        if plan.version == 3:
            raise Killed
        return update(self, batch, objective, plan)

    def noted(agent, sampler, *args, **options):
        calls.append(sampler.version + 1)
        return play(agent, sampler, *args, **options)

    with monkeypatch.context() as patch:
        patch.setattr(Learner, "update", die)
        with pytest.raises(Killed):
            train(make_run(folder))
    assert [path.name for path in sorted((folder / "groups").iterdir())] == ["000003.jsonl", "000004.jsonl"]
    change(folder / "groups")
    monkeypatch.setattr(rollouts, "rollout", noted)
    assert train(make_run(folder), resume=True).finished
    assert calls == played
    assert_same_weights(weights(whole, 5), weights(folder, 5))
    assert timeless(lines(folder))[1:] == timeless(lines(whole))[1:]
    assert not (folder / "groups").exists()


def test_a_torn_checkpoint_costs_only_what_came_after_the_one_before(finished, tmp_path):
    whole, _ = finished
    folder = tmp_path / "torn"
    train(make_run(folder, "evaluation.episodes=0"))
    (folder / "checkpoints/000005/trainer.pt").write_bytes(b"torn")
    events = []
    train(make_run(folder, "evaluation.episodes=0"), resume=True, on_event=events.append)
    assert any("000005 is damaged: trainer.pt has 4 bytes" in event.get("text", "") for event in events)
    assert [event["iteration"] for event in events if event["phase"] == "train"] == [5]
    assert_same_weights(weights(whole, 5), weights(folder, 5))


@pytest.mark.parametrize("where", ["rollout", "update"])
def test_ctrl_c_ends_at_a_boundary_and_goes_on(finished, tmp_path, monkeypatch, where):
    whole, _ = finished
    folder, pressed = tmp_path / "stopped", []
    real = Learner.update

    def press(condition):
        if condition and not pressed:
            pressed.append(True)
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.05)

    def update(*args):
        result = real(*args)
        press(where == "update" and args[3].seed and len(updates) == 2)
        updates.append(1)
        return result

    updates = []
    monkeypatch.setattr(Learner, "update", update)
    events = []

    def on_event(event):
        events.append(event)
        press(where == "rollout" and event.get("what") == "rollout" and len(updates) == 3 and event["done"] == 2)

    outcome = train(make_run(folder), on_event=on_event)
    assert (outcome.finished, outcome.step) == (False, 3)
    assert pressed
    assert "interrupted" in events[-1]["text"]
    assert Checkpoints(folder / "checkpoints").steps() == [0, 2, 3]
    assert train(make_run(folder), resume=True).finished
    assert_same_weights(weights(whole, 5), weights(folder, 5))


def test_a_folder_belongs_to_one_run(finished):
    folder, _ = finished
    with pytest.raises(RunExists, match="already holds a run: continue it with --resume"):
        train(make_run(folder))
    with pytest.raises(ConfigError, match=r"seed, train\.lr changed since"):
        train(make_run(folder, "seed=9", "train.lr=0.5"), resume=True)
    with pytest.raises(RunExists, match="no run to resume"):
        train(make_run(folder / "nothing"), resume=True)


@pytest.mark.parametrize("resume", [False, True])
def test_what_is_left_of_a_run_is_neither_gone_on_with_nor_written_over(tmp_path, resume):
    (tmp_path / "metrics.jsonl").write_text("{}\n")
    with pytest.raises(RunExists, match=r"holds metrics\.jsonl but no run\.toml; choose another output"):
        train(make_run(tmp_path), resume=resume)


def test_a_finished_run_stays_as_it_is(finished, tmp_path):
    folder = shutil.copytree(finished[0], tmp_path / "run")  # others read the metrics, to which a line is added
    train(make_run(folder), resume=True)  # writes the folder's new name
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file() and path.name != "metrics.jsonl"}
    told = lines(folder)
    assert train(make_run(folder), resume=True).step == 5
    assert {path: path.read_bytes() for path in before} == before
    assert lines(folder)[: len(told)] == told


def test_a_finished_run_can_be_made_longer(tmp_path):
    short = make_run(tmp_path / "a", "train.iterations=1")
    train(short)
    outcome = train(make_run(tmp_path / "a", "train.iterations=2"), resume=True)
    assert (outcome.step, outcome.finished) == (2, True)
    whole = make_run(tmp_path / "b", "train.iterations=2")
    train(whole)
    assert_same_weights(weights(tmp_path / "a", 2), weights(tmp_path / "b", 2))


HOLD = """
import sys, time
from pathlib import Path
from turncredit.agents.files.folder_lock import locked
with locked(Path(sys.argv[1]), "training in"):
    print("held", flush=True)
    time.sleep(60)
"""


def test_two_processes_cannot_train_in_one_folder(tmp_path):
    child = subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path / "run")], stdout=subprocess.PIPE, text=True)
    assert child.stdout.readline() == "held\n"
    try:
        with pytest.raises(FolderInUse, match=rf"process {child.pid} is already training in"):
            train(make_run(tmp_path / "run"))
    finally:
        child.kill()
        child.wait()
    train(make_run(tmp_path / "run", "train.iterations=0", "evaluation.episodes=0"))


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (
            ["policy.model=nowhere"],
            r"policy.model: expected a Hugging Face folder or an id such as .*'nowhere' does not exist",
        ),
        (["policy.new.heads=3"], r"policy.new.hidden must be a multiple of 2 \* policy.new.heads.*hidden=32, heads=3"),
        (["agent.prompt={name='conversation', history=3}"], "'conversation' has no option 'history'"),
        (["objective.aggregation.norm=5.0"], "objective.aggregation.norm has no effect"),
        (["credit.options.gama=0.9"], "gama.*gamma"),
        (["credit.method=gigppo"], "gigpo"),
        (["objective.aggregation=token_mean"], "token-mean"),
        (["env.kwargs.lenghts=[3]"], "lengths"),
        (['env.id="toys/Coridor-v0"'], "Corridor"),
        (["imitation.demonstrator=exprt"], "expert"),
        (["imitation.episodes=0"], "needs demonstrations to train its tokenizer"),
        (["agent.parser=bear"], "bare"),
        (["policy.device=tpu"], "policy.device"),
        (["sampler.engine=transfromers"], "did you mean 'transformers'"),
        (["sampler.url=http://127.0.0.1:1"], "sampler.url has no effect"),
        (["sampler.options.graph=true"], "unknown option 'graph'.*'graphs'"),
        (["sampler.engine=openai", "sampler.options={tokens=true, retries=-1}"], "'retries'.*got -1"),
        (["sampler.engine=openai", "sampler.options.tokens=true", "sampler.url=localhost:1"], "like http://"),
        (["agent.top_p=0.9"], "agent.top_p = 0.9 samples from a truncated distribution.* set agent.top_p to 1 for"),
        (["agent.top_p=0.9", 'objective.old_logprobs="recomputed"'], "agent.top_p = 0.9 samples from a truncated"),
        (["agent.top_k=20"], "agent.top_k"),  # no key of a run: `turncredit eval` has it
        (
            ["sampler.engine=openai", "sampler.options={tokens=true, body={top_k=20}, omit=['temperature']}"],
            "sampler.options changes temperature, top_k of the requests",
        ),
        (
            ["sampler.engine=openai", "sampler.options={tokens=true, body={bad_words=['a'], min_tokens=2}}"],
            "sampler.options changes bad_words, min_tokens of the requests",
        ),
    ],
)
def test_what_cannot_be_is_said_before_anything_is_written(tmp_path, overrides, message):
    with pytest.raises(Exception, match=message) as caught:
        train(make_run(tmp_path / "run", *overrides))
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "run").exists()


def test_a_run_that_trains_on_no_samples_may_truncate_them(tmp_path):
    assert prepare(make_run(tmp_path / "run", "agent.top_p=0.9", "train.iterations=0")).agent(None).top_p == 0.9


def test_a_folder_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="cannot be written"):
        train(make_run(tmp_path / "file" / "run"))


def test_nothing_to_imitate(tmp_path):
    with pytest.raises(NoDemonstrations, match="none succeeded"):
        train(make_run(tmp_path / "run", "agent.max_turns=1", "imitation.demonstrator.noise=0.0"))


def test_any_sampler_can_demonstrate(tmp_path):
    chosen = {"episodes": 10, "demonstrator": "random", "won_only": False}
    table = TABLE | {"imitation": chosen, "train": {"iterations": 0}, "evaluation": {"episodes": 0}}
    events = []
    train(Run.parse(table, [f'output="{tmp_path / "run"}"']), on_event=events.append)
    assert next(event for event in events if "demonstrations" in event)["demonstrations"] == 10
    with pytest.raises(ConfigError, match="noise has no effect: the demonstrations come from a file or a model"):
        train(Run.parse(table, [f'output="{tmp_path / "other"}"', "imitation.demonstrator.noise=0.1"]))


def test_an_engine_without_token_ids_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="returns no token ids"):
        train(make_run(tmp_path / "run", f"sampler.engine={__name__}:no_ids"))


def no_ids(settings):
    return Random()


class Jammed(toys.corridor.Corridor):
    """The corridor, which may refuse to begin."""

    jammed = False

    def reset(self, **options):
        if self.jammed:
            raise RuntimeError("the door is jammed")
        return super().reset(**options)


def test_when_every_episode_fails_the_run_ends_and_can_go_on(tmp_path, monkeypatch):
    register("toys/Jammed-v0", f"{__name__}:Jammed")
    overrides = ['env.id="toys/Jammed-v0"', "train.iterations=2", "evaluation.episodes=0"]

    def jam(event):
        if event["phase"] == "train":
            monkeypatch.setattr(Jammed, "jammed", True)

    with pytest.raises(TrainingError, match=r"every episode of iteration 2 failed \(.*door is jammed"):
        train(make_run(tmp_path / "run", *overrides), on_event=jam)
    assert Checkpoints(tmp_path / "run/checkpoints").steps() == [0, 1]
    monkeypatch.setattr(Jammed, "jammed", False)
    assert train(make_run(tmp_path / "run", *overrides), resume=True).step == 2


def test_stored_trajectories_and_a_stored_policy(finished, tmp_path):
    """A second run begins with the first one's model, imitates what it played, and keeps near it."""
    folder, _ = finished
    table = {key: value for key, value in TABLE.items() if key not in {"policy", "imitation"}}
    table |= {
        "policy": {"model": str(folder / "checkpoints/000005"), "context": 400},
        "imitation": {
            "episodes": 5,
            "demonstrator": str(folder / "trajectories/000001.jsonl"),
            "won_only": False,
            "lr": 1e-4,
        },
        "objective": {"kl": 0.1, "old_logprobs": "recomputed", "entropy": 0.001, "kl_estimator": "k3+"},
        "agent": {**TABLE["agent"], "prompt": {"name": "window", "history": 1}},
    }
    events = []
    train(Run.parse(table, [f'output="{tmp_path / "run"}"', "train.iterations=2"]), on_event=events.append)
    trained = [event for event in events if event["phase"] == "train"]
    assert trained[0]["gap"] < 1e-6  # recomputed by the update's own computation, in float32
    assert trained[0]["kl"] == pytest.approx(0.0, abs=0.01)
    assert trained[-1]["kl"] >= 0
    assert (tmp_path / "run/reference").is_dir()


@pytest.mark.parametrize(("overrides", "count"), [([], 1), (["evaluation.env.split=held_out"], 0)])
def test_a_panel_of_the_split_that_is_trained_on_is_remarked(tmp_path, overrides, count):
    table = {
        "output": str(tmp_path),
        "env": {"kwargs": {"level": "tiny"}},
        "imitation": {"episodes": 1},
        "train": {"distinct_tasks": 2},
        "evaluation": {"episodes": 2},
    }
    remarks = prepare(Run.parse(table, overrides)).remarks()
    assert len(remarks) == count
    assert all("tasks of the training split" in text for text in remarks)


@pytest.mark.parametrize(
    ("overrides", "count"),
    [
        (["imitation.episodes=6000"], 1),
        (["imitation.episodes=6000", "train.distinct_tasks=6000"], 0),
        (["imitation.episodes=6000", "imitation.distinct_tasks=6000"], 0),
        (["imitation.episodes=4000"], 0),
        (["imitation.episodes=6000", f'env.id="{ENV}"', "env.kwargs={lengths=[3]}"], 0),  # it has no more
        (["imitation.episodes=6000", 'imitation.demonstrator="played.jsonl"'], 0),
    ],
)
def test_many_demonstrations_of_few_tasks_are_remarked(tmp_path, monkeypatch, overrides, count):
    monkeypatch.chdir(tmp_path)
    Path("played.jsonl").touch()
    table = {"output": str(tmp_path), "env": {"kwargs": {"level": "tiny"}}, "evaluation": {"episodes": 0}}
    remarks = prepare(Run.parse(table, overrides)).remarks()
    assert len(remarks) == count
    assert all("train.distinct_tasks=6000" in text for text in remarks)


def test_an_environment_whose_listing_takes_no_count_is_not_remarked_on(tmp_path, monkeypatch):
    every = toys.corridor.Corridor.task_ids
    monkeypatch.setattr(toys.corridor.Corridor, "task_ids", lambda self: every(self))
    assert prepare(make_run(tmp_path, "imitation.episodes=6000", "evaluation.episodes=0")).remarks() == []


@pytest.mark.parametrize(
    ("fast", "dtype", "count"), [(False, "bfloat16", 1), (True, "bfloat16", 0), (False, "float32", 0)]
)
def test_bfloat16_on_a_cpu_without_it_is_remarked(tmp_path, monkeypatch, fast, dtype, count):
    monkeypatch.setattr(run_remarks, "multiplies_bfloat16", lambda: fast)
    remarks = prepare(make_run(tmp_path, f"policy.dtype={dtype}")).remarks()
    assert sum("no instructions for bfloat16" in text for text in remarks) == count


@pytest.mark.parametrize(
    ("words", "count"),
    [
        ([], 0),
        (["train.staleness=1"], 1),
        (["train.staleness=1", 'credit.options.unit="turn"'], 0),
        (["train.staleness=1", "credit.method=bnpo", "credit.options={}"], 0),  # has no such option
        (["train.staleness.spare_groups=1"], 0),  # hardly any turn is older
    ],
)
def test_older_samples_with_unbalanced_turns_are_remarked(tmp_path, words, count):
    remarks = prepare(make_run(tmp_path, *words)).remarks()
    assert len([text for text in remarks if "credit.options.unit" in text]) == count


def test_a_run_says_its_remarks_at_its_beginning(tmp_path, monkeypatch):
    monkeypatch.setattr(parts_module, "remarks", lambda run, _: [f"a remark on {run.name}"])
    train(make_run(tmp_path, "train.iterations=0", "evaluation.episodes=0"))
    assert lines(tmp_path)[1] == {"phase": "note", "iteration": 0, "text": "a remark on run"}


def test_a_chat_template_that_does_not_fit_is_refused_before_anything_is_played(finished, tmp_path):
    folder, _ = finished
    model, tokenizer = load_model(folder / "checkpoints/000005"), load_tokenizer(folder / "checkpoints/000005")
    tokenizer.chat_template = "{{ messages | length }} messages" + CHATML  # rewrites how it began
    save_policy(model, tokenizer, tmp_path / "policy")
    table = {**TABLE, "policy": {"model": str(tmp_path / "policy"), "context": 400}}
    events = []
    with pytest.raises(PromptError, match="rewrites earlier turns"):
        train(Run.parse(table, [f'output="{tmp_path / "run"}"']), on_event=events.append)
    assert [event["phase"] for event in events] == ["setup"]


def test_a_resumed_run_continues_its_loggers(tmp_path):
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    quick = ('loggers=["tensorboard"]', "evaluation.episodes=0", "checkpoints.every=1")
    train(make_run(tmp_path / "run", *quick, "train.iterations=1"))
    time.sleep(1.1)  # the names of event files are whole seconds
    train(make_run(tmp_path / "run", *quick, "train.iterations=2"), resume=True)
    points = EventAccumulator(str(tmp_path / "run" / "tensorboard")).Reload().Scalars("train/success")
    assert [point.step for point in points] == [1, 2]
    assert set(json.loads((tmp_path / "run" / "loggers.json").read_text())) == {"tensorboard"}


def test_the_revision_of_a_model_from_the_hub_is_recorded(finished, tmp_path, monkeypatch):
    folder, _ = finished
    model = ModelFolder(folder / "checkpoints/000005", "org/name@v1", "c" * 40)
    for module in ("learner.policy", "imitation.warmstart"):
        monkeypatch.setattr(f"turncredit.training.{module}.find_model", lambda name: model)
    table = {
        **TABLE,
        "policy": {"model": "org/name@v1", "context": 400},
        "imitation": {},
        "output": str(tmp_path / "r"),
    }
    train(Run.parse(table, ["train.iterations=0", "evaluation.episodes=0"]))
    assert next(line for line in lines(tmp_path / "r") if line["phase"] == "setup")["revision"] == "c" * 40
    meta = json.loads((tmp_path / "r" / "meta.json").read_text())
    assert meta["policy"] == {"name": "org/name@v1", "revision": "c" * 40}


def test_a_run_with_a_stop_string_imitates_and_samples_it(tmp_path):
    folder = tmp_path / "run"
    train(make_run(folder, 'agent.stop=["\\n"]', "imitation.epochs=3", "train.iterations=1", "evaluation.episodes=0"))
    tokenizer = load_tokenizer(Checkpoints(folder / "checkpoints").path(1))
    (stored,) = (folder / "trajectories").iterdir()
    trajectories = list(read_trajectories(stored))
    ended = [turn for episode in trajectories for turn in episode.turns if turn.text.endswith("\n")]
    assert ended, "demonstrations ended with the stop string, so the policy samples it"
    for turn in ended:
        assert tokenizer.decode(turn.response) == turn.text
        assert turn.action is None or turn.action == turn.text.strip()
    for episode in trajectories:
        for before, after in pairwise(episode.turns):
            added = tokenizer.decode(after.prompt[len(before.prompt) + len(before.response) :])
            assert added.startswith("\n") != before.text.endswith("\n"), "the line break is written once"


def test_two_processes_train_repeatably_and_go_on_after_an_interruption(tmp_path):
    words = ("processes=2", "train.iterations=3", "evaluation.episodes=2")
    whole, again = (make_run(tmp_path / name, *words) for name in ("whole", "again"))
    train(whole)
    folder = again.folder

    def interrupt(event):
        if event["phase"] == "tick" and event["what"] == "rollout" and event["done"] == 4 and checkpoints(folder):
            os.kill(os.getpid(), signal.SIGINT)

    def checkpoints(folder):
        return [path for path in (folder / "checkpoints").glob("0*") if int(path.name) >= 2]

    assert not train(again, on_event=interrupt).finished
    assert train(again, resume=True).finished
    assert_same_weights(weights(folder, 3), weights(whole.folder, 3))
    mistakes = [event for event in lines(folder) if event["phase"] == "imitation" and "demonstrations" in event]
    assert mistakes[0]["demonstrations"] > 0


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (["threads=2"], "each process needs threads = 1"),
        (["sampler.engine=vllm"], "sampler.engine = 'vllm' samples elsewhere"),
        (["env.deadline=5"], "env.deadline > 0 runs environments in threads"),
        (["env.workers=2"], "env.workers > 0 runs environments in other processes"),
        (["train.staleness=1"], "asynchronous rollouts go on beside the update"),
        (["cluster.address=local"], "cluster.address starts its own processes"),
    ],
)
def test_processes_are_refused_where_nothing_can_be_forked(changes, words, tmp_path):
    with pytest.raises(ConfigError, match=words):
        prepare(make_run(tmp_path / "run", "processes=2", *changes))
