"""`turncredit export` and `turncredit import`: there and back, what is said, and what can be done with an import."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from toys import report_runs
from toys.commands import one_sentence, run_command

from turncredit.agents.content import ImagePart
from turncredit.agents.files.trajectory_files import TrajectoryWriter, iteration_files, read_trajectories
from turncredit.agents.interchange.formats import FORMATS
from turncredit.agents.interchange.records import IMAGES, TOKENS, TOOLS
from turncredit.agents.trajectory import Trajectory

CHATS = [
    {"from": "human", "loss": None, "value": "You see a door."},
    {"from": "gpt", "loss": False, "value": "I do not know."},
    {"from": "human", "loss": None, "value": "Try."},
    {"from": "gpt", "loss": True, "value": "open door"},
]


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run of two iterations, one episode of which failed."""
    folder = tmp_path / "made"
    (folder / "trajectories").mkdir(parents=True)
    (folder / "run.toml").write_text(report_runs.TOML)
    for iteration in (1, 2):
        with TrajectoryWriter(folder / "trajectories" / f"{iteration:06d}.jsonl.gz") as writer:
            for trajectory in report_runs.episodes(iteration):
                writer.write(trajectory)
    return folder


def stored(folder: Path) -> dict[int, list[Trajectory]]:
    return {number: list(read_trajectories(file)) for number, file in iteration_files(folder / "trajectories").items()}


@pytest.mark.parametrize("name", ["atif", "hf"])
def test_a_run_comes_back_iteration_by_iteration(name: str, run: Path, tmp_path: Path) -> None:
    if name == "hf":
        pytest.importorskip("polars")
    out, back = tmp_path / "out", tmp_path / "back"
    result = run_command("export", run, "--to", name, "--output", out)
    assert result.code == 0, result.err
    count = sum(map(len, stored(run).values()))
    assert result.out.split(":")[0] == f"exported {count} episodes of {run}"
    assert result.err == ""
    result = run_command("import", out, "--from", name, "--output", back)
    assert result.code == 0, result.err
    assert result.out.startswith(f"imported {count} episodes with")
    assert stored(back) == stored(run)


def test_every_turn_has_the_advantage_of_the_run(run: Path, tmp_path: Path) -> None:
    result = run_command("export", run, "--to", "atif", "--output", tmp_path / "out", "--iteration", 2)
    assert result.code == 0, result.err
    documents = [json.loads(path.read_text()) for path in sorted((tmp_path / "out").iterdir())]
    assert {document["extra"]["turncredit"]["iteration"] for document in documents} == {2}
    credited = [
        step["extra"]["turncredit"]["advantages"]["gigpo"]
        for document in documents
        for step in document["steps"]
        if step["source"] == "agent" and document["extra"]["turncredit"]["error"] is None
    ]
    assert len(set(credited)) > 2
    assert None not in credited
    run_command("export", run, "--to", "openai", "--output", tmp_path / "a.jsonl", "--credit", "grpo,hgpo")
    record = json.loads((tmp_path / "a.jsonl").read_text().splitlines()[0])
    assert set(record["turncredit"]["turns"][0]["advantages"]) == {"grpo", "hgpo"}
    run_command("export", run, "--to", "openai", "--output", tmp_path / "b.jsonl", "--credit", "none", "--plain")
    assert set(json.loads((tmp_path / "b.jsonl").read_text().splitlines()[0])) == {"messages"}


def test_what_has_no_room_is_said_once(run: Path, tmp_path: Path) -> None:
    result = run_command("export", run, "--to", "sts", "--output", tmp_path / "out")
    assert result.err.strip() == f"sts has no room for token ids and log-probabilities; they stay in {run}"
    result = run_command("import", tmp_path / "out", "--from", "sts", "--output", tmp_path / "back")
    assert "have no token ids: they can be imitated, not trained on as samples" in result.err
    result = run_command("export", run, "--to", "sts", "--output", tmp_path / "plain", "--plain")
    assert "nor for states, rewards and advantages" in result.err


