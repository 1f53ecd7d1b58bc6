"""The first prompts of some tasks: what the engine is probed with, and whether they fit into the context."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from turnwise.agents.agent import Agent
from turnwise.agents.errors import EnvFailure
from turnwise.agents.models.rotary import rotary_limit
from turnwise.agents.models.tokenization import Tokenizer
from turnwise.agents.prompts.dialogue import Dialogue
from turnwise.agents.rollouts.env_pool import EnvPool
from turnwise.training.errors import ConfigError
from turnwise.training.setup import PreparedRun


def check_context(prepared: PreparedRun, tokenizer: Tokenizer, config: Any) -> None:
    """Refuse a context that no first prompt fits into, or that the model does not have.

    Args:
        prepared: the run; an environment is made and reset.
        tokenizer: of the policy.
        config: of the model.

    Raises:
        ConfigError: policy.context is too short or too long.
    """
    context, answer = prepared.run.policy.context, prepared.run.agent.max_tokens
    positions = getattr(config.get_text_config(), "max_position_embeddings", None)
    if positions is not None and context > positions:
        raise ConfigError(f"policy.context is {context}, but the model has only {positions} positions")
    limit = rotary_limit(config)
    if limit is not None and context > limit.tokens:
        raise ConfigError(
            f"policy.context is {context}, but {limit.sentence()}; set policy.context to at most {limit.tokens}"
        )
    with EnvPool(prepared.make, prepared.deadline) as pool:
        seed = prepared.seed_for("probe")
        prompts = first_prompts(prepared.agent(tokenizer), tokenizer, pool, prepared.tasks, seed, context=context)
    shortest = min(map(len, prompts), default=0)
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
        tokenizer: of the learner.
        pool: of environments.
        tasks: ids; the first ones are reset.
        seed: of the resets.
        count: number of tasks.
        context: prompts that are far longer are encoded only in part.
    """
    return asyncio.run(_first_prompts(lambda: Dialogue(agent, tokenizer, context), pool, tasks[:count], seed))


async def _first_prompts(
    begin: Callable[[], Dialogue], pool: EnvPool, tasks: Sequence[str], seed: int
) -> list[tuple[int, ...]]:
    found, worker = [], pool.take()
    try:
        for task in tasks:
            try:
                result = await worker.reset(task, seed)
            except EnvFailure:
                worker.discard()
                continue
            dialogue = begin()
            found.append(dialogue.prompt(dialogue.view(result.observation, result.admissible, free=result.free)).ids)
    finally:
        pool.give_back(worker)
    return found
