"""Runs under torchrun: the same numbers as one process, resuming, ranks that die, ranks that disagree.

Its ranks begin with torch imported, except where it has to be as every user has it.
"""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file
from torch.distributed import TCPStore
from toys.waiting import eventually
from toys.warm_processes import WarmPopen

from turncredit.training import Run, train
from turncredit.training.preflight.effects import effective_toml

pytestmark = pytest.mark.slow
SECONDS = 600
OF_TIME = "second|left|load|idle|memory"
"""Metrics that differ from run to run."""
TABLE = {
    "name": "tiny",
    "threads": 1,
    "agent": {"max_turns": 4, "max_tokens": 8},
    "policy": {"new": {"hidden": 32, "layers": 2, "heads": 2}},
    "imitation": {"episodes": 8, "epochs": 1},
    "objective": {"kl": 0.05},
    "train": {"iterations": 2, "groups": 2, "group_size": 2},
    "checkpoints": {"every": 1},
    "evaluation": {"episodes": 0},
}


def run_of(folder, *, every=1, **train_section):
    table = {**TABLE, "train": TABLE["train"] | train_section, "checkpoints": {"every": every}, "output": str(folder)}
    return Run.parse(table)


def written(run, path):
    path.write_text(effective_toml(run))
    return path


WARM_RANKS = """
import runpy, sys
from torch.distributed.elastic.multiprocessing.subprocess_handler import subprocess_handler
from toys.warm_processes import WarmPopen

ids = sys.argv.pop(1)

def start(args, env, **options):
    rank = WarmPopen(args, env=env, **options)
    with open(ids, "a") as file:
        print(env["RANK"], rank.pid, file=file)
    return rank

subprocess_handler.Popen = start
runpy.run_module("torch.distributed.run", run_name="__main__", alter_sys=True)
"""
"""torchrun, whose ranks are forked, and which writes down their process ids."""


