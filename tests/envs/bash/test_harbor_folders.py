"""Harbor task folders as they are read: settings, Dockerfiles, oracles and reward files, and what is refused."""

from __future__ import annotations

import base64
import io
import tarfile
from pathlib import Path

import pytest
from toys.harbor_tasks import harbor_task

from turncredit.envs.bash.harbor import HarborTasks
from turncredit.envs.bash.harbor.dockerfile import read_dockerfile
from turncredit.envs.bash.harbor.settings import read_settings
from turncredit.envs.bash.harbor.task import prepare_task
from turncredit.envs.bash.harbor.verifier import HarborGrade, read_rewards
from turncredit.envs.code import CodeEnv
from turncredit.envs.errors import EnvError, GameFileError, NoGames, SkippedGames, UnknownOption, UnknownTask
from turncredit.tools.sandbox import Limits

MB = 1 << 20


def test_settings_are_those_of_the_folder(tmp_path: Path) -> None:
    more = 'memory_mb = 2048\nstorage = "1G"\nworkdir = "/srv/x"\ndocker_image = "base:1"\n'
    more += '[environment.env]\nA = "${A_B:-c}"'
    folder = harbor_task(
        tmp_path / "one", agent=30, verifier=20, environment=more, instruction="# a canary line\n\nDo it.\n"
    )
    settings = read_settings(folder)
    assert (settings.name, settings.instruction, settings.category) == ("tests/one", "Do it.", "files")
    assert (settings.agent_seconds, settings.verifier_seconds, settings.build_seconds) == (30, 20, 600)
    assert (settings.memory, settings.storage) == (2048 * MB, 1024 * MB)
    assert (settings.workdir, settings.image, dict(settings.env)) == ("/srv/x", "base:1", {"A": "c"})


@pytest.mark.parametrize(
    ("environment", "sentence"),
    [
        ('os = "windows"', "for Windows"),
        ("gpus = 1", "GPU"),
        ('[[environment.mcp_servers]]\nname = "x"', "MCP servers"),
        ('[environment.healthcheck]\ncommand = "true"', "healthcheck"),
        ('memory = "much"', "memory in task.toml must be a size such as '2G', got 'much'"),
        ("memory_mb = -1", "environment.memory_mb in task.toml must be a positive number of megabytes, got -1"),
        ('[environment.env]\nKEY = "${NO_DEFAULT}"', "the variable NO_DEFAULT of your machine"),
        ("[environment.env]\nKEY = 3", "environment.env.KEY in task.toml must be a text, got 3"),
        ('[verifier.environment]\ndocker_image = "x"', "environment of their own"),
        ('[[steps]]\nname = "first"', "several steps"),
        ("[unclosed", "task.toml"),
    ],
)
def test_what_cannot_be_played_is_refused_in_a_sentence(tmp_path: Path, environment: str, sentence: str) -> None:
    folder = harbor_task(tmp_path / "one", environment=environment)
    with pytest.raises(GameFileError) as caught:
        read_settings(folder)
    assert sentence in str(caught.value)
    assert str(folder) in str(caught.value)


@pytest.mark.parametrize(
    ("path", "sentence"),
    [("tests/test.sh", "tests/test.sh is missing"), ("instruction.md", "instruction.md"), ("task.toml", "task.toml")],
)
def test_missing_parts_are_named(tmp_path: Path, path: str, sentence: str) -> None:
    folder = harbor_task(tmp_path / "one")
    (folder / path).unlink()
    with pytest.raises(GameFileError, match=sentence):
        read_settings(folder)


@pytest.mark.parametrize(
    ("line", "downloads"),
    [
        ("apt-get update", True),
        ("  sudo apt-get -y install curl", True),
        ("curl -LsSf https://127.0.0.1/install.sh | sh", True),
        ("uvx -p 3.13 -w pytest==8.4.1 pytest /tests/test_outputs.py", True),
        ("pip install pytest", True),
        ("python3 -m pip install pytest", True),
        ("# curl is not needed", False),
        ("pytest /tests/test_outputs.py", False),
        ("pip list", False),
        ("echo uvx", False),
    ],
)
def test_tests_that_download_are_refused_without_a_network(tmp_path: Path, line: str, downloads: bool) -> None:
    folder = harbor_task(tmp_path / "one", test=f"#!/bin/sh\n{line}\necho 0 > /logs/verifier/reward.txt\n")
    read_settings(folder, network=True)
    if not downloads:
        read_settings(folder)
        return
    with pytest.raises(GameFileError, match=r"line 2 of tests/test.sh downloads .* a sandbox has no network"):
        read_settings(folder)


