"""The examples for clusters: what they call exists, and the script for Slurm runs with stand-ins for its programs."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from toys.ports import reserved_port
from toys.waiting import eventually

from turncredit.cli.train import load_run

pytestmark = pytest.mark.waits

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
JOB = {"SLURM_JOB_ID": "7", "SLURM_CPUS_ON_NODE": "2", "SLURMD_NODENAME": "localhost"}
SRUN = """
import os, socket, time
head = socket.create_server(("127.0.0.1", int(os.environ["RAY_PORT"])))
time.sleep(600)
"""
TURNCREDIT = """
printf '%s\\n' "$@" > words.txt
echo "$RAY_AUTH_MODE $RAY_AUTH_TOKEN" > token.txt
trap 'echo TERM >> stopped.txt; exit 130' TERM
mkdir -p runs/mine
touch runs/mine/run.toml ready.txt
until [ -e finish.txt ]; do sleep 0.1; done
exit 3
"""
PROGRAMS = {
    "scontrol": '#!/bin/bash\necho "$@" > scontrol.txt\n',
    "srun": f"#!{sys.executable}{SRUN}",
    "turncredit": f"#!/bin/bash{TURNCREDIT}",
}
"""What the script calls: a run until it is stopped or told to finish, and a head that accepts connections."""


def test_the_script_for_slurm_is_short_and_bash_reads_it() -> None:
    lines = (EXAMPLES / "slurm.sh").read_text(encoding="utf-8").splitlines()
    assert len(lines) < 60
    assert lines[1].startswith("# ")
    subprocess.run(["bash", "-n", EXAMPLES / "slurm.sh"], check=True)


@pytest.fixture
def job(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """The script for Slurm as it trains."""
    for name, text in PROGRAMS.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
        (tmp_path / name).chmod(0o755)
    words = ["bash", EXAMPLES / "slurm.sh", "run.toml", "runs/mine", "cluster.engines=3"]
    with reserved_port() as port:
        env = {**os.environ, **JOB, "RAY_PORT": str(port), "PATH": f"{tmp_path}:{os.environ['PATH']}"}
        with subprocess.Popen(words, cwd=tmp_path, env=env) as process:
            try:
                assert eventually((tmp_path / "ready.txt").exists)
                yield process
            finally:
                (tmp_path / "finish.txt").touch()


def words_of(folder: Path) -> list[str]:
    return (folder / "words.txt").read_text(encoding="utf-8").splitlines()


def test_a_job_ends_as_its_run_does(job: subprocess.Popen[bytes], tmp_path: Path) -> None:
    (tmp_path / "finish.txt").touch()
    assert job.wait(timeout=60) == 3
    assert not (tmp_path / "scontrol.txt").exists()
    assert "--resume" not in words_of(tmp_path)
    mode, token = (tmp_path / "token.txt").read_text(encoding="utf-8").split()
    assert (mode, len(token)) == ("token", 64)
    (tmp_path / "run.toml").write_text('[env]\nid = "turncredit/Household-v0"\n', encoding="utf-8")
    command, file, *options = words_of(tmp_path)
    assert (command, file, options[:2]) == ("train", "run.toml", ["--output", "runs/mine"])
    run = load_run(tmp_path / file, options[2:], Path(options[1]))
    assert (run.cluster.address[:10], run.cluster.engines.count) == ("localhost:", 3)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1])
def test_a_job_that_is_stopped_waits_for_its_run_and_one_out_of_time_is_queued_again(
    job: subprocess.Popen[bytes], tmp_path: Path, number: signal.Signals
) -> None:
    job.send_signal(number)
    assert job.wait(timeout=60) == 130
    assert (tmp_path / "stopped.txt").read_text(encoding="utf-8") == "TERM\n"
    again = tmp_path / "scontrol.txt"
    assert again.exists() == (number == signal.SIGUSR1)
    assert not again.exists() or again.read_text(encoding="utf-8") == "requeue 7\n"


def test_a_job_that_begins_again_continues_its_run(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    (tmp_path / "runs/mine").mkdir(parents=True)
    (tmp_path / "runs/mine/run.toml").touch()
    request.getfixturevalue("job")
    assert "--resume" in words_of(tmp_path)


def test_a_job_whose_cluster_does_not_start_ends(tmp_path: Path) -> None:
    for name, text in {**PROGRAMS, "srun": "#!/bin/bash\n", "timeout": "#!/bin/bash\nexit 124\n"}.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
        (tmp_path / name).chmod(0o755)
    env = {**os.environ, **JOB, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(["bash", EXAMPLES / "slurm.sh", "run.toml", "runs/mine"], cwd=tmp_path, env=env, check=False)
    assert done.returncode == 1
    assert not (tmp_path / "words.txt").exists()


def test_the_job_of_kuberay_trains(tmp_path: Path) -> None:
    yaml = pytest.importorskip("yaml")
    job = yaml.safe_load((EXAMPLES / "kuberay.yaml").read_text(encoding="utf-8"))
    shell, option, command = shlex.split(job["spec"]["entrypoint"])
    assert (shell, option) == ("sh", "-c")
    (tmp_path / "RUN.toml").write_text('[env]\nid = "turncredit/Household-v0"\n', encoding="utf-8")
    (tmp_path / "turncredit").write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n', encoding="utf-8")
    (tmp_path / "turncredit").chmod(0o755)

    def words() -> list[str]:
        line = command.replace("/runs/", f"{tmp_path}/")
        path = f"{tmp_path}:{os.environ['PATH']}"
        return subprocess.run(
            ["sh", "-c", line], env={**os.environ, "PATH": path}, capture_output=True, text=True, check=True
        ).stdout.splitlines()

    train, file, output, folder, *options = words()
    assert (train, output, "--resume" in options) == ("train", "--output", False)
    run = load_run(Path(file), options, Path(folder))
    groups = [job["spec"]["rayClusterSpec"]["headGroupSpec"], *job["spec"]["rayClusterSpec"]["workerGroupSpecs"]]
    pods = [group["template"]["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] for group in groups]
    assert (run.cluster.address, run.cluster.engines.count) == ("auto", sum(pods) - job["spec"]["entrypointNumGpus"])
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/run.toml").touch()
    assert words()[-1] == "--resume"
