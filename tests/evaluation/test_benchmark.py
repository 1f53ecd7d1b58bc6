"""Benchmarks: episodes are stored, played once, and played again if they failed; cards and their comparison."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from toys import corridor
from toys.benchmarks import Counting, Flaky, register_toys

from turncredit.agents import Agent, read_trajectories
from turncredit.agents.errors import EvaluationError, FolderInUse
from turncredit.agents.prompts.prompt import Window
from turncredit.engines import Expert, Random
from turncredit.evaluation import EvaluationResult, wilson
from turncredit.evaluation.benchmark import BenchmarkFolder, PanelEpisodes, play_panel
from turncredit.evaluation.benchmark_card import Card, CardPanel, compare_cards
from turncredit.evaluation.comparison import compare
from turncredit.evaluation.panels import Panel
from turncredit.evaluation.results import EpisodeRow
from turncredit.evaluation.statistics import mean_of_rates
from turncredit.evaluation.suite import PinnedPanel, SuitePanel, pin

AGENT = Agent(max_turns=15)
IDENTITY = {"player": "random", "suite": "tiny"}


@pytest.fixture(autouse=True)
def _toys() -> None:
    corridor.register()
    register_toys()


def short(name: str = "short", env: str = corridor.ID) -> PinnedPanel:
    return pin(SuitePanel(name, env, 6, {"lengths": [3, 4]}, seed=1))


def lines(path: Path) -> int:
    return len(path.read_text().splitlines())


def test_a_finished_panel_is_not_played_again(tmp_path: Path) -> None:
    panel = short()
    first = play_panel(BenchmarkFolder(tmp_path, IDENTITY), panel, AGENT, Random(), name="random")
    played = []
    again = play_panel(BenchmarkFolder(tmp_path, IDENTITY), panel, AGENT, Random(), on_finish=played.append)
    assert played == []
    assert again.rows == first.rows
    assert [row.task for row in first.rows] == list(panel.panel.tasks)
    assert lines(tmp_path / "short.jsonl") == 6
    assert again.seconds >= first.seconds > 0


@pytest.mark.parametrize("torn", [False, True])
def test_what_is_missing_is_played_and_the_result_is_that_of_one_go(tmp_path: Path, torn: bool) -> None:
    panel = short()
    whole = play_panel(BenchmarkFolder(tmp_path / "whole", IDENTITY), panel, AGENT, Random())
    stored = (tmp_path / "whole/short.jsonl").read_bytes().splitlines(keepends=True)
    BenchmarkFolder(tmp_path / "part", IDENTITY)
    (tmp_path / "part/short.jsonl").write_bytes(b"".join(stored[:2]) + (stored[2][:40] if torn else b""))
    played = []
    rest = play_panel(BenchmarkFolder(tmp_path / "part", IDENTITY), panel, AGENT, Random(), on_finish=played.append)
    assert len(played) == 4
    assert rest.rows == whole.rows
    assert len(list(read_trajectories(tmp_path / "part/short.jsonl"))) == 6


def test_an_episode_that_failed_is_played_again_twice_at_most(tmp_path: Path) -> None:
    panel = short(env="toys/Flaky-v0")
    folder = BenchmarkFolder(tmp_path, IDENTITY)
    Flaky.left = 2
    result = play_panel(folder, panel, AGENT, Random())
    assert result.summary().errors == 0
    assert lines(tmp_path / "short.jsonl") == 8
    Flaky.left = 10**6
    folder = BenchmarkFolder(tmp_path / "broken", IDENTITY)
    result = play_panel(folder, panel, AGENT, Random())
    assert (result.summary().errors, result.summary().success.n) == (6, 0)
    assert result.rows[0].error == "RuntimeError in step(): the connection was lost"
    assert lines(tmp_path / "broken/short.jsonl") == 12
    folder.close()
    Flaky.left = 0
    result = play_panel(BenchmarkFolder(tmp_path / "broken", IDENTITY), panel, AGENT, Random())
    assert result.summary().errors == 0


def test_a_folder_of_something_else_is_refused(tmp_path: Path) -> None:
    panel = short()
    play_panel(BenchmarkFolder(tmp_path, IDENTITY), panel, AGENT, Random())
    with pytest.raises(EvaluationError, match=r"holds another benchmark \(player was 'random' and is 'expert'\)"):
        BenchmarkFolder(tmp_path, {**IDENTITY, "player": "expert"})
    folder = BenchmarkFolder(tmp_path, IDENTITY)
    with pytest.raises(EvaluationError, match=r"\(panel short: digest was '\w+' and is '\w+'\)"):
        folder.episodes(replace(panel, panel=replace(panel.panel, seed=2)), {})
    with pytest.raises(EvaluationError, match=r"panel short: max_turns was 15 and is 3\); choose another --output"):
        play_panel(folder, panel, Agent(max_turns=3), Random())


@pytest.mark.parametrize(
    ("option", "difference"),
    [
        ({"prompt": Window(answers=True)}, "prompt.answers was None and is True"),
        ({"keep_images": 2}, "keep_images was None and is 2"),
        ({"image_note": "(an image)"}, "image_note was None and is '\\(an image\\)'"),
        ({"chat_options": {"enable_thinking": False}}, r"chat was None and is {'enable_thinking': False}"),
    ],
)
def test_every_option_of_the_agent_counts(tmp_path: Path, option: dict[str, Any], difference: str) -> None:
    panel, agent = short(), replace(AGENT, prompt=Window())
    play_panel(BenchmarkFolder(tmp_path, IDENTITY), panel, agent, Random())
    with pytest.raises(EvaluationError, match=rf"holds another benchmark \(panel short: {difference}\)"):
        play_panel(BenchmarkFolder(tmp_path, IDENTITY), panel, replace(agent, **option), Random())


def test_episodes_of_other_tasks_do_not_count(tmp_path: Path) -> None:
    panel = short()
    play_panel(BenchmarkFolder(tmp_path, IDENTITY), panel, AGENT, Random())
    fewer = replace(panel.panel, tasks=panel.panel.tasks[:2])
    assert [row.task for row in PanelEpisodes(fewer, tmp_path / "short.jsonl").rows] == list(fewer.tasks)


def test_tokens_and_cost_of_a_black_box_are_counted(tmp_path: Path) -> None:
    result = play_panel(BenchmarkFolder(tmp_path, IDENTITY), short(), AGENT, Counting())
    turns = [row.turns for row in result.rows]
    assert [row.prompt_tokens for row in result.rows] == [10 * n for n in turns]
    assert [row.response_tokens for row in result.rows] == [3 * n for n in turns]
    assert [row.cost for row in result.rows] == [0.5 * n for n in turns]
    assert [row.truncated for row in result.rows] == [int(n > 1) for n in turns]
    summary = result.summary()
    assert summary.cost == pytest.approx(0.5 * sum(turns) / 6)
    assert summary.truncated == pytest.approx(sum(n > 1 for n in turns) / sum(turns))
    plain = play_panel(BenchmarkFolder(tmp_path / "plain", IDENTITY), short(), AGENT, Random()).summary()
    assert (plain.prompt_tokens, plain.response_tokens, plain.cost) == (None, None, None)


def card(tmp_path: Path, sampler: Random | Expert, name: str) -> Card:
    panels = []
    for number, panel in enumerate((short("one"), pin(SuitePanel("two", corridor.ID, 4, {"lengths": [5]})))):
        result = play_panel(BenchmarkFolder(tmp_path / f"{name}{number}", {"player": name}), panel, AGENT, sampler)
        panels.append(CardPanel(panel.spec.name, panel.spec.env, "played", "", result))
    panels.append(CardPanel("three", "toys/Absent-v0", "unavailable", "there is no browser"))
    return Card(name, "tiny", tuple(panels), {"model": name})


def test_a_card_survives_its_file(tmp_path: Path) -> None:
    made = card(tmp_path, Random(), "random")
    made.save(tmp_path / "card.json")
    assert Card.load(tmp_path / "card.json") == made
    content = json.loads((tmp_path / "card.json").read_text())
    assert [panel["status"] for panel in content["cards"]] == ["played", "played", "unavailable"]
    assert content["cards"][0]["digest"] == short().digest
    assert content["cards"][0]["summary"]["success"]["n"] == 6
    assert made.result_of(short().digest) == made.panels[0].result
    assert made.result_of("") is None


def test_a_file_that_is_no_card_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "card.json"
    path.write_text('{"version": 1, "rows": []}')
    with pytest.raises(EvaluationError, match=r"is not a card of `turncredit bench`: the key 'cards' is missing"):
        Card.load(path)
    made = card(tmp_path, Random(), "random")
    made.save(path)
    content = json.loads(path.read_text())
    content["cards"][0]["columns"]["won"][0] = "yes"
    path.write_text(json.dumps(content))
    with pytest.raises(EvaluationError, match=r"is not a card: rows.0.won: input should be a valid boolean"):
        Card.load(path)
    del content["cards"][0]["columns"]["won"][0]
    path.write_text(json.dumps(content))
    with pytest.raises(EvaluationError, match="is not a card"):
        Card.load(path)


def test_cards_are_compared_panel_by_panel_and_overall(tmp_path: Path) -> None:
    a, b = card(tmp_path, Random(), "random"), card(tmp_path, Expert(), "expert")
    found = compare_cards(a, b)
    assert list(found.panels) == ["one", "two"]
    for panel, other in zip(a.panels[:2], b.panels[:2], strict=True):
        assert panel.result is not None
        assert other.result is not None
        assert found.panels[panel.name] == compare(panel.result, other.result)
    assert found.overall.pairs == 10
    assert found.overall.only_second == sum(one.only_second for one in found.panels.values())
    assert found.left_out == {"three": "there is no browser"}
    p = {name: one.p_success for name, one in found.panels.items()}
    smaller, larger = sorted(p, key=lambda name: p[name])
    assert found.holm[smaller] == pytest.approx(min(1, 2 * p[smaller]))
    assert found.holm[larger] == pytest.approx(max(p[larger], found.holm[smaller]))


def test_cards_with_different_panels_are_refused(tmp_path: Path) -> None:
    a = card(tmp_path, Random(), "random")
    other = play_panel(
        BenchmarkFolder(tmp_path / "x", IDENTITY), pin(SuitePanel("one", corridor.ID, 6, seed=7)), AGENT, Random()
    )
    b = replace(a, panels=(replace(a.panels[0], result=other), *a.panels[1:]))
    with pytest.raises(EvaluationError, match="panel one: the results are of different panels"):
        compare_cards(a, b)
    nothing = replace(a, panels=a.panels[2:])
    with pytest.raises(EvaluationError, match=r"no panel that both played: .*three \(there is no browser\)"):
        compare_cards(nothing, a)


def test_the_mean_of_rates() -> None:
    assert mean_of_rates([(8, 10)]) == pytest.approx((0.8, *wilson(8, 10)))
    mean, low, high = mean_of_rates([(8, 10), (5, 10)])
    (l1, u1), (l2, u2) = wilson(8, 10), wilson(5, 10)
    assert mean == pytest.approx(0.65)
    assert low == pytest.approx(0.65 - ((0.8 - l1) ** 2 + (0.5 - l2) ** 2) ** 0.5 / 2)
    assert high == pytest.approx(0.65 + ((u1 - 0.8) ** 2 + (u2 - 0.5) ** 2) ** 0.5 / 2)
    _, wide_low, wide_high = mean_of_rates([(8, 10), (5, 10)], confidence=0.99)
    assert wide_low < low < high < wide_high
    for counts in ([], [(0, 0)]):
        with pytest.raises(EvaluationError, match="at least one"):
            mean_of_rates(counts)


def test_a_card_without_an_episode_has_no_mean() -> None:
    row = EpisodeRow("t", None, False, 0.0, 0, "error", 0, 0, "it broke")
    result = EvaluationResult(Panel("e", ("t",)), (row,))
    broken = Card("x", "tiny", (CardPanel("a", "e", "played", "", result),))
    assert broken.mean() is None
    assert broken.played == ()


def test_two_processes_never_play_in_one_folder(tmp_path: Path) -> None:
    folder = BenchmarkFolder(tmp_path, IDENTITY)
    with pytest.raises(FolderInUse, match=rf"process {os.getpid()} is already playing a benchmark in .*; wait for it"):
        BenchmarkFolder(tmp_path, IDENTITY)
    folder.close()
    BenchmarkFolder(tmp_path, IDENTITY).close()
