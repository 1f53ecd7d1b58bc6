"""Laws of all credit rules, with their defaults and with every choice of every option, on random tables."""

import random
import re
from typing import Any, Literal, get_args, get_origin, get_type_hints

import numpy as np
import pytest
from hypothesis import given, settings
from toys.full_tables import full_episode, random_rows, seeds

from turncredit.credit import Advantages, BadOption, CreditRule, MissingColumn, Steps, get, rules
from turncredit.credit.numerics import Unit

RULES = rules()
BATCH_WIDE = {  # compare with the whole batch by definition
    "a_grae", "bnpo", "copo", "gdpo", "lite_ppo", "mapo_dialogue", "mars", "reinforce_pp", "reinforce_pp_baseline",
    "seeupo", "spo_single_stream",
}  # fmt: skip
MORE = [  # options that are not choices
    ("grpo", {"normalize_by_length": True, "penalty_in": "advantage"}),
    ("gigpo", {"similarity": 0.5}),
    ("hgpo", {"history": 1, "base": True, "drop": "zero", "weights": "paper", "unit": "turn", "scale": "none"}),
    ("salt", {"base": "rloo", "merge_history": 1, "unit": "trajectory"}),
    ("salt", {"base": "gigpo", "endings": "plain"}),
    ("graphgpo", {"progress": True, "unreachable": 9.0, "unit": "turn", "scale": "none"}),
    ("graft", {"gamma": 1.0, "gae_lambda": 0.5, "scale": "none", "unit": "turn"}),
    ("continuations", {"worth": "own", "bonus": 0.2}),
    ("slea", {"threshold": 0.5}),
    ("trloo", {"peers": "task", "unit": "turn"}),
    ("flow_grpo", {"planner": "main", "unit": "turn"}),
    ("dr_mas", {"w": 0.5, "unit": "turn"}),
    ("himac", {"macro": "main", "phase": "macro"}),
    ("himac", {"macro": "main", "phase": "micro"}),
    ("loop", {"scale": "std", "threshold": 0.0}),
    ("spear", {"bonus_calls": 10}),
    ("spo_single_stream", {"drift": 0.03}),
    ("v05", {"prior": -0.5}),
    ("vine", {"at": "entropy", "between": "first", "gamma": 0.5}),
    ("rtmc", {"visits": "first", "prior": 2.0, "scale": "std", "unit": "turn", "ddof": 0}),
    ("hcapo", {"clip": 1.0, "temperature": 1.0, "smoothing": 0.5, "unit": "turn"}),
]


def choices(rule: CreditRule) -> list[dict[str, Any]]:
    """The defaults, and each other value that an option of choices or a flag can have."""
    hints, combinations = get_type_hints(rule.function), [{}]
    for option, default in rule.options.items():
        given_too = {"macro": "main"} if rule.name == "himac" else {}
        kinds = [hints[option], *get_args(hints[option])]
        values = [value for kind in kinds if get_origin(kind) is Literal for value in get_args(kind)]
        values += [True, False] if hints[option] is bool else []
        combinations += [{option: value, **given_too} for value in values if value != default]
    return combinations


REFUSED = {("spo_segment", "scale"), ("grpo", "compat"), ("gigpo", "compat"), ("hgpo", "compat")}
CASES = {name: [one for one in choices(rule) if (name, *one) not in REFUSED] for name, rule in RULES.items()}
for name, options in MORE:
    CASES[name].append(options)
SOME = settings(max_examples=8, deadline=None)
every_rule = pytest.mark.parametrize("name", RULES)


def run(name: str, options: dict[str, Any], table: list[dict[str, Any]]) -> Advantages:
    return score(name, options, Steps.from_rows(table))


def score(name: str, options: dict[str, Any], steps: Steps) -> Advantages:
    rule = get(name, **options)
    return rule(steps, **({"rng": np.random.default_rng(7)} if rule.draws else {}))


def columns(advantages: Advantages) -> dict[str, list[float]]:
    parts = {name: part.tolist() for name, part in advantages.parts.items()}
    return {
        "values": advantages.values.tolist(),
        "keep": advantages.keep.tolist(),
        "weight": advantages.weight.tolist(),
        **parts,
    }


@every_rule
@given(seed=seeds)
@SOME
def test_rows_names_and_copies(name, seed):
    """The order of rows, the names of keys and the numbers of turns mean nothing; a copy follows its original."""
    table, dice = random_rows(seed), random.Random(seed)
    order = dice.sample(range(len(table)), len(table))
    steps, turned = Steps.from_rows(table), Steps.from_rows([table[row] for row in order])
    copied = dice.choices(order, k=2)
    followed = Steps.from_rows([*table, *({**table[row], "duplicate_of_row": row} for row in copied)])
    keys = {"task", "action", "tree", "parent", "label"} & table[0].keys()
    renamed = [{**row, "turn": 3 * row["turn"] - 7, **{key: ("new", row[key]) for key in keys}} for row in table]
    same_texts = Steps.from_rows(renamed)
    texts = {"state", "next_state"} & table[0].keys()
    new_texts = Steps.from_rows([{**row, **{key: ("new", row[key]) for key in texts}} for row in renamed])
    for options in CASES[name]:
        plain = columns(score(name, options, steps))
        in_order = {column: [numbers[row] for row in order] for column, numbers in plain.items()}
        assert columns(score(name, options, turned)) == in_order, options
        with_copies = {column: numbers + [numbers[row] for row in copied] for column, numbers in plain.items()}
        assert columns(score(name, options, followed)) == with_copies, options
        reads_texts = name == "slea" or "similarity" in options
        assert columns(score(name, options, same_texts if reads_texts else new_texts)) == plain, options


