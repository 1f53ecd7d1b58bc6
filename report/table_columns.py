"""What the columns of tables mean, and which direction is good: in the terminal, in Markdown and in the report.

Each column carries its own explanation, so that wherever a table is shown its key says the same. Tables are filled
where they are made.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

__all__ = ["TABLES", "TableColumn", "filled", "key_text", "markdown_key", "page_columns", "part_column"]

MORE, LESS = "higher is better", "lower is better"


@dataclass(frozen=True, slots=True)
class TableColumn:
    """A column of a table, or a row of one that lies on its side.

    Args:
        head: what stands above the column.
        meaning: what its numbers are; never empty.
        good: which direction is good, in words; "" where none is.
    """

    head: str
    meaning: str
    good: str = ""

    @property
    def key(self) -> str:
        """The explanation with the direction."""
        return f"{self.meaning} ({self.good})" if self.good else self.meaning


def key_text(columns: Iterable[TableColumn], *further: str) -> str:
    """Return one line that explains columns.

    >>> key_text([TableColumn("n", "episodes"), TableColumn("success", "share of them that were won", MORE)])
    'n: episodes; success: share of them that were won (higher is better).'

    Args:
        columns: those of the table; one without a head needs no explanation.
        further: sentences at the end.
    """
    text = "; ".join(f"{column.head}: {column.key}" for column in dict.fromkeys(columns) if column.head)
    return " ".join([f"{text}.", *further] if text else further)


def markdown_key(columns: Iterable[TableColumn], *further: str) -> str:
    """Return the explanation of columns as a paragraph of Markdown, with their names in italics."""
    text = "; ".join(f"*{column.head}*: {column.key}" for column in dict.fromkeys(columns) if column.head)
    return " ".join([f"{text}.", *further]) + "\n"


_SEEDS = "95 % t-interval over seeds"
_WILSON = "Wilson's 95 % interval"

TRUTH: Mapping[str, TableColumn] = {
    "rule": TableColumn("rule", "the reference first, then by rank"),
    "rank": TableColumn("rank", "Spearman's correlation with the true advantages over all turns", "1 is best"),
    "true": TableColumn("true", "rank without the noise of the forks, an estimate", "1 is best"),
    "against": TableColumn(
        "vs {reference}", "rank minus that of {reference}, paired", "above 0 is closer to the truth"
    ),
    "within": TableColumn("within", "mean of the rank correlations within episodes", "1 is best"),
    "sign": TableColumn("sign", "share of right signs where the truth is beyond 2 standard errors", "1 is best"),
    "leak": TableColumn("leak", "mean size of the credit of turns that did nothing, 1: like any turn", "0 is best"),
    "error": TableColumn("error", "RMSE after the best scale and shift, 1: like saying nothing", "0 is best"),
    "direction": TableColumn(
        "direct.", "cosine of the mean gradient and the true one, from disjoint groups", "1 is best"
    ),
    "noise": TableColumn("noise", "groups for a gradient with a signal-to-noise ratio of 1", LESS),
    "agreement": TableColumn("agree.", "mean cosine of a group's gradient and the others' true one", "1 is best"),
}
TRUTH_NOTE = "[..]: 95 % interval over tasks; n: turns, episodes or groups that count."
TRUTH_STARRED = "*: beyond the noise of the paired difference to {reference}, over all rules at once."

_OF_ONE = TableColumn("of one", "with nothing to compare with", LESS)
_ZERO_VARIANCE = TableColumn(
    "zero variance", "whose members all earned the same, so nothing is learned from them", LESS
)
CREDIT: Mapping[str, TableColumn] = {
    "signal": TableColumn("turns with an advantage", "share of turns that move the policy", MORE),
    "step_signal": TableColumn("with step-level signal", "whose credit has a part of the turn's own", MORE),
    "dropped": TableColumn("dropped from the loss", "turns that the rule leaves out"),
    "groups": TableColumn("groups", "episodes of one task, which are compared"),
    "groups_of_one": _OF_ONE,
    "groups_without_spread": _ZERO_VARIANCE,
    "step_groups": TableColumn("state groups", "turns that are compared since they began in one state"),
    "step_groups_of_one": _OF_ONE,
    "step_groups_without_spread": _ZERO_VARIANCE,
    "mean": TableColumn("mean advantage", "what all turns have in common", "near 0 is best"),
    "spread": TableColumn("standard deviation", "over turns"),
    "least": TableColumn("minimum", "of the turn that is made less likely than any other"),
    "most": TableColumn("maximum", "of the turn that is made more likely than any other"),
}
"""Rows of the statistics of rules, whose columns are the rules."""

CORRELATION: Mapping[str, TableColumn] = {
    "correlation": TableColumn(
        "correlation of the advantages",
        "Pearson's, of two rules over the turns, from -1 to 1; near 1 the two can hardly train different policies",
    ),
}

SHOW: Mapping[str, TableColumn] = {
    "turn": TableColumn("turn", "of the episode, from 1"),
    "advantage": TableColumn(
        "advantage",
        "relative to the group; above 0 the turn is made more likely, also in a lost episode that lost less badly",
    ),
    "state": TableColumn("state", "S1x16 is a state that 16 turns share, - one of a single turn"),
    "action": TableColumn("action", "what was done, yellow if it was not admissible or not parsable"),
    "followed": TableColumn("what followed", "the next observation"),
}

PARTS: Mapping[str, TableColumn] = {
    "episode": TableColumn("episode", "term of the whole episode"),
    "step": TableColumn("step", "term of the turn, among turns in its state"),
    "turn": TableColumn("turn", "term of the turn"),
    "outcome": TableColumn("outcome", "term of the episode's outcome"),
    "return": TableColumn("return", "discounted rewards from the turn on, centred as the rule says"),
    "value": TableColumn("value", "estimated value before the turn"),
    "gain": TableColumn("gain", "value after the turn minus that before it"),
    "base": TableColumn("base", "advantage of the rule below"),
    "merged": TableColumn("merged", "what merging equal transitions changes"),
    "action": TableColumn("action", "mean return of the action in its state"),
    "state": TableColumn("state", "mean return of the state"),
    "before": TableColumn("before", "estimated outcome before the turn"),
    "after": TableColumn("after", "estimated outcome after the turn"),
    "baseline": TableColumn("baseline", "what is subtracted from the score"),
    "grpo": TableColumn("grpo", "the advantage of grpo"),
    "batch": TableColumn("batch", "term among all turns of the batch"),
    "bonus": TableColumn("bonus", "what the rule adds"),
    "reward": TableColumn("reward", "term of the turn's own reward"),
    "role": TableColumn("role", "term among turns of the same role"),
    "history 0": TableColumn("history 0", "turns in this state, whatever came before"),
}
"""Terms of advantages, as rules name them; others are explained as terms of their rule."""


def part_column(name: str) -> TableColumn:
    """Return the explanation of a term of an advantage.

    >>> part_column("history 2").key
    'comparison with turns that also share the 2 turns before'
    """
    if name in PARTS:
        return PARTS[name]
    kind, _, number = name.rpartition(" ")
    if kind == "history" and number.isdigit():
        turns = "turn" if number == "1" else f"{number} turns"
        return TableColumn(name, f"comparison with turns that also share the {turns} before")
    return TableColumn(name, "a term of the rule's advantage")


ABLATION: Mapping[str, TableColumn] = {
    "arm": TableColumn("arm", "a variant of the run; the first one is the reference"),
    "success": TableColumn(
        "mean over seeds",
        f"mean success of the seeds with its {_SEEDS} (Wilson's where all are equal): of another seed on these tasks",
        MORE,
    ),
    "seeds": TableColumn("seeds", "finished runs"),
    "pooled": TableColumn(
        "all episodes",
        f"success of all seeds together with {_WILSON} (won/played): of these policies on other tasks",
        MORE,
    ),
    "gain": TableColumn("gain above the warm start", f"percentage points, paired by seed, with a {_SEEDS}", MORE),
    "difference": TableColumn(
        "against {reference}", f"percentage points, paired by seed, with a {_SEEDS}", "above 0 is better"
    ),
    "verdict": TableColumn("verdict", "of the tests over seeds and over tasks at 5 %, corrected for the arms (Holm)"),
}

TESTS: Mapping[str, TableColumn] = {
    "arm": TableColumn("arm", "beside the reference"),
    "by_seed": TableColumn(
        "seed by seed: only reference / only arm won (McNemar p)",
        "tasks that only one of the two won, with the exact test within one seed, not corrected",
    ),
    "tasks": TableColumn(
        "over tasks",
        "p of sign flips of a task's differences in all seeds together: would these policies differ on other tasks?",
    ),
    "tasks_holm": TableColumn("Holm", "the p before it, corrected for the number of arms"),
    "seeds": TableColumn(
        "over seeds", "p of the paired t-test of the seeds' differences: would the arms differ if trained again?"
    ),
    "seeds_holm": TableColumn("Holm", "the p before it, corrected for the number of arms"),
    "flips": TableColumn("sign flips over seeds (smallest possible)", "p of the exact test over seeds, not corrected"),
}
TESTS_NOTE = (
    'p-values are two-sided, smaller is more certain; "beyond the noise" needs a corrected p over seeds below 0.05.'
)

DIAGNOSTICS: Mapping[str, TableColumn] = {
    "arm": TableColumn("arm", "measured on the episodes of its own policy, means over iterations and seeds"),
    "step_signal": TableColumn(
        "step-level signal", "turns whose advantage has a nonzero term of its own beside that of the episode", MORE
    ),
    "turn_share": TableColumn(
        "within trajectories", "share of the variance of advantages between turns of one episode, with penalties"
    ),
    "shared_turns": TableColumn(
        "shared states", "turns in a state that another episode of the group also visited", "more to compare"
    ),
    "shared_later_turns": TableColumn(
        "after the first turn", "the same without first turns, whose state all share", "more to compare"
    ),
    "singleton_states": TableColumn("groups of one", "states that a single episode of the group visited", LESS),
    "no_variance_groups": TableColumn("zero variance", "groups whose episodes all earned the same", LESS),
    "unparsable": TableColumn("unparsable", "turns whose answer has no action", LESS),
    "inadmissible": TableColumn("inadmissible", "turns whose action was not possible", LESS),
    "success": TableColumn("won", "episodes while training", MORE),
    "turns": TableColumn("turns per episode", "a mean, not a share"),
}

BY_SEED: Mapping[str, TableColumn] = {
    "seed": TableColumn("seed", "success after training, in per cent, of each of its runs", MORE),
}

SUMMARY: Mapping[str, TableColumn] = {
    "ablation": TableColumn("ablation", "its folder"),
    "arm": TableColumn("arm", "compared with the reference, the first arm of its ablation"),
    "seeds": TableColumn("seeds", "that both finished"),
    "shared_turns": TableColumn(
        "shared states", "turns in a state that another episode of the group also visited", "more to compare"
    ),
    "shared_later_turns": TableColumn(
        "after the first turn", "the same without first turns, whose state all share", "more to compare"
    ),
    "success": TableColumn("episodes won", "by the reference in these iterations", MORE),
    "no_variance_groups": TableColumn("zero variance", "groups whose episodes all earned the same", LESS),
    "turns": TableColumn("turns", "of an episode"),
    "agreement": TableColumn(
        "agreement",
        "correlation of the arm's advantages with the reference's on the same turns; near 1 they train the same policy",
    ),
    "gain": TableColumn(
        "gain", f"success after training minus the reference's, in percentage points, with a {_SEEDS}", MORE
    ),
}
SUMMARY_NOTE = "Shares are in per cent, means over the first {first} iterations of the reference arm."

SUMMARY_CORRELATION: Mapping[str, TableColumn] = {
    "ablation": TableColumn("ablation", '"all" mixes differences between ablations with those between seeds'),
    "arm": TableColumn("arm", "whose gain is meant"),
    "n": TableColumn("n", "seeds; below 5 there is no correlation"),
    "others": TableColumn(
        "the other columns",
        "Spearman's correlation of that column above with the gain, from -1 to 1, with a 95 % bootstrap interval",
        "away from 0: the gain goes with it",
    ),
}

EVAL: Mapping[str, TableColumn] = {
    "success": TableColumn("success", "share of tasks that were won", MORE),
    "interval": TableColumn("95 % interval", "Wilson's"),
    "won": TableColumn("won/n", "tasks won, of those that did not end as an error"),
}

HARM: TableColumn = TableColumn("harm, if attacked", "share of attacked episodes in which the attack succeeded", LESS)

CARD_COMPARISON: Mapping[str, TableColumn] = {
    "tasks": TableColumn("tasks", "that both played"),
    "names": TableColumn("{first}, {second}", "success", MORE),
    "points": TableColumn("points", "success of the second minus that of the first, in percentage points"),
    "only_first": TableColumn("only first", "tasks that only the first won"),
    "only_second": TableColumn("only second", "tasks that only the second won"),
    "p": TableColumn("p", "exact McNemar test of success, two-sided", "below 0.05: beyond the noise"),
    "holm": TableColumn("Holm", "p corrected for the number of rows"),
}

BENCH: Mapping[str, TableColumn] = {
    "panel": TableColumn("panel", "a fixed set of tasks; the last row is the unweighted mean of the panels"),
    "n": TableColumn("n", "tasks that did not end as an error"),
    "success": TableColumn("success", "share of them that were won", MORE),
    "interval": TableColumn("95 % interval", "Wilson's, in per cent; that of the mean combines those of the panels"),
    "score": TableColumn("score", "mean of the tasks' own scores, from 0 to 1", MORE),
    "others": TableColumn("{others}", "success of these players on the same tasks"),
}

EFFORT: Mapping[str, TableColumn] = {
    "panel": TableColumn("panel", "whose means these are"),
    "turns": TableColumn("turns", "of an episode, mean"),
    "unparsable": TableColumn("unparsable", "share of turns whose answer has no action", LESS),
    "inadmissible": TableColumn("inadmissible", "share of turns whose action was not possible", LESS),
    "truncated": TableColumn("cut", "share of turns whose answer reached the limit of tokens", LESS),
    "prompt_tokens": TableColumn("prompt", "tokens of the prompts of a task", LESS),
    "response_tokens": TableColumn("response", "tokens of the answers of a task", LESS),
    "seconds": TableColumn("seconds", "time of the panel divided by its tasks, which are played concurrently", LESS),
    "cost": TableColumn("cost", "of a task, by the prices that the sampler was given", LESS),
}

DECISIVE: Mapping[str, TableColumn] = {
    "place": TableColumn("turn", "those whose advantage differs most from the mean of their episode come first"),
    "outcome": TableColumn("outcome", "of the episode"),
    "done": TableColumn("what was done", "the action"),
    "advantage": TableColumn("advantage", "relative to the group; above 0 the turn is made more likely"),
    "own": TableColumn("from its mean", "advantage minus the mean of its episode"),
}

TABLES: Mapping[str, Mapping[str, TableColumn]] = {
    "truth": TRUTH,
    "credit": CREDIT,
    "correlation": CORRELATION,
    "show": SHOW,
    "parts": PARTS,
    "decisive": DECISIVE,
    "ablation": ABLATION,
    "tests": TESTS,
    "diagnostics": DIAGNOSTICS,
    "by_seed": BY_SEED,
    "summary": SUMMARY,
    "summary_correlation": SUMMARY_CORRELATION,
    "eval": EVAL,
    "card_comparison": CARD_COMPARISON,
    "bench": BENCH,
    "effort": EFFORT,
}
"""All columns by table."""


def filled(columns: Mapping[str, TableColumn], **words: object) -> dict[str, TableColumn]:
    """Return columns with names in place, such as that of the reference."""

    def put(text: str) -> str:
        for name, word in words.items():
            text = text.replace(f"{{{name}}}", str(word))
        return text

    return {
        key: TableColumn(put(column.head), put(column.meaning), put(column.good)) for key, column in columns.items()
    }


def page_columns() -> dict[str, dict[str, list[str]]]:
    """Return head and explanation of every column, for the scripts of the report."""
    return {
        table: {key: [column.head, column.key] for key, column in columns.items()} for table, columns in TABLES.items()
    }