def torchrun(file, *, restarts=0, program=("-m", "turncredit.cli.main"), real=False):
    """Start `turncredit train` on two ranks, with a Python that torchrun takes for the program turncredit."""
    launcher = ["-m", "torch.distributed.run"] if real else ["-c", WARM_RANKS, ids_file(file)]
    options = ["--standalone", "--nproc-per-node", "2", "--max-restarts", str(restarts)]
    command = [sys.executable, "-P", *launcher, *options, *program, "train", file]
    popen = subprocess.Popen if real else WarmPopen
    return popen(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def ids_file(file):
    return Path(file).with_suffix(".ids")


def rank_ids(file):
    """Return the process id of each rank that torchrun has started last, for a configuration."""
    lines = ids_file(file).read_text().splitlines() if ids_file(file).exists() else []
    return {int(rank): int(pid) for rank, pid in map(str.split, lines)}


def on_ranks(ranks, *words, fails=False, program=("-m", "turncredit.cli.main")):
    """Run `turncredit train` on several ranks, with the variables that torchrun sets; return what all of them print.

    `fails` says whether all of them fail; None: some may.
    """
    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    shared = {"WORLD_SIZE": ranks, "LOCAL_WORLD_SIZE": ranks, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": store.port}
    shared |= {"TORCHELASTIC_USE_AGENT_STORE": "True"}
    program = [sys.executable, *map(str, program), "train"]
    processes = []
    for rank in range(ranks):
        variables = {name: str(value) for name, value in (shared | {"RANK": rank, "LOCAL_RANK": rank}).items()}
        mine = [str(word(rank) if callable(word) else word) for word in words]
        processes.append(
            WarmPopen(
                [*program, *filter(None, mine)],
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                env={**os.environ, **variables},
            )
        )
    try:
        output = "".join(process.communicate(timeout=SECONDS)[0] for process in processes)
    finally:
        for process in processes:
            process.kill()
    assert fails is None or all((process.returncode != 0) == fails for process in processes), output
    return output


def under_way(process, folder, iterations=2):
    """Wait until a run has finished some iterations."""

    def reached():
        assert process.poll() is None, process.communicate()[0]
        return len(train_events(folder)) >= iterations

    assert eventually(reached, seconds=SECONDS)


def finished(process, code=0):
    output, _ = process.communicate(timeout=SECONDS)
    assert (process.returncode == 0) == (code == 0), output
    return output


def train_events(folder):
    path = Path(folder) / "metrics.jsonl"
    lines = path.read_text().splitlines() if path.exists() else []
    return [event for event in map(json.loads, lines) if event["phase"] == "train"]


def final(folder, step):
    return load_file(Path(folder) / f"checkpoints/{step:06d}/model.safetensors")


def same_run(folder, wanted, steps):
    events, others = train_events(folder), train_events(wanted)
    assert [event["iteration"] for event in events] == list(range(1, steps + 1))
    for event, other in zip(events, others, strict=True):
        assert event.keys() == other.keys()
        for key, value in event.items():
            if not re.search(f"{OF_TIME}|hardware", key):
                wanted_value = pytest.approx(other[key], rel=1e-4, abs=1e-5) if isinstance(value, float) else other[key]
                assert value == wanted_value, key
    for name, weights in final(wanted, steps).items():
        np.testing.assert_allclose(final(folder, steps)[name], weights, rtol=0, atol=1e-5, err_msg=name)


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """A run of four iterations in one process, and its folder as it was after two."""
    folder = tmp_path_factory.mktemp("alone")
    train(run_of(folder / "two"))
    subprocess.run(["cp", "-r", folder / "two", folder / "four"], check=True)
    train(run_of(folder / "four", iterations=4), resume=True)
    return folder


def test_two_ranks_write_what_one_process_writes_and_one_process_goes_on(alone, tmp_path):
    file = written(run_of(tmp_path / "run"), tmp_path / "run.toml")
    output = on_ranks(2, file)
    assert output.count("finished 2 iterations") == 1
    same_run(tmp_path / "run", alone / "two", 2)
    names = {path.name for path in (tmp_path / "run/checkpoints/000002").rglob("*")}
    assert {"model.safetensors", "optimizer", ".metadata", "__0_0.distcp", "__1_0.distcp"} <= names
    train(run_of(tmp_path / "run", iterations=4), resume=True)
    same_run(tmp_path / "run", alone / "four", 4)


def test_four_ranks_continue_what_one_process_began(alone, tmp_path):
    subprocess.run(["cp", "-r", alone / "two", tmp_path / "run"], check=True)
    on_ranks(4, tmp_path / "run", "--resume", "train.iterations=4", "policy.shards=2")
    same_run(tmp_path / "run", alone / "four", 4)


@pytest.mark.parametrize("rank", [1, 0])
def test_a_rank_that_is_killed_ends_the_run_which_resumes(tmp_path, rank):
    folder = tmp_path / "run"
    file = written(run_of(folder, iterations=1000), tmp_path / "run.toml")
    process = torchrun(file)
    try:
        under_way(process, folder)
        os.kill(rank_ids(file)[rank], signal.SIGKILL)
        output = finished(process, code=1)
    finally:
        process.kill()
    said = [line for line in output.splitlines() if line.startswith("turncredit:")]
    ends = "; the run stops here, and --resume continues from its last checkpoint"
    known = ["one of the 2 ranks has ended", "rank 1 of 2 has ended, or does not answer"]
    assert said in ([[f"turncredit: {one}{ends}"] for one in known] if rank else [[]])
    done = len(train_events(folder))
    on_ranks(2, folder, "--resume", f"train.iterations={done + 1}")
    assert [event["iteration"] for event in train_events(folder)] == list(range(1, done + 2))


def test_a_torchrun_that_may_restart_continues_the_run(tmp_path):
    folder = tmp_path / "run"
    file = written(run_of(folder, iterations=1000), tmp_path / "run.toml")
    process = torchrun(file, restarts=1)
    try:
        under_way(process, folder)
        first = rank_ids(file)
        os.kill(first[1], signal.SIGKILL)
        assert eventually(lambda: len(rank_ids(file).items() - first.items()) == 2, seconds=SECONDS)
        under_way(process, folder, len(train_events(folder)) + 2)
        process.send_signal(signal.SIGINT)
        output = finished(process, code=1)
    finally:
        process.kill()
    done = len(train_events(folder))
    assert [event["iteration"] for event in train_events(folder)] == list(range(1, done + 1))
    assert f"stopped after {done} iterations; to continue:" in output


DYING = """
import os, signal
from turncredit.cli.main import main
from turncredit.training.learner import gradient
from turncredit.training.learner.learner import Learner
from turncredit.training.play import rollouts

first, rank = os.environ["TORCHELASTIC_RESTART_COUNT"] == "0", os.environ["RANK"]
updates, update = 0, Learner.update
played, rollout = [], rollouts.rollout

def counted(self, *args):
    global updates
    updates += 1
    return update(self, *args)

def die(parameter):
    if updates == 3:
        os.kill(os.getpid(), signal.SIGKILL)

def noted(*args, **options):
    print("played by attempt", os.environ["TORCHELASTIC_RESTART_COUNT"], flush=True)
    return rollout(*args, **options)

def hooked(self, *args, **options):
    made(self, *args, **options)
    for parameter in self.model.parameters():
        parameter.register_post_accumulate_grad_hook(die)

rollouts.rollout, made = noted, Learner.__init__
if first and rank == "1":
    Learner.update, Learner.__init__ = counted, hooked
main()
"""


def test_a_rank_that_is_killed_in_an_update_costs_nothing_but_time(tmp_path):
    """Rank 1 ends itself in the backward pass of the third update, after the checkpoint of the second iteration."""
    program = tmp_path / "dying.py"
    program.write_text(DYING)
    calm, folder = tmp_path / "calm", tmp_path / "run"
    on_ranks(2, written(run_of(calm, every=2, iterations=4), tmp_path / "calm.toml"))
    file = written(run_of(folder, every=2, iterations=4), tmp_path / "run.toml")
    output = finished(torchrun(file, restarts=1, program=[program]))
    assert "finished 4 iterations" in output
    assert output.count("played by attempt 0") == 3
    assert output.count("played by attempt 1") == 1, "the third rollout is taken from its file"
    assert not (folder / "groups").exists()
    events, others = (
        [{key: value for key, value in event.items() if not re.search(OF_TIME, key)} for event in train_events(one)]
        for one in (folder, calm)
    )
    assert events == others, "to the last digit"
    for name, weights in final(calm, 4).items():
        np.testing.assert_array_equal(final(folder, 4)[name], weights)


WRITING = """
import os, signal, time
from pathlib import Path
from turncredit.cli.main import main
from turncredit.training.play import rollouts
from turncredit.training.run_folder import checkpoint

rollout, write = rollouts.rollout, checkpoint.save_weights

def noted(*args, **options):
    print("played by attempt", os.environ["TORCHELASTIC_RESTART_COUNT"], flush=True)
    return rollout(*args, **options)

def killed(model, folder):
    write(model, folder)
    if Path(folder).name == ".000002.part" and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
        while not (Path(folder).parents[1] / "groups/000003.jsonl").exists():
            time.sleep(0.01)  # the run goes on while this is written
        os.kill(os.getpid(), signal.SIGKILL)

rollouts.rollout, checkpoint.save_weights = noted, killed
main()
"""


def test_a_process_that_is_killed_while_it_writes_a_checkpoint_costs_nothing_but_time(alone, tmp_path):
    """Rank 0 ends itself while it writes the second checkpoint, when it has played the third rollout."""
    program, folder = tmp_path / "writing.py", tmp_path / "run"
    program.write_text(WRITING)
    file = written(run_of(folder, iterations=4), tmp_path / "run.toml")
    output = finished(torchrun(file, restarts=1, program=[program]))
    assert "finished 4 iterations" in output
    assert output.count("played by attempt 0") == 3
    assert output.count("played by attempt 1") == 1, "two rollouts are taken from their files"
    assert not (folder / "groups").exists()
    assert {path.name for path in (folder / "checkpoints").iterdir()} == {"000003", "000004"}
    same_run(folder, alone / "four", 4)


def test_a_torchrun_that_may_restart_leaves_an_older_run_alone(alone, tmp_path):
    folder = tmp_path / "run"
    subprocess.run(["cp", "-r", alone / "two", folder], check=True)
    before = (folder / "metrics.jsonl").read_bytes()
    output = finished(torchrun(written(run_of(folder, iterations=4), tmp_path / "run.toml"), restarts=1), code=1)
    assert output.count("already holds a run: continue it with --resume, or choose another output") == 2
    assert (folder / "metrics.jsonl").read_bytes() == before


def test_ctrl_c_saves_the_last_iteration(tmp_path):
    folder = tmp_path / "run"
    file = written(run_of(folder, iterations=1000, every=0), tmp_path / "run.toml")
    process = torchrun(file, real=True)
    try:
        under_way(process, folder)
        process.send_signal(signal.SIGINT)
        output = finished(process, code=1)
    finally:
        process.kill()
    done = len(train_events(folder))
    assert f"stopped after {done} iterations; to continue:" in output
    assert (folder / f"checkpoints/{done:06d}/optimizer/.metadata").exists()


ENDED = """
import os, signal
from turncredit.cli.main import main
from turncredit.training.imitation import imitation, imitation_run
from turncredit.training.run_folder import warm_start_recovery

clip, steps = imitation.clip_gradient, 0
warm_start_recovery.INTERVAL, warm_start_recovery.SHARE, imitation_run.PACE = 0.0, 1e9, 0.0

def counted(*args):
    global steps
    steps += 1
    if steps == 3 and os.environ["RANK"] == "0":
        os.kill(os.getpid(), signal.NUMBER)
    return clip(*args)

imitation.clip_gradient = counted
main()
"""
"""Rank 0 is ended in the third optimizer step of its warm start."""
WARM = ("imitation.epochs=2", "imitation.batch_tokens=300", "imitation.won_only=false", "train.iterations=1")


@pytest.fixture(scope="module")
def calm(tmp_path_factory):
    """A run of two ranks whose warm start nobody ends."""
    folder = tmp_path_factory.mktemp("calm")
    on_ranks(2, written(run_of(folder / "run"), folder / "run.toml"), *WARM)
    return folder / "run"


@pytest.mark.parametrize("name", ["SIGTERM", "SIGKILL"])
def test_a_warm_start_of_two_ranks_goes_on_where_it_was_ended(calm, tmp_path, name):
    program, folder = tmp_path / "ended.py", tmp_path / "run"
    program.write_text(ENDED.replace("NUMBER", name))
    output = on_ranks(2, written(run_of(folder), tmp_path / "run.toml"), *WARM, program=[program], fails=None)
    if name == "SIGTERM":
        assert "--resume continues the warm start from step 3 of" in " ".join(output.split())
        assert (folder / "imitation/000003/optimizer/.metadata").exists()
        subprocess.run(["cp", "-r", folder, tmp_path / "alone"], check=True)
    output = on_ranks(2, folder, "--resume")
    if name == "SIGTERM":
        assert "continuing the warm start from step 3 of" in output
    for key, weights in final(calm, 1).items():
        np.testing.assert_array_equal(final(folder, 1)[key], weights)
    assert not (folder / "imitation").exists()
    if name == "SIGTERM":  # what two ranks began, one process can finish
        train(Run.load(tmp_path / "alone/run.toml", [f'output="{tmp_path / "alone"}"']), resume=True)
        for key, weights in final(calm, 1).items():
            np.testing.assert_allclose(final(tmp_path / "alone", 1)[key], weights, rtol=0, atol=1e-4, err_msg=key)


@pytest.mark.parametrize(
    ("word", "sentence"),
    [
        (
            lambda rank: f"train.lr=0.00{rank + 1}",
            "the ranks disagree on train.lr: it is 0.001 on rank 0 and 0.002 on rank 1; start all of them with the "
            "same file, options and packages",
        ),
        ("train.stepps=3", "unknown key 'train.stepps'"),
        (
            "policy.kernels=compile",
            'policy.kernels = "compile" works with one rank only, since ranks would compile for',
        ),
        ("train.optimizer=adamw_8bit", 'train.optimizer = "adamw_8bit" works with one rank only; with several use'),
        (lambda rank: "train.stepps=3" if rank else "", "turncredit: rank 1: "),
    ],
)
def test_what_is_wrong_is_said_once(tmp_path, word, sentence):
    output = on_ranks(2, written(run_of(tmp_path / "run"), tmp_path / "run.toml"), word, fails=True)
    said = [line for line in output.splitlines() if line.startswith("turncredit:")]
    assert len(said) == 1, output
    assert sentence in said[0]
    assert not (tmp_path / "run").exists()
