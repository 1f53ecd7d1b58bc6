"""Convert files of reference cases of the older forms: python -m turnwise.cli.convert_vectors OLD.json NEW.json

Understood are rows of turns (with the parameters of GiGPO or HGPO), named cases with inputs and hyperparameters, and
losses on batches of tokens. The tables of `turnwise.cli.vector_names` say which input, hyperparameter and figure is
which of ours. What has no counterpart keeps its name, and `turnwise verify` refuses the case by that name. A case that
cannot be read is left out and reported. Exit code 1 if a case was left out, 2 if there is no result.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from turnwise.cli import vector_names as names
from turnwise.cli.errors import UserError, sentence_of
from turnwise.cli.reference_cases import FORMAT
from turnwise.cli.vector_names import Values


class UnreadableCase(Exception):
    """A case does not have the form of its file."""


def case_of(raw: Mapping[str, Any], function: str, columns: Any, options: Values, expected: Values) -> Values:
    """Return a case of `function`, with what the old case says of itself."""
    source = raw.get("source") or raw.get("basis")
    if raw.get("peer_checked"):
        source = f"{source}; that code was run and gives these figures"
    status = "proposal" if raw["name"].lower().endswith("_proposal") else None
    if raw.get("own_formula_agrees", True) is False and function.startswith("credit/"):
        status = "noise"
    about = {"source": source, "note": raw.get("note"), "status": status}
    strange = {key: value for key, value in raw.items() if key not in names.ABOUT and not _describes(value)}
    case = {"name": raw["name"], "function": function, "columns": columns, "options": options, "expected": expected}
    return case | {key: text for key, text in about.items() if text} | strange


def _describes(value: Any) -> bool:
    """Return whether a value only describes: a text, a flag, null, or a list or an object of these."""
    if isinstance(value, Mapping):
        return all(map(_describes, value.values()))
    return (
        value is None
        or isinstance(value, str | bool)
        or (isinstance(value, list) and all(isinstance(item, str) for item in value))
    )


def _objects(raw: Mapping[str, Any], *keys: str) -> Iterable[Values]:
    """Return copies of the objects of a case; one that is missing is empty."""
    for key in keys:
        if not isinstance(value := raw.get(key, {}), Mapping):
            raise UnreadableCase(f"{key!r} must be an object")
        yield dict(value)


def _take(values: Values, renamed: Mapping[str, str]) -> Values:
    """Take values out, and return them under new names."""
    return {new: values.pop(old) for old, new in renamed.items() if old in values}


def _hyperparameters(method: str, given: Values) -> Values:
    """Return hyperparameters without those that say what our function does anyway; 1 is 1.0, but not true."""
    fixed = {key: [(isinstance(v, bool), v) for v in names.FIXED.get((method, key), ())] for key in given}
    return {key: value for key, value in given.items() if (isinstance(value, bool), value) not in fixed[key]}


# ---- rows of turns ----


def rows_cases(raw: Mapping[str, Any], tables: Values) -> list[Values]:
    """Convert a case of GiGPO or HGPO: a table of turns, the trainer's parameters, one figure per row."""
    params, theirs = _objects(raw, "params", "expected")
    name, table = f"{raw['name']} ({len(tables)})" if raw["name"] in tables else raw["name"], table_of_rows(raw)
    penalty, punished = params.pop("invalid_action_penalty_coef", 0.1), params.pop("use_invalid_action_penalty", True)
    late: Values = {"invalid_penalty": penalty if punished else 0.0}
    length: Values = {"normalize_by_length": params.pop("normalize_by_length", False)}
    scale = {"scale": names.SCALES.get(mode := params.pop("mode"), mode), "eps": params.pop("epsilon", 1e-6)}
    gamma, longest = {"gamma": float(params.pop("gamma"))}, params.pop("max_response_length", None)
    threshold, similar = params.pop("similarity_thresh", 0.95), params.pop("enable_similarity", False)
    group = {"similarity": threshold if similar else None}
    main = _take(theirs, {"advantage": "advantage", "step_advantage": "step"}) | levels(theirs)
    own: Values
    if "history_length" in params:
        method, own = "hgpo", {"alpha": 1.0, "base": False} | _take(params, names.HGPO)
    else:
        method, own = "gigpo", {"w": params.pop("step_advantage_w", 1.0), **group}
        main |= _take(theirs, {"episode_advantage": "episode"})
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
    for figure, (function, columns, options) in others.items():
        if (values := theirs.pop(figure, None)) is not None:
            values = by_appearance(values) if figure == "step_group" else values
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


