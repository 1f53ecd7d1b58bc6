"""Estimators by name: what is known about them, options that are checked early, and estimators of other packages."""

import shutil
from importlib.metadata import EntryPoint
from types import ModuleType

import numpy as np
import pytest
from toys.full_tables import full_episode

import turncredit.credit
from turncredit.credit import (
    CATALOGUE,
    Advantages,
    BadOption,
    BadTable,
    CreditError,
    CreditRule,
    Steps,
    UnknownRule,
    catalogue,
    get,
    gigpo,
    register,
    rules,
)
from turncredit.credit.options import INVALID_PENALTY
from turncredit.credit.registry import RULES
from turncredit.credit.tokens import TransformedAdvantages, transform, transforms
from turncredit.registry import entry_points

STEPS = Steps.from_rows([*full_episode([1.0], 0), *full_episode([0.0], 1)])


def halves(steps: Steps, *, factor: float, shift: float = 0.0) -> Advantages:
    """Half of every reward."""
    return Advantages.of(steps, steps.reward * factor + shift)


WORDLESS = CreditRule("theirs", "Theirs", None, "our reading", "never", halves)


@pytest.fixture
def installed(monkeypatch):
    """Pretend that a package offers credit rules."""

    def offer(**values):
        points = [EntryPoint(name, value, RULES.group) for name, value in values.items()]
        monkeypatch.setattr("turncredit.registry.entry_points", lambda group: points if group == RULES.group else [])

    return offer


@pytest.mark.parametrize("item", rules().values(), ids=lambda item: item.name)
def test_every_entry_says_what_a_reader_needs(item):
    assert get(item.name) == item
    assert item.title
    assert item.use.endswith(".")
    assert item.arxiv is None or item.arxiv.replace(".", "").isdigit()
    assert item.evidence in ("reference code", "paper", "our reading")
    assert item.function.__doc__
    assert (item.arxiv or "Source:") in (item.function.__doc__ or "")
    assert item.evidence != "our reading" or "Our reading" in " ".join((item.function.__doc__ or "").split())
    assert set(item.needs) <= set(STEPS.columns)
    assert getattr(turncredit.credit, item.name) is item.function
    assert item.name in turncredit.credit.__all__
    result = item(STEPS, **({"rng": np.random.default_rng(0)} if item.draws else {}))
    assert isinstance(result, Advantages)
    assert len(result) == 2
    assert len(item(Steps.empty())) == 0


def test_what_nobody_could_read_is_our_reading():
    """Of these there was an abstract, or a description by others, and neither the paper's text nor its code."""
    second_hand = (
        "salt",
        "graft",
        "rtmc",
        "slea",
        "himac",
        "seeupo",
        "mapo_mixed",
        "xrpo_novelty",
        "seed_grpo",
        "hcapo",
    )
    abstracts = ("m_grpo", "mapo_dialogue", "copo", "ppr_renorm", "step_grpo", "arpo_hard", "bpo", "vine")
    assert {get(name).evidence for name in (*second_hand, *abstracts)} == {"our reading"}
    assert {transforms()[name].evidence for name in ("hicra", "d3s", "ace")} == {"our reading"}
    ran = ("grpo", "dr_grpo", "rloo", "opo", "reinforce_pp_baseline", "passk", "ngrpo", "bnpo", "adora", "a_grae",
           "canon", "hapo", "gigpo", "hgpo", "tree_grpo", "trloo")  # fmt: skip
    assert {get(name).evidence for name in ran} == {"reference code"}


def test_a_rule_says_which_columns_are_missing(subtests):
    """With its default options those that it needs; none of a table that has all of them."""
    for name, rule in rules().items():
        with subtests.test(name):
            assert rule.missing(STEPS.columns) == []
            needs = ("action", "next_state") if name == "tempo" else rule.needs  # one of two that serve as well
            assert sorted(rule.missing(())) == sorted(needs)


def test_options_change_which_columns_are_missing():
    plays = ("state", "action", "next_state", "valid", "tokens", "logprob")
    assert get("spo_segment").missing(plays) == ["value"]
    assert get("spo_segment", mode="tree").missing(plays) == ["parent"]
    assert get("tempo").missing(plays) == []
    assert get("tempo", key="parent").missing(plays) == ["parent"]
    assert get("arpo_hard", key="transition").missing(plays) == []
    assert get("salt", base="gdpo").missing(plays) == ["multi"]
    assert CreditRule("theirs", "", None, "our reading", "", halves, ("value", "state")).missing(plays) == ["value"]


def test_options_are_bound_and_listed():
    bound = get("gigpo", gamma=0.5, scale="none")
    assert bound(STEPS).values.tolist() == gigpo(STEPS, gamma=0.5, scale="none").values.tolist()
    assert bound.options["gamma"] == 0.5
    assert get("gigpo").options["gamma"] == 0.95


