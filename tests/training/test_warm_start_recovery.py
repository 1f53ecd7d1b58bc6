"""A warm start that is interrupted or killed goes on where it was, and ends with the weights of one that was not."""

import copy
import json
import math
import os
import re
import shutil
import signal
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
import toys.colours
import toys.corridor
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file
from toys.training_helpers import conversation, tiny_llama, trajectory, weights

import turncredit
from turncredit.ablation.plan import plan
from turncredit.agents.errors import StoreError
from turncredit.agents.files.trajectory_files import read_trajectories
from turncredit.agents.trajectory import Group
from turncredit.training import ConfigError, Run, train
from turncredit.training.audit import audit
from turncredit.training.config.sections import ImitationSection
from turncredit.training.errors import CheckpointError
from turncredit.training.imitation import imitation as imitation_module
from turncredit.training.imitation import imitation_run
from turncredit.training.imitation.imitation import Imitation, demonstration_batch
from turncredit.training.learner.learner import Learner
from turncredit.training.learner.policy import build_policy, save_policy
from turncredit.training.run_folder import checkpoint as checkpoint_module
from turncredit.training.run_folder import warm_start_recovery
from turncredit.training.run_folder.checkpoint import Checkpoints
from turncredit.training.run_folder.demonstration_file import DemonstrationFile
from turncredit.training.run_folder.paths import find_checkpoint, trajectory_file
from turncredit.training.run_folder.warm_start_progress import find_progress

torch.set_num_threads(1)

TABLE = {
    "threads": 1,
    "trajectory_format": ".jsonl",
    "env": {"id": f"toys.corridor:{toys.corridor.ID}", "kwargs": {"lengths": [3, 4]}},
    "agent": {"max_turns": 9, "max_tokens": 8},
    "policy": {"new": {"vocab": 280, "hidden": 16, "layers": 1, "heads": 1}, "context": 400},
    "imitation": {
        "episodes": 12,
        "epochs": 2,
        "lr": 5e-3,
        "batch_tokens": 400,
        "demonstrator": {"noise": 0.3},
        "hinted": 0.3,
        "observation_weight": 0.1,
    },
    "train": {"iterations": 1, "groups": 2, "group_size": 2},
    "checkpoints": {"every": 1},
    "evaluation": {"episodes": 0},
}


def make_run(folder, *overrides, table=TABLE):
    return Run.parse(table, [f'output="{folder}"', *overrides])


def final(folder, step=1):
    return load_file(Checkpoints(folder / "checkpoints").path(step) / "model.safetensors")


def lines(folder):
    events = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [
        {key: value for key, value in event.items() if "second" not in key and not key.endswith("_memory")}
        for event in events
    ]


def same_run(folder, whole, step=1):
    first, other = final(folder, step), final(whole, step)
    assert first.keys() == other.keys()
    assert all(torch.equal(first[name], other[name]) for name in first)
    assert lines(folder)[1:] == lines(whole)[1:]  # the first one names the folder
    assert not (folder / "imitation").exists()


class Killed(BaseException):
    """Ends a run as SIGKILL does, with nothing saved."""


def press():
    os.kill(os.getpid(), signal.SIGINT)


def kill():
    raise Killed


def save_every_step(patch):
    patch.setattr(warm_start_recovery, "INTERVAL", 0.0)
    patch.setattr(warm_start_recovery, "SHARE", 1e9)
    patch.setattr(imitation_run, "PACE", 0.0)


def at(moment, act, *, number=1):
    """Return a listener that acts at an event, or the second one, such as "tick imitation 2" or "begin tokenizing"."""
    left = number

    def listen(event):
        nonlocal left
        words = " ".join(str(event.get(key, "")) for key in ("phase", "what", "text", "done"))
        left -= " ".join(words.split()).startswith(moment)
        if left == 0:
            left = -1
            act()

    return listen


