import errno
import json
import random
import re
import resource

import numpy as np
import pytest
import torch

import turncredit.training.run_folder.checkpoint as checkpoint_module
from turncredit.training.errors import CheckpointError, VocabularyMismatch
from turncredit.training.learner.optimizers import make_optimizer
from turncredit.training.learner.policy import build_policy, vocabulary_fingerprint
from turncredit.training.run_folder.checkpoint import Checkpoints, random_states, restore_random_states, verify

torch.set_num_threads(1)


@pytest.fixture(scope="module")
def policy():
    return build_policy(["open the red box", "go to the blue box"], vocab=280, hidden=16, layers=1, heads=1, context=64)


@pytest.fixture
def stepped(policy):
    model, _ = policy
    optimizer = make_optimizer(model, lr=1e-3)
    model(input_ids=torch.tensor([[1, 2, 3]]), labels=torch.tensor([[1, 2, 3]])).loss.backward()
    optimizer.step()
    return optimizer


def test_everything_comes_back(tmp_path, policy, stepped):
    model, tokenizer = policy
    points = Checkpoints(tmp_path / "checkpoints")
    folder = points.save(
        7, model, tokenizer, {"optimizer": stepped.state_dict()}, {"tasks": {"position": 3}, "metrics_size": 12}
    )
    assert verify(folder) is None
    back = points.load(vocabulary=vocabulary_fingerprint(tokenizer))
    assert (back.step, back.folder, back.skipped) == (7, folder, ())
    assert back.state["tasks"] == {"position": 3}
    for one, other in zip(model.state_dict().values(), back.model.state_dict().values(), strict=True):
        assert torch.equal(one, other)
    fresh = make_optimizer(back.model, lr=1.0)
    fresh.load_state_dict(back.trainer["optimizer"])
    wanted, got = stepped.state_dict()["state"], fresh.state_dict()["state"]
    assert wanted.keys() == got.keys()
    assert all(torch.equal(wanted[k][name], got[k][name]) for k in wanted for name in ("exp_avg", "exp_avg_sq", "step"))
    assert back.tokenizer.encode("open the red box") == tokenizer.encode("open the red box")


def test_random_states_come_back(tmp_path, policy):
    random.seed(1), np.random.seed(1), torch.manual_seed(1)
    points = Checkpoints(tmp_path)
    points.save(1, *policy, None, {})
    drawn = (random.gauss(0, 1), np.random.normal(), torch.randn(2).tolist())
    restore_random_states(points.load().trainer)
    assert (random.gauss(0, 1), np.random.normal(), torch.randn(2).tolist()) == drawn
    states = random_states()
    assert set(states) == {"python", "numpy", "torch", "cuda"}


def test_only_the_newest_are_kept_and_nothing_half_done(tmp_path, policy):
    points = Checkpoints(tmp_path, keep=2)
    (tmp_path / ".000009.part").mkdir()
    for step in (1, 2, 3):
        points.save(step, *policy, None, {})
    assert sorted(path.name for path in tmp_path.iterdir()) == ["000002", "000003"]


def test_an_empty_folder_is_no_checkpoint(tmp_path, policy):
    points = Checkpoints(tmp_path)
    points.save(1, *policy, None, {})
    (tmp_path / "000099").mkdir()
    assert points.steps() == [1]


def _truncate(path):
    path.write_bytes(path.read_bytes()[:-10])


def _flip(path):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def _unlist(path, name):
    table = json.loads(path.read_text())
    del table[name]
    path.write_text(json.dumps(table))


@pytest.mark.parametrize(
    ("name", "harm", "said"),
    [
        ("model.safetensors", _truncate, "model.safetensors has"),
        ("model.safetensors", _flip, "model.safetensors has changed"),
        ("trainer.pt", lambda path: path.unlink(), "trainer.pt is missing"),
        ("manifest.json", _truncate, "manifest cannot be read"),
        ("manifest.json", lambda path: path.unlink(), "manifest cannot be read"),
        ("manifest.json", lambda path: path.write_text('{"model.safetensors": 3}'), "manifest cannot be read"),
        ("manifest.json", lambda path: path.write_text("{}"), "manifest does not name state.json"),
        ("manifest.json", lambda path: path.write_text("[]"), "manifest cannot be read"),
        ("manifest.json", lambda path: path.write_text("[" * 100_000), "manifest cannot be read"),
        ("manifest.json", lambda path: _unlist(path, "model.safetensors"), "manifest does not name the weights"),
        ("manifest.json", lambda path: _unlist(path, "trainer.pt"), "manifest does not name trainer.pt"),
    ],
)
def test_a_torn_checkpoint_is_skipped_and_said(tmp_path, policy, name, harm, said):
    points = Checkpoints(tmp_path)
    points.save(1, *policy, None, {})
    harm(points.save(2, *policy, None, {}) / name)
    back = points.load()
    assert back.step == 1
    assert len(back.skipped) == 1
    assert said in back.skipped[0]
    assert "000002" in back.skipped[0]


def test_without_a_whole_one_there_is_an_error(tmp_path, policy):
    points = Checkpoints(tmp_path)
    with pytest.raises(CheckpointError, match="no intact checkpoint"):
        points.load()
    _flip(points.save(1, *policy, None, {}) / "trainer.pt")
    with pytest.raises(CheckpointError, match=r"no intact checkpoint.*trainer.pt has changed"):
        points.load()


def test_another_vocabulary_is_refused(tmp_path, policy):
    points = Checkpoints(tmp_path)
    points.save(1, *policy, None, {})
    other = build_policy(["something quite different"], vocab=270, hidden=16, layers=1, heads=1, context=64)
    with pytest.raises(VocabularyMismatch, match="another vocabulary"):
        points.load(vocabulary=vocabulary_fingerprint(other[1]))


@pytest.mark.parametrize("stage", ["save_weights", "manifest", "_sync"])
def test_a_full_disk_costs_nothing_that_stood(tmp_path, policy, monkeypatch, stage):
    points = Checkpoints(tmp_path)
    points.save(1, *policy, None, {})

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(checkpoint_module, stage, full)
    with pytest.raises(
        CheckpointError, match=r"checkpoint 2 could not be written: the disk is full; the last one is .*1"
    ):
        points.save(2, *policy, None, {})
    monkeypatch.undo()
    assert [path.name for path in tmp_path.iterdir()] == ["000001"]
    assert points.load().step == 1


@pytest.mark.parametrize("size", [2000, 30000, 60000])
def test_a_write_that_really_fails_is_one_sentence(tmp_path, policy, stepped, size):
    """The system refuses files beyond a size: the writers of safetensors, tokenizers and torch each fail for real."""
    points = Checkpoints(tmp_path)
    points.save(1, *policy, None, {})
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        with pytest.raises(CheckpointError) as caught:
            points.save(2, *policy, {"optimizer": stepped.state_dict()}, {})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert re.fullmatch(r"checkpoint 2 could not be written: [^\n]+; the last one is .*000001", str(caught.value))
    assert [path.name for path in tmp_path.iterdir()] == ["000001"]
    assert points.load().step == 1


def test_a_checkpoint_of_the_future_is_refused(tmp_path, policy):
    points = Checkpoints(tmp_path)
    folder = points.save(1, *policy, None, {})
    state = json.loads((folder / "state.json").read_text()) | {"version": 99}
    (folder / "state.json").write_text(json.dumps(state))
    (folder / "manifest.json").write_text(json.dumps(checkpoint_module.manifest(folder)))
    with pytest.raises(CheckpointError, match=r"another version of turncredit \(99\)"):
        points.load()
