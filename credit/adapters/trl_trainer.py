"""Step-level advantages inside TRL's GRPOTrainer: a class to put in front of it."""

from collections.abc import Callable
from typing import Any

import numpy as np

from turncredit.credit.adapters.packed import PackedSteps
from turncredit.credit.adapters.sequences import from_sequences
from turncredit.credit.adapters.trl import groups_of_prompts
from turncredit.credit.advantages import Advantages
from turncredit.credit.errors import BadTable
from turncredit.credit.tensors import plain

COLUMNS = {"turn_rewards": "turn_rewards", "state": "states", "valid": "valid"}
"""Columns of `from_sequences`, and how a rollout function calls them."""


def turn_advantages(rule: Callable[..., Advantages], **options: Any) -> type[Any]:
    """Return a base class for GRPOTrainer that replaces one advantage per completion by one per turn.

        class Trainer(turn_advantages(gigpo, gamma=0.95), GRPOTrainer): ...

    A turn is an unbroken run of the model's own tokens. If the rollout function returned `turn_rewards`, `states` and
    `valid`, a list per completion, the rule sees them; otherwise the reward of a completion belongs to its last turn.
    The rule sees the completions of all processes, since a group may be divided among several. A completion without
    trained tokens, such as a truncated one that TRL masks, counts in its group; one without any reward does not.
    It overrides two private methods of the trainer, which were tested with TRL 1.16. The loss must take advantages of
    shape [B, L], as that version does.

    Args:
        rule: a credit rule, such as `gigpo`.
        options: its options.
    """

    class TurnAdvantages:
        """Overrides how GRPOTrainer computes advantages."""

        def _calculate_rewards(self, *args: Any, **kwargs: Any) -> Any:
            self.rewards_per_func = super()._calculate_rewards(*args, **kwargs)  # type: ignore[misc]
            return self.rewards_per_func  # [B, functions], of all processes

        def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
            output: dict[str, Any] = super()._generate_and_score_completions(inputs)  # type: ignore[misc]
            mask = plain(output["completion_mask"] * output.get("tool_mask", 1)).astype(np.bool_)
            rows = _of_all_processes(_rows(self, inputs, mask), self.accelerator)  # type: ignore[attr-defined]
            packed = _packed(self, rows)
            first = self.accelerator.process_index * len(inputs)  # type: ignore[attr-defined]
            values = packed.tokens(rule(packed.steps, **options))[first : first + len(inputs), : mask.shape[1]]
            output["advantages"] = output["advantages"].new_tensor(values)
            return output

    return TurnAdvantages


def _rows(trainer: Any, inputs: list[dict[str, Any]], mask: Any) -> list[dict[str, Any]]:
    """Return what the rule needs of each completion of this process; the reward is None where there is none."""
    first = trainer.accelerator.process_index * len(inputs)
    rewards = plain(trainer.rewards_per_func).astype(np.float64)[first : first + len(inputs)]
    totals = np.nansum(rewards * plain(trainer.reward_weights).astype(np.float64), axis=1)
    return [
        {
            "prompt": row.get("prompt"),
            "mask": own,
            "reward": None if np.isnan(functions).all() else float(total),
            **{key: row[key] for key in COLUMNS.values() if key in row},
        }
        for row, own, functions, total in zip(inputs, mask, rewards, totals, strict=True)
    ]


def _of_all_processes(rows: list[dict[str, Any]], accelerator: Any) -> list[dict[str, Any]]:
    """Return the rows of all processes, in the order of the processes."""
    if getattr(accelerator, "num_processes", 1) == 1:
        return rows
    from accelerate.utils import gather_object

    gathered: list[dict[str, Any]] = gather_object(rows)
    return gathered


def _packed(trainer: Any, rows: list[dict[str, Any]]) -> PackedSteps:
    """Return the turns of the completions of all processes.

    Raises:
        BadTable: completions of one group have different prompts, or those of a group are elsewhere.
    """
    count = len(trainer.rewards_per_func)
    if len(rows) != count:
        raise BadTable(f"there are rewards of {count} completions, but only {len(rows)} completions of all processes")
    size = trainer.num_generations if trainer.model.training else trainer.num_generations_eval
    mask = np.zeros((count, max(len(row["mask"]) for row in rows)), dtype=np.bool_)
    for number, row in enumerate(rows):
        mask[number, : len(row["mask"])] = row["mask"]
    active = np.array([row["reward"] is not None and row.get("turn_rewards") != [] for row in rows])
    common: dict[str, Any] = {
        "uid": groups_of_prompts([row["prompt"] for row in rows], size),
        "response_mask": mask,
        "active_masks": active,
    }
    if "turn_rewards" in rows[0]:
        columns = {name: [row[key] for row in rows] for name, key in COLUMNS.items() if key in rows[0]}
        return from_sequences(**common, **columns)
    return from_sequences(**common, rewards=[row["reward"] or 0.0 for row in rows])