@pytest.mark.parametrize(
    ("name", "options", "error", "words"),
    [
        ("gigpoo", {}, UnknownRule, "unknown credit rule 'gigpoo'; did you mean 'gigpo'"),
        ("", {}, UnknownRule, "choose one of: a_grae, .*gigpo, "),
        ("gigpo", {"gama": 0.9}, BadOption, "gigpo has no option 'gama'; did you mean 'gamma'"),
        ("gigpo", {"steps": 1}, BadOption, "gigpo has no option 'steps'"),
        ("grpo", {"scale": "sdt"}, BadOption, "scale must be one of 'std', 'none', 'mad', got 'sdt'"),
        ("gigpo", {"gamma": "high"}, BadOption, r"gamma must be a number in \[0, 1\], got 'high'"),
    ],
)
def test_slips_show_before_any_rollout(name, options, error, words):
    with pytest.raises(error, match=words):
        get(name, **options)


def test_another_package_adds_a_function(installed):
    installed(half=f"{__name__}:halves")
    assert "half" in rules()
    assert rules()["half"].title == "Half of every reward."
    assert get("half", factor=0.5)(STEPS).values.tolist() == [0.5, 0.0]
    assert get("half").options["shift"] == 0.0
    with pytest.raises(BadOption, match="did you mean 'factor'"):
        get("half", factr=1.0)


def test_another_package_adds_an_entry_under_its_entry_points_name(installed):
    installed(mine=f"{__name__}:WORDLESS")
    assert (get("mine").name, get("mine").title) == ("mine", "Theirs")


def test_a_function_is_named_by_its_module():
    assert get(f"{__name__}:halves", factor=0.5)(STEPS).values.tolist() == [0.5, 0.0]
    assert get(f"{__name__}:WORDLESS", factor=2.0)(STEPS).values.tolist() == [2.0, 0.0]
    with pytest.raises(CreditError, match="expected a CreditRule or a function, got int"):
        get(f"{__name__}:GROUPS")
    with pytest.raises(CreditError, match="AttributeError"):
        get(f"{__name__}:nothing")


def test_token_transforms_are_found_in_the_same_ways(monkeypatch):
    point = EntryPoint("mine", f"{__name__}:doubled", "turncredit.token_transforms")
    monkeypatch.setattr("turncredit.registry.entry_points", lambda group: [point] if group == point.group else [])
    assert "mine" in transforms()
    for name in ("mine", f"{__name__}:doubled"):
        assert transform(name, factor=3.0)([[1.0]], [[1]]).values.tolist() == [[3.0]]
    with pytest.raises(UnknownRule, match="unknown token transform 'hicar'; did you mean 'hicra'"):
        transform("hicar")
    with pytest.raises(BadOption, match="hicra has no option 'alhpa'; did you mean 'alpha'"):
        transform("hicra", alhpa=1.0)


def doubled(advantages, mask, *, factor: float = 2.0) -> TransformedAdvantages:
    """Twice each advantage."""
    return TransformedAdvantages(np.asarray(advantages) * factor, np.asarray(mask) > 0)


def test_a_package_is_found_as_soon_as_it_is_installed_and_packages_are_read_once(monkeypatch, tmp_path):
    def names() -> set[str]:
        return {point.name for point in entry_points("example.rules")}

    monkeypatch.syspath_prepend(tmp_path)
    assert names() == set()
    for name in ("first", "second"):
        info = tmp_path / f"{name}-1.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n", encoding="utf-8")
        (info / "entry_points.txt").write_text(f"[example.rules]\n{name} = os.path:sep\n", encoding="utf-8")
    assert names() == {"first", "second"}
    with monkeypatch.context() as patch:
        patch.delattr("importlib.metadata.entry_points")
        assert names() == {"first", "second"}
    shutil.rmtree(info)
    assert names() == {"first"}


def test_a_package_cannot_take_a_name_nor_break_the_list(installed):
    installed(gigpo=f"{__name__}:halves", broken="no.such.package:thing", number=f"{__name__}:GROUPS")
    with pytest.warns(UserWarning, match="is skipped") as said:
        assert sorted(rules()) == sorted(item.name for item in CATALOGUE)
    assert len(said) == 2
    assert get("gigpo").function is gigpo
    with pytest.raises(CreditError, match=r"'no.such.package:thing' cannot be loaded: ModuleNotFoundError"):
        get("broken")


GROUPS = 3


def test_a_name_is_registered_once(monkeypatch):
    monkeypatch.setattr(RULES, "_items", dict(RULES._items))
    assert register(WORDLESS) is WORDLESS
    assert register(WORDLESS) is WORDLESS
    assert get("theirs", factor=2.0)(STEPS).values.tolist() == [2.0, 0.0]
    with pytest.raises(CreditError, match="credit rule name 'theirs' is already taken"):
        register(CreditRule("theirs", "Other", None, "paper", "x", gigpo))