def test_conversations_of_agentgym_are_shown_reported_credited_and_audited(tmp_path: Path) -> None:
    rows = [{"item_id": f"house_{number}", "conversations": CHATS} for number in range(3)]
    (file := tmp_path / "train.json").write_text(json.dumps(rows))
    folder = tmp_path / "imported"
    result = run_command("import", file, "--from", "agentgym", "--output", folder)
    assert result.code == 0, result.err
    assert result.out.startswith("imported 3 episodes with 6 answers")
    assert "3 episodes state no outcome, and count as won" in result.err
    assert "3 answers are marked as not to be imitated" in result.err
    assert json.loads((folder / "import.json").read_text())["source"] == "train.json"
    shown = run_command("show", folder)
    assert shown.code == 0, shown.err
    assert "house_0: won, 2 turns, reward 1" in shown.out
    assert run_command("credit", folder).code == 0
    result = run_command("audit", folder)
    assert (result.code, "3 imported episodes have no token ids to check" in result.out) == (0, True)
    result = run_command("report", folder, "--output", tmp_path / "report.html")
    assert (result.code, "imported from train.json (agentgym)" in result.err) == (0, True)
    assert "run.toml" not in result.err


def test_episodes_of_a_run_and_of_others_are_read_together(run: Path, tmp_path: Path) -> None:
    """Those of others have a column of their own, `imitated`."""
    run_command("export", run, "--to", "openai", "--output", tmp_path / "ours.jsonl")
    lines = (tmp_path / "ours.jsonl").read_text().splitlines()
    other = {"messages": [{"role": "user", "content": "room 0"}, {"role": "assistant", "content": "go east"}]}
    (tmp_path / "all.jsonl").write_text("\n".join([*lines, json.dumps(other)]))
    folder = tmp_path / "imported"
    result = run_command("import", tmp_path / "all.jsonl", "--from", "openai", "--output", folder)
    assert result.code == 0, result.err
    for words in (("show", folder, "--limit", 9), ("credit", folder), ("audit", folder)):
        result = run_command(*words)
        assert result.code == 0, result.err
        assert "lack" not in result.out + result.err
    result = run_command("report", folder, "--output", tmp_path / "report.html")
    assert (result.code, "no advantages" in result.err) == (0, False), result.err
    result = run_command("export", folder, "--to", "atif", "--output", tmp_path / "out", "--credit", "gigpo")
    assert (result.code, "no advantages" in result.err) == (0, False), result.err


def test_an_audit_of_an_import_checks_its_tokens(run: Path, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    run_command("export", run, "--to", "atif", "--output", tmp_path / "out")
    run_command("import", tmp_path / "out", "--from", "atif", "--output", tmp_path / "back")
    result = run_command("audit", tmp_path / "back")
    assert result.code == 0, result.out
    assert "the episodes were imported, and the settings of their run are unknown" in result.out
    for path in (tmp_path / "out").iterdir():
        document = json.loads(path.read_text())
        for step in document["steps"]:
            if step["source"] == "agent":
                step["metrics"]["logprobs"][0] = 0.5
        path.write_text(json.dumps(document))
    run_command("import", tmp_path / "out", "--from", "atif", "--output", tmp_path / "wrong")
    result = run_command("audit", tmp_path / "wrong")
    assert result.code == 1
    assert "a log-probability must be finite and at most 0, got 0.5" in result.out


def test_mistakes_are_one_sentence(run: Path, tmp_path: Path) -> None:
    (empty := tmp_path / "empty.jsonl").touch()
    (chat := tmp_path / "chat.jsonl").write_text('{"messages": []}')
    for words, part in [
        (("export", run, "--to", "sharegpt"), "format"),
        (("export", run, "--to", "atiff"), "did you mean 'atif'"),
        (("export", tmp_path / "no", "--to", "atif"), "does not exist"),
        (("export", run, "--to", "atif", "--output", run), "exists already"),
        (("export", empty, "--to", "atif", "--output", tmp_path / "out"), "holds no trajectory"),
        (("export", run, "--to", "atif", "--iteration", 7), "has no trajectories of iteration 7"),
        (("import", tmp_path / "no", "--from", "atif"), "does not exist"),
        (("import", empty, "--from", "openai"), "holds no episode"),
        (("import", chat, "--from", "openai"), "line 1: it has no answer of an assistant"),
        (("import", chat, "--from", "sharegpt"), "expected a conversation as in ShareGPT"),
        (("import", chat, "--from", "atif"), "schema_version"),
        (("import", chat, "--from", "openai", "--parser", "bear"), "did you mean 'bare'"),
    ]:
        one_sentence(run_command(*words), part)
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]
    assert not (tmp_path / "out").exists()


def test_the_formats_are_listed() -> None:
    result = run_command("list", "formats")
    assert [line.split()[0] for line in result.out.splitlines()] == list(FORMATS)
    for entry in FORMATS.values():
        assert entry.read is not None
        assert (entry.write is None) == (entry.example is not None)