def first_rows(table: Values, scores: Sequence[float], figure: Sequence[Any]) -> tuple[Values, list[Any]]:
    """Return a table in which every episode is one turn with the score of its first row, and the figure for it.

    Rows with the same score as the first become copies of it. The others, whose own action was invalid, are left out.
    """
    members = list(zip(table["task"], table["trajectory"], strict=True))
    first = [members.index(member) for member in members]
    kept = [row for row, home in enumerate(first) if scores[row] == scores[home]]
    columns = {name: [table[name][row] for row in kept] for name in ("task", "trajectory")}
    copies = [-1 if first[row] == row else kept.index(first[row]) for row in kept]
    rewards = {"turn": [0 for _ in kept], "reward": [scores[row] for row in kept], "duplicate_of_row": copies}
    return {**columns, **rewards}, [figure[row] for row in kept]


def levels(theirs: Values) -> Values:
    """Return the standings at each level as figures: level 0 is the episode, level k our history k - 1."""
    rows = theirs.pop("levels_own_formula", [])
    out: Values = {}
    for number, row in enumerate(rows):
        for one in row:
            name = f"history {one['level'] - 1}" if one["level"] else "episode"
            out.setdefault(name, [None] * len(rows))[number] = one.get("advantage") or 0.0
    return out


def on_tokens(values: Any, table: Values, longest: int | None) -> Any:
    """Return the advantage of each row on each of its tokens, zero after them."""
    lengths = table.get("tokens", [])
    width = max(lengths, default=0) if longest is None else longest
    return [
        [value * (place < length) for place in range(width)]
        for value, length in zip(values or [], lengths, strict=False)
    ]


def by_appearance(groups: Sequence[Any]) -> list[int]:
    """Return groups numbered by first appearance."""
    numbers = {group: number for number, group in enumerate(dict.fromkeys(groups))}
    return [numbers[group] for group in groups]


# ---- losses ----


def loss_cases(raw: Mapping[str, Any], batches: Mapping[Any, Values], tables: Values) -> list[Values]:
    """Convert a loss and its gradient on a batch of tokens."""
    if raw.get("batch_id") not in batches:
        raise UnreadableCase(f"there is no batch {raw.get('batch_id')!r}")
    plain = re.sub(r"_proposal$", "", raw["name"], flags=re.IGNORECASE)
    (given,) = _objects(raw, "hyperparameters")
    given = {key: value for key, value in _hyperparameters(plain, given).items() if value is not None}
    objective, options, renamed = names.OBJECTIVES.get(plain, (plain, {}, {}))
    options = options | _take(given, renamed)
    for old, new in names.CLIPS.items():
        options |= dict.fromkeys(new, given.pop(old)) if old in given else {}
    for old, stem in names.PAIRS.items():
        options |= dict(zip((f"{stem}_low", f"{stem}_high"), given.pop(old), strict=True)) if old in given else {}
    if objective == "cispo" and "cap" in given:
        options |= {"clip_low": 1.0, "clip_high": given.pop("cap") - 1.0}
    if objective == "llds" and "gate" in given:
        options["gate"] = str(given.pop("gate")).split()[0]
    if given.get("agg") is not None:
        word = str(given.pop("agg")).split()[0]
        options["aggregation"] = mode = names.AGGREGATIONS.get(word.lower(), word)
        if "norm" in mode.split("-"):
            options |= _take(given, {"loss_scale_factor": "norm"}) | _take(given, {"L": "norm"})
    columns, spans = batches[raw["batch_id"]], objective == "sspo"
    used = f"batch {raw['batch_id']}{' with spans' if spans else ''}"
    tables[used] = {key: columns[key] for key in columns if key != "spans" or spans}
    expected = {ours: raw.get(f"expected_{theirs}") for ours, theirs in (("loss", "loss"), ("gradient", "grad"))}
    if None in expected.values():
        raise UnreadableCase("it lacks 'expected_loss' or 'expected_grad'")
    return [case_of(raw, f"objective/{objective}", used, {**options, **given}, expected)]


