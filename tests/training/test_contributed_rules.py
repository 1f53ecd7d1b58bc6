"""The rules of CONTRIBUTING.md, exactly as printed: found by module and function, used in a run and as arms."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path

import numpy as np
import pytest
from test_training_loop import lines, make_run

from turncredit.ablation.axes import is_axis
from turncredit.ablation.plan import check, plan
from turncredit.credit import BadOption
from turncredit.credit import get as credit_rule
from turncredit.credit.registry import RULES as RULES_BY_NAME
from turncredit.curriculum import TaskRecords
from turncredit.curriculum.group_rules.catalogue import get_group_rule
from turncredit.curriculum.task_rules.catalogue import get_task_rule
from turncredit.registry import names_from_files
from turncredit.training import Run, train
from turncredit.training.objectives import get as objective_named

ROOT = Path(__file__).resolve().parents[2]
PAGES = {name: (ROOT / name).read_text(encoding="utf-8") for name in ("CONTRIBUTING.md", "docs/objectives.md")}
RULES = ("def by_time", "def surprising", "def near", "def one_more")


@pytest.fixture(autouse=True)
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with `mine.py`, which holds the rules as they are printed, and the objective of the page."""
    code = re.findall(r"^```python\n(.*?)^```", PAGES["CONTRIBUTING.md"], re.DOTALL | re.MULTILINE)
    parts = [block for rule in RULES for block in code if rule in block]
    assert len(parts) == len(RULES)
    pages = re.findall(r"^```python\n(.*?)^```", PAGES["docs/objectives.md"], re.DOTALL | re.MULTILINE)
    parts += [block.partition("\n\n\nloss, stats")[0] for block in pages if "def better" in block]
    (tmp_path / "mine.py").write_text("\n\n".join(parts), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "mine", raising=False)
    others = {name: rule for name, rule in RULES_BY_NAME._items.items() if name != "by-time"}
    monkeypatch.setattr(RULES_BY_NAME, "_items", others)  # the module registers its rule each time it is imported
    return tmp_path


def test_they_are_found_by_name_with_their_options() -> None:
    assert credit_rule("mine:by_time", gamma=0.5).options["gamma"] == 0.5
    assert objective_named("mine:surprising").function.options == {"power": 1.0}
    assert get_task_rule("mine:near", target=0.3).options["target"] == 0.3
    assert get_group_rule("mine:one_more").name == "mine:one_more"
    with pytest.raises(BadOption, match="target must be"):
        get_task_rule("mine:near", target=2.0)


def test_the_order_of_the_pool_decides_nothing_for_the_task_rule() -> None:
    rule, tasks = get_task_rule("mine:near"), [f"t{number}" for number in range(20)]
    drawn = set()
    for seed in range(40):
        rng = np.random.default_rng(seed)
        draw = rule(TaskRecords.of(tasks), count=3, group=2, iteration=0, total=1, rng=rng)
        assert len(set(draw.tasks)) == 3
        drawn |= set(draw.tasks)
    assert drawn == set(tasks)  # all are equally far from the target


def test_a_run_uses_them_all(tmp_path: Path) -> None:
    run = make_run(
        tmp_path / "run",
        "credit.method=mine:by_time",
        "credit.options={gamma=0.9}",
        "objective.name=mine:surprising",
        "objective.options.power=2",
        'sampling.tasks={name="mine:near",target=0.3}',
        'sampling.groups=["mine:one_more"]',
        "train.iterations=2",
        "evaluation.episodes=0",
    )
    assert train(run).finished
    events = [event for event in lines(tmp_path / "run") if event["phase"] == "train"]
    assert len(events) == 2
    for event in events:  # groups that differ are trained on, and groups that ended alike play on
        assert event["updates"] > 0 or event["rounds"] > 1


def commands(program: str) -> list[str]:
    pages = [*PAGES.values(), (ROOT / "docs/ablation.md").read_text(encoding="utf-8")]
    return sorted(
        {line for page in pages for line in re.findall(rf"^turncredit {program} .*mine:.*$", page, re.MULTILINE)}
    )


@pytest.mark.parametrize("command", commands("ablate"))
def test_the_printed_ablations_can_be_planned(command: str, tmp_path: Path) -> None:
    words = [word for word in shlex.split(command)[3:] if "=" in word]
    base = make_run(tmp_path / "run", *(word for word in words if not is_axis(word)))
    with names_from_files([base.env.id, *words], folder=tmp_path):
        planned = plan(base, [word for word in words if is_axis(word)], tmp_path / "ablation")
        check(planned)
    assert any("mine:" in arm.name for arm in planned.arms)


@pytest.mark.parametrize("command", commands("train"))
def test_the_printed_runs_can_be_read(command: str, tmp_path: Path) -> None:
    from turncredit.training.parts import prepare

    run = make_run(tmp_path / "run", *shlex.split(command)[3:])
    with names_from_files([run.env.id, *shlex.split(command)], folder=tmp_path):
        prepare(Run.parse(run.model_dump(exclude_unset=True)))