@every_rule
@given(seed=seeds)
@SOME
def test_values(name, seed):
    """Finite rewards give finite numbers, the same ones twice, whatever other tasks do; the table stays as it is."""
    table = random_rows(seed, reward=1e6)
    steps = Steps.from_rows(table)
    before = {column: steps.column(column).copy() for column in steps.columns}
    others = [{**row, "task": "other " + row["task"]} for row in random_rows(seed + 1, tasks=2)]
    others = [{"next_state": "a", **row} if "next_state" in table[0] else row for row in others]
    beside = Steps.from_rows(table + [{key: row[key] for key in table[0]} for row in others])
    for options in CASES[name]:
        result = score(name, options, Steps.from_rows(table))
        assert len(result) == len(table), options
        assert all(np.isfinite(column).all() for column in (result.values, *result.parts.values())), options
        assert (result.weight >= 0.0).all(), options
        assert columns(score(name, options, steps)) == columns(result), options
        assert all((steps.column(column) == earlier).all() for column, earlier in before.items()), options
        if name not in BATCH_WIDE and "whitening" not in options:
            values = score(name, options, beside).values
            assert values[: len(table)].tolist() == result.values.tolist(), options
        else:
            assert "batch" in (RULES[name].function.__doc__ or "")


ABSOLUTE = {  # have a baseline that is not the group's: a critic, a memory, an imaginary episode, a greedy one
    "archer", "arpo_replay", "gae", "ppr_renorm", "psr_nsr", "raw", "remax", "spo_segment", "spo_single_stream",
    "v05", "vine",
}  # fmt: skip
OWN_TURNS = {"graft", "mapo_dialogue", "mars", "reinforce_pp", "rtmc", "seeupo"}  # tell turns of one episode apart


@pytest.mark.parametrize("name", [name for name in RULES if name not in ABSOLUTE | OWN_TURNS])
@given(seed=seeds)
@SOME
def test_one_episode_teaches_nothing(name, seed):
    table = random_rows(seed, tasks=1 if name in BATCH_WIDE else 3, group=1)
    steps = Steps.from_rows([{**row, "valid": True} for row in table])
    for options in CASES[name]:
        if not {"raw", "turn"} & set(map(str, options.values())):
            assert not score(name, options, steps).values.any(), options


@every_rule
def test_equal_episodes_are_not_told_apart(name, subtests):
    """Six episodes that did the same and won alike: whatever the rule gives, it gives to all."""
    steps = Steps.from_rows([row for k in range(6) for row in full_episode([0.0, 0.0, 1.0], k)])
    for options in CASES[name]:
        with subtests.test(options=options):
            result = score(name, options, steps)
            rows = result.values.reshape(6, 3)[result.keep.reshape(6, 3).all(axis=1)]
            assert np.allclose(rows, rows[:1], rtol=0.0, atol=1e-12)


@pytest.mark.parametrize("name", RULES)
def test_a_table_without_rows(name):
    result = RULES[name](Steps.empty())
    assert (len(result), len(result.trajectory), result.state) == (0, 0, None)


INSTEAD = {("canon", "tokens"): "metric", ("tempo", "state"): "next_state"}  # another column that serves as well


@pytest.mark.parametrize("name", RULES)
def test_needs_are_exactly_the_columns_without_which_there_is_no_result(name):
    rule = RULES[name]
    needed = {"task", "trajectory", "turn", "reward", *rule.needs}
    table = [*full_episode([0.0, 1.0], "a"), *full_episode([0.0, 0.0, 0.0], "b")]
    assert len(run(name, {}, [{key: row[key] for key in row if key in needed} for row in table])) == 5
    for column in rule.needs:
        other = INSTEAD.get((name, column), column)
        without = [{key: row[key] for key in row if key not in {column, other}} for row in table]
        with pytest.raises(MissingColumn, match=rf"^{name} needs the column '({column}|{other})' \("):
            run(name, {}, without)