def batch_of(raw: Mapping[str, Any]) -> Values:
    """Return the tensors of a batch under the names of an objective's arguments."""
    return {names.TENSORS.get(key, key): value for key, value in raw.items() if key != "id" and not _describes(value)}


# ---- named cases ----


class NamedCase:
    """A case with inputs, hyperparameters and expected figures; what is taken out of them has been converted."""

    def __init__(self, raw: Mapping[str, Any], method: str) -> None:
        """Take what the case has."""
        self.raw, self.method = raw, method
        self.inputs, hyper, self.expected = _objects(raw, "inputs", "hyperparameters", "expected")
        self.hyper = _hyperparameters(method, hyper)
        self.cases: list[Values] = []

    def column(self, name: str) -> Any:
        """Take the input that is a column of our table; None if there is none."""
        return next((self.inputs.pop(alias) for alias in names.COLUMNS[name] if alias in self.inputs), None)

    def groups(self, count: int) -> list[Any]:
        """Take the column of tasks; without it all rows are of one task."""
        return self.column("task") or ["all"] * count

    def table(self, **columns: Any) -> Values:
        """Take the inputs as columns; without `traj` every row is an episode of one turn."""
        found = {name: columns[name] if name in columns else self.column(name) for name in names.COLUMNS}
        if found["reward"] is None:
            found["reward"] = self.inputs.pop("correct", None)
        if found["reward"] is None:
            raise UnreadableCase("its inputs have no 'rewards'")
        count = len(found["reward"])
        if found["trajectory"] is None:  # texts whose order is that of the rows, which breaks ties
            found |= {"trajectory": [f"{row:09d}" for row in range(count)], "turn": [0] * count}
        if found["turn"] is None:
            raise UnreadableCase("its inputs have 'traj' but neither 'turn' nor 'step'")
        found["task"] = found["task"] or self.groups(count)
        if count and isinstance(found["reward"][0], list):
            found |= {"multi": found["reward"], "reward": [0.0] * count}
        if found["valid"] is not None:
            self.hyper.setdefault("invalid_penalty", 0.0)
        return {name: column for name, column in found.items() if column is not None}

    def options(self, **more: Any) -> Values:
        """Take the hyperparameters as our options; one with a value that we have no word for keeps its name."""
        out = {**names.DEFAULTS.get(self.method, {}), **more}
        for key, value in self.hyper.items():
            option, words = names.OPTIONS.get(key, (key, None))
            known = words is None or (isinstance(value, str | bool) and value in words)
            out[option if known else key] = words[value] if known and words is not None else value
        self.hyper = {}
        return out

    def add(self, function: str, columns: Values, options: Values, expected: Values | None = None) -> None:
        """Add a case with some figures, or with all that are left and the inputs that nothing took.

        Where none is left the case compares nothing, and shows that the function takes these inputs and options.
        """
        if expected is None:
            columns = {**columns, **self.inputs}
            for lost in names.INTERMEDIATE.get(self.method, ()):
                self.expected.pop(lost, None)
            if "returns" in self.expected and function.startswith("credit/"):
                figures = {"advantage": self.expected.pop("returns")}
                self.add("helper/returns", columns, {"gamma": options.get("gamma", 1.0)}, figures)
            expected = {names.FIGURES.get(name, name): value for name, value in self.expected.items()}
            expected = expected or ({"advantage": None} if self.cases else {})
        self.cases.append(case_of(self.raw, function, columns, options, expected))


