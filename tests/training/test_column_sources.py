"""Every column that a rule or an objective asks for is filled by something of ours, as the table of columns says."""

import re
from pathlib import Path

import gymnasium
import pytest
import toys.corridor
from test_training_loop import make_run

from turncredit.agents.steps import COLUMNS
from turncredit.credit import Steps
from turncredit.credit.catalogue import CATALOGUE as CREDIT_RULES
from turncredit.curriculum.annotators.catalogue import CATALOGUE as ANNOTATORS
from turncredit.curriculum.reward_rules.catalogue import CATALOGUE as REWARD_RULES
from turncredit.curriculum.reward_rules.catalogue import get_reward_rule
from turncredit.envs.info import EXTRAS
from turncredit.training import ConfigError
from turncredit.training.assign.hindsight import COLUMN as HINDSIGHT
from turncredit.training.objectives import objectives
from turncredit.training.objectives.tokens import COLUMNS as TENSORS
from turncredit.training.preflight.column_sources import SOURCES, choices, table
from turncredit.training.preflight.needs_of_rules import filled_columns
from turncredit.training.preflight.rules import check_rules

PAGE = (Path(__file__).resolve().parents[2] / "docs/methods.md").read_text(encoding="utf-8")
NEEDS = {
    **{f"credit rule {rule.name}": rule.needs for rule in CREDIT_RULES},
    **{f"reward rule {rule.name}": rule.needs for rule in REWARD_RULES},
    **{
        f"objective {name}": info.needs
        for name, info in objectives().items()
        if info.function.__module__.startswith("turncredit.")
    },
}
JUDGE = 'sampling.judge="toys.judges:make_judge"'
EVERY = [(name, source) for name, sources in SOURCES.items() for source in sources]


def words_of(source):
    return [JUDGE if word.startswith("sampling.judge") else word for word in source.words]


@pytest.mark.parametrize("rule", NEEDS)
def test_every_column_that_is_asked_for_has_a_source(rule):
    assert set(NEEDS[rule]) <= SOURCES.keys()


@pytest.mark.parametrize(("name", "source"), EVERY, ids=[f"{name}: {source.kind}" for name, source in EVERY])
def test_every_source_fills_its_column(tmp_path, name, source):
    if source.kind == "every run":
        assert name in (*COLUMNS, HINDSIGHT)
    elif source.kind == "learner":
        assert name in TENSORS
    elif source.kind == "environment":
        (word,) = source.words
        env = gymnasium.make(word.partition("=")[2].strip('"'))
        assert name in env.reset(seed=0)[1][EXTRAS]
        assert name in env.step("search[nothing]")[4][EXTRAS]
        env.close()
    elif source.kind == "reward rule":
        steps = Steps.from_columns(task=["t"], trajectory=[0], turn=[0], reward=[0.0], preferred=[1.0])
        assert name in get_reward_rule("genrm_pairs")(steps)[0]
    else:
        assert name not in filled_columns(make_run(tmp_path))
        assert name in filled_columns(make_run(tmp_path, *words_of(source)))


def test_every_annotator_that_fills_columns_is_in_the_table():
    words = " ".join(word for _, source in EVERY for word in source.words)
    others = {"embed", "attempts", "reflect", "training_free_grpo"}  # of vectors, as text_vector; of lessons
    assert {rule.name for rule in ANNOTATORS} - others <= {*re.findall(r'"(\w+)"', words)}


@pytest.mark.parametrize(
    "rule", [rule for rule in CREDIT_RULES if set(rule.needs) - {*COLUMNS, HINDSIGHT}], ids=lambda rule: rule.name
)
def test_a_credit_rule_without_its_columns_is_refused_with_what_fills_them(tmp_path, rule):
    run = make_run(tmp_path, f'env.id="{toys.corridor.ID}"', f"credit.method={rule.name}")
    missing = [name for name in rule.needs if name not in (*COLUMNS, HINDSIGHT)]
    with pytest.raises(ConfigError, match=rf"credit.method '{rule.name}' needs") as caught:
        check_rules(run)
    assert choices(missing[:1]) in str(caught.value)
    assert all(f"the column {name!r} is filled by " in str(caught.value) for name in missing)


@pytest.mark.parametrize(
    "rule", [rule for rule in REWARD_RULES if set(rule.needs) - {*COLUMNS}], ids=lambda rule: rule.name
)
def test_so_is_a_reward_rule(tmp_path, rule):
    run = make_run(tmp_path, f'env.id="{toys.corridor.ID}"', f'sampling.rewards=["{rule.name}"]')
    with pytest.raises(ConfigError, match=rf"the reward rule '{rule.name}' needs") as caught:
        check_rules(run)
    for name in set(rule.needs) - {*COLUMNS}:
        assert f"the column {name!r} is filled by " in str(caught.value)


@pytest.mark.parametrize("name", ["prof", "drkernel_prs"])
def test_a_group_rule_that_chooses_by_a_column_wants_it_from_the_environment(tmp_path, name):
    run = make_run(tmp_path, f'env.id="{toys.corridor.ID}"', f'sampling.groups=["{name}"]')
    sources = rf"the group rule '{name}' chooses members by the column.* is filled by env\.id=\"turncredit/Search-v0\""
    with pytest.raises(ConfigError, match=sources):
        check_rules(run)


def test_the_page_has_the_table():
    (found,) = re.findall(r"<!-- columns -->\n(.*?)\n<!-- end of columns -->", PAGE, flags=re.DOTALL)
    assert found == table(), "write the table anew, from turncredit.training.preflight.column_sources.table"
