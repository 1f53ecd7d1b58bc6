"""Who plays, and on which environment: a checkpoint, a registered sampler such as the expert, or a demonstrator.

A checkpoint is a Hugging Face folder; of a run folder the newest checkpoint is used. The `run.toml` of its run supplies
the prompt, the parser and the environment.
"""

from __future__ import annotations

import asyncio
import inspect
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from turnwise.cli.errors import UserError, choose
from turnwise.cli.play_session import PlaySession
from turnwise.cli.run_folders import find_checkpoint, run_of
from turnwise.registry import suggest

if TYPE_CHECKING:
    from turnwise.agents.agent import Agent
    from turnwise.agents.samplers import Sampler
    from turnwise.training.config import Run

BASELINES = ("expert", "random")
AGENT_PREFIX = "agent."
DTYPES = ("float32", "bfloat16", "float16")


@dataclass(frozen=True, slots=True)
class Player:
    """An agent with its sampler.

    Attributes:
        name: for tables.
        agent: prompt, parser and limits.
        sampler: answers the prompts.
        folder: its checkpoint; None for a sampler without a model.
        deadline: time limit of an environment step in its run, in seconds; None for no limit.
    """

    name: str
    agent: Agent
    sampler: Sampler
    folder: Path | None = None
    deadline: float | None = None


@dataclass(frozen=True, slots=True)
class ModelOptions:
    """How the model of a checkpoint is run; None or 0 leaves the choice to the checkpoint's run.

    Attributes:
        device: "cpu", "cuda", "cuda:N" or "auto".
        threads: CPU threads; without one in the run, 1 for small models and torch's own choice for large ones.
        dtype: of the weights, one of `DTYPES`; float32 by default.
        batch_size: maximum number of episodes that are sampled together.
    """

    device: str | None = None
    threads: int = 0
    dtype: str | None = None
    batch_size: int = 0


@dataclass(frozen=True, slots=True)
class EnvChoice:
    """An environment: its id, its arguments, and the run that they come from, if any."""

    env_id: str
    kwargs: dict[str, Any]
    run: Run | None = None


def split_words(env_id: str | None, words: Sequence[str] | None) -> tuple[str | None, list[str]]:
    """Return the environment's id and the `key=value` words; a first word with "=" is no id."""
    rest = list(words or ())
    return (None, [env_id, *rest]) if env_id is not None and "=" in env_id else (env_id, rest)


