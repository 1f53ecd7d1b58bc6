"""What was drawn for an iteration in a report: the table, curves, advantages of who was counted, and hostile files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from toys.report_runs import episode, episodes, turn, visit, write_iteration, write_run

from turncredit.agents.steps import steps_of
from turncredit.agents.trajectory import Group, grouped
from turncredit.report.run_report import iterations
from turncredit.report.run_report.html import complete_page
from turncredit.report.run_report.report_data import open_report

RULE = "<b>until_mixed</b>"
NUMBERS = {"distinct_tasks": 3, "sampled_turns": 40, "rounds": 1.5, "groups_dropped": 1, "stored": 12, "replayed": 4}


def entry(task: str, members: list[str], **values: Any) -> dict[str, Any]:
    options = {"kind": "dict", "items": []}
    usual = {"number": 0, "task": task, "size": len(members), "seed": 5, "first": 0, "weight": 1.0, "options": options}
    usual |= {"record": {}, "iteration": 0, "members": members, "rounds": 1, "kept": None, "counted": None}
    return usual | {"dropped": None, "remember": {}, "replayed": []} | values


def ids(task: str, count: int) -> list[str]:
    return [f"{task}#{member}@5" for member in range(count)]


ENTRIES = [
    entry(
        "open-1", ids("open-1", 3), size=2, weight=2.5, rounds=2, counted=ids("open-1", 2), kept=ids("open-1", 1),
        replayed=["open-1#7@4", "open-1#8@4"], options={"kind": "dict", "items": [["level", "hard"]]},
    ),
    entry("fetch-2", ids("fetch-2", 2), dropped=RULE, rounds=3),
    entry("fetch-3", ids("fetch-3", 2)),
]  # fmt: skip


def earlier() -> list[Any]:
    """Episodes of the iteration before, of which two joined a group."""
    lost = [turn(0, "go west"), turn(1, "wait")]
    return [episode("open-1", member, lost, False, id=f"open-1#{member}@4", seed=4) for member in (7, 8)]


def write_drawn(run: Path, iteration: int, groups: Any) -> Path:
    file = run / "sampling" / f"{iteration:06d}.json"
    file.parent.mkdir(exist_ok=True)
    file.write_text(json.dumps({"iteration": iteration, "groups": groups}))
    return file


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run of three iterations; for the last one it is written down what was drawn."""
    run = write_run(tmp_path / "made", iterations=1)
    write_iteration(run, 2, earlier())
    write_drawn(run, 2, [entry("open-1", ["open-1#7@4", "open-1#8@4"], seed=4)])
    helped = [episode("open-1", 0, [turn(0, "go east")], True, hint="<i>east</i>"), *episodes(3)[1:]]
    write_iteration(run, 3, helped)
    write_drawn(run, 3, ENTRIES)
    lines = [json.loads(text) for text in (run / "metrics.jsonl").read_text().splitlines()]
    lines[-1] |= NUMBERS
    (run / "metrics.jsonl").write_text("".join(json.dumps(event) + "\n" for event in lines))
    return run


def rows(run: Path, iteration: int) -> Any:
    """What the report has of the groups of an iteration, with texts in place of their positions."""
    data = open_report(run)
    data.refresh()
    part = data.revisions.parts[f"iteration/{iteration}"].value
    texts = part["strings"]
    words = ("task", "dropped", "options")
    return part["drawn"] and [
        {key: texts[value] if key in words else [texts[text] for text in value] if key == "hints" else value
         for key, value in row.items()}
        for row in part["drawn"]
    ]  # fmt: skip


def test_a_row_has_what_is_not_usual(run: Path) -> None:
    assert rows(run, 3) == [
        {
            "task": "open-1", "size": 2, "group": 0, "played": 3, "finished": 3, "won": 1, "counted": 2, "kept": 1,
            "rounds": 2, "weight": 2.5, "hinted": 1, "hints": ["<i>east</i>"], "options": 'level="hard"', "replayed": 2,
        },
        {"task": "fetch-2", "size": 2, "group": 1, "played": 2, "finished": 2, "won": 0, "rounds": 3, "dropped": RULE},
        {"task": "fetch-3", "size": 2, "group": 2, "played": 2, "finished": 1, "won": 1},
    ]  # fmt: skip
    assert rows(run, 1) is None


def test_advantages_are_those_among_the_members_that_were_counted(run: Path) -> None:
    data = open_report(run)
    settings = data.source.settings
    assert settings is not None
    groups = {group.task: group.trajectories for group in grouped(data.read(3).groups[0].trajectories)}
    joined = {member.id: member for member in earlier()}
    shown = iterations.turns(data.read(3), settings)
    open_one, dropped, whole = (shown["groups"][str(place)]["members"] for place in range(3))
    assert [bool(member["credit"]) for member in open_one] == [True, True, False]
    assert [member["credit"] for member in dropped] == [{}, {}]
    assert whole[0]["credit"]
    counted = Group("open-1", (*groups["open-1"][:2], *joined.values()))
    expected = settings.advantages("grpo", steps_of([counted])).aligned([counted.trajectories[0].id], [0])
    assert open_one[0]["credit"]["grpo"]["value"] == pytest.approx(expected.values.tolist(), abs=5e-4)
    assert [len(member["credit"]["grpo"]["dropped"]) for member in open_one[:2]] == [0, 6], "the second is not kept"
    assert shown["notes"] == []
    (run / "trajectories" / "000002.jsonl.gz").unlink()
    notes = iterations.turns(open_report(run).read(3), settings)["notes"]
    assert notes == [
        "2 of the 2 episodes that joined groups of 000003.jsonl.gz from experience are stored no longer, and "
        "advantages are computed without them: open-1#7@4, open-1#8@4"
    ]