COMMON = {"ddof": 2, "gamma": 1.5, "eps": -1.0, "invalid_penalty": -0.1}
OUT_OF_RANGE = {
    "gigpo": {"w": -1.0, "similarity": 1.5}, "graphgpo": {"goal": -1, "w": -1, "unreachable": 0.5},
    "graft": {"gae_lambda": 2, "sweeps": 0}, "hgpo": {"alpha": -1}, "copo": {"steepness": -1.0},
    "seed_grpo": {"alpha": 1.5}, "ngrpo": {"extra": 0}, "mc_grpo": {"clip": -1.0}, "gdpo": {"weights": [1.0, -1.0]},
    "bnpo": {"weight_max": None}, "psr_nsr": {"lam": -0.1}, "a_grae": {"alpha": 0.0}, "adora": {"max_tokens": 0},
    "canon": {"mu": 1.5, "alpha": -1.0}, "unlikely": {"beta": 2.0}, "xrpo_novelty": {"kappa": -1.0},
    "hapo": {"fallback_at": -5.0}, "salt": {"base": "salt", "base_options": 3}, "slea": {"threshold": 0.0, "w": -1},
    "spo_single_stream": {"half_life": 0.0, "rho_min": 0.99, "rho_max": 1.5, "drift": -0.1, "prior": 0.0},
    "pshw": {"slope": -0.1}, "v05": {"prior": 1.5},
    "tree_grpo": {"margin": -1}, "loop": {"threshold": -0.1}, "ppr_renorm": {"lam": 1.5}, "mt_grpo": {"coef": -1.0},
    "mapo_dialogue": {"alpha": 1.5}, "dr_mas": {"w": -1.0},
    "rtmc": {"prior": -1.0}, "vine": {"share": 0.0},
    "hcapo": {"w": -1.0, "temperature": -1.0, "clip": 2.0, "smoothing": 1.5},
}  # fmt: skip


@every_rule
def test_impossible_options_are_refused_before_there_is_a_table(name, subtests):
    hints, limits = get_type_hints(RULES[name].function), {**COMMON, **OUT_OF_RANGE.get(name, {})}
    for option, default in RULES[name].options.items():
        wrong = {bool: [1, "yes"], int: ["1", True, -1], float: ["1", True, float("nan")]}.get(type(default), [])
        if any(get_origin(part) is Literal for part in (hints[option], *get_args(hints[option]))):
            wrong = ["no such choice", 7]
        for value in [*wrong, *([limits[option]] if option in limits else [])]:
            with subtests.test(option=option, value=value), pytest.raises(BadOption, match=re.escape(option)):
                get(name, **{option: value})


def scaled(row: dict[str, Any], factor: float) -> dict[str, Any]:
    columns = {name: factor * row[name] for name in ("reward", "value")}
    return {**row, **columns, "multi": [factor * reward for reward in row["multi"]], "valid": True}


LINEAR = ["dr_grpo", "rloo", "raw", "opo", "remax", "trloo", "gae", "vine", "bpo"]  # and any rule with scale="none"
CANCELS = [
    "grpo",
    "gigpo",
    "hgpo",
    "lite_ppo",
    "mc_grpo",
    "reinforce_pp",
    "reinforce_pp_baseline",
    "gdpo",
    "arpo_soft",
    "tempo",
]


@pytest.mark.parametrize(("name", "options", "power"), [
    *((name, {}, 1) for name in LINEAR), *((name, {"eps": 0.0}, 0) for name in CANCELS), ("bnpo", {}, 0),
    *((name, {"scale": "none"}, 1) for name in CANCELS if "scale" in RULES[name].options),
    *((name, {"scale": "mad", "eps": 0.0}, 0) for name in ("grpo", "gigpo", "hgpo")),
    ("gdpo", {"over": "tokens", "eps": 0.0}, 0),
], ids=str)  # fmt: skip
@given(seed=seeds)
@SOME
def test_the_unit_of_reward_cancels_or_passes_through(name, options, power, seed):
    table = [scaled(row, 1.0) for row in random_rows(seed)]
    plain = run(name, options, table).values
    for factor in (0.01, 3.0, 1e4):
        result = run(name, options, [scaled(row, factor) for row in table]).values
        assert np.allclose(result, factor**power * plain, rtol=1e-6, atol=1e-8 * max(1.0, factor**power))


CENTRED = [
    "grpo",
    "dr_grpo",
    "rloo",
    "opo",
    "mc_grpo",
    "lite_ppo",
    "loop",
    "arpo_soft",
    "arpo_hard",
    "bpo",
    "bnpo",
    "reinforce_pp_baseline",
]


@pytest.mark.parametrize(("name", "options"), [
    *((name, {"eps": 1e-3} if "eps" in RULES[name].options else {}) for name in CENTRED),
    *(("grpo", {"scale": scale, "unit": unit, "eps": 1e-3}) for scale in ("none", "mad") for unit in get_args(Unit)),
], ids=str)  # fmt: skip
@given(seed=seeds)
@SOME
def test_a_reward_for_every_episode_changes_nothing(name, options, seed):
    table = random_rows(seed)
    plain = run(name, options, table).values
    for shift in (1.0, -3.5, 100.0):
        moved = [{**row, "reward": row["reward"] + shift * (row["turn"] == 0)} for row in table]
        assert np.allclose(run(name, options, moved).values, plain, rtol=1e-6, atol=1e-6)
