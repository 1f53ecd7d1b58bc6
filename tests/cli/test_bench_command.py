"""`turncredit bench` and `turncredit compare` on its cards."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from toys.benchmarks import SUITE, register_toys
from toys.commands import ENV, Call, one_sentence

from turncredit.cli.bench_report import markdown, success_rows
from turncredit.evaluation.benchmark_card import Card, CardPanel
from turncredit.evaluation.panels import Panel
from turncredit.evaluation.results import EpisodeRow, EvaluationResult
from turncredit.evaluation.shipped_suites import baseline_cards, load_suite

TESTS = Path(__file__).resolve().parent.parent
MORE = """
[[panels]]
name = "absent"
env = "toys/Absent-v0"
episodes = 2
[[panels]]
name = "unlisted"
env = "toys/Unlisted-v0"
episodes = 2
[[panels]]
name = "house"
env = "turncredit/Household-v0"
kwargs = { level = "tiny" }
episodes = 3
rule = "searcher"
"""


@pytest.fixture(autouse=True)
def _toys() -> None:
    register_toys()


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.toml"
    path.write_text(SUITE, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("panel", "words"),
    [
        (
            'env = "toys/Corridor-v0"\nkwargs = { lenghts = [3] }',
            ("has no argument 'lenghts'", "did you mean 'lengths'"),
        ),
        ('env = "turncredit/Household-v0"\nkwargs = { level = "sml" }', ("unknown level 'sml'",)),
    ],
)
def test_a_wrong_argument_of_the_last_panel_is_told_before_the_first_is_played(
    turncredit: Call, tmp_path: Path, panel: str, words: tuple[str, ...]
) -> None:
    suite = tmp_path / "tiny.toml"
    suite.write_text(SUITE + f'[[panels]]\nname = "last"\nepisodes = 2\n{panel}\n', encoding="utf-8")
    result = turncredit("bench", "random", "--suite", suite, "--output", tmp_path / "out")
    one_sentence(result, "panel 'last': ", *words)
    assert "short" not in result.out
    assert not list(tmp_path.glob("out/*.jsonl"))


@pytest.fixture
def larger(tmp_path: Path) -> Path:
    path = tmp_path / "larger.toml"
    path.write_text(SUITE.replace('"tiny"', '"larger"') + MORE, encoding="utf-8")
    return path


def test_a_benchmark_is_a_table_a_card_and_every_episode(turncredit: Call, larger: Path, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    result = turncredit("bench", "random", "--suite", larger, "--output", folder)
    assert result.code == 0, result.err
    assert re.search(r"^ short +2 +\d+\.\d % +\d+\.\d to \d+\.\d +\d\.\d{3}", result.out, re.MULTILINE)
    assert re.search(r"^ *long +6 ", result.out, re.MULTILINE)
    assert re.search(r"^ mean of 3 ", result.out, re.MULTILINE)
    assert "absent: not available: there is no browser on this machine" in result.out
    assert "unlisted: not playable by this player: a random action needs admissible actions" in result.out
    assert len((folder / "long.jsonl").read_text().splitlines()) == 6
    card = Card.load(folder / "card.json")
    assert [panel.status for panel in card.panels] == ["played", "played", "unavailable", "unplayable", "played"]
    assert card.about["model"] == "random"
    assert {"python", "turncredit", "numpy"} <= set(card.about["versions"])
    assert card.about["machine"]["cores"] >= 1
    text = (folder / "card.md").read_text()
    assert text.startswith("# random: suite larger\n\ncorridors.")
    assert "| short | 2 |" in text
    assert f"| long | {ENV} | `lengths=[4, 5]` | 6 | `{card.panels[1].digest}` |" in text
    assert "- absent: not available" in text
    assert "](card.svg)" in text
    assert "<svg" in (folder / "card.svg").read_text()


def test_a_demonstrator_plays_the_panels_whose_environments_offer_it(turncredit: Call, larger: Path, tmp_path: Path):
    result = turncredit("bench", "searcher", "--suite", larger, "--output", tmp_path / "out")
    assert result.code == 0
    assert "the environment has no player 'searcher'; expected random, rule, expert" in " ".join(result.out.split())
    card = Card.load(tmp_path / "out" / "card.json")
    assert [panel.name for panel in card.panels if panel.status == "played"] == ["house"]


def test_the_same_command_plays_nothing_again_and_panels_can_be_added(
    turncredit: Call, suite: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "out"
    assert turncredit("bench", "random", "--suite", suite, "--output", folder, "--panel", "short").code == 0
    before = (folder / "short.jsonl").read_bytes()
    result = turncredit("bench", "random", "--suite", suite, "--output", folder)
    assert result.code == 0, result.err
    assert (folder / "short.jsonl").read_bytes() == before
    assert [panel.name for panel in Card.load(folder / "card.json").panels] == ["short", "long"]
    result = turncredit("bench", "expert", "--suite", suite, "--output", folder)
    one_sentence(result, "holds another benchmark (player was 'random' and is 'expert')")
    result = turncredit("bench", "random", "agent.max_turns=3", "--suite", suite, "--output", folder)
    one_sentence(result, "panel short: max_turns was 12 and is 3")


def start(suite: Path, folder: Path, slow: float) -> subprocess.Popen[str]:
    """Start the slow player in a process of its own, which registers the toys first."""
    code = (
        "from toys import corridor, benchmarks; corridor.register(); benchmarks.register_toys()\n"
        "from turncredit.cli.main import main; main()"
    )
    words = ["bench", "toys.benchmarks:slow", "--suite", str(suite), "--output", str(folder), "--concurrency", "2"]
    return subprocess.Popen(
        [sys.executable, "-P", "-c", code, *words],
        env={**os.environ, "SLOW": str(slow), "PYTHONPATH": str(TESTS)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def wait_for_lines(process: subprocess.Popen[str], file: Path, least: int) -> int:
    for _ in range(2400):
        lines = file.read_bytes().count(b"\n") if file.exists() else 0
        if lines >= least:
            return lines
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)
    raise AssertionError(f"{file} did not get {least} lines in two minutes")


@pytest.mark.waits
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_a_benchmark_that_was_stopped_goes_on(suite: Path, tmp_path: Path, how: signal.Signals) -> None:
    output, whole = tmp_path / "out", tmp_path / "whole"
    process = start(suite, output, slow=0.2)
    wait_for_lines(process, output / "long.jsonl", 2)
    process.send_signal(how)
    _, err = process.communicate(timeout=60)
    assert process.returncode == (-9 if how == signal.SIGKILL else 130), err
    stored = (output / "long.jsonl").read_bytes()
    assert 2 <= stored.count(b"\n") < 6
    assert not (output / "card.json").exists()
    if how == signal.SIGINT:
        assert f"finished episodes are stored in {output}; to continue: turncredit bench toys.benchmarks:slow" in err
    else:
        (output / "long.jsonl").write_bytes(stored + stored[:50])  # a line that the killed process was writing
    for folder in (output, whole):
        process = start(suite, folder, slow=0)
        _, err = process.communicate(timeout=120)
        assert process.returncode == 0, err
        assert "warning" not in err
    assert (output / "long.jsonl").read_bytes().startswith(stored)
    parts, once = Card.load(output / "card.json"), Card.load(whole / "card.json")
    for a, b in zip(parts.panels, once.panels, strict=True):
        assert a.result is not None
        assert b.result is not None
        assert a.result.rows == b.result.rows


def test_a_server_that_dies_ends_the_benchmark_with_a_sentence(turncredit: Call, suite: Path, tmp_path: Path) -> None:
    result = turncredit("bench", "toys.benchmarks:dying", "--suite", suite, "--output", tmp_path / "out")
    one_sentence(result, "the server does not answer", "to continue: turncredit")
    assert (tmp_path / "out/short.jsonl").read_text().count("\n") == 2


def test_tokens_and_prices_stand_in_the_table(turncredit: Call, suite: Path, tmp_path: Path) -> None:
    result = turncredit("bench", "toys.benchmarks:counting", "--suite", suite, "--output", tmp_path)
    assert result.code == 0, result.err
    rows = Card.load(tmp_path / "card.json").panels[1].result.rows  # type: ignore[union-attr]
    turns = sum(row.turns for row in rows) / 6
    match = re.search(r"^ long +([\d.]+) .* (\d+) +(\d+) +\S+ +([\d.]+) *$", result.out, re.MULTILINE)
    assert match is not None, result.out
    assert float(match[1]) == pytest.approx(turns, abs=0.05)
    assert (float(match[2]), float(match[3])) == pytest.approx((10 * turns, 3 * turns), abs=0.51)
    assert float(match[4]) == pytest.approx(0.5 * turns, abs=0.05)


def test_other_cards_stand_beside_it_on_the_same_panels(turncredit: Call, larger: Path, tmp_path: Path) -> None:
    for who in ("expert", "rule"):
        assert turncredit("bench", who, "--suite", larger, "--output", tmp_path / who).code == 0
    other = larger.with_name("other.toml")
    other.write_text(larger.read_text().replace("episodes = 6", "episodes = 5"), encoding="utf-8")
    words = [word for who in ("expert", "rule") for word in ("--against", tmp_path / who / "card.json")]
    result = turncredit("bench", "random", "--suite", other, "--output", tmp_path / "random", *words)
    assert result.code == 0, result.err
    card = Card.load(tmp_path / "random/card.json")
    rows = success_rows(card, [Card.load(tmp_path / who / "card.json") for who in ("expert", "rule")])
    cells = {row[0]: row[5:] for row in rows}
    assert cells["panel"] == ["expert", "rule"]
    assert cells["short"] == ["100.0 %", "-"]
    assert cells["long"] == ["-", "-"]  # another panel
    assert cells["house"] == ["100.0 %", "100.0 %"]
    assert cells["mean of 3"] == ["-", "-"]


def test_cards_are_compared(turncredit: Call, suite: Path, larger: Path, tmp_path: Path) -> None:
    for who in ("random", "expert"):
        assert turncredit("bench", who, "--suite", suite, "--output", tmp_path / who).code == 0
    a, b = tmp_path / "random/card.json", tmp_path / "expert/card.json"
    outcome = turncredit("compare", a, b)
    assert outcome.code == 0, outcome.err
    assert re.search(r"^ *long +6 .* 100\.0 % ", outcome.out, re.MULTILINE)
    assert re.search(r"^ *all tasks +8 ", outcome.out, re.MULTILINE)
    assert "points on 8 tasks" in outcome.out
    comparison = json.loads(turncredit("compare", a, b, "--json").out)
    assert set(comparison["panels"]) == {"short", "long"}
    assert comparison["overall"]["pairs"] == 8
    result = tmp_path / "result.json"
    assert turncredit("eval", "random", ENV, "--episodes", 2, "--output", result).code == 0
    one_sentence(turncredit("compare", a, result), "card.json is a card, and the other file is not")
    suite.write_text(SUITE.replace("seed = 3", "seed = 4"), encoding="utf-8")
    assert turncredit("bench", "expert", "--suite", suite, "--output", tmp_path / "other").code == 0
    one_sentence(turncredit("compare", a, tmp_path / "other/card.json"), "panel ", "different")


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (["random", "--suite", "quik"], ["there is no suite 'quik'; did you mean 'quick'?"]),
        (["random", "--suite", "no/such.toml"], ["there is no suite 'no/such.toml'; expected the path of a TOML file"]),
        (["random", "--panel", "shpo"], ["the suite quick has no panel 'shpo'; did you mean 'shop'?"]),
        (["random", "level=tiny"], ["expected agent.KEY=VALUE or sampler.KEY=VALUE, got level"]),
        (["random", "agent.turns=3"], ["an agent has no option 'turns'"]),
        (["no/such/folder"], ["no/such/folder does not exist"]),
        (["no_such_module:make"], ["no_such_module:make"]),
    ],
)
def test_bad_input(turncredit: Call, tmp_path: Path, words: list[Any], parts: list[str]) -> None:
    one_sentence(turncredit("bench", *words, "--output", tmp_path / "out"), *parts)


def test_an_environment_that_does_not_exist_is_named(turncredit: Call, suite: Path, tmp_path: Path) -> None:
    suite.write_text(SUITE.replace("Corridor", "Coridor"), encoding="utf-8")
    result = turncredit("bench", "random", "--suite", suite, "--output", tmp_path / "out")
    one_sentence(result, "panel 'short': unknown environment 'toys/Coridor-v0'; did you mean 'toys/Corridor-v0'?")


def test_a_trained_run_keeps_its_prompt_and_takes_the_limit_of_turns(
    turncredit: Call, trained: Path, suite: Path, tmp_path: Path
) -> None:
    result = turncredit("bench", trained, "--suite", suite, "--output", tmp_path / "out")
    assert result.code == 0, result.err
    card = Card.load(tmp_path / "out/card.json")
    for panel in card.panels:
        assert panel.result is not None
        settings = panel.result.settings
        assert (settings["max_turns"], settings["max_tokens"], settings["parser"]) == (12, 8, "bare")
        assert panel.result.summary().prompt_tokens > 10  # type: ignore[operator]


def test_a_password_in_a_url_is_not_written() -> None:
    import doctest

    import turncredit.cli.command_line as module

    outcome = doctest.testmod(module)
    assert (outcome.failed, outcome.attempted) == (0, 1)


@pytest.mark.parametrize("name", ["quick", "standard"])
def test_the_suites_that_are_shipped_can_be_read(name: str) -> None:
    suite = load_suite(name)
    assert suite.name == name
    assert len({panel.env for panel in suite.panels}) == 9
    assert {panel.rule for panel in suite.panels} == {"", "searcher", "careful", "reader"}


@pytest.mark.parametrize("name", ["quick", "standard"])
def test_the_baselines_that_are_shipped_played_the_panels_of_the_suites(
    name: str,
) -> None:
    from turncredit.evaluation.suite import Unavailable, pin

    cards = {card.name: card for card in baseline_cards() if card.suite == name}
    assert list(cards) == ["random", "rule", "expert"]
    compared = 0
    for spec in load_suite(name).panels:
        if spec.env.startswith("turncredit/MiniWoB") or spec.files:
            continue  # needs a browser or data
        try:
            digest = pin(spec).digest
        except Unavailable:
            continue  # no sandbox
        for card in cards.values():
            (panel,) = [panel_result for panel_result in card.panels if panel_result.name == spec.name]
            assert panel.digest in ("", digest), f"{card.name} played other tasks of {spec.name}"
            compared += panel.digest == digest
    assert compared >= 3 * 4


@pytest.mark.slow
@pytest.mark.parametrize("who", ["random", "rule", "expert"])
def test_the_baselines_are_what_is_measured_now(turncredit: Call, tmp_path: Path, who: str) -> None:
    """The whole quick suite, where this machine has what it needs: the same episodes, row by row."""
    result = turncredit("bench", who, "--output", tmp_path)
    assert result.code == 0, result.err
    (shipped,) = [card for card in baseline_cards() if (card.name, card.suite) == (who, "quick")]
    now = Card.load(tmp_path / "card.json")
    compared = 0
    for panel in now.panels:
        measured = shipped.result_of(panel.digest)
        if panel.status == "played" and "miniwob" not in panel.name:
            assert measured is not None, panel.name
            assert panel.result is not None
            rows = [replace(row, counted=None, priced=None) for row in panel.result.rows]  # older cards do not say
            assert rows == [replace(row, counted=None, priced=None) for row in measured.rows], panel.name
            compared += 1
    assert compared >= 4


def test_what_others_wrote_is_escaped_in_the_page_of_a_card() -> None:
    row = EpisodeRow("t", None, False, 0.0, 0, "error", 0, 0, "boom")
    result = EvaluationResult(Panel("e", ("t",)), (row,))
    panel = CardPanel("a", "e", "played", "1 of 1 episodes failed: boom \x1b[31m\nred", result)
    assert "- a: errors: 1 of 1 episodes failed: boom \\x1b[31m\\nred\n" in markdown(Card("x", "tiny", (panel,)), [])