def named_cases(raw: Mapping[str, Any]) -> list[Values]:
    """Convert a case of the method that its name begins with."""
    case = NamedCase(raw, method_of(raw["name"]))
    special: Callable[..., None]
    trigger, special = SPECIAL.get(case.method, ("", by_columns))
    if not trigger:
        special(case)
    elif trigger in case.inputs:
        special(case, case.inputs.pop(trigger))
    else:
        by_columns(case)
    return case.cases


def method_of(name: str) -> str:
    """Return the method that a name begins with, the longest; the name itself where nothing has such a name.

    >>> method_of("GRPO_zero_variance"), method_of("pass_k"), method_of("frobnicate")
    ('grpo', 'passk', 'frobnicate')
    """
    from turnwise.credit import estimators

    known = {ours.replace("_", ""): ours for ours in (*estimators(), *SPECIAL)}
    known |= {other.replace("_", ""): ours for other, ours in names.ALIASES.items()}
    words = name.lower().split("_")
    beginnings = ("".join(words[:count]) for count in range(len(words), 0, -1))
    return next((known[beginning] for beginning in beginnings if beginning in known), name)


def by_columns(case: NamedCase) -> None:
    """Inputs are columns, hyperparameters are options."""
    from turnwise.credit import estimators

    rule, right = estimators().get(case.method), case.inputs.get("correct")
    table = case.table()
    if rule is not None and "threshold" in rule.options and right is not None:
        case.inputs.pop("correct", None)
        case.hyper["threshold"] = threshold_between(table["reward"], right)
    case.add(f"credit/{case.method}", table, case.options())


def threshold_between(scores: Sequence[float], right: Sequence[Any]) -> float:
    """Return a score between those of the wrong and the right episodes of one turn each.

    Raises:
        UnreadableCase: no score tells them apart.
    """
    wins = [score for score, flag in zip(scores, right, strict=True) if flag]
    losses = [score for score, flag in zip(scores, right, strict=True) if not flag]
    if not wins or not losses:
        return min(wins) - 1.0 if wins else max(losses, default=0.0)
    if max(losses) >= min(wins):
        raise UnreadableCase("our threshold cannot tell right from wrong: some wrong scores are no lower")
    return (max(losses) + min(wins)) / 2


def _token_rewards(case: NamedCase, rewards: Any) -> None:
    """A row per token."""
    case.expected = {name: _flat(rows) for name, rows in case.expected.items()}
    table = case.table(reward=_flat(rewards), tokens=[1] * len(_flat(rewards)), **_places(map(len, rewards)))
    case.add(f"credit/{case.method}", table, case.options())


def _gdpo(case: NamedCase) -> None:
    """Several rewards; `summed` is the sum of their standings."""
    table = case.table()
    over = case.hyper.pop("whiten", "tokens" if "tokens" in table else "samples")
    if "summed" in case.expected:
        case.expected["+".join(f"reward_{k}" for k in range(len(table["multi"][0])))] = case.expected.pop("summed")
    case.add("credit/gdpo", table, case.options(over="tokens" if over == "all tokens of the batch" else over))


def _trackers(case: NamedCase, alpha: Any) -> None:
    """One episode per task, each with its own tracker."""
    tasks = [str(row) for row in range(len(alpha))]
    table = case.table(task=tasks, metric=[float(drift) for drift in case.inputs.pop("D")])
    state = dict(zip(tasks, map(list, zip(alpha, case.inputs.pop("beta"), strict=True)), strict=True))
    after = [case.expected.pop(name, [None] * len(tasks)) for name in ("alpha_new", "beta_new")]
    case.expected["state"] = dict(zip(tasks, map(list, zip(*after, strict=True)), strict=True))
    case.add("credit/spo_single_stream", table, case.options(state=state))


def _unlikely(case: NamedCase) -> None:
    """`reshaped` are the rewards before they are compared."""
    table, options = case.table(), case.options()
    if "reshaped" in case.expected:
        columns = {"score": table["reward"], "logprob": table["logprob"], "task": by_appearance(table["task"])}
        shown = {"advantage": case.expected.pop("reshaped")}
        case.add("helper/unlikely_rewards", columns, {"beta": options.get("beta", 0.25)}, shown)
    case.add("credit/unlikely", table, options)