def pictured(folder: Path) -> Path:
    """A run whose first turns show a screen, and whose first answers think and call."""
    screen = ImagePart(np.full((4, 5, 3), 9, np.uint8))
    text = '<think>\nHm.\n</think>\n\n<tool_call>\n{"name": "find", "arguments": {"shelf": 9}}\n</tool_call>'
    (folder / "trajectories").mkdir(parents=True)
    native = '[env]\nid = "turncredit/Desk-v0"\nkwargs = {native = true}\n[agent]\nchat = {tools = true}'
    (folder / "run.toml").write_text(report_runs.TOML.replace('[env]\nid = "turncredit/Household-v0"', native))
    with TrajectoryWriter(folder / "trajectories" / "000001.jsonl.gz") as writer:
        for episode in report_runs.episodes(1):
            first, *others = episode.turns
            shown = replace(first, text=text, images=(screen,), shown=(screen,))
            writer.write(replace(episode, turns=(shown, *others)))
    return folder


@pytest.mark.parametrize("name", [name for name, entry in FORMATS.items() if entry.write])
def test_the_command_says_what_of_a_run_a_format_lacks(name: str, tmp_path: Path) -> None:
    """And the import of what it wrote works without."""
    if name == "hf":
        pytest.importorskip("polars")
    entry, out = FORMATS[name], tmp_path / f"out{FORMATS[name].suffix}"
    result = run_command("export", pictured(tmp_path / "made"), "--to", name, "--output", out)
    if "pip install" in result.err:
        pytest.skip(result.err)
    assert result.code == 0, result.err
    for lack in (TOKENS, IMAGES, TOOLS):
        assert (f"no room for {lack}" in result.err or f"nor for {lack}" in result.err) == (lack in entry.lacks)
    assert ("7 answers have their reasoning or tool calls in fields of their own" in result.err) == entry.trains
    result = run_command("import", out, "--from", name, "--output", tmp_path / "back")
    assert result.code == 0, result.err
    assert (tmp_path / "back" / "images").is_dir() == (IMAGES not in entry.lacks)
    shown = [image for episode in stored(tmp_path / "back")[1] for turn in episode.turns for image in turn.images]
    assert [image.size for image in shown] == ([] if IMAGES in entry.lacks else [(5, 4)] * 7)


def test_tools_and_texts_as_sampled_are_exported_on_demand(tmp_path: Path) -> None:
    run = pictured(tmp_path / "made")
    result = run_command("export", run, "--to", "openai", "--output", tmp_path / "a.jsonl", "--answers", "text")
    assert (result.code, "fields of their own" in result.err) == (0, False), result.err
    record = json.loads((tmp_path / "a.jsonl").read_text().splitlines()[0])
    assert record["messages"][1]["content"].startswith("<think>\nHm.\n</think>\n\n<tool_call>")
    assert all(tool["type"] == "function" and tool["function"]["name"] for tool in record["tools"])
    assert record["tools"]
    one_sentence(run_command("export", run, "--to", "openai", "--answers", "txt"), "did you mean 'text'")


def test_episodes_that_cannot_be_read_are_counted(tmp_path: Path) -> None:
    good = {"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}
    lines = [json.dumps(good), "{", json.dumps({"messages": []}), json.dumps(good)]
    (file := tmp_path / "chats.jsonl").write_text("\n".join(lines))
    result = run_command("import", file, "--from", "openai", "--output", tmp_path / "back")
    assert (result.code, result.out.startswith("imported 2 episodes with 2 answers")) == (0, True), result.err
    assert f"2 episodes cannot be read and are left out; first: {file}, line 2: not valid JSON" in result.err
    assert json.loads((tmp_path / "back" / "import.json").read_text())["notes"][0].startswith("2 episodes cannot")
    (file.parent / "none.jsonl").write_text("{\n{\n")
    one_sentence(run_command("import", file.parent / "none.jsonl", "--from", "openai"), "line 1: not valid JSON")
    for name in ("openai", "sharegpt", "agentgym", "completions"):
        one_sentence(run_command("import", tmp_path / "back", "--from", name), "is a directory; name a file")
    (binary := tmp_path / "binary").mkdir()
    (binary / "x.jsonl").write_bytes(b"\x00\x01" * 99)
    one_sentence(run_command("import", binary, "--from", "sts"), "is binary data of an unknown format")
