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

COUNT = 4
"""Number of tasks whose first prompts are looked at."""


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
        return list(self.by_task(agent, tokenizer).values())

    def by_task(self, agent: Agent, tokenizer: Tokenizer) -> dict[str, tuple[int, ...]]:
        """Return their token ids by task: of the first tasks, and of the first one of each part of a mixture."""
        tasks = self.environments.tasks
        first = {agent.for_task(task).part: task for task in reversed(tasks)}
        few = dict.fromkeys([*tasks[:COUNT], *first.values()])
        with self.environments.local_pool() as pool:
            return _by_task(agent, tokenizer, pool, list(few), self.seed, self.context)


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
    context = prompts.context
    positions = getattr(config.get_text_config(), "max_position_embeddings", None)
    if positions is not None and context > positions:
        raise ConfigError(f"policy.context is {context}, but the model has only {positions} positions")
    limit = rotary_limit(config)
    if limit is not None and context > limit.tokens:
        raise ConfigError(
            f"policy.context is {context}, but {limit.sentence()}; set policy.context to at most {limit.tokens}"
        )
    shortest: dict[str, int] = {}
    for task, ids in prompts.by_task(agent, tokenizer).items():
        part = agent.for_task(task).part
        shortest[part] = min(len(ids), shortest.get(part, len(ids)))
    for part, length in shortest.items():
        answer = agent.for_task(f"{part}/").max_tokens
        if length + answer > context:
            size = f"more than {2 * context}" if length > 2 * context else f"{length}"
            raise ConfigError(
                f"policy.context is {context}, but the first prompt of a task{f' of {part}' * bool(part)} has {size} "
                f"tokens and an answer up to {answer} (agent.max_tokens); raise policy.context"
            )


def first_prompts(
    agent: Agent,
    tokenizer: Tokenizer,
    pool: EnvPool,
    tasks: Sequence[str],
    seed: int,
    *,
    count: int = COUNT,
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
    return list(_by_task(agent, tokenizer, pool, tasks[:count], seed, context).values())


def _by_task(
    agent: Agent, tokenizer: Tokenizer, pool: EnvPool, tasks: Sequence[str], seed: int, context: int | None
) -> dict[str, tuple[int, ...]]:
    def begin(task: str) -> Dialogue:
        return Dialogue(agent.for_task(task), tokenizer, context)

    return asyncio.run(_first_prompts(begin, pool, tasks, seed))


async def _first_prompts(
    begin: Callable[[str], Dialogue], pool: EnvPool, tasks: Sequence[str], seed: int
) -> dict[str, tuple[int, ...]]:
    prompts, worker = {}, pool.take()
    try:
        for task in tasks:
            try:
                result = await worker.reset(task, seed)
            except EnvFailure:
                worker.discard()
                continue
            dialogue = begin(task)
            view = dialogue.view(result.observation, result.admissible, free=result.free)
            prompts[task] = dialogue.prompt(view).ids
    finally:
        pool.give_back(worker)
    return prompts