def _psr_nsr(case: NamedCase) -> None:
    """Up to three forms in one case."""
    table, options = case.table(), case.options()
    forms = [form for form in ("psr", "nsr", "weighted") if form in case.expected]
    for form in forms:
        more = {"advantage": case.expected.pop(form)}
        case.add("credit/psr_nsr", {**table, **case.inputs}, {**options, "form": form}, more)
    if case.expected or not forms:
        case.add("credit/psr_nsr", table, options)


def _novelty_bonus(case: NamedCase, given: Any) -> None:
    """The bonus on advantages that are given."""
    columns = {"logprob": case.column("logprob"), "task": by_appearance(case.groups(len(given)))}
    if "eta" in case.expected:
        case.add("helper/relative_likelihood", columns, {}, {"advantage": case.expected.pop("eta")})
    right = list(map(bool, case.inputs.pop("correct")))
    for name, found in case.expected.items():
        case.expected[name] = [value - before for value, before in zip(found, given, strict=True)]
    case.add("helper/novelty_bonus", {"advantage": given, "right": right, **columns}, case.options())


def _evol(case: NamedCase) -> None:
    """`reward` is the reward of an answer by its side and novelty."""
    if "reward" not in case.expected:
        return by_columns(case)
    case.expected["advantage"] = case.expected.pop("reward")
    columns = {"right": list(map(bool, case.inputs.pop("correct"))), "new": case.inputs.pop("novelty")}
    return case.add("helper/novelty_rewards", columns, case.options())


def _salt(case: NamedCase) -> None:
    """The advantages of trajectories may be given: a base that passes rewards on brings them in."""
    members = case.column("trajectory")
    turn = case.column("turn") or [members[:row].count(member) for row, member in enumerate(members)]
    columns: Values = {"trajectory": members, "turn": turn, "value": [0.0] * len(members)}
    base = _base(case)
    if "trajectory_advantage" in case.inputs:
        given = dict(zip(dict.fromkeys(members), case.inputs.pop("trajectory_advantage"), strict=True))
        columns["reward"] = [given[m] if members.index(m) == row else 0.0 for row, m in enumerate(members)]
        base = {"base": "remax"}
    if "transition_key" in case.inputs:
        columns |= dict.fromkeys(("state", "action", "next_state"), case.inputs.pop("transition_key"))
    unit = {"unit": "trajectory"} if case.hyper.pop("dedup_per_traj", False) else {}
    more = {**base, **unit, **_take(case.hyper, {"history": "merge_history"}), "endings": "plain"}
    case.add("credit/salt", case.table(**columns), case.options(**more))


def _arpo_hard(case: NamedCase, paths: Any) -> None:
    """Paths of segments [id, tokens]: a segment is a turn; expected segments are [id, tokens, advantage]."""
    ids, counts = [segment[0] for segment in _flat(paths)], [int(segment[1]) for segment in _flat(paths)]
    table = _final_rewards(case, [len(path) for path in paths], action=ids, tokens=counts)
    if "segments" in case.expected:
        found = _flat(case.expected.pop("segments"))
        if [[one[0], int(one[1])] for one in found] != list(map(list, zip(ids, counts, strict=True))):
            raise UnreadableCase("the expected segments are not those of the inputs")
        case.expected["advantage"] = [one[2] for one in found]
    if means := case.expected.pop("trajectory_advantage", None):
        case.expected["episode"] = [mean for mean, path in zip(means, paths, strict=True) for _ in path]
    base = _base(case)
    more = {} if base["base"] == "grpo" else {"base": base["base"]}
    case.add("credit/arpo_hard", table, case.options(key="action", **base["base_options"], **more))


