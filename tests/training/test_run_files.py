"""What a run does when its files are deleted, torn, moved or many, and with texts that cannot be encoded."""

import json
import os
import shutil
import signal
import time
import tomllib

import pytest
import torch
import toys.corridor
from test_training_loop import TABLE, assert_same_weights, lines, weights

from turncredit.agents.errors import StoreError
from turncredit.agents.files.trajectory_files import read_trajectories
from turncredit.training import ConfigError, Run, train
from turncredit.training.audit import AuditOptions, audit
from turncredit.training.learner.learner import Learner
from turncredit.training.run_folder.checkpoint import Checkpoints
from turncredit.training.run_folder.metrics import METRICS, MetricsWriter, read_events, stored_events

torch.set_num_threads(1)
SMALL = (
    "agent.max_tokens=4",
    "evaluation.episodes=0",
    "train.iterations=4",
    "checkpoints.every=1",
    "imitation.epochs=1",
)


def make_run(folder, *overrides):
    return Run.parse(TABLE, [f'output="{folder}"', *SMALL, *overrides])


def iterations(folder):
    return [event["iteration"] for event in lines(folder) if event["phase"] == "train"]


def at(moment, act):
    """Return a listener that acts once, at the first event "phase iteration" or "what done"."""
    done = []

    def listen(event):
        names = f"{event['phase']} {event.get('iteration')}", f"{event.get('what')} {event.get('done')}"
        if moment in names and not done:
            done.append(True)
            act()

    return listen


@pytest.mark.parametrize("harm", ["deleted", "moved", "replaced"])
@pytest.mark.parametrize("moment", ["train 2", "checkpoint 2", "rollout 3"])
def test_a_run_whose_folder_is_gone_ends_with_a_sentence(tmp_path, harm, moment):
    folder, other = tmp_path / "run", tmp_path / "other"

    def act():
        folder.rename(other)
        if harm == "deleted":
            shutil.rmtree(other)
        elif harm == "replaced":
            shutil.copytree(other, folder)

    with pytest.raises(StoreError, match="was deleted, moved or replaced while this process wrote"):
        train(make_run(folder), on_event=at(moment, act))
    if harm == "moved":
        assert train(make_run(other), resume=True).step == 4
        assert iterations(other) == [1, 2, 3, 4]
    assert not (folder / "checkpoints/000004").exists()


def test_metrics_that_are_deleted_during_a_run_are_begun_again_and_said(tmp_path):
    folder, told = tmp_path / "run", []
    act = at("train 2", (folder / METRICS).unlink)

    def listen(event):
        told.append(event)
        act(event)

    train(make_run(folder), on_event=listen)
    assert iterations(folder) == [3, 4]
    assert any("metrics.jsonl was removed" in event.get("text", "") for event in told)
    found = next(one for one in audit(folder, AuditOptions(scores=False)).checks if one.name == "metrics file")
    assert "lacks 2 of the 4 finished iterations" in found.problems[0].text


@pytest.mark.parametrize(
    ("harm", "said"),
    [
        (lambda file: file.unlink(), "metrics.jsonl is missing; metrics.jsonl lacks 2 of the 2 iterations"),
        (lambda file: file.write_bytes(file.read_bytes()[:300]), "damaged or incomplete; metrics.jsonl lacks 2 of"),
        (lambda file: file.write_bytes(b"x" * 9000), "metrics.jsonl lacks 2 of the 2 iterations"),
    ],
    ids=["missing", "cut", "overwritten"],
)
def test_a_resumed_run_says_what_its_metrics_lack(tmp_path, harm, said):
    folder, told = tmp_path / "run", []

    def stop():
        os.kill(os.getpid(), signal.SIGINT)

    assert train(make_run(folder), on_event=at("checkpoint 2", stop)).step == 2
    harm(folder / METRICS)
    train(make_run(folder), resume=True, on_event=told.append)
    assert any(said in event.get("text", "") for event in told), told
    assert [event["iteration"] for event in read_events(folder / METRICS) if event["phase"] == "train"] == [3, 4]


