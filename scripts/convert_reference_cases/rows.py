"""Rows of turns with the parameters of GiGPO or HGPO and one result per row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

from convert_reference_cases import names
from convert_reference_cases.common import UnreadableCase, by_appearance, case_of, objects, take
from convert_reference_cases.names import Values


def rows_cases(raw: Mapping[str, Any], tables: Values) -> list[Values]:
    """Convert a case of GiGPO or HGPO: a table of turns, the trainer's parameters, one result per row."""
    params, theirs = objects(raw, "params", "expected")
    name, table = f"{raw['name']} ({len(tables)})" if raw["name"] in tables else raw["name"], table_of_rows(raw)
    penalty, punished = params.pop("invalid_action_penalty_coef", 0.1), params.pop("use_invalid_action_penalty", True)
    late: Values = {"invalid_penalty": penalty if punished else 0.0}
    length: Values = {"normalize_by_length": params.pop("normalize_by_length", False)}
    scale = {"scale": names.SCALES.get(mode := params.pop("mode"), mode), "eps": params.pop("epsilon", 1e-6)}
    gamma, longest = {"gamma": float(params.pop("gamma"))}, params.pop("max_response_length", None)
    threshold, similar = params.pop("similarity_thresh", 0.95), params.pop("enable_similarity", False)
    group = {"similarity": threshold if similar else None}
    main = take(theirs, {"advantage": "advantage", "step_advantage": "step"}) | levels(theirs)
    own: Values
    if "history_length" in params:
        method, own = "hgpo", {"alpha": 1.0, "base": False} | take(params, names.HGPO)
    else:
        method, own = "gigpo", {"w": params.pop("step_advantage_w", 1.0), **group}
        main |= take(theirs, {"episode_advantage": "episode"})
    if "advantage_tokens" in theirs and theirs["advantage_tokens"] == on_tokens(main.get("advantage"), table, longest):
        del theirs["advantage_tokens"]
    scores, preset = row_scores(table, **late, **length), {**scale, **late, **length, "compat": "verl-agent"}
    each = {"task": table["task"], "trajectory": list(range(len(scores))), "turn": [0] * len(scores), "reward": scores}
    others: dict[str, tuple[str, Any, Values]] = {
        "discounted_return": ("helper/returns", name, gamma),
        "step_return_after_penalty": ("helper/returns", name, gamma | late),
        "episode_score": ("helper/episode_scores", name, late | length),
        "step_group": ("helper/state_groups", name, group),
        "episode_advantage": ("credit/grpo", name, preset),
        "grpo_advantage": ("credit/grpo", name, preset),
        "rloo_advantage": ("credit/rloo", each, {"singleton": "raw"}),
        "episode_advantage_per_trajectory_stats": ("credit/grpo", None, {**scale, "singleton": "raw"}),
    }
    out = []
    for result, (function, columns, options) in others.items():
        if (values := theirs.pop(result, None)) is not None:
            values = by_appearance(values) if result == "step_group" else values
            columns, values = (columns, values) if columns else first_rows(table, scores, values)
            out.append(case_of(raw, function, columns, options, {"advantage": values}))
    if main or theirs:
        options = {**preset, **gamma, **own, **params}
        out.insert(0, case_of(raw, f"credit/{method}", name, options, {**main, **theirs}))
    tables[name] = table
    return out


def table_of_rows(raw: Mapping[str, Any]) -> Values:
    """Return the steps of a case as columns under our names.

    Raises:
        UnreadableCase: a row is inactive, or lacks what others have.
    """
    rows = raw.get("steps")
    if not isinstance(rows, list) or not rows or not all(isinstance(row, Mapping) for row in rows):
        raise UnreadableCase("'steps' must be a list of objects")
    if not all(row.get("active", True) for row in rows):
        raise UnreadableCase("a row is inactive; such rows are dropped before credit")
    keys = dict.fromkeys(key for key in chain.from_iterable(rows) if key != "active")
    table = {
        names.ROWS.get(key, key): [row.get(key, -1 if key == "duplicate_of_row" else None) for row in rows]
        for key in keys
    }
    if gaps := [key for key, column in table.items() if None in column]:
        raise UnreadableCase(f"some rows have no {gaps[0]!r}")
    return table


def row_scores(table: Values, invalid_penalty: float, normalize_by_length: bool) -> list[float]:
    """Return the score of each row's episode, less the penalty for the row's own invalid action."""
    members = list(zip(table["task"], table["trajectory"], strict=True))
    copies = table.get("duplicate_of_row", [-1] * len(members))
    total, turns = dict.fromkeys(members, 0.0), dict.fromkeys(members, 0)
    for member, reward, copy in zip(members, table["reward"], copies, strict=True):
        total[member], turns[member] = total[member] + (copy < 0) * reward, turns[member] + (copy < 0)
    valid = table.get("valid", [True] * len(members))
    means = {member: total[member] / (turns[member] if normalize_by_length else 1) for member in total}
    return [means[member] - (0.0 if ok else invalid_penalty) for member, ok in zip(members, valid, strict=True)]


def first_rows(table: Values, scores: Sequence[float], result: Sequence[Any]) -> tuple[Values, list[Any]]:
    """Return a table in which every episode is one turn with the score of its first row, and the result for it.

    Rows with the same score as the first become copies of it. The others, whose own action was invalid, are left out.
    """
    members = list(zip(table["task"], table["trajectory"], strict=True))
    first = [members.index(member) for member in members]
    selected = [row for row, home in enumerate(first) if scores[row] == scores[home]]
    columns = {name: [table[name][row] for row in selected] for name in ("task", "trajectory")}
    copies = [-1 if first[row] == row else selected.index(first[row]) for row in selected]
    rewards = {"turn": [0 for _ in selected], "reward": [scores[row] for row in selected], "duplicate_of_row": copies}
    return {**columns, **rewards}, [result[row] for row in selected]


def levels(theirs: Values) -> Values:
    """Return the normalised returns at each level as results: level 0 is the episode, level k our history k - 1."""
    rows = theirs.pop("levels_own_formula", [])
    out: Values = {}
    for number, row in enumerate(rows):
        for value in row:
            name = f"history {value['level'] - 1}" if value["level"] else "episode"
            out.setdefault(name, [None] * len(rows))[number] = value.get("advantage") or 0.0
    return out


def on_tokens(values: Any, table: Values, longest: int | None) -> Any:
    """Return the advantage of each row on each of its tokens, zero after them."""
    lengths = table.get("tokens", [])
    width = max(lengths, default=0) if longest is None else longest
    return [
        [value * (position < length) for position in range(width)]
        for value, length in zip(values or [], lengths, strict=False)
    ]
