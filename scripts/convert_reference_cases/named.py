"""Named cases of credit rules, token transforms and building blocks, with inputs and hyperparameters."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

from convert_reference_cases import names
from convert_reference_cases.common import (
    UnreadableCase,
    by_appearance,
    case_of,
    hyperparameters,
    objects,
    take,
)
from convert_reference_cases.names import Values


class NamedCase:
    """A case with inputs, hyperparameters and expected results; what is taken out of them has been converted."""

    def __init__(self, raw: Mapping[str, Any], method: str) -> None:
        """Take what the case has."""
        self.raw, self.method = raw, method
        self.inputs, hyper, self.expected = objects(raw, "inputs", "hyperparameters", "expected")
        self.hyper = hyperparameters(method, hyper)
        self.cases: list[Values] = []

    def column(self, name: str) -> Any:
        """Take the input that is a column of our table; None if there is none."""
        return next((self.inputs.pop(alias) for alias in names.COLUMNS[name] if alias in self.inputs), None)

    def groups(self, count: int) -> list[Any]:
        """Take the column of tasks; without it all rows are of one task."""
        return self.column("task") or ["all"] * count

    def table(self, **columns: Any) -> Values:
        """Take the inputs as columns; without `traj` every row is an episode of one turn."""
        table = {name: columns[name] if name in columns else self.column(name) for name in names.COLUMNS}
        if table["reward"] is None:
            table["reward"] = self.inputs.pop("correct", None)
        if table["reward"] is None:
            raise UnreadableCase("its inputs have no 'rewards'")
        count = len(table["reward"])
        if table["trajectory"] is None:  # texts whose order is that of the rows, which breaks ties
            table |= {"trajectory": [f"{row:09d}" for row in range(count)], "turn": [0] * count}
        if table["turn"] is None:
            raise UnreadableCase("its inputs have 'traj' but neither 'turn' nor 'step'")
        table["task"] = table["task"] or self.groups(count)
        if count and isinstance(table["reward"][0], list):
            table |= {"multi": table["reward"], "reward": [0.0] * count}
        if table["valid"] is not None:
            self.hyper.setdefault("invalid_penalty", 0.0)
        return {name: column for name, column in table.items() if column is not None}

    def options(self, **more: Any) -> Values:
        """Take the hyperparameters as our options; one with a value that we have no word for keeps its name."""
        out = {**names.DEFAULTS.get(self.method, {}), **more}
        for key, value in self.hyper.items():
            option, words = names.OPTIONS.get(key, (key, None))
            admissible = words is None or (isinstance(value, str | bool) and value in words)
            out[option if admissible else key] = words[value] if admissible and words is not None else value
        self.hyper = {}
        return out

    def add(self, function: str, columns: Values, options: Values, expected: Values | None = None) -> None:
        """Add a case with some results, or with all that are left and the inputs that nothing took.

        Where none is left the case compares nothing, and shows that the function takes these inputs and options.
        """
        if expected is None:
            columns = {**columns, **self.inputs}
            if lost := [name for name in names.INTERMEDIATE.get(self.method, ()) if name in self.expected]:
                self.expected = {name: self.expected[name] for name in self.expected if name not in lost}
                self.raw = {**self.raw, "note": f"{self.raw.get('note', '')} not compared: {', '.join(lost)}".strip()}
            if "returns" in self.expected and function.startswith("credit/"):
                results = {"advantage": self.expected.pop("returns")}
                self.add("helper/returns", columns, {"gamma": options.get("gamma", 1.0)}, results)
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
    from turncredit.credit import rules

    methods = {ours.replace("_", ""): ours for ours in (*rules(), *SPECIAL)}
    methods |= {other.replace("_", ""): ours for other, ours in names.ALIASES.items()}
    words = name.lower().split("_")
    beginnings = ("".join(words[:count]) for count in range(len(words), 0, -1))
    return next((methods[beginning] for beginning in beginnings if beginning in methods), name)


def by_columns(case: NamedCase) -> None:
    """Inputs are columns, hyperparameters are options."""
    from turncredit.credit import rules

    rule, right = rules().get(case.method), case.inputs.get("correct")
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
    """Several rewards; `summed` is the sum of the normalised ones."""
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


def _novelty_bonus(case: NamedCase, values: Any) -> None:
    """The bonus on advantages that are given."""
    columns = {"logprob": case.column("logprob"), "task": by_appearance(case.groups(len(values)))}
    if "eta" in case.expected:
        case.add("helper/relative_likelihood", columns, {}, {"advantage": case.expected.pop("eta")})
    right = list(map(bool, case.inputs.pop("correct")))
    for name, expected in case.expected.items():
        case.expected[name] = [value - before for value, before in zip(expected, values, strict=True)]
    case.add("helper/novelty_bonus", {"advantage": values, "right": right, **columns}, case.options())


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
        advantages = dict(zip(dict.fromkeys(members), case.inputs.pop("trajectory_advantage"), strict=True))
        columns["reward"] = [advantages[m] if members.index(m) == row else 0.0 for row, m in enumerate(members)]
        base = {"base": "remax"}
    if "transition_key" in case.inputs:
        columns |= dict.fromkeys(("state", "action", "next_state"), case.inputs.pop("transition_key"))
    unit = {"unit": "trajectory"} if case.hyper.pop("dedup_per_traj", False) else {}
    more = {**base, **unit, **take(case.hyper, {"history": "merge_history"}), "endings": "plain"}
    case.add("credit/salt", case.table(**columns), case.options(**more))


def _arpo_hard(case: NamedCase, paths: Any) -> None:
    """Paths of segments [id, tokens]: a segment is a turn; expected segments are [id, tokens, advantage]."""
    ids, counts = [segment[0] for segment in _flat(paths)], [int(segment[1]) for segment in _flat(paths)]
    table = _final_rewards(case, [len(path) for path in paths], action=ids, tokens=counts)
    if "segments" in case.expected:
        segments = _flat(case.expected.pop("segments"))
        if [[expected[0], int(expected[1])] for expected in segments] != list(map(list, zip(ids, counts, strict=True))):
            raise UnreadableCase("the expected segments are not those of the inputs")
        case.expected["advantage"] = [expected[2] for expected in segments]
    if means := case.expected.pop("trajectory_advantage", None):
        case.expected["episode"] = [mean for mean, path in zip(means, paths, strict=True) for _ in path]
    base = _base(case)
    more = {} if base["base"] == "grpo" else {"base": base["base"]}
    case.add("credit/arpo_hard", table, case.options(key="action", **base["base_options"], **more))


def _mapo_dialogue(case: NamedCase) -> None:
    """Both versions; statistics of the batch are over its turns."""
    mica = case.raw["name"].startswith("mica")
    more = {"mode": "mica", **take(case.hyper, {"weight": "alpha"})} if mica else take(case.hyper, {"mode": "mode"})
    case.add("credit/mapo_dialogue", case.table(), case.options(**more))


def _hgpo(case: NamedCase) -> None:
    """Returns may replace rewards: with gamma 0 they are the same. The normalised score of the base may be given."""
    returned = take(case.inputs, {"returns": "reward"})
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
    results = [case.expected.pop(name, [None] * count) for name in ("tokens_up_to_tool_result", "tokens_after")]
    case.expected["advantage"] = _flat(results)
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
    case.expected = {name: [_padded(row, width, 0.0) for row in values] for name, values in case.expected.items()}
    columns = {"ids": [_padded(row, width, 0) for row in rows], "score": case.column("reward")}
    columns |= {"mask": [_padded([1] * len(row), width, 0) for row in rows], "group": case.groups(len(rows))}
    case.add("helper/tempo_tokens", columns, case.options())


def _gae(case: NamedCase) -> None:
    """Along the tokens of sequences; with the ends of turns on two levels; else turn by turn."""
    ends = take(case.inputs, {"turn_end": "ends"})
    if not ends and "mask" not in case.inputs:
        return by_columns(case)
    arrays = take(case.inputs, {name: name for name in ("rewards", "values", "mask")}) | ends
    if not isinstance(arrays["rewards"][0], list):
        arrays = {name: [array] for name, array in arrays.items()}
        case.expected = {name: [result] for name, result in case.expected.items()}
    arrays.setdefault("mask", [[1] * len(row) for row in arrays["rewards"]])
    words = {"gamma_high": "gamma_turn", "gamma_h": "gamma_turn", "whiten": "whitening"}
    more = take(case.hyper, words)
    return case.add(f"helper/{'bilevel_gae' if ends else 'gae_tokens'}", arrays, case.options(outside="ignore", **more))


def _whiten(case: NamedCase, values: Any) -> None:
    """Values, with a mask, of any shape."""
    columns = {
        name: _flattened(value) for name, value in {"value": values, **take(case.inputs, {"mask": "tokens"})}.items()
    }
    case.expected = {name: _flattened(result) for name, result in case.expected.items()}
    case.add("helper/whiten", columns, case.options())


def _hicra(case: NamedCase, plans: Any) -> None:
    """One sequence of token advantages, and which tokens plan."""
    case.expected = {name: [result] for name, result in case.expected.items()}
    columns = {"advantages": [case.inputs.pop("advantage")], "mask": [[1] * len(plans)], "planning": [plans]}
    case.add("transform/hicra", columns, case.options())


def _ace(case: NamedCase, ratio: Any) -> None:
    """A row per response, of which the whole log-ratio is given."""
    nothing, values = [0.0] * len(ratio), case.inputs.pop("advantage")
    columns = {"advantages": values, "mask": [1] * len(ratio), "logprobs": ratio, "ref": nothing}
    case.expected = {name: [[value] for value in result] for name, result in case.expected.items()}
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