def test_a_cell_of_a_notebook_registers_its_rule_again(monkeypatch):
    monkeypatch.setattr(RULES, "_items", dict(RULES._items))
    cell = """
from turncredit.credit import Advantages, CreditRule, Steps, register

def again(steps: Steps, *, factor: float = {factor}) -> Advantages:
    return Advantages.of(steps, steps.reward * factor)

register(CreditRule("again", "Again", None, "our reading", "never", again))
"""
    for factor in (1.0, 3.0):
        exec(cell.format(factor=factor), {"__name__": "__main__"})
        assert get("again").options["factor"] == factor
    with pytest.raises(CreditError, match="credit rule name 'again' is already taken"):
        exec(cell.format(factor=1.0), {"__name__": "elsewhere"})


def test_results_that_would_poison_an_update_are_refused():
    with pytest.raises(CreditError, match="1 of 2 advantages are not finite"):
        Advantages.of(STEPS, np.array([np.nan, 1.0]))
    with pytest.raises(CreditError, match="'step' has shape"):
        Advantages.of(STEPS, np.zeros(2), {"step": np.zeros(3)})
    with pytest.raises(CreditError, match=r"the table has 2 rows, but the advantages have shape \(3,\)"):
        Advantages.of(STEPS, np.zeros(3))


def test_advantages_are_joined_by_trajectory_and_turn_and_never_by_row():
    steps = Steps.from_columns(
        task=["t"] * 3, trajectory=[("x", 1), [1, 2], ("x", 1)], turn=[0, 4, 7], reward=[0.0] * 3
    )
    given = Advantages.of(
        steps, np.array([1.0, 2.0, 3.0]), {"step": np.array([4.0, 5.0, 6.0])}, keep=np.array([True, False, True])
    )
    assert given.trajectory.tolist() == [("x", 1), [1, 2], ("x", 1)]
    assert given.turn.tolist() == [0, 4, 7]
    joined = given.aligned([[1, 2], ("x", 1), ("x", 1)], np.array([4, 7, 7]))
    assert joined.values.tolist() == [2.0, 3.0, 3.0]
    assert joined.keep.tolist() == [False, True, True]
    assert joined.parts["step"].tolist() == [5.0, 6.0, 6.0]
    assert len(given.aligned([], [])) == 0
    with pytest.raises(CreditError, match=r"turn 1 of trajectory \('x', 1\) has no advantage"):
        given.aligned([("x", 1), ("x", 1)], [0, 1])
    again = Steps.from_columns(task=["t", "u"], trajectory=["a", "a"], turn=[0, 0], reward=[0.0] * 2)
    with pytest.raises(CreditError, match="trajectory 'a' occurs in tasks 't' and 'u'"):
        Advantages.of(again, np.zeros(2)).aligned(["a"], [0])
    copied = Steps.from_columns(
        task=["t"] * 2, trajectory=["a"] * 2, turn=[0, 0], reward=[0.0] * 2, duplicate_of_row=[-1, 0]
    )
    assert len(get("grpo")(copied).aligned(["a", "a"], [0, 0])) == 2


@pytest.mark.parametrize("rows", [[{"task": 0}], None])
def test_rows_are_no_table_of_turns(rows, subtests):
    for item in CATALOGUE:
        with subtests.test(name=item.name), pytest.raises(BadTable, match=r"Steps\.from_rows"):
            item(rows, **({"rng": np.random.default_rng(0)} if item.draws else {}))


def test_a_family_exports_the_functions_of_its_rules():
    modules = [module for module in vars(catalogue).values() if isinstance(module, ModuleType)]
    assert len(modules) > 5
    for module in modules:
        assert sorted(module.__all__) == sorted(rule.function.__name__ for rule in module.RULES), module.__name__
    assert sorted(CATALOGUE, key=str) == sorted((rule for module in modules for rule in module.RULES), key=str)


def test_an_invalid_action_costs_the_same_everywhere():
    costs = {item.options["invalid_penalty"] for item in CATALOGUE if "invalid_penalty" in item.options}
    assert costs == {INVALID_PENALTY} == {0.1}


@pytest.mark.parametrize(
    ("name", "option", "value"),
    [
        ("grpo", "penalty_in", "advantage"),
        ("gigpo", "penalty_in", "advantage"),
        ("gigpo", "step_unit", "trajectory"),
        ("hgpo", "drop", "none"),
        ("hgpo", "weights", "paper"),
        ("hgpo", "ddof", 0),
    ],
)
def test_a_preset_refuses_what_it_would_pass_over(name, option, value):
    with pytest.raises(BadOption, match=f"{option}=.*conflicts with compat"):
        get(name, compat="verl-agent", **{option: value})


def test_rules_say_what_their_parents_are_and_whether_they_split_shared_turns():
    assert {rule.name for rule in rules().values() if rule.callers} == {"himac", "m_grpo"}
    assert get("spo_segment", mode="tree").splits_shared
    assert not get("spo_segment").splits_shared
    assert not get("gigpo").splits_shared