def test_what_is_torn_after_the_checkpoint_is_no_loss(tmp_path):
    folder, told = tmp_path / "run", []
    with pytest.raises(ZeroDivisionError):
        train(make_run(folder), on_event=at("rollout 3", lambda: 1 // 0))
    with (folder / METRICS).open("ab") as file:
        file.write(b'{"phase": "tra')
    train(make_run(folder), resume=True, on_event=told.append)
    assert not [event for event in told if event["phase"] == "note"]
    assert (iterations(folder), stored_events(folder / METRICS)[1]) == ([1, 2, 3, 4], [])


def test_demonstrations_that_fail_are_told(tmp_path, monkeypatch):
    working, failed, told = toys.corridor.Corridor.step, [], []

    def step(self, action):
        if self._task == "open-3-1":
            failed.append(self._task)
            raise RuntimeError("the door is jammed")
        return working(self, action)

    monkeypatch.setattr(toys.corridor.Corridor, "step", step)
    train(make_run(tmp_path / "run", "train.iterations=0"), on_event=told.append)
    (note,) = [event["text"] for event in told if event["phase"] == "note"]
    count = len(failed)
    assert count
    assert f"of 10 demonstrations are imitated: {count} failed ({count} with: RuntimeError" in note
    assert "the door is jammed); " in note
    assert note.endswith("did not succeed (imitation.won_only = false uses them)")


def test_demonstrations_that_a_file_lacks_are_told(tmp_path):
    train(make_run(tmp_path / "first", "train.iterations=1"))
    file, told = tmp_path / "first/trajectories/000001.jsonl", []
    table = {**TABLE, "imitation": {"episodes": 10, "demonstrator": str(file), "won_only": False}}
    run = Run.parse(table, [f'output="{tmp_path / "run"}"', *SMALL, "train.iterations=0"])
    train(run, on_event=told.append)
    (note,) = [event["text"] for event in told if event["phase"] == "note"]
    assert note == "6 of 10 demonstrations are imitated: 4 are not in the file"


def test_events_after_the_checkpoint_go_also_from_metrics_that_were_begun_again(tmp_path):
    folder = tmp_path / "run"
    run = make_run(folder, "checkpoints.every=2")
    with pytest.raises(ZeroDivisionError):
        train(run, on_event=at("train 3", lambda: 1 // 0))
    kept = [line for line in (folder / METRICS).read_text().splitlines() if '"iteration": 3' in line]
    (folder / METRICS).write_text("".join(f"{line}\n" for line in kept))
    train(run, resume=True)
    assert iterations(folder) == [3, 4]


def test_appending_after_a_torn_line_begins_a_new_one(tmp_path):
    path = tmp_path / METRICS
    path.write_bytes(b'{"iteration": 1}\n{"torn')
    with MetricsWriter(path) as writer:
        writer.write({"iteration": 2})
    assert [event["iteration"] for event in read_events(path)] == [1, 2]


@pytest.mark.parametrize(
    "line", ["[" * 100_000, '{"a":' * 100_000, "9" * 5000, '{"a": ' + "9" * 5000 + "}", '{"phase": "train"}']
)
def test_metrics_of_strangers_may_hold_anything(tmp_path, line):
    path = tmp_path / METRICS
    path.write_text(f'{{"iteration": 1}}\n{line}\n{{"iteration": 2, "text": "half \\ud800"}}\n')
    events, problems = stored_events(path)
    assert [event["iteration"] for event in events] == [1, 2]
    assert events[1]["text"] == "half \\ud800"
    assert problems == ["metrics.jsonl, line 2 is no event: it is damaged or incomplete"]


def test_a_text_that_cannot_be_encoded_ends_no_run(tmp_path, monkeypatch):
    """One episode fails with half a surrogate pair and a control sequence in its message; the name has one too."""
    working, failed, trained = toys.corridor.Corridor.step, [], []

    def step(self, action):
        if not failed and trained:
            failed.append(True)
            raise RuntimeError("half \ud800 \x1b[2J")
        return working(self, action)

    told = []

    def listen(event):
        told.append(event)
        trained.extend([True] if event["phase"] == "train" else [])

    run = make_run(tmp_path / "run", "train.replacements=0")
    run = run.model_copy(update={"name": "half \udc80"})
    monkeypatch.setattr(toys.corridor.Corridor, "step", step)
    assert train(run, on_event=listen).step == 4
    assert failed
    notes = [event["text"] for event in told if event["phase"] in ("note", "warning")]
    assert any("half \\ud800 \\x1b[2J" in text for text in notes), notes
    for path in (tmp_path / "run").rglob("*.jsonl"):
        assert "\\ud8" not in path.read_text(encoding="utf-8").replace("\\\\ud8", "")
    assert tomllib.loads((tmp_path / "run/run.toml").read_text(encoding="utf-8"))["name"] == "half \\udc80"


# -- trajectories --


def test_old_trajectories_go_but_those_that_a_checkpoint_needs(tmp_path):
    words = ("checkpoints.keep=2", "checkpoints.keep_trajectories=2", "train.iterations=8", "checkpoints.every=2")
    run, seen = make_run(tmp_path / "run", *words), []

    def listen(event):
        if event.get("what") == "checkpoint":
            seen.append(sorted(int(path.stem) for path in (run.folder / "trajectories").glob("*.jsonl")))

    train(run, on_event=listen)
    assert Checkpoints(run.folder / "checkpoints").steps() == [6, 8]
    assert seen == [[], [1, 2], [1, 2, 3, 4], [1, 3, 4, 5, 6], [1, 5, 6, 7, 8]]
    report = audit(run.folder)
    assert report.passed
    readable = next(one for one in report.checks if one.name == "files")
    assert "not stored: iterations 2 to 4 (checkpoints.keep_trajectories = 2)" in readable.not_done[0]


def test_a_run_that_keeps_few_trajectories_goes_on_from_every_checkpoint(tmp_path):
    train(make_run(tmp_path / "whole", "train.iterations=5"))
    run = make_run(tmp_path / "run", "train.iterations=5", "checkpoints.keep_trajectories=1")
    train(run)
    (run.folder / "checkpoints/000005/trainer.pt").write_bytes(b"torn")
    train(run, resume=True)
    assert_same_weights(weights(tmp_path / "whole", 5), weights(run.folder, 5))
    for number in (4, 5):
        assert list(read_trajectories(run.folder / f"trajectories/{number:06d}.jsonl"))


def test_the_key_has_no_effect_without_trajectories(tmp_path):
    from turncredit.training.parts import prepare

    with pytest.raises(ConfigError, match=r"checkpoints\.keep_trajectories has no effect: trajectory_format is empty"):
        prepare(make_run(tmp_path, "checkpoints.keep_trajectories=3", 'trajectory_format=""'))


# -- the boundary at which a run in order is saved --


@pytest.mark.parametrize("second", [False, True], ids=["once", "twice"])
def test_ctrl_c_during_an_update_changes_nothing_in_a_run_in_order(tmp_path, monkeypatch, second):
    words = ["train.staleness.deterministic=true", "train.staleness=1", "train.iterations=5", "checkpoints.every=2"]
    train(make_run(tmp_path / "whole", *words))
    working, update, updates = toys.corridor.Corridor.step, Learner.update, []

    def slow(self, action):
        time.sleep(0.02)  # so that episodes are in play when the update ends
        return working(self, action)

    def pressed(*args):
        result = update(*args)
        updates.append(True)
        if len(updates) == 3:
            os.kill(os.getpid(), signal.SIGINT)
        return result

    def again(event):
        if second and len(updates) == 3 and event.get("what") == "rollout" and not again.done:
            again.done = True
            os.kill(os.getpid(), signal.SIGINT)

    again.done = False
    monkeypatch.setattr(toys.corridor.Corridor, "step", slow)
    monkeypatch.setattr(Learner, "update", pressed)
    cut = make_run(tmp_path / "cut", *words)
    outcome = train(cut, on_event=again)
    monkeypatch.undo()
    assert (outcome.finished, outcome.step) == (False, 2 if second else 3)
    if second:
        assert any("iteration 3 is dropped" in event.get("text", "") for event in lines(cut.folder))
    assert train(cut, resume=True).finished
    whole, again = weights(tmp_path / "whole", 5), weights(cut.folder, 5)
    # Members of a group that are played again meet others in a batch, which changes the rounding.
    assert all(torch.allclose(whole[name], again[name], rtol=0, atol=1e-6 if second else 0) for name in whole)


def test_the_events_are_json_of_one_line_each(tmp_path):
    with MetricsWriter(tmp_path / METRICS) as writer:
        writer.write({"phase": "note", "iteration": 1, "text": "two\nlines, half \udc80, \U0001f600"})
    (line,) = (tmp_path / METRICS).read_bytes().splitlines()
    assert json.loads(line)["text"] == "two\nlines, half \\udc80, \U0001f600"