def take_agent_options(options: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Split options into those of the environment and those of the agent (`agent.temperature=0.5`)."""
    env = {key: value for key, value in options.items() if not key.startswith(AGENT_PREFIX)}
    agent = {key.removeprefix(AGENT_PREFIX): value for key, value in options.items() if key.startswith(AGENT_PREFIX)}
    return env, agent


def choose_env(env_id: str | None, options: Mapping[str, Any], policy: str | None) -> EnvChoice:
    """Return the environment that a command uses.

    With an id, the options are all of its arguments. Without one, it is the environment on which the run of the
    checkpoint is evaluated, and the options override its arguments.

    Raises:
        UserError: there is neither an id nor a checkpoint with a run.
    """
    if env_id is not None:
        return EnvChoice(env_id, dict(options))
    run = run_of(find_checkpoint(Path(policy))) if policy and policy not in BASELINES else None
    if run is None:
        from turnwise.envs import env_ids

        choices = suggest("", env_ids(variants=False))
        raise UserError(f"expected the id of an environment, because no run determines it{choices}")
    return EnvChoice(run.env.id, {**run.evaluation_kwargs(), **options}, run)


def load_player(
    name: str,
    options: Mapping[str, Any] | None = None,
    *,
    env_id: str | None = None,
    seed: int = 0,
    model: ModelOptions | None = None,
) -> Player:
    """Return the player that a name means: a sampler, a demonstrator, or the path of a checkpoint or run.

    Args:
        name: `expert`, `random`, another registered sampler, or "module:attribute" of something that makes a sampler
            from the keyword arguments `seed` and `parser`; else a demonstrator's name or a path.
        options: fields of the agent that replace those of the run.
        env_id: the environment, for its demonstrators.
        seed: of the random player.
        model: how to run the model of a checkpoint.

    Raises:
        UserError: the path holds no checkpoint, or model options were given for a player without a model.
        TrainingError: the checkpoint cannot be read.
        AgentError: an option that agents do not have.
    """
    from turnwise.agents.agent import Agent
    from turnwise.agents.errors import look_up
    from turnwise.agents.samplers import SAMPLERS, DemonstratorSampler
    from turnwise.envs import demonstrators

    model = model or ModelOptions()
    known = {} if env_id is None else demonstrators(env_id)
    samplers = set(SAMPLERS.names()) - {"scripted", "transformers"}  # these two need arguments
    is_sampler = name in samplers or (":" in name and not Path(name).exists())
    if not is_sampler and name not in known:
        return _load_checkpoint(find_checkpoint(Path(name), known), dict(options or {}), model)
    if model != ModelOptions():
        raise UserError(f"{name} is not a model: --device, --threads, --dtype and --batch-size have no effect")
    agent = Agent.from_options(**dict(options or {}))
    if name in known:
        return Player(name, agent, DemonstratorSampler(known[name], parser=agent.parser))
    make = look_up(SAMPLERS, name)
    try:
        inspect.signature(make).bind(seed=seed, parser=agent.parser)
    except TypeError as error:
        raise UserError(f"{name} must accept the keyword arguments seed and parser: {error}") from error
    return Player(name, agent, make(seed=seed, parser=agent.parser))


def _load_checkpoint(folder: Path, options: dict[str, Any], choice: ModelOptions) -> Player:
    from turnwise.agents.agent import Agent
    from turnwise.agents.samplers import TransformersSampler
    from turnwise.training.policy import device_of, load_policy, use_threads

    run = run_of(folder)
    model, tokenizer = load_policy(folder, dtype=_dtype(choice.dtype))
    use_threads(choice.threads or (run.threads if run else 0), model)
    values: dict[str, Any] = {"chat": tokenizer}
    device, slots, context, deadline = "cpu", 64, None, None
    if run is not None:
        values |= {name: getattr(run.agent, name) for name in type(run.agent).model_fields}
        values["temperature"] = run.evaluation.temperature
        device, slots, context = run.policy.device, run.train.concurrency, run.policy.context
        deadline = run.env.deadline or None
    agent = Agent.from_options(**{**values, **options})
    # a run's device is replaced by the CPU where this machine lacks it; one that the user names is not
    device = device_of(choice.device or device, elsewhere=choice.device is None)
    sampler = TransformersSampler(model, tokenizer, device=device, slots=choice.batch_size or slots, context=context)
    return Player(folder.name if run is None else run.name, agent, sampler, folder, deadline)


def _dtype(name: str | None) -> Any:
    if name is None:
        return None
    import torch

    return getattr(torch, choose("dtype", name, DTYPES))


@dataclass(frozen=True, slots=True)
class Advice:
    """What a player would do: its text, the action in it (or None), and the probability of the text."""

    text: str
    action: str | None
    probability: float | None


class Advisor:
    """A player that can be asked for an action at any turn of an episode that somebody else plays."""

    def __init__(self, player: Player) -> None:
        """Keep the player that is asked."""
        self.player = player
        self._asked = 0

    def ask(self, session: PlaySession) -> Advice:
        """Return what the player would do now.

        The conversation is rebuilt from the turns so far, with the person's actions in the form that the player's
        parser reads.

        Raises:
            UserError: the conversation no longer fits into the model's context, or the episode is over.
        """
        if session.ended:
            raise UserError("the episode is over")
        return asyncio.run(self._ask(session))

    async def _ask(self, session: PlaySession) -> Advice:
        from turnwise.agents.dialogue import Dialogue
        from turnwise.agents.rollout import sampling_seed
        from turnwise.agents.samplers import Request, UsesPlanner

        agent, sampler = self.player.agent, self.player.sampler
        self._asked += 1
        episode = f"{session.task}#{self._asked}@{session.seed}"
        dialogue = Dialogue(agent, sampler.tokenizer)
        for past in session.turns:
            view = dialogue.view(past.observation, past.admissible)
            dialogue.add(view, agent.format(str(past.action)), past.action)
        view = dialogue.view(session.observation, session.recorder.last.admissible, free=tuple(session.free))
        prompt = dialogue.prompt(view)
        if sampler.context is not None and len(prompt.ids) + agent.max_tokens > sampler.context:
            raise UserError(
                f"the conversation ({len(prompt.ids)} tokens) no longer fits into the context of the agent's model"
            )
        request = Request(
            episode=episode,
            turn=view.turn,
            prompt=prompt.ids,
            messages=prompt.messages,
            seed=sampling_seed(episode),
            view=view,
            temperature=agent.temperature,
            top_p=agent.top_p,
            max_tokens=agent.max_tokens,
            stop=agent.stop,
        )
        try:
            if isinstance(sampler, UsesPlanner):
                sampler.attach(episode, session.plan)
            answer = await sampler.sample(request)
        finally:
            sampler.forget(episode)
        certainty = math.exp(sum(answer.logprobs)) if answer.logprobs else None
        return Advice(answer.text, agent.parse(answer.text).action, certainty)

    def close(self) -> None:
        """Release the model."""
        self.player.sampler.close()


def load_advisor(name: str, options: Mapping[str, Any] | None = None) -> Advisor:
    """Return the advisor that a name means, as `load_player` does."""
    return Advisor(load_player(name, options))