def _mapo_dialogue(case: NamedCase) -> None:
    """Both versions; statistics of the batch are over its turns."""
    mica = case.raw["name"].startswith("mica")
    more = {"mode": "mica", **_take(case.hyper, {"weight": "alpha"})} if mica else _take(case.hyper, {"mode": "mode"})
    case.add("credit/mapo_dialogue", case.table(), case.options(**more))


def _hgpo(case: NamedCase) -> None:
    """Returns may stand in place of rewards: with gamma 0 they are the same. The base's standing may be given."""
    returned = _take(case.inputs, {"returns": "reward"})
    table = case.table(**returned)
    options = {"weights": "code", **case.options(), "penalty_in": "return", **({"gamma": 0.0} if returned else {})}
    if options.get("ddof", 0) == 0:  # the preset also adds eps to the sum of weights
        options |= {"compat": "verl-agent", "ddof": 1}
        del options["weights"]
    else:
        options |= {"unit": "turn", "drop": "zero", "singleton": "raw"}
    if "base" in case.inputs and options.pop("base", True):
        return case.add("helper/hgpo_with_base", {**table, "given": case.inputs.pop("base")}, options)
    case.inputs.pop("base", None)
    return case.add("credit/hgpo", table, options)


def _tool_turn(case: NamedCase, tool: Any) -> None:
    """A turn with a tool, and the rest."""
    count, groups = len(tool), case.groups(len(tool))
    places = {"trajectory": [*range(count), *range(count)], "turn": [0] * count + [1] * count}
    table = case.table(task=[*groups, *groups], reward=[*tool, *case.inputs.pop("outcome_reward")], **places)
    figures = [case.expected.pop(name, [None] * count) for name in ("tokens_up_to_tool_result", "tokens_after")]
    case.expected["advantage"] = _flat(figures)
    case.add("credit/mt_grpo", table, case.options(form="segments"))


def _flow_grpo(case: NamedCase, turns: Any) -> None:
    """A number of turns for each trajectory; the published code counts turns."""
    unit = "trajectory" if "traj" in case.raw["name"].removeprefix("flow_grpo") else "turn"
    case.add("credit/flow_grpo", _final_rewards(case, list(map(int, turns))), case.options(unit=unit))


def _spear(case: NamedCase, means: Any) -> None:
    """Stored episodes measured by the memory of group means."""
    stds = case.inputs.pop("group_std_history", None)
    scale = "std" if case.hyper.pop("norm_std", False) else "none"
    if scale == "std" and stds is None:
        raise UnreadableCase("its inputs have no 'group_std_history', which norm_std needs")
    memory = {"means": means, "stds": stds or [0.0] * len(means), "calls": 0}
    case.add("helper/spear_replay", case.table(), case.options(scale=scale, memory=memory))


def _archer(case: NamedCase, first: Any) -> None:
    """Critics by their names: q1 and q2 of the action, v1 and v2 of the state."""
    q, v = ([case.inputs.pop(name) for name in pair if name in case.inputs] for pair in (["q2"], ["v1", "v2"]))
    metric, value = list(map(list, zip(first, *q, strict=True))), list(map(min, zip(*v, strict=True)))
    table = case.table(reward=case.column("reward") or [0.0] * len(metric), metric=metric, value=value)
    case.add("credit/archer", table, case.options())


def _sequences(case: NamedCase, rows: Any) -> None:
    """Token ids of sequences."""
    width = max(map(len, rows))
    case.expected = {name: [_padded(row, width, 0.0) for row in found] for name, found in case.expected.items()}
    columns = {"ids": [_padded(row, width, 0) for row in rows], "score": case.column("reward")}
    columns |= {"mask": [_padded([1] * len(row), width, 0) for row in rows], "group": case.groups(len(rows))}
    case.add("helper/tempo_tokens", columns, case.options())