def test_what_is_written_down_later_is_news(run: Path) -> None:
    file = run / "sampling" / "000003.json"
    content = file.read_text()
    file.unlink()
    data = open_report(run)
    data.refresh()
    before = data.since(0)["revision"]
    assert data.revisions.parts["iteration/3"].value["drawn"] is None
    first = data.read(3)
    file.write_text(content)
    data.refresh()
    (patch,) = data.since(before)["patches"]["iteration/3"]
    assert len(patch["drawn"]) == 3
    assert first.sampling is None
    assert data.read(3).sampling is not None


@pytest.mark.parametrize(
    "groups",
    [{"a": 1}, [1], [{"task": "x"}], [entry("x", ["y"], weight="heavy")], [entry("x", ["y"], options={"kind": "no"})]],
)
def test_a_foreign_file_of_what_was_drawn_leaves_a_note(run: Path, groups: Any) -> None:
    write_drawn(run, 3, groups)
    assert rows(run, 3) is None
    data = open_report(run)
    data.refresh()
    assert any("what was drawn for iteration 3 cannot be read" in note for note in data.notes)
    iterations.turns(data.read(3), data.source.settings)
    (run / "sampling" / "000003.json").write_text("{")
    data.refresh()
    assert any("what was drawn for iteration 3 cannot be read" in note for note in data.notes)


@pytest.fixture
def file(run: Path, tmp_path: Path) -> Path:
    file = tmp_path / "drawn.html"
    file.write_text(complete_page(open_report(run)), encoding="utf-8")
    return file


def test_the_page_of_what_was_drawn(tab: Any, file: Path) -> None:
    view = visit(tab, file, "#/groups")
    view.locator(".row b a").first.click()
    view.locator("h1", has_text="What was drawn for iteration 3").wait_for()
    text = view.inner_text()
    assert (
        f"3 groups of 3 tasks, 7 episodes; 1 dropped ({RULE} 1); 1 episode with a hint; 2 episodes from experience."
        in text
    )
    heads = view.locator("th").all_inner_texts()
    assert heads == [
        "group", "became", "drawn with", "size", "success", "rounds", "weight", "hints", "from experience"
    ]  # fmt: skip
    cells = [row.locator("td").all_inner_texts() for row in view.locator("tbody tr").all()]
    assert cells == [
        ["open-1", "trained on 1 of 3, 2 counted", 'level="hard"', "2 → 3", "1 of 3", "2", "2.5", "1 of 3", "2"],
        ["fetch-2", f"dropped by {RULE}", "", "2", "0 of 2", "3", "1", "–", "–"],
        ["fetch-3", "trained on", "", "2", "1 of 1", "1", "1", "–", "–"],
    ]
    facts = view.locator(".fact").all_inner_texts()
    assert [fact.split("\n")[-1] for fact in facts] == ["40", "1.5", "12", "4"]
    view.locator("tbody a").first.click()
    view.locator("h1", has_text="open-1").wait_for()
    text = view.inner_text()
    assert "3 episodes in place of 2 · 2 rounds · weight 2.5 · 1 with a hint · 2 from experience count as well" in text
    assert "<i>east</i>" in text
    assert "not counted" in text


def test_curves_of_what_was_drawn(tab: Any, file: Path) -> None:
    view = visit(tab, file, "#/")
    section = view.locator("section", has=tab.get_by_role("heading", name="What was drawn"))
    titles = section.locator(".plot b").all_inner_texts()
    assert titles == [
        "Distinct tasks", "Sampled turns", "Rounds", "Dropped groups", "Stored episodes", "Replayed episodes"
    ]  # fmt: skip


def test_iterations_without_a_word_about_it_have_no_such_page(tab: Any, file: Path) -> None:
    view = visit(tab, file, "#/drawn/1")
    assert "Nobody wrote down what was drawn" in view.inner_text()
    view = visit(tab, file, "#/drawn/3")
    assert view.locator("a[rel=prev]").get_attribute("href") == "#/drawn/2"
    assert view.locator("a[rel=next]").count() == 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_table_fits_a_phone(browser: Any, file: Path, scheme: Any) -> None:
    context = browser.new_context(viewport={"width": 360, "height": 740}, color_scheme=scheme)
    tab = context.new_page()
    for route in ("#/", "#/drawn/3", "#/group/3/0"):
        visit(tab, file, route)
        assert tab.evaluate("document.documentElement.scrollWidth") <= 360, route
    context.close()
