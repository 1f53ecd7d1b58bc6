"""Step-level advantages inside TRL's GRPOTrainer: a class to put in front of it."""

from collections.abc import Callable
from typing import Any

import numpy as np

from turnwise.credit.adapters.packed import PackedSteps
from turnwise.credit.adapters.sequences import from_sequences
from turnwise.credit.advantages import Advantages


def turn_advantages(rule: Callable[..., Advantages], **options: Any) -> type[Any]:
    """Return a base class for GRPOTrainer that replaces one advantage per completion by one per turn.

        class Trainer(turn_advantages(gigpo, gamma=0.95), GRPOTrainer): ...

    A turn is an unbroken run of the model's own tokens. If the rollout function returned `turn_rewards`, `states` and
    `valid`, a list per completion, the rule sees them; otherwise the reward of a completion belongs to its last turn.
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
            packed = _packed(self, inputs, output)
            like = output["advantages"]
            output["advantages"] = like.new_tensor(packed.tokens(rule(packed.steps, **options)))
            return output

    return TurnAdvantages


def _packed(trainer: Any, inputs: list[dict[str, Any]], output: dict[str, Any]) -> PackedSteps:
    """Return the turns of the completions of this process; those without trained tokens are left out."""
    mask = np.asarray((output["completion_mask"] * output.get("tool_mask", 1)).tolist(), dtype=np.bool_)
    size = trainer.num_generations if trainer.model.training else trainer.num_generations_eval
    uid = [number // size for number in range(len(inputs))]
    common = {"uid": uid, "response_mask": mask, "active_masks": mask.any(axis=1)}
    if "turn_rewards" in inputs[0]:
        columns = {"turn_rewards": "turn_rewards", "state": "states", "valid": "valid"}
        given = {name: [row[key] for row in inputs] for name, key in columns.items() if key in inputs[0]}
        return from_sequences(**common, **given)
    first = trainer.accelerator.process_index * len(inputs)
    weights = trainer.reward_weights.to(trainer.rewards_per_func.device)
    rewards = (trainer.rewards_per_func * weights).nansum(dim=1)[first : first + len(inputs)]
    return from_sequences(**common, rewards=rewards)
