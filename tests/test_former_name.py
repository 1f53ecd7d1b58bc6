"""What was written under the project's former name is read as if it had today's: archives, runs, results, exports."""

from __future__ import annotations

import json
import subprocess
import tarfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from toys.report_runs import episode, turn

from turncredit import envs
from turncredit.ablation.plan import open_folder, read_plan
from turncredit.agents.interchange.chat_records import read_chat, write_chat
from turncredit.agents.interchange.records import Exported, Origin
from turncredit.agents.interchange.sts import read_sts, write_sts
from turncredit.envs.registration import find
from turncredit.evaluation import compare
from turncredit.evaluation.panels import Panel, make_panel
from turncredit.evaluation.results import EvaluationResult
from turncredit.evaluation.suite import digest
from turncredit.former_name import FORMER, current, current_name
from turncredit.report import write_report
from turncredit.training.config.run import Run

ROOT = Path(__file__).resolve().parent.parent
ARCHIVE = ROOT / "docs" / "recorded_runs" / "staleness-by-turn-trial-2.tar.xz"
HOUSEHOLD = "turncredit/Household-v0"
MAY_NAME_IT = {
    "package/former_name.py": "the one mapping",
    "tests/test_former_name.py": "the archives and files of before",
    "CHANGELOG.md": "says that the name changed",
}


@pytest.fixture
def ablation(tmp_path: Path) -> Path:
    """The folder of an ablation as the archive holds it."""
    with tarfile.open(ARCHIVE) as file:
        file.extractall(tmp_path, filter="data")
    (folder,) = tmp_path.iterdir()
    return folder


def test_nothing_else_in_the_project_has_the_former_name() -> None:
    command = ["git", "grep", "--cached", "-I", "-l", "-i", FORMER]
    listing = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if listing.returncode not in (0, 1):
        pytest.skip("this is no clone: git lists no files")
    assert set(listing.stdout.split()) <= MAY_NAME_IT.keys()


def test_the_runs_of_an_archive_are_read_as_they_lie(ablation: Path) -> None:
    raw = (ablation / "warm-start" / "seed-2" / "run.toml").read_text(encoding="utf-8")
    assert f'id = "{FORMER}/Household-v0"' in raw  # or the test would show nothing
    runs = [Run.load(file) for file in ablation.rglob("run.toml")]
    assert {run.env.id for run in runs} == {HOUSEHOLD}
    assert len(runs) > 1
    assert {run.name for run in runs}.isdisjoint({""})


def test_an_ablation_of_an_archive_can_be_continued(ablation: Path) -> None:
    plan = read_plan(ablation)
    assert plan.base["env"]["id"] == HOUSEHOLD
    open_folder(replace(plan, seeds=(*plan.seeds, 77)))  # the same settings, one more seed
    assert read_plan(ablation).seeds[-1] == 77


def test_a_result_of_an_archive_is_compared_with_one_of_today(ablation: Path) -> None:
    before = EvaluationResult.load(ablation / "warm-start" / "seed-2" / "before.json")
    assert before.panel.env == HOUSEHOLD
    today = Panel(HOUSEHOLD, before.panel.tasks, before.panel.kwargs, before.panel.seed)
    assert digest(before.panel) == digest(today)
    compare(before, replace(before, panel=today))  # other panels would be refused


def test_the_report_of_an_archive_shows_todays_name(ablation: Path) -> None:
    page = ablation.parent / "page.html"
    write_report(ablation / "warm-start" / "seed-2", page)
    text = page.read_text(encoding="utf-8")
    assert f"{FORMER}/" not in text
    assert HOUSEHOLD in text


def test_environments_are_found_by_their_former_ids() -> None:
    assert find(f"{FORMER}/Search-v0") is find("turncredit/Search-v0")
    assert make_panel(f"{FORMER}/Search-v0", {"level": "tiny"}, 2).env == "turncredit/Search-v0"
    env = envs.make("turncredit/Mixture-v0", parts=[{"id": f"{FORMER}/Search-v0", "kwargs": {"level": "tiny"}}])
    assert env.unwrapped.task_ids(1)[0].startswith("search/")


@pytest.mark.parametrize(("write", "read"), [(write_chat, read_chat), (write_sts, read_sts)])
def test_exports_of_before_are_imported_without_a_loss(tmp_path: Path, write: Callable, read: Callable) -> None:
    stored = episode("open-1", 0, [turn(0, "go north"), turn(1, None)], won=True)
    today, before = tmp_path / "today.jsonl", tmp_path / "before.jsonl"
    for path in (today, before):
        write([Exported(stored)], path, Origin("run"))
    for file in [before] if before.is_file() else list(before.glob("*.jsonl")):
        text = file.read_text(encoding="utf-8")
        assert "turncredit" in text
        file.write_text(text.replace("turncredit", FORMER), encoding="utf-8")
    renamed = [entry.trajectory for entry in read(before)]
    assert renamed == [entry.trajectory for entry in read(today)]
    assert renamed[0].turns[0].action == "go north"


def test_a_model_of_before_that_sees_is_loaded() -> None:
    transformers = pytest.importorskip("transformers")
    from turncredit.agents.vision.screen_tower import ScreenTower
    from turncredit.engines.vllm.own_models import architecture_of

    sizes = {"image_height": 24, "image_width": 12, "hidden_size": 8, "layers": 1}
    config = transformers.AutoConfig.for_model(f"{FORMER}_screen_tower", **sizes)
    assert isinstance(transformers.AutoModel.from_config(config), ScreenTower)
    tables = [{"vision_config": {"model_type": f"{name}_screen_tower"}} for name in ("turncredit", FORMER)]
    assert architecture_of(tables[0]) == architecture_of(tables[1]) != {}


@pytest.mark.parametrize(
    "text",
    [
        "mine/Safe-v0",
        "runs/turnwise/1",
        "turnwise",
        "turnwise/runs",
        "TURNWISE_DATA",
        "say turnwise/Search-v0",
        "turnwised/X",
    ],
)
def test_the_texts_of_users_stay(text: str) -> None:
    assert current_name(text) == text
    assert current({"name": [text, 1, None]}) == {"name": [text, 1, None]}


def test_a_reference_and_a_variable_are_read() -> None:
    before = {"parser": f"{FORMER}.agents.prompts.parsing:bare", "games": "${TURNWISE_DATA}/alfworld", FORMER: True}
    today = {
        "parser": "turncredit.agents.prompts.parsing:bare",
        "games": "${TURNCREDIT_DATA}/alfworld",
        "turncredit": True,
    }
    assert current(before) == today
    assert json.loads(json.dumps(before)) == before
