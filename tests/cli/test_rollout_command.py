"""`turncredit rollout`: groups without training, what reads them, going on after a stop, and what is refused."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from toys.commands import ENV, Call, one_sentence

from turncredit.agents.files.trajectory_files import read_trajectories
from turncredit.agents.trajectory import Trajectory, grouped
from turncredit.evaluation.stored_rollouts import RolloutRecord

WORDS = ("expert", ENV, "lengths=[3,4]", "sampler.noise=0.7", "agent.max_turns=8", "--tasks", 6)


def played(file: Path) -> dict[str, tuple[str, ...]]:
    """The actions of every episode of a file, by its id."""
    return {one.id: tuple(turn.text for turn in one.turns) for one in read_trajectories(file)}


@pytest.fixture
def file(turncredit: Call, tmp_path: Path) -> Path:
    """Six groups of four."""
    path = tmp_path / "groups.jsonl"
    said = turncredit("rollout", *WORDS, "--size", 4, "--output", path)
    assert said.code == 0, said.err
    return path


def test_groups_begin_alike_and_are_summed_up(turncredit: Call, tmp_path: Path) -> None:
    path = tmp_path / "groups.jsonl.gz"
    said = turncredit("rollout", *WORDS, "--size", 4, "--seed", 3, "--output", path)
    assert said.code == 0, said.err
    groups = grouped(read_trajectories(path))
    assert [len(group.trajectories) for group in groups] == [4] * 6
    assert {member.seed for group in groups for member in group.trajectories} == {3}
    won = sum(member.won for group in groups for member in group.trajectories)
    assert 0 < won < 24
    assert re.search(rf"all tasks .* {won}/24", said.out)
    differing = sum(len({member.reward for member in group.trajectories}) > 1 for group in groups)
    assert f"groups with a difference in reward: {differing} of 6" in said.out
    assert "6 groups of 4 in" in said.out
    record = RolloutRecord.of(path)
    assert record is not None
    assert (record.player, record.size, record.panel.seed) == ("expert", 4, 3)
    assert record.sampler == {"noise": 0.7}


def test_the_commands_that_it_names_read_its_file(turncredit: Call, file: Path) -> None:
    said = turncredit("rollout", *WORDS, "--size", 4, "--output", file, "--resume")
    commands = re.findall(r"^  turncredit (\w+) (\S+)(.*?) +# ", said.out, re.MULTILINE)
    assert [name for name, *_ in commands] == ["credit", "show", "credit", "report"]
    for name, path, rest in commands:
        assert path == str(file)
        words = [word.replace("8", "2") for word in rest.split()]
        words += ["--output", file.with_suffix(".html")] if name == "report" else []
        assert turncredit(name, path, *words).code == 0
    facts = json.loads(turncredit("credit", file, "--json").out)["facts"]
    assert (facts["groups"], facts["groups_of_one"], facts["trajectories"]) == (6, 0, 24)
    said = turncredit("export", file, "--to", "hf", "--output", file.with_name("exported.jsonl"))
    assert said.code == 0, said.err


def test_forks_are_played_by_the_recorded_player_in_the_recorded_environment(turncredit: Call, file: Path) -> None:
    said = turncredit("credit", file, "--truth", 2, "--credit", "grpo", "--json")
    assert said.code == 0, said.err
    with file.with_name("groups.truth.jsonl").open() as forks:
        player = json.loads(forks.readline())["player"]
    assert (player["player"], player["environment"], player["arguments"]) == ("expert", ENV, {"lengths": "[3, 4]"})
    assert player["max_turns"] == 8


@pytest.mark.parametrize(("change", "reason"), [
    ({"player": "openai:any@http://127.0.0.1:1"}, "--policy PLAYER"),
    ({"player": "os:getcwd"}, "--policy PLAYER"),
    ({"sampler": {"url": "http://127.0.0.1:1"}}, "sampler.url"),
])  # fmt: skip
def test_a_record_names_no_server_and_no_code(
    turncredit: Call, file: Path, change: dict[str, object], reason: str
) -> None:
    record = file.with_name("groups.rollout.json")
    record.write_text(json.dumps({**json.loads(record.read_text()), **change}))
    one_sentence(turncredit("credit", file, "--truth", 2), reason, "--trust")
    assert turncredit("credit", file, "--truth", 2, "--credit", "grpo", "--policy", "random").code == 0


def test_a_rollout_that_was_stopped_goes_on_to_the_same_groups(turncredit: Call, file: Path) -> None:
    whole, text = played(file), file.read_bytes()
    lines = text.splitlines(keepends=True)
    file.write_bytes(b"".join(lines[:7]) + lines[7][:100])  # killed while it wrote the eighth
    said = turncredit("rollout", *WORDS, "--size", 4, "--output", file, "--resume")
    assert said.code == 0, said.err
    assert said.err.count("incomplete") == 1
    assert "7/24 episodes" in said.out
    assert played(file) == whole
    again = turncredit("rollout", *WORDS, "--size", 4, "--output", file, "--resume")
    assert again.code == 0
    assert played(file) == whole


def test_groups_grow_and_keep_their_first_members(turncredit: Call, file: Path) -> None:
    before = played(file)
    said = turncredit("rollout", *WORDS, "--size", 6, "--output", file, "--resume")
    assert said.code == 0, said.err
    after = played(file)
    assert len(after) == 36
    assert {name: after[name] for name in before} == before
    one_sentence(turncredit("rollout", *WORDS, "--size", 4, "--output", file, "--resume"), "groups of 6, got 4")


def test_nothing_is_overwritten_and_nothing_else_is_continued(turncredit: Call, file: Path) -> None:
    text = file.read_bytes()
    one_sentence(turncredit("rollout", *WORDS, "--output", file), "exists", "--resume", "--output")
    for words, reason in (
        (("random", *WORDS[1:3], *WORDS[4:]), "player = 'expert', got 'random'"),
        ((*WORDS[:2], "lengths=[3]", *WORDS[3:]), "lengths = [3, 4], got [3]"),
        ((*WORDS[:3], "sampler.noise=0.1", *WORDS[4:]), "sampler.noise = 0.7, got 0.1"),
        ((*WORDS, "--seed", 1), "seed = 0, got 1"),
        ((*WORDS[:-1], 5), "number of tasks = 6, got 5"),
    ):
        one_sentence(turncredit("rollout", *words, "--size", 4, "--output", file, "--resume"), reason)
    file.with_name("groups.rollout.json").unlink()
    one_sentence(turncredit("rollout", *WORDS, "--output", file, "--resume"), "groups.rollout.json is missing")
    assert file.read_bytes() == text


@pytest.mark.parametrize("place", ["groups.rollout.json", "images", "images/01", "images/01/0.png"])
def test_a_rollout_goes_on_through_no_link(turncredit: Call, file: Path, place: str) -> None:
    """Record and images lie beside the file, and may be a stranger's; a link leads to what was there, or to nothing."""
    path, outside = file.parent / place, file.parent / "outside"
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists():
        path.rename(outside)
    path.symlink_to(outside)
    whole = file.read_bytes()
    file.write_bytes(whole[:-100])  # its writer was killed: to go on would mend it
    content = outside.read_bytes() if outside.exists() else None
    words = ("rollout", *WORDS, "--size", 5, "--output", file, "--resume")
    one_sentence(turncredit(*words), f"{path} is a link", "remove it")
    assert file.read_bytes() == whole[:-100]
    assert (outside.read_bytes() if outside.exists() else None) == content
    path.unlink()
    if content is not None:
        outside.rename(path)
    assert turncredit(*words).code == 0


