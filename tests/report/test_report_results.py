"""Reports of benchmarks and ablations, from their folders to their pages in Chromium."""

from __future__ import annotations

import json
import re
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from toys.benchmarks import SUITE, Flaky, register_toys
from toys.commands import one_sentence
from toys.report_runs import evaluation, visit, write_iteration, write_run

from turncredit.ablation.plan import open_folder, plan
from turncredit.ablation.results import ablation_results
from turncredit.evaluation.benchmark_card import Card
from turncredit.report.run_report.html import complete_page
from turncredit.report.run_report.report_data import open_report
from turncredit.training.config.run import Run

MORE = '[[panels]]\nname = "absent"\nenv = "toys/Absent-v0"\nepisodes = 2\n'


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory, turncredit: Any) -> Path:
    """The folder of a benchmark of two panels that were played, and one that could not be."""
    register_toys()
    folder = tmp_path_factory.mktemp("bench")
    (folder / "tiny.toml").write_text(SUITE + MORE, encoding="utf-8")
    with ThreadPoolExecutor(1) as pool:  # the thread of the tests may have Playwright's event loop
        for player in ("random", "expert"):
            said = pool.submit(
                turncredit, "bench", player, "--suite", folder / "tiny.toml", "--output", folder / player
            ).result()
            assert said.code == 0, said.err
    return folder / "random"


