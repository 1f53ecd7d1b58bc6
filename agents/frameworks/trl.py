"""Episodes for TRL's GRPOTrainer: as a rollout function, or as an environment with a tool.

    rollout_function    plays whole episodes with an agent's own prompts; a completion is one episode. With
                        `turncredit.credit.adapters.turn_advantages`, every turn gets an advantage of its own.
    ToolEnvironment     TRL generates, and the model acts by calling the tool `act`; TRL then trains plain GRPO. The
                        model's chat template needs tool calls.

The dataset's column `prompt` (for the first) or `task` (for the second) holds ids of tasks. TRL calls both interfaces
experimental; they were tested with TRL 1.16.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from turncredit.agents.agent import Agent
from turncredit.agents.errors import AgentError
from turncredit.agents.frameworks.session import ClientSession
from turncredit.agents.rollouts.env_pool import MakeEnv, StepResult
from turncredit.agents.rollouts.rollout import rollout
from turncredit.agents.trajectory import Trajectory
from turncredit.engines.base import SamplerSettings
from turncredit.engines.wrappers import make_sampler

__all__ = ["ToolEnvironment", "episode_reward", "rollout_function"]

RolloutFunction = Callable[[Sequence[str], Any], dict[str, list[object]]]


def rollout_function(
    make: MakeEnv, agent: Agent, *, sampler: str = "transformers", concurrency: int = 64, deadline: float | None = None
) -> RolloutFunction:
    """Return a `rollout_func` for GRPOTrainer that plays one episode for every prompt, which is the id of a task.

    It samples with a sampler of turncredit, by default from the trainer's own module, and not with TRL's generation or
    its vLLM. The temperature is the trainer's, since its loss uses that one.

    Its result also has the lists `episode_reward` (None for an episode that failed), `turn_rewards`, `states` and
    `valid`, one entry per episode, which TRL passes to reward functions.

    Args:
        make: makes an environment.
        agent: writes the prompts; they must extend each other, as those of the prompt builder `conversation` do. Its
            temperature is 1 (the trainer's is used) or the trainer's, and it does not truncate the distribution.
        sampler: name of a sampler that takes the trainer's model.
        concurrency: maximum number of episodes at once.
        deadline: seconds for each reset and step of an environment; None: no limit.

    Raises:
        AgentError: while it plays: agent and trainer describe other distributions, or prompts do not extend each other.
    """

    def play(prompts: Sequence[str], trainer: Any) -> dict[str, list[object]]:
        player = _as_trained(agent, trainer)
        model = trainer.accelerator.unwrap_model(trainer.model)
        tokenizer = trainer.processing_class
        training, version = model.training, trainer.state.global_step
        settings = SamplerSettings(module=model, tokenizer=tokenizer, device=str(model.device), concurrency=concurrency)
        model_sampler = make_sampler(sampler, settings)
        try:
            groups = rollout(
                player, model_sampler, prompts, make=make, seed=version, concurrency=concurrency, deadline=deadline
            )
        finally:
            model_sampler.close()
            model.train(training)
        rows = [_row(group.trajectories[0] if group.trajectories else None, tokenizer) for group in groups]
        return {name: [row[name] for row in rows] for name in rows[0]}

    return play


def _as_trained(agent: Agent, trainer: Any) -> Agent:
    """Return the agent with the trainer's temperature, if both sample from the distribution that the loss uses."""
    if agent.annealing is not None:
        raise AgentError(
            f"the agent's temperature changes within an answer ({agent.annealing.name}), the trainer's not"
        )
    temperature = float(getattr(trainer, "temperature", agent.temperature))
    if agent.temperature not in (1.0, temperature):
        raise AgentError(
            f"the agent samples at temperature {agent.temperature:g}, but the trainer's loss uses {temperature:g}: set "
            "the temperature of GRPOConfig, and leave out that of the agent"
        )
    off = {"top_p": (1.0, None), "top_k": (0, -1, None), "min_p": (0.0, None), "repetition_penalty": (1.0, None)}
    for owner, name in ((agent, "agent"), (trainer, "GRPOConfig")):
        for key, values in off.items():
            value = getattr(owner, key, None)
            if value not in values:
                raise AgentError(
                    f"{key} = {value} of {name} changes what is sampled, while the trainer's loss uses the whole "
                    f"distribution: leave it at {values[0]:g}"
                )
    return replace(agent, temperature=temperature)


def episode_reward(episode_reward: Sequence[float | None], **_: object) -> list[float | None]:
    """Return the rewards of the episodes that `rollout_function` played: a reward function for GRPOTrainer."""
    return list(episode_reward)


def _row(trajectory: Trajectory | None, tokenizer: Any) -> dict[str, object]:
    """Return an episode as one prompt and one completion, in which only the model's own tokens are trained."""
    end = tokenizer.eos_token_id
    if trajectory is None or not trajectory.turns:
        empty: dict[str, object] = {"prompt_ids": [end], "completion_ids": [end], "logprobs": [0.0], "env_mask": [0]}
        return {**empty, "episode_reward": None, "turn_rewards": [], "states": [], "valid": []}
    turns = trajectory.turns
    sequence, logprobs, mask = list(turns[0].prompt), [0.0] * len(turns[0].prompt), [0] * len(turns[0].prompt)
    for turn in turns:
        told = turn.prompt[len(sequence) :]
        if list(turn.prompt[: len(sequence)]) != sequence:
            raise AgentError(
                "a rollout for TRL needs prompts that extend each other (prompt='conversation'), and turn "
                f"{turns.index(turn)} of {trajectory.id} does not"
            )
        sequence += [*told, *turn.response]
        logprobs += [*[0.0] * len(told), *turn.logprobs]
        mask += [*[0] * len(told), *[1] * len(turn.response)]
    start = len(turns[0].prompt)
    return {
        "prompt_ids": sequence[:start],
        "completion_ids": sequence[start:],
        "logprobs": logprobs[start:],
        "env_mask": mask[start:],
        "episode_reward": None if trajectory.stop == "error" else trajectory.reward,
        "turn_rewards": [turn.reward for turn in turns],
        "states": [turn.state for turn in turns],
        "valid": [turn.valid for turn in turns],
    }


class ToolEnvironment:
    """An environment for GRPOTrainer's `environment_factory`: the model acts by calling the tool `act`.

    Pass `functools.partial(ToolEnvironment, make)`. A row of the dataset may have the columns `task` and `seed`.
    """

    def __init__(self, make: MakeEnv, deadline: float | None = None) -> None:
        """Keep how to make the environment; the first episode makes it.

        Args:
            make: makes the environment.
            deadline: seconds for each reset and step; None: no limit.
        """
        self._session = ClientSession(make, deadline)
        self._reward = 0.0

    def reset(self, task: str | None = None, seed: int | None = None, **_: object) -> str:
        """Start an episode and return the first observation, which TRL appends to the prompt."""
        self._reward = 0.0
        return _told(asyncio.run(self._session.reset(task, seed)))

    def get_reward(self) -> float:
        """Return the sum of the rewards of the episode."""
        return self._reward

    def act(self, action: str) -> str:
        """Take an action in the environment.

        Args:
            action: The action, as the environment expects it.

        Returns:
            What happens, and which actions are possible then.
        """
        result = asyncio.run(self._session.step(action))
        self._reward += result.reward
        return _told(result)


def _told(result: StepResult) -> str:
    """Return what the model reads: the observation, and the possible actions where they can be listed."""
    if result.terminated or result.truncated:
        return f"{result.observation}\nThe episode is over."
    listed = [*(result.admissible or ()), *result.free]
    return f"{result.observation}\nPossible actions: {', '.join(listed)}" if listed else result.observation