def test_links_out_of_the_folder_are_refused(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("key")
    folder = harbor_task(tmp_path / "one")
    (folder / "instruction.md").unlink()
    (folder / "instruction.md").symlink_to(tmp_path / "secret")
    with pytest.raises(GameFileError, match=r"instruction.md is a link to a path outside"):
        read_settings(folder)
    other = harbor_task(tmp_path / "two", dockerfile="FROM x\nWORKDIR /app\nCOPY secret .\n")
    (other / "environment" / "secret").symlink_to(tmp_path / "secret")
    with pytest.raises(GameFileError, match=r"'secret' is a link to a path outside"):
        prepare_task(read_settings(other), "bwrap")


def archive(**files: str) -> bytes:
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w:gz") as tar:
        for name, text in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(text)
            tar.addfile(entry, io.BytesIO(text.encode()))
    return data.getvalue()


@pytest.mark.parametrize(
    ("lines", "paths"),
    [
        ("COPY a.txt /app/", ["/app/a.txt"]),
        ("COPY a.txt /app", ["/app"]),
        ("WORKDIR /app\nCOPY a.txt b/c.txt ./", ["/app/a.txt", "/app/c.txt"]),
        ("WORKDIR /app\nCOPY . .", ["/app/Dockerfile", "/app/a.txt", "/app/b/c.txt", "/app/x.tgz"]),
        ("WORKDIR /app\nCOPY b deep/er", ["/app/deep/er/c.txt"]),
        ("WORKDIR /app\nCOPY *.txt into/", ["/app/into/a.txt"]),
        ('COPY ["a.txt", "/app/new name"]', ["/app/new name"]),
        ("ADD x.tgz /app/", ["/app/in.txt"]),
        ("COPY x.tgz /app/", ["/app/x.tgz"]),
        ("ARG where=app\nENV ROOT=/$where\nCOPY a.txt \\\n  # between\n  ${ROOT}/", ["/app/a.txt"]),
        ("COPY --chmod=755 --chown=1:1 a.txt /app/run", ["/app/run"]),
        ("WORKDIR /a\nWORKDIR b\nCOPY a.txt ../c/", ["/a/c/a.txt"]),
    ],
)
def test_files_are_copied_as_docker_copies_them(tmp_path: Path, lines: str, paths: list[str]) -> None:
    """Hand-made from Docker's reference of COPY and ADD."""
    environment = tmp_path / "environment"
    (environment / "b").mkdir(parents=True)
    (environment / "a.txt").write_text("a")
    (environment / "b" / "c.txt").write_text("c")
    (environment / "x.tgz").write_bytes(archive(**{"in.txt": "inside"}))
    (environment / "Dockerfile").write_text(f"# comment\nFROM x AS y\n{lines}\n")
    copied = read_dockerfile(environment / "Dockerfile")
    assert sorted(path for path, node in copied.tree.items() if node.kind == "file") == paths
    if "chmod" in lines:
        assert copied.tree["/app/run"].mode == 0o755


def test_variables_of_a_dockerfile(tmp_path: Path) -> None:
    (tmp_path / "Dockerfile").write_text(
        'FROM x\nENV A=1 B="two words" \\\n C=$A-${MISSING:-d}\nENV OLD form of it\nUSER me\nCMD ["sh"]\nWORKDIR /$A\n'
    )
    copied = read_dockerfile(tmp_path / "Dockerfile")
    assert copied.env == {"A": "1", "B": "two words", "C": "-d", "OLD": "form of it"}
    assert copied.workdir == "/1"


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("RUN apt-get install -y jq", "RUN 'apt-get install -y jq' changes the system"),
        ("COPY --from=other /a /app/", "takes files from elsewhere"),
        ("ADD https://127.0.0.1/x /app/", "takes files from elsewhere"),
        ("COPY missing /app/", "'missing' is not in the folder environment/"),
        ("COPY ../task.toml /app/", "lies outside of the folder environment/"),
        ("VOLUME /data", "changes the system"),
        ("COPY files/notes.txt /etc/notes.txt", "it copies /etc/notes.txt, outside of its working directory /app"),
        ("WORKDIR /", "its commands start in /"),
        ("WORKDIR /usr/src/app", "a box cannot write to '/usr/src/app'"),
    ],
)
def test_what_this_machine_cannot_follow_is_refused(tmp_path: Path, line: str, sentence: str) -> None:
    folder = harbor_task(tmp_path / "one", dockerfile=f"FROM ubuntu:24.04\nWORKDIR /app\n{line}\n")
    with pytest.raises(GameFileError) as caught:
        prepare_task(read_settings(folder), "bwrap")
    assert sentence in str(caught.value)


