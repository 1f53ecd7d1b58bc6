"""The first prompts of some tasks: what the engine is probed with, and whether they fit into the context."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from turnwise.agents.agent import Agent
from turnwise.agents.errors import EnvFailure
from turnwise.agents.models.rotary import rotary_limit
from turnwise.agents.models.tokenization import Tokenizer
from turnwise.agents.prompts.dialogue import Dialogue
from turnwise.agents.rollouts.env_pool import EnvPool
from turnwise.training.environments import Environments
from turnwise.training.errors import ConfigError
from turnwise.training.learner.untyped import ModelConfig


@dataclass(frozen=True, slots=True)
class FirstPrompts:
    """The first prompts of the first tasks of a run.

    Attributes:
        environments: those of training; one is made and reset in this process.
        seed: seed of the resets.
        context: maximum number of tokens in a prompt and its answer; far longer prompts are encoded only in part.
    """

    environments: Environments
    seed: int
    context: int

    def of(self, agent: Agent, tokenizer: Tokenizer) -> list[tuple[int, ...]]:
        """Return their token ids; tasks whose environment fails are left out."""
        tasks = self.environments.tasks
        with self.environments.local_pool() as pool:
            return first_prompts(agent, tokenizer, pool, tasks, self.seed, context=self.context)


def check_context(prompts: FirstPrompts, agent: Agent, tokenizer: Tokenizer, config: ModelConfig) -> None:
    """Refuse a context that no first prompt fits into, or that the model does not have.

    Args:
        prompts: first prompts of the run, with its context.
        agent: builds them.
        tokenizer: tokenizer of the policy.
        config: configuration of the model.

    Raises:
        ConfigError: policy.context is too short or too long.
    """
    context, answer = prompts.context, agent.max_tokens
    positions = getattr(config.get_text_config(), "max_position_embeddings", None)
    if positions is not None and context > positions:
        raise ConfigError(f"policy.context is {context}, but the model has only {positions} positions")
    limit = rotary_limit(config)
    if limit is not None and context > limit.tokens:
        raise ConfigError(
            f"policy.context is {context}, but {limit.sentence()}; set policy.context to at most {limit.tokens}"
        )
    shortest = min(map(len, prompts.of(agent, tokenizer)), default=0)
    if shortest + answer > context:
        size = f"more than {2 * context}" if shortest > 2 * context else f"{shortest}"
        raise ConfigError(
            f"policy.context is {context}, but the first prompt of a task has {size} tokens and an answer up to "
            f"{answer} (agent.max_tokens); raise policy.context"
        )


def first_prompts(
    agent: Agent,
    tokenizer: Tokenizer,
    pool: EnvPool,
    tasks: Sequence[str],
    seed: int,
    *,
    count: int = 4,
    context: int | None = None,
) -> list[tuple[int, ...]]:
    """Return the token ids of the first prompts of some tasks; tasks whose environment fails are left out.

    Args:
        agent: builds the prompts.
        tokenizer: tokenizer of the learner.
        pool: pool of environments.
        tasks: ids; the first ones are reset.
        seed: seed of the resets.
        count: number of tasks.
        context: prompts that are far longer are encoded only in part.
    """
    return asyncio.run(_first_prompts(lambda: Dialogue(agent, tokenizer, context), pool, tasks[:count], seed))


async def _first_prompts(
    begin: Callable[[], Dialogue], pool: EnvPool, tasks: Sequence[str], seed: int
) -> list[tuple[int, ...]]:
    prompts, worker = [], pool.take()
    try:
        for task in tasks:
            try:
                result = await worker.reset(task, seed)
            except EnvFailure:
                worker.discard()
                continue
            dialogue = begin()
            prompts.append(dialogue.prompt(dialogue.view(result.observation, result.admissible, free=result.free)).ids)
    finally:
        pool.give_back(worker)
    return prompts