def resumed(run, **options):
    """Resume a run, and return its events."""
    events = []
    assert train(run, resume=True, on_event=events.append, **options).finished
    return events


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A run that nothing has interrupted, and the number of its optimizer steps of imitation."""
    folder, ticks = tmp_path_factory.mktemp("whole") / "run", []
    train(make_run(folder), on_event=lambda event: ticks.append(event) if event.get("what") == "imitation" else None)
    assert not (folder / "imitation").exists()
    assert len(ticks) >= 10
    return folder, len(ticks)


# -- of the optimizer steps --


def batch_of(count=10):
    rng = np.random.default_rng(0)
    groups = [Group("t", (trajectory(conversation(rng, 2), name=f"t#{k}@0", won=True),)) for k in range(count)]
    return demonstration_batch(groups, None, context=1000, observations=0.1)


def poison(learner, steps):
    """Let the loss of some steps be infinite."""
    calls, backward = iter(range(10**6)), imitation_module._accumulate

    def accumulate(*args):
        loss = backward(*args)
        return math.inf if next(calls) in steps else loss

    return accumulate


@settings(max_examples=6, deadline=None)
@given(
    st.sets(st.integers(0, 40), max_size=4), st.sampled_from([0.0, 3.6, 3.9]), st.sets(st.integers(0, 40), max_size=3)
)
def test_optimizer_steps_may_be_done_in_any_parts_by_learners_that_know_the_state_alone(stops, target, bad):
    section = ImitationSection(epochs=4, lr=1e-2, batch_tokens=1, target_loss=target)
    batch = batch_of()

    def run(parts):
        events, learner, state = [], Learner(tiny_llama(), None), None
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(imitation_module, "_accumulate", poison(learner, bad))
            for part in parts:
                imitation = Imitation(learner, batch, section, seed=3)
                if state is not None:
                    learner.load_state(state[0])
                    imitation.load_state(*json.loads(json.dumps(state[1])))
                imitation.advance(part, events.append)
                state = copy.deepcopy(learner.state()), (imitation.step, imitation.state())
                stats = imitation.end()
                model, learner = learner.model, Learner(copy.deepcopy(learner.model), None)
        stats.pop("seconds")
        return events, stats, torch.cat([p.detach().flatten() for p in model.parameters()])

    cuts = sorted({0, *stops, 50})
    events, stats, trained = run([end - start for start, end in pairwise(cuts)])
    wanted_events, wanted_stats, wanted = run([50])
    assert [str(event) for event in events] == [str(event) for event in wanted_events]
    assert stats == pytest.approx(wanted_stats, rel=0, abs=0, nan_ok=True)
    assert torch.equal(trained, wanted)


def test_the_learner_has_its_own_optimizer_again():
    learner = Learner(tiny_llama(), None, lr=0.5)
    own = learner.optimizer
    imitation = Imitation(learner, batch_of(), ImitationSection(batch_tokens=1))
    imitation.advance(2)
    assert learner.optimizer is not own
    imitation.end()
    assert learner.optimizer is own
    assert not own.state


def test_a_second_interruption_in_the_middle_of_a_step_leaves_nothing_to_save(monkeypatch):
    learner = Learner(tiny_llama(), None)
    imitation = Imitation(learner, batch_of(), ImitationSection(batch_tokens=1))
    imitation.advance(1)
    step = learner.optimizer.step

    def cut(*args):
        step(*args)
        press()
        press()

    monkeypatch.setattr(learner.optimizer, "step", cut)
    with pytest.raises(KeyboardInterrupt):
        imitation.advance(1)
    assert (imitation.step, imitation.whole) == (1, False)


def test_one_interruption_waits_for_the_end_of_an_optimizer_step_and_not_for_a_gradient(monkeypatch):
    learner = Learner(tiny_llama(), None)
    imitation = Imitation(learner, batch_of(), ImitationSection(batch_tokens=1))
    step = learner.optimizer.step
    monkeypatch.setattr(learner.optimizer, "step", lambda *args: (press(), step(*args)))
    with pytest.raises(KeyboardInterrupt):
        imitation.advance(5)
    assert (imitation.step, imitation.whole) == (1, True)
    monkeypatch.setattr(learner.optimizer, "step", step)
    before = weights(learner)
    monkeypatch.setattr(imitation_module, "clip_gradient", lambda *_: press())
    with pytest.raises(KeyboardInterrupt):
        imitation.advance(5)
    assert (imitation.step, imitation.whole) == (1, True)
    assert all((before[name] == values).all() for name, values in weights(learner).items())


# -- of runs --


@pytest.mark.parametrize(
    ("moment", "progress"),
    [
        ("tick demonstrations 1", r"\d+ demonstrations?"),
        ("tick demonstrations 7", r"\d+ demonstrations"),
        ("begin tokenizing", "12 demonstrations"),
        ("tick imitation 1", "step 1 of {steps}"),
        ("tick imitation 4", "step 4 of {steps}"),
        ("tick imitation {last}", "step {last} of {steps}"),
        ("tick imitation {steps}", "step {steps} of {steps}"),
        ("model", "step {steps} of {steps}"),  # after its last event, before the first checkpoint
    ],
)
def test_interrupted_anywhere_it_ends_with_the_weights_and_metrics_of_one_that_was_not(
    whole, tmp_path, moment, progress
):
    folder, steps = whole
    names = {"steps": steps, "last": steps - 1}
    run = make_run(tmp_path / "run")
    outcome = train(run, on_event=at(moment.format(**names), press))
    assert (outcome.finished, outcome.step, outcome.checkpoint) == (False, 0, None)
    note = lines(run.folder)[-1]["text"]
    expected = progress.format(**names)
    assert re.fullmatch(f"interrupted; --resume continues the warm start from {expected}", note), note
    events = resumed(run)
    begun = [event["text"] for event in events if event["phase"] == "begin"]
    if "step" in progress:
        assert f"continuing the warm start from {expected}" in begun
        ticks = [event["done"] for event in events if event.get("what") == "imitation"]
        assert ticks == list(range(int(expected.split()[1]) + 1, steps + 1))
        assert not any(event.get("what") == "demonstrations" for event in events)
    same_run(run.folder, folder)


def test_interrupted_again_and_again_it_still_ends_the_same(whole, tmp_path):
    run, times = make_run(tmp_path / "run"), 0
    train(run, on_event=at("tick demonstrations 3", press))
    while not train(run, resume=True, on_event=at("tick imitation", press, number=4)).finished:
        times += 1
    assert times == whole[1] // 4
    same_run(run.folder, whole[0])


@pytest.mark.parametrize("saved", [True, False])
@pytest.mark.parametrize("moment", ["tick demonstrations 5", "tick imitation 5", "model"])
def test_killed_anywhere_it_ends_the_same(whole, tmp_path, monkeypatch, moment, saved):
    """With a checkpoint after every optimizer step, and with none."""
    if saved:
        save_every_step(monkeypatch)
    run = make_run(tmp_path / "run")
    with pytest.raises(Killed):
        train(run, on_event=at(moment, kill))
    last = {"tick imitation 5": 4, "model": whole[1]}.get(moment, 0)
    assert Checkpoints(run.folder / "imitation").steps() == ([last - 1, last] if last and saved else [])
    resumed(run)
    same_run(run.folder, whole[0])


def test_killed_while_a_checkpoint_is_written_it_goes_on_from_the_one_before(whole, tmp_path, monkeypatch):
    run, write = make_run(tmp_path / "run"), checkpoint_module.save_weights

    def torn(model, folder):
        write(model, folder)
        if Path(folder).name == ".000006.part":
            raise Killed

    with monkeypatch.context() as patch:
        save_every_step(patch)
        patch.setattr(checkpoint_module, "save_weights", torn)
        with pytest.raises(Killed):
            train(run)
    assert (run.folder / "imitation/.000006.part").exists()
    (run.folder / "imitation/000005/trainer.pt").write_bytes(b"torn")
    events = resumed(run)
    assert any("000005 is damaged" in event.get("text", "") for event in events)
    assert "continuing the warm start from step 4 of " in " ".join(event.get("text", "") for event in events)
    assert not (run.folder / "imitation").exists()
    assert all(torch.equal(final(whole[0])[name], tensor) for name, tensor in final(run.folder).items())


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(["processes=2"], id="processes"),
        pytest.param(["imitation.target_loss=4.5"], id="target"),
        pytest.param(['stages=[{until={iteration=1}}, {set={"train.lr"=1e-4}}]', "train.iterations=2"], id="stages"),
        pytest.param(["imitation.loss=otr", "imitation.won_only=false", "train.micro_batch.tokens=60"], id="otr"),
        pytest.param(["train.iterations=0"], id="alone"),
        pytest.param(['imitation.demonstrator={name="random"}', "imitation.won_only=false"], id="a sampler"),
    ],
)
def test_other_warm_starts_go_on_as_well(tmp_path, words):
    calm, run = (make_run(tmp_path / name, *words) for name in ("calm", "run"))
    train(calm)
    train(run, on_event=at("tick demonstrations 2", press))
    assert not train(run, resume=True, on_event=at("tick imitation 2", press)).finished
    resumed(run)
    same_run(run.folder, calm.folder, run.train.iterations)


def test_an_adapter_goes_on_as_well(tmp_path):
    pytest.importorskip("peft")
    texts = ["You are in a corridor of 4 rooms, in room 1. go left, go right, wait", "go right\ngo left"] * 3
    save_policy(*build_policy(texts, vocab=280, hidden=16, layers=1, heads=1, context=400), tmp_path / "base")
    policy = {"model": str(tmp_path / "base"), "context": 400, "lora": {"rank": 2}}
    table = {**TABLE, "policy": policy, "objective": {"kl": 0.05}}
    calm, run = (make_run(tmp_path / name, table=table) for name in ("calm", "run"))
    train(calm)
    train(run, on_event=at("tick imitation 3", press))
    assert (run.folder / "imitation/000003/adapter_model.safetensors").is_file()
    resumed(run)
    for name in ("checkpoints/000001", "reference/000000"):
        first, other = (load_file(one.folder / name / "adapter_model.safetensors") for one in (run, calm))
        assert all(torch.equal(first[key], other[key]) for key in other)
    assert lines(run.folder)[1:] == lines(calm.folder)[1:]


def test_a_policy_that_sees_goes_on_as_well(tmp_path):
    vision = {"vocab": 280, "hidden": 16, "layers": 1, "heads": 1, "vision": {"size": [24, 36], "hidden": 8}}
    table = {
        **TABLE,
        "env": {"id": f"toys.colours:{toys.colours.ID}"},
        "agent": {"max_turns": 3, "max_tokens": 6, "keep_images": 1},
        "policy": {"new": vision, "context": 200},
        "imitation": {"episodes": 6, "epochs": 2, "lr": 5e-3, "batch_tokens": 100},
    }
    calm, run = (make_run(tmp_path / name, table=table) for name in ("calm", "run"))
    train(calm)
    train(run, on_event=at("tick demonstrations 2", press))
    assert any((run.folder / "imitation/images").rglob("*.png"))
    assert not train(run, resume=True, on_event=at("tick imitation 2", press)).finished
    resumed(run)
    same_run(run.folder, calm.folder)


def test_arms_begin_from_a_shared_warm_start_that_was_interrupted(tmp_path):
    starts = []
    for name, listener in (("calm", None), ("run", at("tick imitation 3", press))):
        planned = plan(make_run(tmp_path / name), ["credit=grpo,gigpo", "seeds=[0]"], tmp_path / name)
        run = planned.warm_start(0)
        if not train(run, on_event=listener).finished:
            resumed(run)
        starts.append(final(run.folder, 0))
    assert all(torch.equal(starts[0][key], starts[1][key]) for key in starts[0])


# -- what is refused, and what is said --


@pytest.fixture
def interrupted(tmp_path):
    run = make_run(tmp_path / "run")
    train(run, on_event=at("tick imitation 3", press))
    return run


def test_other_keys_are_refused_once_something_is_imitated(interrupted, whole):
    for word in ("imitation.lr=0.1", "imitation.epochs=9", "seed=5", "train.lr=0.5"):
        with pytest.raises(
            ConfigError, match=rf"{word.split('=')[0]} changed since the warm start .* at step 3 of \d+"
        ):
            train(make_run(interrupted.folder, word), resume=True)
    events = resumed(make_run(interrupted.folder, "checkpoints.keep=1"))
    assert any(event["phase"] == "begin" for event in events)
    same_run(interrupted.folder, whole[0])


def test_until_something_is_imitated_only_keys_of_the_demonstrations_are_refused(tmp_path):
    run = make_run(tmp_path / "run")
    train(run, on_event=at("tick demonstrations 5", press))
    for word in ("imitation.hinted=0.0", "seed=5", "imitation.demonstrator.noise=0.1", "agent.max_turns=5"):
        with pytest.raises(ConfigError, match=rf"{word.split('=')[0]} changed .* at \d+ demonstrations; continue it"):
            train(make_run(run.folder, word), resume=True)
    other = "imitation.epochs=2"
    resumed(make_run(run.folder, other))
    train(make_run(tmp_path / "calm", other))
    same_run(run.folder, tmp_path / "calm")


def test_a_file_of_demonstrations_may_not_change(tmp_path):
    file = tmp_path / "played.jsonl"
    played = make_run(tmp_path / "first")
    train(played, on_event=at("tick imitation 1", press))
    shutil.copy(played.folder / "imitation/demonstrations.jsonl", file)
    table = {**TABLE, "imitation": {"episodes": 12, "batch_tokens": 400, "demonstrator": str(file)}}
    calm, run = (make_run(tmp_path / name, table=table) for name in ("calm", "run"))
    train(calm)
    train(run, on_event=at("tick imitation 2", press))
    assert not (run.folder / "imitation/demonstrations.jsonl").exists()
    stored = file.read_bytes()
    file.write_bytes(b"".join(stored.splitlines(keepends=True)[::-1]))
    with pytest.raises(CheckpointError, match="was begun with other demonstrations than there are now"):
        train(run, resume=True)
    file.write_bytes(stored)
    resumed(run)
    same_run(run.folder, calm.folder)


def test_an_unfinished_warm_start_is_no_policy_and_says_how_far_it_is(interrupted):
    folder = interrupted.folder
    sentence = rf"holds no checkpoint yet: its warm start is at step 3 of \d+ \(turncredit train {folder} --resume\)"
    with pytest.raises(CheckpointError, match=sentence):
        find_checkpoint(folder)
    with pytest.raises(CheckpointError, match=sentence):
        turncredit.load_agent(folder)
    with pytest.raises(StoreError, match=r"holds no trajectories; its warm start is at step 3 of \d+"):
        trajectory_file(folder)
    report = audit(folder)
    assert report.passed
    assert any("the warm start is at step 3 of" in note for note in report.notes)
    (folder / "imitation/000003/model.safetensors").write_bytes(b"")
    assert not audit(folder).passed
    with pytest.raises(CheckpointError, match=r"no intact checkpoint in .*imitation; .*000003 is damaged"):
        train(interrupted, resume=True)


def test_what_nobody_played_is_begun_again_with_other_keys(tmp_path):
    run = make_run(tmp_path / "run")
    train(run, on_event=at("tick demonstrations 0", press))
    assert find_progress(run.folder) is None
    assert lines(run.folder)[-1]["text"] == (
        "interrupted; the warm start was not finished, and --resume starts it again"
    )
    resumed(make_run(run.folder, "seed=7"))


# -- the file of demonstrations --


def episodes(count, **more):
    rng = np.random.default_rng(0)
    return [trajectory(conversation(rng, 2), name=f"t#{k}@0", won=True, **more) for k in range(count)]


def test_demonstrations_come_back_as_they_were_with_their_mistakes(tmp_path):
    played = episodes(3)
    with DemonstrationFile(tmp_path / "run/imitation") as file:
        for number, item in enumerate(played):
            file.write(item, {0, 1} if number == 1 else ())
    with DemonstrationFile(tmp_path / "run/imitation") as file:
        assert list(file.trajectories.values()) == played
        assert file.mistakes == {(played[1].id, 0), (played[1].id, 1)}
        assert not file.complete


def test_half_a_line_and_what_failed_are_played_again_until_the_demonstrations_are_complete(tmp_path):
    good, bad, late = episodes(3)
    bad = replace(bad, stop="error", error="the door is jammed")
    with DemonstrationFile(tmp_path) as file:
        for item in (good, bad, late):
            file.write(item, ())
    with file.path.open("r+b") as stored:
        stored.truncate(file.path.stat().st_size - 9)
    with DemonstrationFile(tmp_path) as file:
        assert list(file.trajectories) == [good.id]
        file.write(late, ())
        file.write(bad, ())
        file.finish()
    with DemonstrationFile(tmp_path) as file:
        assert list(file.trajectories) == [good.id, late.id, bad.id]
    assert [item.id for item in read_trajectories(file.path)] == [good.id, late.id, bad.id]