def test_a_torn_file_is_not_mended_through_a_link(turncredit: Call, file: Path) -> None:
    whole, outside = played(file), file.with_name("outside")
    file.write_bytes(file.read_bytes()[:-100])
    file.with_name(f".{file.name}").symlink_to(outside)
    outside.write_text("mine")
    said = turncredit("rollout", *WORDS, "--size", 4, "--output", file, "--resume")
    assert said.code == 0, said.err
    assert played(file) == whole
    assert outside.read_text() == "mine"


def test_a_player_that_always_ends_alike_gets_advice(turncredit: Call, tmp_path: Path) -> None:
    for player, advice in (("expert", "a harder level"), ("random", "an easier level")):
        words = (player, ENV, "lengths=[4]", "agent.max_turns=40" if player == "expert" else "agent.max_turns=2")
        said = turncredit("rollout", *words, "--size", 3, "--output", tmp_path / f"{player}.jsonl")
        assert said.code == 0, said.err
        assert "groups with a difference in reward: 0 of" in said.out
        assert advice in said.err


def test_a_trained_run_plays_its_own_environment(turncredit: Call, trained: Path, tmp_path: Path) -> None:
    file = tmp_path / "groups.jsonl"
    said = turncredit("rollout", trained, "--tasks", 2, "--size", 3, "--output", file)
    assert said.code == 0, said.err
    record = RolloutRecord.of(file)
    assert record is not None
    assert (record.panel.env, record.panel.kwargs) == (ENV, {"lengths": [3]})
    assert all(turn.logprobs for member in read_trajectories(file) for turn in member.turns)
    assert turncredit("credit", file, "--truth", 2, "--credit", "grpo").code == 0