def _gae(case: NamedCase) -> None:
    """Along the tokens of sequences; with the ends of turns on two levels; else turn by turn."""
    ends = _take(case.inputs, {"turn_end": "ends"})
    if not ends and "mask" not in case.inputs:
        return by_columns(case)
    arrays = _take(case.inputs, {name: name for name in ("rewards", "values", "mask")}) | ends
    if not isinstance(arrays["rewards"][0], list):
        arrays = {name: [array] for name, array in arrays.items()}
        case.expected = {name: [figure] for name, figure in case.expected.items()}
    arrays.setdefault("mask", [[1] * len(row) for row in arrays["rewards"]])
    words = {"gamma_high": "gamma_turn", "gamma_h": "gamma_turn", "whiten": "whitening"}
    more = _take(case.hyper, words)
    return case.add(f"helper/{'bilevel_gae' if ends else 'gae_tokens'}", arrays, case.options(outside="ignore", **more))


def _whiten(case: NamedCase, values: Any) -> None:
    """Values, with a mask, of any shape."""
    columns = {
        name: _flattened(value) for name, value in {"value": values, **_take(case.inputs, {"mask": "tokens"})}.items()
    }
    case.expected = {name: _flattened(figure) for name, figure in case.expected.items()}
    case.add("helper/whiten", columns, case.options())


def _hicra(case: NamedCase, plans: Any) -> None:
    """One sequence of token advantages, and which tokens plan."""
    case.expected = {name: [figure] for name, figure in case.expected.items()}
    columns = {"advantages": [case.inputs.pop("advantage")], "mask": [[1] * len(plans)], "planning": [plans]}
    case.add("transform/hicra", columns, case.options())


def _ace(case: NamedCase, ratio: Any) -> None:
    """A row per response, of which the whole log-ratio is given."""
    nothing, values = [0.0] * len(ratio), case.inputs.pop("advantage")
    columns = {"advantages": values, "mask": [1] * len(ratio), "logprobs": ratio, "ref": nothing}
    case.expected = {name: [[value] for value in figure] for name, figure in case.expected.items()}
    case.add("transform/ace", {name: [[x] for x in row] for name, row in columns.items()}, case.options())


SPECIAL: dict[str, tuple[str, Callable[..., None]]] = {
    **{"gdpo": ("", _gdpo), "unlikely": ("", _unlikely), "psr_nsr": ("", _psr_nsr), "evol": ("", _evol)},
    **{"salt": ("", _salt), "mapo_dialogue": ("", _mapo_dialogue), "hgpo": ("", _hgpo), "gae": ("", _gae)},
    **{"bilevel_gae": ("", _gae), "hicra": ("planning", _hicra), "ace": ("log_ratio_to_reference", _ace)},
    **{"reinforce_pp": ("token_rewards", _token_rewards), "spo_single_stream": ("alpha", _trackers)},
    **{"xrpo_novelty": ("advantage", _novelty_bonus), "arpo_hard": ("segments", _arpo_hard), "whiten": ("x", _whiten)},
    **{"mt_grpo": ("turn_reward", _tool_turn), "flow_grpo": ("turns", _flow_grpo), "tempo": ("sequences", _sequences)},
    **{"spear": ("group_mean_history", _spear), "archer": ("q1", _archer)},
}
"""Methods whose inputs are not simply columns of the table of turns, with the input that says so ("": always)."""


def _base(case: NamedCase) -> Values:
    """Return the base of a case as options: "grpo ddof=1 eps=1e-6"."""
    name, *words = str(case.hyper.pop("base", "grpo")).split() or [""]
    options: Values = {"singleton": "raw"} if name in ("grpo", "dr_grpo") else {}
    for option, _, value in (word.partition("=") for word in words):
        options[option] = json.loads(value)
    return {"base": name, "base_options": options}


def _flat(rows: Iterable[Iterable[Any]]) -> list[Any]:
    return list(chain.from_iterable(rows))


def _flattened(value: Any) -> list[Any]:
    return _flat(map(_flattened, value)) if isinstance(value, list) else [value]


def _padded(row: Sequence[Any], width: int, filler: Any) -> list[Any]:
    return [*row, *[filler] * (width - len(row))]


def _places(lengths: Iterable[int]) -> Values:
    """Return the trajectory and the turn of each element of rows of these lengths."""
    places = [(number, turn) for number, length in enumerate(lengths) for turn in range(length)]
    return {"trajectory": [number for number, _ in places], "turn": [turn for _, turn in places]}