def test_a_lonely_script_is_the_command_and_others_are_unpacked(tmp_path: Path) -> None:
    alone = prepare_task(read_settings(harbor_task(tmp_path / "one")), "bwrap")
    assert alone.commands == ('set -e\ngrep -c "$COLOUR" notes.txt > count.txt',)
    several = {"solve.sh": "#!/bin/sh\ncp /solution/part.txt .\n", "part.txt": "x" * 9000}
    packed = prepare_task(read_settings(harbor_task(tmp_path / "two", solution=several)), "bwrap")
    assert len(packed.commands) == 1
    assert packed.commands[0].endswith("chmod +x /solution/solve.sh; /solution/solve.sh")
    noise = base64.b64encode(bytes(i * i % 251 ^ i % 83 for i in range(20_000))).decode()
    long = prepare_task(read_settings(harbor_task(tmp_path / "three", solution={"solve.sh": f"# {noise}\n"})), "bwrap")
    assert all(len(command) < 8000 for command in long.commands)
    none = prepare_task(read_settings(harbor_task(tmp_path / "four", solution={})), "bwrap")
    assert none.commands == ()


def test_limits_are_those_of_the_task_within_bounds(tmp_path: Path) -> None:
    folder = harbor_task(tmp_path / "one", environment="memory_mb = 4096\nstorage_mb = 10240")
    limits = prepare_task(read_settings(folder), "bwrap").limits(Limits())
    assert (limits.memory, limits.disk) == (4096 * MB, 256 * MB)
    plain = prepare_task(read_settings(harbor_task(tmp_path / "two")), "bwrap").limits(Limits())
    assert (plain.memory, plain.disk) == (512 * MB, 64 * MB)


@pytest.mark.parametrize(
    ("name", "text", "rewards"),
    [
        ("reward.txt", "1", {"reward": 1.0}),
        ("reward.txt", " 0.25\n", {"reward": 0.25}),
        ("reward.json", "0.5", {"reward": 0.5}),
        ("reward.json", '{"a": 1, "b": 0}', {"a": 1.0, "b": 0.0}),
        ("reward.json", '{"reward": true}', {"reward": 1.0}),
    ],
)
def test_rewards_are_read(name: str, text: str, rewards: dict[str, float]) -> None:
    assert read_rewards(name, text) == rewards


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("reward.txt", ""),
        ("reward.txt", "won"),
        ("reward.txt", "nan"),
        ("reward.txt", "inf"),
        ("reward.json", "{}"),
        ("reward.json", '{"a": "1"}'),
        ("reward.json", "1e999"),
        ("reward.json", '{"a": [1]}'),
        ("reward.json", "["),
        ("reward.json", "[" * 100_000),
    ],
)
def test_rewards_that_are_no_numbers_are_refused(name: str, text: str) -> None:
    with pytest.raises(ValueError, match="number"):
        read_rewards(name, text)


def test_one_reward_is_the_score() -> None:
    assert HarborGrade({"reward": 0.5, "style": 1.0}).partial == 0.5
    assert HarborGrade({"a": 1.0, "b": 0.0}).partial == 0.5
    assert HarborGrade({"reward": 1.0}).won
    assert not HarborGrade({"a": 1.0, "b": 0.99}).won


def test_folders_of_tasks(tmp_path: Path) -> None:
    with pytest.raises(NoGames, match="no Harbor tasks"):
        HarborTasks(tmp_path, "bwrap")
    harbor_task(tmp_path / "b")
    harbor_task(tmp_path / "a")
    tasks = HarborTasks(tmp_path, "bwrap")
    assert tasks.ids(None) == ["tests/a", "tests/b"]
    assert HarborTasks(tmp_path / "a", "bwrap").ids(None) == ["tests/a"]
    with pytest.raises(UnknownTask, match="did you mean 'tests/a'"):
        tasks.get("tests/aa")
    harbor_task(tmp_path / "c", environment="gpus = 2")
    with pytest.warns(SkippedGames, match="1 of 3 tasks are left out; the first: .*GPU"):
        assert HarborTasks(tmp_path, "bwrap").ids(None) == ["tests/a", "tests/b"]
    harbor_task(tmp_path / "d", name="a")
    with pytest.raises(EnvError, match="two tasks are named 'tests/a'"):
        HarborTasks(tmp_path, "bwrap")
    for sandbox in ("auto", "landlock"):
        with pytest.raises(UnknownOption, match=r"choose sandbox='docker' .* or sandbox='bwrap'"):
            HarborTasks(tmp_path, sandbox)
    with pytest.raises(NoGames, match="Harbor task folders, which turncredit/Bash-v0 plays"):
        CodeEnv(tmp_path)


def test_none_that_can_be_played(tmp_path: Path) -> None:
    harbor_task(tmp_path / "one", environment="gpus = 2")
    with pytest.raises(NoGames, match=r"none of the 1 tasks .* can be played; the first: .*GPU"):
        HarborTasks(tmp_path, "bwrap")
