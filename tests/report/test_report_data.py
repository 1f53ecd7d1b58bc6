"""The data of a report: what is stored of every turn, what is left out, what is new, and torn files."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path
from typing import Any

import pytest
from toys.commands import one_sentence
from toys.report_runs import episode, episodes, turn, write_iteration, write_run

from turncredit.agents.files.trajectory_files import TrajectoryWriter
from turncredit.agents.steps import steps_of
from turncredit.agents.trajectory import grouped
from turncredit.report.run_report import iterations
from turncredit.report.run_report.endings import ending
from turncredit.report.run_report.html import by_halves, complete_page, escaped
from turncredit.report.run_report.report_data import ReportData, open_report


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return write_run(tmp_path / "run")


def data_of(run: Path) -> ReportData:
    return open_report(run)


def stored(page: str) -> dict[str, Any]:
    """The data that a page holds."""
    content: dict[str, Any] = json.loads(page.split('id="data">', 1)[1].split("</script>", 1)[0])
    return content


def test_every_turn_has_its_text_and_the_advantage_of_the_rule(run: Path) -> None:
    data = data_of(run)
    settings = data.source.settings
    turns = iterations.turns(data.read(1), settings)
    groups = grouped(episodes(1))
    assert settings is not None
    steps = steps_of(groups)
    for rule in ("gigpo", "grpo"):
        for g, group in enumerate(groups):
            for m, trajectory in enumerate(group.trajectories):
                member = turns["groups"][str(g)]["members"][m]
                assert member["id"] == trajectory.id
                assert [turns["strings"][n] for n in member["observation"]] == [t.observation for t in trajectory.turns]
                if not trajectory.finished:
                    assert member["credit"] == {}
                    continue
                numbers = range(len(trajectory.turns))
                expected = settings.advantages(rule, steps).aligned([trajectory.id] * len(numbers), numbers)
                assert member["credit"][rule]["value"] == pytest.approx(expected.values.tolist(), abs=5e-4)
                for name, column in expected.parts.items():
                    assert member["credit"][rule]["parts"][name] == pytest.approx(column.tolist(), abs=5e-4)


def test_outcomes_of_every_episode(run: Path) -> None:
    summary = iterations.summary(data_of(run).read(2))
    first = summary["groups"][0]
    assert first["won"] == [1, 0, 0]
    assert first["turns"] == [2, 6, 2]
    assert summary["groups"][2]["won"] == [1, None]
    assert summary["strings"][first["task"]] == "open-1"
    assert [summary["strings"][n] for n in first["ending"]] == ["", "a loop: wait", "last action: sing song #"]


@pytest.mark.parametrize(
    ("trajectory", "expected"),
    [
        (episode("t", 0, [turn(0, "a")], True), None),
        (episode("t", 0, [], False), "no turn was played"),
        (episode("t", 0, [turn(n, None) for n in range(3)], False), "answers that could not be parsed"),
        (episode("t", 0, [turn(n, "x", valid=False) for n in range(3)], False), "actions that were not admissible"),
        (episode("t", 0, [turn(0, "x")] * 4, False), "a loop: x"),
        (episode("t", 0, [turn(n, "go 3") for n in range(3)], False), "last action: go #"),
        (episode("t", 0, [], True, stop="error", error="port 80 is closed"), "error: port # is closed"),
    ],
)
def test_endings(trajectory: Any, expected: str | None) -> None:
    assert ending(trajectory) == expected


def test_only_what_is_new_is_sent(run: Path) -> None:
    data = data_of(run)
    data.refresh()
    first = data.since(0)
    assert {"run", "iteration/1", "iteration/2", "iteration/3", "evaluation/000000"} <= first["parts"].keys()
    data.refresh()
    assert data.since(first["revision"])["parts"] == {}
    write_iteration(run, 4)
    data.refresh()
    news = data.since(first["revision"])
    assert news["from"] == first["revision"]
    assert news["parts"].keys() == {"iteration/4", "event/3"}
    assert news["patches"] == {}


def test_of_an_iteration_that_grows_only_the_new_groups_are_sent(run: Path) -> None:
    file = run / "trajectories" / "000004.jsonl"
    played = episodes(4)
    with TrajectoryWriter(file) as writer:
        for episode in played[:4]:
            writer.write(episode)
    data = data_of(run)
    data.refresh()
    before = data.since(0)
    with TrajectoryWriter(file, append=True) as writer:
        for episode in played[4:]:
            writer.write(episode)
    data.refresh()
    news = data.since(before["revision"])
    assert news["parts"] == {}
    ((name, (patch,)),) = news["patches"].items()
    assert name == "iteration/4"
    assert list(patch["groups"]) == ["1", "2"]  # the group that grew, and the new one
    whole = data.since(0)["parts"]["iteration/4"]
    assert before["parts"]["iteration/4"]["strings"] + patch["strings"] == whole["strings"]
    assert {str(position): group for position, group in enumerate(whole["groups"])}.items() >= patch["groups"].items()


def test_one_group_has_the_advantages_that_it_has_among_all(run: Path) -> None:
    data = data_of(run)
    iteration, settings = data.read(1), data.source.settings
    whole, single = iterations.turns(iteration, settings), iterations.turns(iteration, settings, only=2)
    assert list(single["groups"]) == ["2"]
    credit = [[member["credit"] for member in part["groups"]["2"]["members"]] for part in (whole, single)]
    assert credit[0] == credit[1] != [{}, {}]
    assert len(single["strings"]) < len(whole["strings"])


def test_tokens_that_a_prompt_adds_are_named_once(run: Path) -> None:
    iteration = data_of(run).read(1)
    tokens = iterations.tokens(iteration, lambda token: f"<{token}>")
    for position, group in enumerate(iteration.groups):
        for member, trajectory in enumerate(group.trajectories):
            rows, before = tokens["groups"][str(position)]["members"][member], tuple[int, ...]()
            for n, step in enumerate(trajectory.turns):
                assert before[: rows["same"][n]] + tuple(rows["added"][n]) == step.prompt
                assert rows["response"][n] == list(step.response)
                before = step.prompt + step.response
    assert tokens["pieces"]["7"] == "<7>"
    assert iterations.tokens(iteration)["pieces"] is None


def test_the_recorded_command_is_shown_or_else_the_equivalent_one(run: Path) -> None:
    data = data_of(run)
    data.refresh()
    about = data.since(0)["parts"]["run"]
    assert (about["command"], about["recorded"]) == ("turncredit train run/run.toml", False)
    (run / "commands.txt").write_text(
        "turncredit train mine.toml train.lr=0.001\nturncredit train mine.toml --resume\n"
    )
    data.refresh()
    about = data.since(0)["parts"]["run"]
    assert (about["command"], about["recorded"]) == ("turncredit train mine.toml train.lr=0.001", True)


def test_after_an_iteration_was_taken_back_everything_is_sent_again(run: Path) -> None:
    data = data_of(run)
    data.refresh()
    before = data.revisions.revision
    (run / "trajectories" / "000003.jsonl.gz").unlink()
    data.refresh()
    news = data.since(before)
    assert news["from"] == 0
    assert "iteration/3" not in news["parts"]
    assert "iteration/2" in news["parts"]


def test_a_stored_selection_is_stated_and_keeps_the_ends(run: Path) -> None:
    whole = complete_page(data_of(run))
    texts = dict(re.findall(r'id="(\w+/\d)">([^<]*)<', whole))
    assert texts.keys() == {f"{kind}/{number}" for kind in ("turns", "tokens") for number in (1, 2, 3)}
    limit = len(whole) - sum(len(text) for name, text in texts.items() if name not in {"turns/3", "turns/1"})
    page = complete_page(data_of(run), limit=limit)
    assert len(page) <= limit
    assert 'id="turns/3"' in page
    assert 'id="turns/1"' in page
    assert 'id="turns/2"' not in page
    content = stored(page)
    assert content["kept"]["turns"] == 2
    assert content["kept"]["iterations"] == 3
    assert "iteration/2" in content["parts"]


def test_by_halves_names_every_number_once() -> None:
    for size in range(40):
        numbers = list(range(5, 5 + size))
        assert sorted(by_halves(numbers)) == numbers


def test_long_texts_are_cut_in_the_middle_and_say_so() -> None:
    whole = "a" * 600_000 + "b" * 600_000
    iteration = iterations.Iteration(1, grouped([episode("open-1", 0, [turn(0, "x", observation=whole)], True)]))
    strings = iterations.turns(iteration, None)["strings"]
    cut = next(text for text in strings if text.startswith("aaa"))
    assert len(cut) < 1.01 * iterations.LONGEST
    assert cut.endswith("bbb")
    assert "1,180,000 characters are left out" in cut


def test_the_data_cannot_end_its_script_element() -> None:
    hostile = "</script><!--<script>&\u2028\u202e\x00"
    text = escaped({"a": hostile})
    assert text.isascii()
    assert not set("<>&") & set(text)
    assert json.loads(text) == {"a": hostile}


def test_numbers_that_json_cannot_hold_become_null() -> None:
    iteration = iterations.Iteration(
        1, grouped([episode("t", 0, [turn(0, "x", logprobs=(float("-inf"), -1.0))], True)])
    )
    tokens = json.loads(gzip.decompress(iterations.packed(iterations.tokens(iteration))))
    assert tokens["groups"]["0"]["members"][0]["logprob"] == [[None, -1]]


def test_torn_and_foreign_files_leave_notes_and_everything_whole(run: Path, tmp_path: Path, turncredit: Any) -> None:
    whole = (run / "trajectories" / "000003.jsonl.gz").read_bytes()
    (run / "trajectories" / "000003.jsonl.gz").write_bytes(whole[: len(whole) // 2])
    other = json.dumps({"version": 99})
    (run / "trajectories" / "000004.jsonl").write_text(other + "\n" + other + "\n")
    (run / "evaluations" / "000002.json").write_text('{"rows": [')
    (run / "meta.json").write_text("{")
    with (run / "metrics.jsonl").open("a") as metrics:
        metrics.write('{"phase": "tra')
    result = turncredit("report", run, "--output", tmp_path / "out.html")
    assert result.code == 0
    for part in ("version 99", "000002.json is left out", "meta.json", "the 0 episodes before it are shown"):
        assert part in result.err
    content = stored((tmp_path / "out.html").read_text())
    assert len(content["parts"]["iteration/2"]["groups"]) == 3
    assert content["parts"]["run"]["notes"]


def test_a_file_of_trajectories_of_any_trainer(run: Path, tmp_path: Path, turncredit: Any) -> None:
    result = turncredit("report", run / "trajectories" / "000001.jsonl.gz", "--output", tmp_path / "one.html")
    assert result.code == 0, result.err
    assert len(stored((tmp_path / "one.html").read_text())["parts"]["iteration/0"]["groups"]) == 3


def test_a_run_that_has_only_begun(tmp_path: Path, turncredit: Any) -> None:
    run = tmp_path / "new"
    run.mkdir()
    (run / "metrics.jsonl").write_text("")
    result = turncredit("report", run, "--output", tmp_path / "new.html")
    assert result.code == 0
    assert "no trajectories" in result.err


def test_bad_input_is_one_sentence(run: Path, tmp_path: Path, turncredit: Any) -> None:
    one_sentence(turncredit("report", tmp_path / "nothing"), "does not exist")
    (tmp_path / "empty").mkdir()
    one_sentence(turncredit("report", tmp_path / "empty"), "holds no run")
    (tmp_path / "nothing.jsonl").touch()
    one_sentence(turncredit("report", tmp_path / "nothing.jsonl"), "holds no trajectory")
    one_sentence(turncredit("report", run, "--output", tmp_path / "no" / "x.html"), "does not exist")
    one_sentence(turncredit("report", run, "--live", "--output", tmp_path / "x.html"), "--live")
    one_sentence(turncredit("report", run, "--against", tmp_path), "no evaluations")
    one_sentence(turncredit("report", run, "--credit", "gigpoo"), "gigpo")