def _final_rewards(case: NamedCase, lengths: Sequence[int], **columns: Any) -> Values:
    """Return the table of trajectories of these lengths, whose rewards are paid at their last turns."""
    rewards = [[0.0] * (n - 1) + [float(r)] for n, r in zip(lengths, case.column("reward"), strict=True)]
    tasks = [[group] * n for n, group in zip(lengths, case.groups(len(lengths)), strict=True)]
    return case.table(reward=_flat(rewards), task=_flat(tasks), **_places(lengths), **columns)


# ---- files ----


def convert(content: Any) -> tuple[Values, list[str]]:
    """Return a file in the canonical form, and one line for each case that was left out.

    Raises:
        UserError: the content has none of the older forms.
    """
    cases = content if isinstance(content, list) else content.get("cases") if isinstance(content, Mapping) else None
    head = content if isinstance(content, Mapping) else {}
    keys = {key for raw in cases or () if isinstance(raw, Mapping) for key in raw}
    tables: Values = {}
    each: Callable[[Mapping[str, Any]], list[Values]]
    if isinstance(cases, list) and isinstance(head.get("batches"), list):
        batches = {batch["id"]: batch_of(batch) for batch in head["batches"]}
        limits, each = (1e-6, 1e-8), lambda raw: loss_cases(raw, batches, tables)
    elif isinstance(cases, list) and keys & {"steps", "params"}:
        limits, each = (1e-4, 1e-5), lambda raw: rows_cases(raw, tables)
    elif isinstance(cases, list) and "inputs" in keys:
        limits, each = (1e-6, 1e-6), named_cases
    else:
        raise UserError("expected cases with 'params' and 'steps', with 'inputs', or with 'batch_id' beside 'batches'")
    out, left_out = [], []
    for number, raw in enumerate(cases):
        try:
            if not isinstance(raw, Mapping) or not isinstance(raw.get("name"), str):
                raise UnreadableCase("it is not an object with a name")
            found = each(raw)
            if not any(case["expected"] for case in found):
                raise UnreadableCase("it has no expected figures")
            out += found
        except (UnreadableCase, TypeError, ValueError, KeyError, IndexError, AttributeError) as error:
            reason = error if isinstance(error, UnreadableCase) else f"{type(error).__name__}: {error}"
            left_out.append(f"case {number} ({raw.get('name') if isinstance(raw, Mapping) else raw!r}): {reason}")
    tolerance = dict(zip(("relative", "absolute"), limits, strict=True))
    about = {"format": FORMAT, "source": head.get("source"), "tolerance": tolerance}
    return {**about, "tables": tables, "cases": out}, left_out


def as_text(content: Values) -> str:
    """Return a file as JSON with one line per table and case."""
    text = json.dumps({**content, "tables": {}, "cases": []}, ensure_ascii=False)
    tables = (f"{json.dumps(name)}: {_compact(table)}" for name, table in content["tables"].items())
    text = text.replace('"tables": {}', '"tables": {\n' + ",\n".join(tables) + "\n}")
    return text.removesuffix("[]}") + "[\n" + ",\n".join(map(_compact, content["cases"])) + "\n]}\n"


def _compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def main(arguments: Sequence[str]) -> int:
    """Convert a file and return the exit code."""
    if len(arguments) != 2:
        print("usage: python -m turnwise.cli.convert_vectors OLD.json NEW.json", file=sys.stderr)
        return 2
    old, new = map(Path, arguments)
    try:
        content, left_out = convert(json.loads(old.read_text(encoding="utf-8")))
        new.write_text(as_text(content), encoding="utf-8")
    except (OSError, ValueError, UserError) as error:
        print(f"{old}: {sentence_of(error) or error}", file=sys.stderr)
        return 2
    for line in left_out:
        print(f"left out: {line}", file=sys.stderr)
    print(f"{len(content['cases'])} cases in {new}", file=sys.stderr)
    return 1 if left_out else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
