"""Who plays: a checkpoint, the expert, chance, or a demonstrator of the environment; and on which environment.

A checkpoint is a Hugging Face folder. A run folder serves as well: its newest checkpoint is taken. `run.toml` beside or
above a checkpoint says how the policy was asked for actions while it was trained, and on what.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from turnwise.cli.errors import UserError
from turnwise.cli.play_session import PlaySession
from turnwise.cli.run_folders import find_checkpoint, run_of
from turnwise.registry import suggest

if TYPE_CHECKING:
    from turnwise.agents.agent import Agent
    from turnwise.agents.samplers import Sampler
    from turnwise.training.config import Run

BASELINES = ("expert", "random")
AGENT_PREFIX = "agent."


@dataclass(frozen=True, slots=True)
class Player:
    """An agent with what answers for it.

    Attributes:
        name: for tables.
        agent: prompts, parser, limits.
        sampler: what answers.
        folder: its checkpoint; None for a baseline.
        deadline: seconds that a step of the environment could take in its run; None: no limit.
    """

    name: str
    agent: Agent
    sampler: Sampler
    folder: Path | None = None
    deadline: float | None = None


@dataclass(frozen=True, slots=True)
class EnvChoice:
    """The environment that is meant: its id, its arguments, and the run that they come from, if any."""

    env_id: str
    kwargs: dict[str, Any]
    run: Run | None = None


def split_words(env_id: str | None, words: Sequence[str] | None) -> tuple[str | None, list[str]]:
    """Tell an environment's id from `key=value`: without an id, the first word is already an option."""
    rest = list(words or ())
    return (None, [env_id, *rest]) if env_id is not None and "=" in env_id else (env_id, rest)


def take_agent_options(options: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Part `key=value` options into those of the environment and those of the agent (`agent.temperature=0.5`)."""
    env = {key: value for key, value in options.items() if not key.startswith(AGENT_PREFIX)}
    agent = {key.removeprefix(AGENT_PREFIX): value for key, value in options.items() if key.startswith(AGENT_PREFIX)}
    return env, agent


def target(env_id: str | None, options: Mapping[str, Any], policy: str | None) -> EnvChoice:
    """The environment that a command is about.

    With an id, the options given are all its arguments. Without one, the run of the checkpoint says the environment
    (as it was for evaluation), and the options come on top.

    Raises:
        UserError: neither an id nor a checkpoint with a run.
    """
    if env_id is not None:
        return EnvChoice(env_id, dict(options))
    run = run_of(find_checkpoint(Path(policy))) if policy and policy not in BASELINES else None
    if run is None:
        from turnwise.envs import env_ids

        raise UserError(f"no environment was named, and no run says which{suggest('', env_ids())}")
    return EnvChoice(run.env.id, {**run.evaluation_kwargs(), **options}, run)


def load_player(
    name: str, options: Mapping[str, Any] | None = None, *, env_id: str | None = None, seed: int = 0
) -> Player:
    """The player that a word means: a sampler, a demonstrator, or the path of a checkpoint or run.

    Args:
        name: `expert`, `random`, another registered sampler, or "module:attribute" of something that makes a sampler
            from the keyword arguments `seed` and `parser`; else a demonstrator's name or a path.
        options: fields of the agent that replace those of the run.
        env_id: the environment, for its demonstrators.
        seed: of the random player.

    Raises:
        UserError: the path holds no checkpoint.
        TrainingError: the checkpoint cannot be read.
        AgentError: an option that agents do not have.
    """
    from turnwise.agents.agent import Agent
    from turnwise.agents.errors import look_up
    from turnwise.agents.samplers import SAMPLERS, DemonstratorSampler
    from turnwise.envs import demonstrators

    known = {} if env_id is None else demonstrators(env_id)
    samplers = set(SAMPLERS.names()) - {"scripted", "transformers"}  # these two need arguments
    is_sampler = name in samplers or (":" in name and not Path(name).exists())
    if not is_sampler and name not in known:
        return _load_checkpoint(find_checkpoint(Path(name), known), dict(options or {}))
    agent = Agent.from_options(**dict(options or {}))
    if name in known:
        return Player(name, agent, DemonstratorSampler(known[name], parser=agent.parser))
    return Player(name, agent, look_up(SAMPLERS, name)(seed=seed, parser=agent.parser))


def _load_checkpoint(folder: Path, options: dict[str, Any]) -> Player:
    from turnwise.agents.agent import Agent
    from turnwise.agents.samplers import TransformersSampler
    from turnwise.training.policy import device_of, load_policy, use_threads

    run = run_of(folder)
    model, tokenizer = load_policy(folder)
    values: dict[str, Any] = {"chat": tokenizer}
    device, slots, context, deadline = "cpu", 64, None, None
    if run is not None:
        use_threads(run.threads)
        values |= {name: getattr(run.agent, name) for name in type(run.agent).model_fields}
        values["temperature"] = run.evaluation.temperature
        device, slots, context = run.policy.device, run.policy.slots, run.policy.context
        deadline = run.env.deadline or None
    agent = Agent.from_options(**{**values, **options})
    device = device_of(device, elsewhere=True)
    sampler = TransformersSampler(model, tokenizer, device=device, slots=slots, context=context)
    return Player(folder.name if run is None else run.name, agent, sampler, folder, deadline)


@dataclass(frozen=True, slots=True)
class Advice:
    """What a player would do: its text, the action in it (None if there is none), and the probability of the text."""

    text: str
    action: str | None
    probability: float | None


class Advisor:
    """A player who looks over a session's shoulder: asked at any moment, also after moves that were not its own."""

    def __init__(self, player: Player) -> None:
        """Sit beside the table.

        Args:
            player: who is asked.
        """
        self.player = player
        self._asked = 0

    def ask(self, session: PlaySession) -> Advice:
        """What the player would do now.

        The conversation is written anew from what happened, with the person's actions in the form that the player's
        parser reads, so it may be asked at any turn.

        Raises:
            UserError: the conversation has outgrown the model, or the episode is over.
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
            raise UserError(f"The conversation ({len(prompt.ids)} tokens) no longer fits into the agent's model.")
        limits = (agent.temperature, agent.top_p, agent.max_tokens, agent.stop)
        seed = sampling_seed(episode)
        try:
            if isinstance(sampler, UsesPlanner):
                sampler.attach(episode, session.plan)
            answer = await sampler.sample(Request(episode, view.turn, prompt.ids, prompt.messages, seed, view, *limits))
        finally:
            sampler.forget(episode)
        certainty = math.exp(sum(answer.logprobs)) if answer.logprobs else None
        return Advice(answer.text, agent.parse(answer.text).action, certainty)

    def close(self) -> None:
        """Release the model."""
        self.player.sampler.close()


def load_advisor(name: str, options: Mapping[str, Any] | None = None) -> Advisor:
    """The advisor that a word means; see `load_player`."""
    return Advisor(load_player(name, options))