@pytest.fixture(scope="module")
def ablation(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of an ablation of two arms and three seeds, of which one run has only begun."""
    folder = tmp_path_factory.mktemp("ablation") / "credit"
    run = Run.parse({"name": "credit", "env": {"id": "turncredit/Household-v0"}}, [])
    made = plan(run, ["credit=grpo,gigpo", "seeds=3"], folder)
    outcomes = {
        ("grpo", 0): "110000000000", ("grpo", 1): "100000000000", ("grpo", 2): "110000000001",
        ("gigpo", 0): "111111000000", ("gigpo", 1): "111110000000",
    }  # fmt: skip
    open_folder(made)
    for seed in made.seeds:
        write_run(made.folder_of("warm-start", seed), iterations=1)
        evaluation("100000000000").save(made.folder_of("warm-start", seed) / "after.json")
        for arm in made.arms:
            place = write_run(made.folder_of(arm.folder, seed), iterations=2)
            if (arm.name, seed) in outcomes:
                evaluation("100000000000").save(place / "before.json")
                evaluation(outcomes[arm.name, seed]).save(place / "after.json")
    return folder


def card_losses(folder: Path) -> int:
    """The episodes of a benchmark that were not won."""
    return sum(not row.won for result in Card.load(folder / "card.json").played for row in result.rows)


def page_of(folder: Path, name: str, *against: Path) -> Path:
    file = folder.parent / f"{name}.html"
    file.write_text(complete_page(open_report(folder, against=against)), encoding="utf-8")
    return file


def test_the_numbers_of_a_benchmark_are_those_of_its_card(bench: Path) -> None:
    data = open_report(bench)
    data.refresh()
    parts, card = data.since(0)["parts"], Card.load(bench / "card.json")
    for shown, panel in zip(parts["card"]["panels"], card.panels, strict=True):
        assert (shown["name"], shown["status"]) == (panel.name, panel.status)
        if panel.result is not None:
            summary = panel.result.summary()
            assert (shown["success"]["k"], shown["success"]["n"]) == (summary.success.k, summary.success.n)
            assert shown["turns"] == pytest.approx(summary.turns, rel=1e-4)
            episodes = parts[f"iteration/{shown['number']}"]["groups"]
            assert sum(group["won"][0] for group in episodes) == summary.success.k
    assert parts["run"]["command"] == card.about["command"]


def test_episodes_that_ended_as_errors(tab: Any, turncredit: Any, tmp_path: Path) -> None:
    register_toys()
    suite = '[[panels]]\nname = "flaky"\nenv = "toys/Flaky-v0"\nepisodes = 2\nagent = { max_turns = 5 }\n'
    (tmp_path / "flaky.toml").write_text(suite, encoding="utf-8")
    folder, Flaky.left = tmp_path / "flaky", 3  # both fail, and the first of them once more
    with ThreadPoolExecutor(1) as pool:
        said = pool.submit(
            turncredit, "bench", "random", "--suite", tmp_path / "flaky.toml", "--output", folder
        ).result()
    assert said.code == 0, said.err
    assert len((folder / "flaky.jsonl").read_text().splitlines()) == 4
    data = open_report(folder)
    data.refresh()
    parts = data.since(0)["parts"]
    assert [group["won"] for group in parts["iteration/1"]["groups"]].count([None]) == 1
    assert [len(group["won"]) for group in parts["iteration/1"]["groups"]] == [1, 1]
    file = page_of(folder, "flaky")
    results = visit(tab, file, "#/").inner_text()
    assert "Episodes that ended as an error are in no rate and no mean." in results
    assert re.search(r"flaky\s+1 of 2\s+RuntimeError in step\(\): the connection was lost", results), results
    assert "2 of 2 tasks" in visit(tab, file, "#/panel/1").inner_text()
    (folder / "card.json").unlink()
    assert re.search(r"flaky\s+1 of 2\s+RuntimeError", visit(tab, page_of(folder, "half"), "#/").inner_text())


def test_a_benchmark_that_is_being_played_shows_what_is_stored(bench: Path, tmp_path: Path) -> None:
    folder = tmp_path / "half"
    folder.mkdir()
    (folder / "state.json").write_bytes((bench / "state.json").read_bytes())
    lines = (bench / "long.jsonl").read_text().splitlines(keepends=True)
    (folder / "long.jsonl").write_text("".join(lines[:3]) + lines[3][:40])
    data = open_report(folder)
    data.refresh()
    parts = data.since(0)["parts"]
    assert [(panel["name"], panel["success"]["n"]) for panel in parts["card"]["panels"]] == [("long", 3)]
    assert "not finished" in parts["run"]["notes"][0]
    assert any("incomplete" in note for note in parts["run"]["notes"])
    with (folder / "long.jsonl").open("a") as file:
        file.write(lines[3][40:])
    data.refresh()
    news = data.since(1)
    assert news["parts"]["card"]["panels"][0]["success"]["n"] == 4
    assert "iteration/1" in news["patches"]


def test_pages_of_a_benchmark(tab: Any, bench: Path) -> None:
    file = page_of(bench, "bench", bench.parent / "expert")
    view = visit(tab, file, "#/")
    assert view.locator(".interval .name").all_inner_texts() == ["short", "long", "mean of 2 panels", ""]
    assert "there is no browser on this machine" in view.inner_text()
    assert view.locator("table").first.locator("th").all_inner_texts()[-1] == "expert"
    assert visit(tab, file, "#/groups").locator(".cell").count() == 8
    view = visit(tab, file, "#/panel/2")
    assert view.locator("tbody tr").count() == 6
    view.get_by_label("outcome", exact=True).select_option("lost")
    lost = view.locator("tbody tr").count()
    view.get_by_label("outcome", exact=True).select_option("won")
    assert lost + view.locator("tbody tr").count() == 6
    view.get_by_label("outcome", exact=True).select_option("")
    view.locator("tbody a").first.click()
    tab.wait_for_function("() => document.querySelector('.page-turn .card')")
    assert "task 1 of 6" in view.locator(".crumbs").inner_text()
    assert view.locator(".credit").count() == 0
    view = visit(tab, file, "#/search?q=door")
    status = "text => document.querySelector('#view [role=status]').textContent.includes(text)"
    tab.wait_for_function(status, arg="2 of 2 panels")
    view.get_by_label("panel", exact=True).select_option("short")
    tab.wait_for_function(status, arg="1 of 1 panels")
    assert f"{card_losses(bench)} of 8 episodes without success" in visit(tab, file, "#/failures").inner_text()


def test_two_cards_are_compared_task_by_task(tab: Any, bench: Path) -> None:
    file = page_of(bench, "cards", bench.parent / "expert")
    view = visit(tab, file, "#/compare")
    assert view.get_by_label("first").locator("option").all_inner_texts() == ["random", "expert"]
    first, second = (Card.load(bench.parent / name / "card.json") for name in ("random", "expert"))
    rows = [
        (a.won, b.won)
        for one, other in zip(first.played, second.played, strict=True)
        for a, b in zip(one.rows, other.rows, strict=True)
    ]
    assert view.locator(".verdict").inner_text().startswith(f"{rows.count((False, True))} tasks won only by the second")
    assert view.locator("tbody").last.locator("tr").count() == rows.count((False, True)) + rows.count((True, False))
    view.locator("tbody").last.locator("a").first.click()
    tab.wait_for_function("() => document.querySelector('.page-turn .card')")


def test_the_numbers_of_an_ablation_are_those_of_its_results(ablation: Path) -> None:
    from turncredit.ablation.plan import read_plan

    data = open_report(ablation)
    data.refresh()
    shown, expected = data.since(0)["parts"]["results"], ablation_results(read_plan(ablation))
    for arm in shown["arms"][1:]:
        assert arm["success"]["value"] == pytest.approx(expected["arms"][arm["name"]]["success"]["value"], abs=1e-4)
    ((one,), (other,)) = shown["comparisons"], expected["comparisons"]
    for key in ("p_tasks_holm", "p_seeds_holm"):
        assert one[key] == pytest.approx(other[key], rel=1e-3)
    assert one["verdict"] == other["verdict"]


def test_pages_of_an_ablation_and_of_its_runs(tab: Any, ablation: Path) -> None:
    file = page_of(ablation, "ablation")
    view = visit(tab, file, "#/")
    assert view.locator(".intervals").count() == 2
    assert view.locator(".interval .name").all_inner_texts()[:3] == ["warm start", "grpo", "gigpo"]
    text = view.inner_text()
    for part in ("Against grpo", "p over seeds", "8 of 9", "running, iteration 2"):
        assert part in text
    assert view.locator(".plot .curve").count() == 2
    view.get_by_role("link", name="running, iteration 2").click()
    tab.wait_for_function("() => document.getElementById('view').dataset.ready === '#/run/8/'")
    tab.keyboard.press("2")
    tab.wait_for_function("() => document.querySelectorAll('.page-groups .cell').length === 6")
    view.locator(".cell").first.click()
    tab.wait_for_function("() => document.querySelector('.page-group .strip')")
    view.locator(".strip .turn").first.click()
    tab.wait_for_function("() => document.querySelector('.page-turn .card')")
    assert tab.evaluate("location.hash").startswith("#/run/8/turn/")
    tab.keyboard.press("j")
    assert tab.evaluate("location.hash").startswith("#/run/8/turn/")
    assert view.locator(".card.here").count() == 1
    view.get_by_role("link", name="Results").first.click()
    tab.wait_for_function("() => location.hash === '#/'")


def test_a_key_that_arrives_before_the_page_is_drawn_stays_in_the_run(tab: Any, ablation: Path) -> None:
    visit(tab, page_of(ablation, "quick"), "#/")
    press = "document.body.dispatchEvent(new KeyboardEvent('keydown', {key: '2', bubbles: true}))"
    assert tab.evaluate(f"() => {{ location.hash = '#/run/8/'; {press}; return location.hash }}") == "#/run/8/groups"
    tab.wait_for_function("() => document.querySelectorAll('.page-groups .cell').length === 6")


def test_tasks_that_flipped_between_arms(tab: Any, ablation: Path) -> None:
    file = page_of(ablation, "flips")
    view = visit(tab, file, "#/flips")
    rows = view.locator("tbody tr")
    assert [row.split("\t")[0] for row in rows.all_inner_texts()[:3]] == ["task-2", "task-3", "task-4"]
    assert rows.first.locator("td").all_inner_texts()[2:] == ["○ ○", "● ●", "+2"]
    assert "2 seeds" in view.inner_text()  # the third has no run of this arm
    view.get_by_label("tasks", exact=True).select_option("all")
    assert rows.count() == 12
    view = visit(tab, file, "#/failures")
    view.get_by_label("arm", exact=True).select_option("gigpo")
    assert "of 42 episodes" in view.inner_text()  # three runs of two iterations of seven episodes
    view.locator(".example").first.click()
    tab.wait_for_function(
        "() => location.hash.startsWith('#/run/6/turn/') && document.querySelector('.page-turn .card')"
    )
    view = visit(tab, file, "#/search?q=sing")
    tab.wait_for_function("() => document.querySelector('#view [role=status]').textContent.includes('15 of 15')")
    assert view.locator(".hits a").first.inner_text().startswith("made, iteration 1")


def test_a_torn_evaluation_leaves_the_runs(tab: Any, ablation: Path, tmp_path: Path) -> None:
    folder = tmp_path / "torn"
    shutil.copytree(ablation, folder)
    (folder / "grpo" / "seed-1" / "after.json").write_text('{"rows": [')
    view = visit(tab, page_of(folder, "torn"), "#/")
    assert "the results cannot be computed" in view.inner_text()
    view.locator("tbody a").nth(4).click()
    tab.wait_for_function("() => document.getElementById('view').dataset.ready === '#/run/4/'")


def test_an_ablation_that_continues_sends_what_is_new(ablation: Path) -> None:
    data = open_report(ablation)
    data.refresh()
    before = data.since(0)
    write_iteration(ablation / "gigpo" / "seed-2", 3)
    data.refresh()
    news = data.since(before["revision"])
    assert news["parts"].keys() == {"8:iteration/3", "8:event/2", "results"}


def test_hostile_names_are_text(tab: Any, bench: Path, ablation: Path, tmp_path: Path) -> None:
    attack = "<img src=x onerror=hacked=1></script><script>hacked=1</script>"
    folder, arms = tmp_path / "bench", tmp_path / "arms"
    shutil.copytree(bench, folder)
    card = json.loads((folder / "card.json").read_text())
    card |= {"name": attack, "suite": attack, "about": {"command": attack, "versions": {attack: attack}, "machine": 3}}
    card["cards"][2] |= {"name": attack, "reason": attack}
    (folder / "card.json").write_text(json.dumps(card))
    (folder / f"{attack.replace('/', '')}.jsonl").write_bytes((folder / "long.jsonl").read_bytes())
    shutil.copytree(ablation, arms)
    plan = (arms / "plan.json").read_text()
    (arms / "plan.json").write_text(plan.replace('"name": "gigpo"', f'"name": {json.dumps(attack)}'))
    for file, routes in (
        (page_of(folder, "hostile"), ("#/", "#/groups", "#/panel/3", "#/compare", "#/failures", "#/search?q=door")),
        (page_of(arms, "hostile-arms"), ("#/", "#/flips", "#/compare", "#/failures", "#/search?q=go")),
    ):
        for route in routes:
            view = visit(tab, file, route)
            assert tab.evaluate("window.hacked") is None
            assert view.locator("img, script").count() == 0
            assert view.locator("h1").is_visible(), f"{route}: {view.inner_text()}"
            assert "cannot be shown" not in view.inner_text()
        assert "<img src=x" in visit(tab, file, routes[0]).inner_text()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_page_of_results_is_wider_than_a_phone(browser: Any, bench: Path, ablation: Path, scheme: Any) -> None:
    context = browser.new_context(viewport={"width": 360, "height": 740}, color_scheme=scheme)
    tab = context.new_page()
    for file, routes in (
        (page_of(bench, "phone"), ("#/", "#/groups", "#/panel/1", "#/turn/1/0/0/0", "#/compare", "#/search?q=door")),
        (page_of(ablation, "phone"), ("#/", "#/flips", "#/failures", "#/run/4/", "#/run/4/groups", "#/compare")),
    ):
        for route in routes:
            visit(tab, file, route)
            assert tab.evaluate("document.documentElement.scrollWidth") <= 360, route
    context.close()


def test_bad_folders_are_one_sentence(bench: Path, ablation: Path, tmp_path: Path, turncredit: Any) -> None:
    one_sentence(turncredit("report", bench, "--against", tmp_path), "holds no card.json")
    one_sentence(turncredit("report", ablation, "--against", bench), "compared already")
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "plan.json").write_text("{")
    one_sentence(turncredit("report", broken), "plan.json is not the plan of an ablation")
    torn = tmp_path / "torn"
    torn.mkdir()
    (torn / "card.json").write_text(json.dumps({"version": 1}))
    said = turncredit("report", torn, "--output", tmp_path / "torn.html")
    assert said.code == 0, said.err
    assert "the card is left out" in said.err