@pytest.mark.parametrize(("words", "parts"), [
    (("expert", ENV, "sampler.noise=2"), ("noise must be a probability",)),
    (("expert", ENV, "sampler.noise=often"), ("noise must be a probability", "'often'")),
    (("random", ENV, "sampler.noise=0.3"), ("random is not a model", "have no effect")),
    (("expert", ENV, "sampler.nose=0.3"), ("other than sampler.noise",)),
    (("expert", ENV, "--output", "groups.txt"), ("must end in .jsonl",)),
    (("expert", ENV, "--output", "no/such/folder/groups.jsonl"), ("does not exist",)),
    (("expert",), ("expected the id of an environment",)),
])  # fmt: skip
def test_mistakes_are_one_sentence(
    turncredit: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], parts: tuple[str, ...]
) -> None:
    monkeypatch.chdir(tmp_path)
    one_sentence(turncredit("rollout", *words), *parts)
    assert not list(tmp_path.iterdir())


def test_ctrl_c_keeps_what_is_finished(turncredit: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from turncredit.cli.playing import command

    count = command.EpisodeCounter.__call__

    def press(self: command.EpisodeCounter, trajectory: Trajectory) -> None:
        count(self, trajectory)
        if self.done == 5:
            raise KeyboardInterrupt

    monkeypatch.setattr(command.EpisodeCounter, "__call__", press)
    file = tmp_path / "groups.jsonl"
    said = turncredit("rollout", *WORDS, "--size", 4, "--output", file)
    assert said.code == 130
    assert f"5 of 24 episodes are in {file}; the same command with --resume goes on with them" in said.err
    monkeypatch.undo()
    assert turncredit("rollout", *WORDS, "--size", 4, "--output", file, "--resume").code == 0
    assert len(played(file)) == 24


@pytest.mark.waits
def test_it_needs_no_torch(tmp_path: Path) -> None:
    script = (
        "import sys\n"
        "class Absent:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.partition('.')[0] in ('torch', 'transformers', 'tokenizers'): raise ImportError(name)\n"
        "sys.meta_path.insert(0, Absent())\n"
        "from turncredit.cli.main import main\n"
        "sys.argv = ['turncredit', 'rollout', *sys.argv[1:]]\n"
        "main()\n"
    )
    for player in ("expert", "random"):
        words = [player, "turncredit/Household-v0", "level=tiny", "agent.max_turns=5", "--tasks", "2", "--size", "2"]
        done = subprocess.run(
            [sys.executable, "-c", script, *words, "--output", str(tmp_path / f"{player}.jsonl")],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert len(played(tmp_path / f"{player}.jsonl")) == 4
