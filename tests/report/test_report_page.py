"""The report in a real Chromium: every page, filter and key, and hostile texts."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from toys.report_runs import episode, evaluation, turn, visit, write_iteration, write_run

from turncredit.evaluation.comparison import compare
from turncredit.report.run_report.html import complete_page
from turncredit.report.run_report.report_data import open_report

ATTACKS = [
    "<script>window.hacked=1</script>",
    "</script><script>window.hacked=1</script>",
    "</pre><img src=x onerror=window.hacked=1>",
    "<svg onload=window.hacked=1>",
    "<!--<script>",
    "]]></style><style>*{display:none!important}</style>",
    "javascript:window.hacked=1",
    '" onmouseover="window.hacked=1" x="',
    "<iframe srcdoc='<script>parent.hacked=1</script>'></iframe>",
    "<meta http-equiv=refresh content='0;url=http://127.0.0.1:1/'>",
    "{{constructor.constructor('window.hacked=1')()}} ${window.hacked=1} %%SCRIPT%% %%",
    "\u202egnp.exe\u2066 \u200b\ufeff\x00\x07\x1b[31m\ud800 \U000e0041",
    "__proto__",
    "constructor",
]


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report")
    run = write_run(folder / "made")
    file = folder / "made.html"
    file.write_text(complete_page(open_report(run)), encoding="utf-8")
    return file


def test_overview(tab: Any, file: Path) -> None:
    view = visit(tab, file, "#/")
    assert view.locator("h1").inner_text() == "made"
    text = view.inner_text()
    for part in ("8.3 % → 66.7 %", "3 of 5", "21", "train.lr", "0.001", "python", "3 further curves"):
        assert part in text
    titles = view.locator(".plots .plot b").all_inner_texts()
    assert titles[:4] == ["Success", "Reward", "Length", "Entropy"]
    figure = view.locator(".plot").first
    figure.locator("svg").hover(position={"x": 330, "y": 60})
    assert "iteration" in figure.locator("output").inner_text()


def test_a_file_of_trajectories_has_its_success_and_the_footer_has_no_backticks(
    tab: Any, tmp_path: Path, file: Path
) -> None:
    stored = max((file.parent / "made/trajectories").glob("*.jsonl*"))
    page = tmp_path / "one.html"
    page.write_text(complete_page(open_report(stored)), encoding="utf-8")
    text = visit(tab, page, "#/").inner_text()
    assert re.search(r"success\s+\d+\.\d %\s+95 % interval \d+\.\d % to \d+\.\d %; \d+ of \d+ episodes won", text, re.I)
    assert "--screens" in tab.locator("#foot").inner_text()
    assert "`" not in tab.locator("#foot").inner_text()


def test_grid_filters_and_the_way_to_a_turn(tab: Any, file: Path) -> None:
    view = visit(tab, file, "#/groups")
    shown = view.locator(".cell:not(.out)")
    assert shown.count() == 9
    for label, value, left in (
        ("outcome", "mixed", 3), ("outcome", "lost", 3), ("outcome", "won", 3), ("outcome", "error", 3),
        ("outcome", "", 9),
        ("task type", "fetch", 6), ("ended as", "error", 3), ("ended as", "", 6), ("task type", "", 9),
    ):  # fmt: skip
        view.get_by_label(label, exact=True).select_option(value)
        assert shown.count() == left, (label, value)
    view.get_by_label("task", exact=True).fill("FETCH-3")
    assert shown.count() == 3
    shown.first.click()
    tab.wait_for_function("() => document.querySelector('.page-group .strip')")
    assert tab.url.endswith("#/group/3/2")
    assert view.locator(".strip").count() == 2


def test_strips_show_advantages_marks_and_shared_states(tab: Any, file: Path) -> None:
    view = visit(tab, file, "#/group/2/0")
    strips = view.locator(".strip")
    assert [strips.nth(m).locator(".turn").count() for m in range(3)] == [2, 6, 2]
    assert strips.nth(0).locator(".turn.plus").count() == 2
    assert strips.nth(1).locator(".turn.bad").inner_text() == "×"
    strips.nth(0).locator(".turn").nth(1).hover()
    assert view.locator(".turn.same").count() == 2  # the other one went there as well
    assert view.locator(".links line").count() == 1
    assert "2 turns of 2 episodes" in view.locator(".detail").inner_text()
    before = view.locator(".detail .value").inner_text()
    view.get_by_label("coloured by").select_option("grpo")
    strips.nth(0).locator(".turn").nth(1).hover()
    assert view.locator(".detail .value").inner_text() != before
    assert "no single turn was judged" in view.inner_text()


def test_cards_of_an_episode(tab: Any, file: Path) -> None:
    view = visit(tab, file, "#/turn/2/0/1/3")
    assert view.locator(".card[data-turn]").count() == 6
    assert view.locator(".card.here").get_attribute("id") == "turn-3"
    first = view.locator("#turn-0")
    assert "not admissible" in first.inner_text()
    assert re.search(r"episode [+−]\d\.\d{3} · step [+−]\d\.\d{3}", first.inner_text())
    first.get_by_text("in this state").click()
    first.locator("details[open] tbody").wait_for()
    assert first.locator("details tbody tr").count() == 8  # six of its own, two others began there
    first.get_by_text("other credit rules").click()
    first.locator("details[open] tbody").nth(1).wait_for()
    assert first.locator("details[open] tbody").nth(1).inner_text().startswith("gigpo")
    first.get_by_text("tokens").click()
    first.locator(".tokens .trained").first.wait_for()
    assert first.locator(".tokens .trained").all_inner_texts() == ["7\n-0.5", "8\n-0.25"]
    assert first.locator(".tokens .masked").all_inner_texts() == ["0", "1", "2"]
    unread = visit(tab, file, "#/turn/2/1/1/1").locator("#turn-1")
    assert "not parsable" in unread.inner_text()
    assert "mumble" in unread.locator(".answer").inner_text()


def test_graph_of_a_group_for_every_rule(tab: Any, file: Path) -> None:
    view = visit(tab, file, "#/group/1/0")
    view.get_by_text("graph of its states").click()
    tab.wait_for_function("() => document.getElementById('view').dataset.ready === '#/graph/1/0'")
    assert [text.split()[0] for text in view.locator("h2").all_inner_texts()] == ["gigpo", "grpo"]
    first = view.locator(".graph svg").first
    # two states and two ends; "go east", "take key", "sing song", and the loop's last turn
    assert first.locator(".state").count() == 4
    assert first.locator(".edge").count() == 4
    assert first.locator(".edge.plus").count() == 2
    assert "go east ×2" in (first.locator(".edge title").all_text_contents())[-1]
    assert "↻ 5" in first.locator(".state").first.text_content()
    view.locator("a", has_text="iteration 3 (1/3)").click()
    tab.wait_for_function("() => document.getElementById('view').dataset.ready === '#/graph/3/0'")


def test_keys(tab: Any, file: Path) -> None:
    view = visit(tab, file, "#/turn/1/0/1/0")
    tab.keyboard.press("j")
    tab.keyboard.press("j")
    assert tab.evaluate("location.hash") == "#/turn/1/0/1/1"
    tab.keyboard.press("k")
    assert tab.evaluate("location.hash") == "#/turn/1/0/1/0"
    tab.keyboard.press("l")
    tab.wait_for_function("() => document.getElementById('view').dataset.ready === '#/turn/1/0/2/0'")
    tab.keyboard.press("u")
    tab.wait_for_function("() => document.getElementById('view').dataset.ready === '#/group/1/0'")
    tab.keyboard.press("?")
    assert tab.locator("dialog[open]").inner_text().startswith("Keys")
    tab.keyboard.press("Escape")
    tab.keyboard.press("/")
    tab.keyboard.type("song 2")
    tab.keyboard.press("Enter")
    hits = view.locator(".hits li")
    hits.first.wait_for()
    assert hits.count() == 1
    assert "iteration 2, group 1, episode 3, turn 2" in hits.first.inner_text()
    hits.first.locator("a").click()
    tab.locator(".page-turn mark").first.wait_for()
    assert tab.locator(".page-turn mark").first.inner_text() == "song 2"


def test_search_filters(tab: Any, file: Path) -> None:
    view = visit(tab, file, "#/search?q=room")
    status = view.locator("[role=status]")

    def hits(wanted: int) -> None:
        tab.wait_for_function(
            "wanted => document.querySelector('#view [role=status]').textContent.startsWith(`${wanted} of`) && "
            "document.querySelector('#view [role=status]').textContent.includes('3 of 3')",
            arg=wanted,
        )

    hits(3 * 23)
    for label, value, wanted in (
        ("turn", "u", 9), ("turn", "i", 6), ("turn", "", 69), ("episode", "1", 12), ("episode", "null", 3),
        ("episode", "", 69), ("task type", "open", 30),
    ):  # fmt: skip
        view.get_by_label(label, exact=True).select_option(value)
        hits(wanted)
    assert "iterations searched" in status.inner_text()


def test_failures_are_counted_and_have_examples(tab: Any, file: Path) -> None:
    view = visit(tab, file, "#/failures")
    rows = view.locator("tbody tr")
    assert rows.first.inner_text().split("\t")[:3] == ["a loop: wait", "turns", "6"]
    assert rows.count() == 4
    assert "error: the door of room # broke" in view.inner_text()
    view.get_by_label("task type").select_option("open")
    assert rows.count() == 2
    view.get_by_label("ended as").select_option("error")
    assert "No episode failed here" in view.inner_text()
    view.get_by_label("task type").select_option("")
    view.get_by_label("iterations").select_option("last")
    assert rows.first.inner_text().split("\t")[2] == "1"
    rows.first.locator(".example").first.click()
    tab.wait_for_function("() => document.getElementById('view').dataset.ready === '#/turn/3/2/1/0'")
    assert "the door of room 12 broke" in view.locator(".error").inner_text()


def test_comparison_agrees_with_the_command(tab: Any, file: Path) -> None:
    view = visit(tab, file, "#/compare")
    expected = compare(evaluation("100000000000"), evaluation("011111100011"))
    said = view.locator(".verdict").inner_text()
    assert f"{expected.only_second} tasks won only by the second, {expected.only_first} only by the first" in said
    assert f"p={expected.p_success:.3f}" in said
    low, high = 100 * expected.second.low, 100 * expected.second.high
    assert f"{low:.1f} % – {high:.1f} %" in view.inner_text()
    tasks = view.locator("table").last.locator("tbody tr")
    assert tasks.count() == 9
    view.get_by_label("tasks").select_option("all")
    assert tasks.count() == 12
    view.get_by_label("task type").select_option("odd")
    assert tasks.count() == 6


def test_long_episodes_do_not_overwhelm_the_page(tab: Any, tmp_path: Path) -> None:
    run = write_run(tmp_path / "long", iterations=1)
    turns = [turn(n, f"step {n}", prompt=(), response=(), logprobs=()) for n in range(3000)]
    write_iteration(run, 2, [episode("open-1", m, turns, m == 0) for m in range(4)])
    file = tmp_path / "long.html"
    file.write_text(complete_page(open_report(run)), encoding="utf-8")
    view = visit(tab, file, "#/group/2/0")
    assert view.locator(".turns .turn").count() == 1600
    assert "2,600 more turns" in view.locator(".strip").first.inner_text()
    assert "up to 300" in visit(tab, file, "#/graph/2/0").inner_text()
    view = visit(tab, file, "#/turn/2/0/1/2500")
    cards = view.locator(".card[data-turn]")
    assert cards.count() < 100
    assert "step 2500" in view.locator(".card.here").inner_text()
    view.get_by_text("show earlier turns").click()
    assert cards.first.get_attribute("data-turn") == "2410"
    view.get_by_text("show later turns").click()
    assert cards.last.get_attribute("data-turn") == "2589"


def test_evaluations_of_another_run(tab: Any, tmp_path: Path) -> None:
    run, other = write_run(tmp_path / "one"), write_run(tmp_path / "two")
    evaluation("111111111111").save(other / "evaluations" / "000003.json")
    file = tmp_path / "both.html"
    file.write_text(complete_page(open_report(run, against=(other,))), encoding="utf-8")
    view = visit(tab, file, "#/compare")
    names = view.get_by_label("first").locator("option").all_inner_texts()
    assert names == ["before training", "iteration 3", "two: before training", "two: iteration 3"]
    view.get_by_label("first").select_option("iteration 3")
    view.get_by_label("second").select_option("two: iteration 3")
    assert view.locator(".verdict").inner_text().startswith("4 tasks won only by the second, 0 only by the first")
    assert "8.3 % → 66.7 %" in visit(tab, file, "#/").inner_text()  # of this run alone


def test_print_is_light_without_controls(browser: Any, file: Path) -> None:
    context = browser.new_context(color_scheme="dark")
    tab = context.new_page()
    visit(tab, file, "#/group/1/0")
    tab.emulate_media(media="print", color_scheme="dark")
    assert tab.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert not tab.locator("#top").is_visible()
    assert not tab.locator(".filters").first.is_visible()
    assert tab.locator(".strip").first.is_visible()
    context.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_page_is_wider_than_a_phone(browser: Any, file: Path, scheme: Any) -> None:
    context = browser.new_context(viewport={"width": 360, "height": 740}, color_scheme=scheme)
    tab = context.new_page()
    for route in (
        "#/",
        "#/groups",
        "#/group/1/0",
        "#/graph/1/0",
        "#/turn/1/0/1/2",
        "#/failures",
        "#/compare",
        "#/search?q=room",
    ):
        visit(tab, file, route)
        assert tab.evaluate("document.documentElement.scrollWidth") <= 360, route
    context.close()


def test_hostile_texts_are_text(tab: Any, tmp_path: Path) -> None:
    run = write_run(tmp_path / "hostile", iterations=1)
    turns = [turn(n, attack, observation=attack, state=attack) for n, attack in enumerate(ATTACKS)]
    turns.append(turn(99, "x" * 1_000_000, observation="<b>" * 400_000, extras={"<i>": "<script>"}))
    played = [
        episode(attack.replace("\ud800", ""), 0, turns, False, stop="error", error=attack, task_type=attack)
        for attack in ATTACKS
    ]
    played.append(episode("<b>bold</b>", 0, turns, False, final_observation=ATTACKS[1]))
    write_iteration(run, 2, played)
    (run / "run.toml").write_text(
        (run / "run.toml").read_text().replace('"made"', "'</title><script>hacked=1</script>'")
    )
    file = tmp_path / "hostile.html"
    file.write_text(complete_page(open_report(run)), encoding="utf-8")
    scripts = file.read_text(encoding="utf-8").lower().count("<script")
    last = len(played) - 1
    for route in (
        "#/",
        "#/groups",
        f"#/group/2/{last}",
        f"#/graph/2/{last}",
        f"#/turn/2/{last}/0/0",
        "#/turn/2/0/0/0",
        "#/failures",
    ):
        view = visit(tab, file, route)
        assert tab.evaluate("window.hacked") is None
        assert (
            tab.evaluate("document.querySelectorAll('#view script, #view img, #view iframe, #view meta').length") == 0
        )
        assert tab.evaluate("document.scripts.length") == scripts
        assert view.locator("h1").is_visible()
    view = visit(tab, file, f"#/turn/2/{last}/0/0")
    texts = view.locator(".text.seen").all_inner_texts()
    for attack, text in list(zip(ATTACKS, texts, strict=False))[:11]:
        assert text == attack
    for name in ("[U+202E]", "[U+200B]", "[U+FEFF]", "␀", "␛", "\\ud800", "[U+E0041]"):
        assert name in texts[11]
    assert len(texts[len(ATTACKS)]) < 5000  # the rest on request
    tab.evaluate("location.hash = '#/search?q=' + encodeURIComponent('<script>')")
    view.locator(".hits mark").first.wait_for()
    assert tab.evaluate("window.hacked") is None


def test_parts_of_a_mixture_have_curves_and_tables(tab: Any, tmp_path: Path) -> None:
    run = write_run(tmp_path / "mixed")
    parts = ("household", "<b>search</b>")
    lines = [json.loads(text) for text in (run / "metrics.jsonl").read_text().splitlines()]
    lines += [
        {"phase": "evaluation", "iteration": step, "success": 0.5, "low": 0.2, "high": 0.8, "n": 8} for step in (0, 5)
    ]
    for event in lines:
        if event["phase"] in ("train", "evaluation"):
            for number, part in enumerate(parts):
                event |= {f"success/{part}": 0.25 * (number + 1), f"episodes/{part}": 4, f"errors/{part}": 0}
                event |= {f"low/{part}": 0.1, f"high/{part}": 0.9, f"n/{part}": 8, f"turns/{part}": 3.5}
    (run / "metrics.jsonl").write_text("".join(json.dumps(event) + "\n" for event in lines))
    for stored in (run / "evaluations").iterdir():
        content = json.loads(stored.read_text())
        tables = [{"id": "turncredit/Household-v0", "name": name} for name in ("household", "search")]
        content["panel"] |= {"env": "turncredit/Mixture-v0", "kwargs": {"parts": tables}}
        for number, row in enumerate(content["rows"]):
            row["task"] = f"{('household', 'search')[number % 2]}/{row['task']}"
        content["panel"]["tasks"] = [row["task"] for row in content["rows"]]
        stored.write_text(json.dumps(content))
    file = tmp_path / "mixed.html"
    file.write_text(complete_page(open_report(run)), encoding="utf-8")
    view = visit(tab, file, "#/")
    assert view.locator(".plots .plot b").all_inner_texts()[:4] == [
        "Success",
        "Success in household",
        "Success in <b>search</b>",
        "Reward",
    ]
    table = view.locator("table", has=tab.get_by_text("episodes in training"))
    assert "25.0 % [10.0 %, 90.0 %] (n=8)" in table.inner_text()
    assert "50.0 % [10.0 %, 90.0 %] (n=8)" in table.inner_text()
    compared = visit(tab, file, "#/compare")
    assert [*compared.locator("h2").all_inner_texts()][:2] == ["Parts", "Task types"]
    assert {"household", "search"} <= {*compared.locator("table").nth(1).locator("td:first-child").all_inner_texts()}
