"""A run in several processes on a machine with a GPU: torch must not see it, or gradients fail in forks."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from turncredit.training.errors import ConfigError
from turncredit.training.learner.threads import hide_gpus

TESTS = Path(__file__).resolve().parents[1]
RUN = """
import os, sys
sys.path.insert(0, {tests!r})
import toys.corridor
from turncredit.training import Run, train

table = {{
    "threads": 1,
    "processes": 2,
    "output": sys.argv[1],
    "env": {{"id": f"toys.corridor:{{toys.corridor.ID}}", "kwargs": {{"lengths": [3, 4]}}}},
    "agent": {{"max_turns": 6, "max_tokens": 8}},
    "policy": {{"new": {{"vocab": 280, "hidden": 32, "layers": 2, "heads": 2}}, "context": 400}},
    "imitation": {{"episodes": 10, "epochs": 1, "lr": 5e-3, "batch_tokens": 600, "demonstrator": {{"noise": 0.2}}}},
    "train": {{"iterations": 1, "groups": 4, "group_size": 4, "lr": 1e-3}},
    "evaluation": {{"episodes": 4}},
}}
assert train(Run.parse(table, [])).finished
import torch
print("GPUs:", torch.cuda.device_count(), repr(os.environ["CUDA_VISIBLE_DEVICES"]))
"""


def test_a_process_that_has_seen_no_gpu_hides_them(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    hide_gpus()
    assert os.environ["CUDA_VISIBLE_DEVICES"] == ""


def test_a_process_that_has_seen_a_gpu_is_refused(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    with pytest.raises(ConfigError, match=r"CUDA_VISIBLE_DEVICES=.*processes = 1"):
        hide_gpus()


def train_in_processes(folder, **variables):
    code = RUN.format(tests=str(TESTS))
    words = [sys.executable, "-c", code, str(folder)]
    return subprocess.run(words, capture_output=True, text=True, env={**os.environ, **variables}, check=False)


def test_a_run_in_two_processes_sees_no_gpu(tmp_path):
    done = train_in_processes(tmp_path / "run", CUDA_VISIBLE_DEVICES="0")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "GPUs: 0 ''"


@pytest.mark.gpu
def test_a_run_in_two_processes_trains_beside_a_gpu(tmp_path):
    assert torch.cuda.is_available()
    done = train_in_processes(tmp_path / "run")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1].startswith("GPUs: 0")
