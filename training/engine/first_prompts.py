"""The first prompts of some tasks: what the engine is probed with, and whether they fit into the context."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from turncredit.agents.agent import Agent
from turncredit.agents.errors import EnvFailure
from turncredit.agents.models.rotary import rotary_limit
from turncredit.agents.models.tokenization import Tokenizer
from turncredit.agents.prompts.dialogue import Dialogue, Prompt
from turncredit.agents.rollouts.env_pool import EnvPool
from turncredit.agents.vision.image_reader import reader_of
from turncredit.training.errors import ConfigError
from turncredit.training.learner.untyped import ModelConfig
from turncredit.training.tasks.environments import Environments

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

    def of(self, agent: Agent, tokenizer: Tokenizer) -> list[Prompt]:
        """Return them; tasks whose environment fails are left out."""
        return list(self.by_task(agent, tokenizer).values())

    def by_task(self, agent: Agent, tokenizer: Tokenizer) -> dict[str, Prompt]:
        """Return them by task: of the first tasks, and of the first one of each part of a mixture."""
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
    for task, prompt in prompts.by_task(agent, tokenizer).items():
        part = agent.for_task(task).part
        length = len(prompt.ids) + _tokens_of_further_images(agent.for_task(task), tokenizer, prompt)
        shortest[part] = min(length, shortest.get(part, length))
    for part, length in shortest.items():
        answer = agent.for_task(f"{part}/").max_tokens
        if length + answer > context:
            size = f"more than {2 * context}" if length > 2 * context else f"{length}"
            images = agent.for_task(f"{part}/").keep_images or 1
            more = f" with {images} images" if reader_of(tokenizer) is not None and images > 1 else ""
            raise ConfigError(
                f"policy.context is {context}, but the first prompt of a task{f' of {part}' * bool(part)}{more} has "
                f"{size} tokens and an answer up to {answer} (agent.max_tokens); raise policy.context"
            )


def _tokens_of_further_images(agent: Agent, tokenizer: Tokenizer, prompt: Prompt) -> int:
    """Return the tokens of the images that a later prompt has beside those of the first one."""
    reader = reader_of(tokenizer)
    if reader is None or not prompt.shown or not agent.prompt.appends:
        return 0
    return max(0, (agent.keep_images or 1) - len(prompt.shown)) * reader.count(prompt.shown[-1])


def first_prompts(
    agent: Agent,
    tokenizer: Tokenizer,
    pool: EnvPool,
    tasks: Sequence[str],
    seed: int,
    *,
    count: int = COUNT,
    context: int | None = None,
) -> list[Prompt]:
    """Return the first prompts of some tasks; tasks whose environment fails are left out.

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
) -> dict[str, Prompt]:
    def begin(task: str) -> Dialogue:
        return Dialogue(agent.for_task(task), tokenizer, context)

    return asyncio.run(_first_prompts(begin, pool, tasks, seed))


async def _first_prompts(
    begin: Callable[[str], Dialogue], pool: EnvPool, tasks: Sequence[str], seed: int
) -> dict[str, Prompt]:
    prompts: dict[str, Prompt] = {}
    worker = pool.take()
    try:
        for task in tasks:
            try:
                result = await worker.reset(task, seed)
            except EnvFailure:
                worker.discard()
                continue
            dialogue = begin(task)
            view = dialogue.view(result.observation, result.admissible, free=result.free, images=result.images)
            prompts[task] = dialogue.prompt(view)
    finally:
        pool.give_back(worker)
    return prompts
