"""The player and the environment of a command. A player is a checkpoint, a registered sampler, or a demonstrator.

A checkpoint is a Hugging Face folder; of a run folder the newest checkpoint is used. The `run.toml` of its run supplies
the prompt, the parser and the environment.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from turncredit.cli.errors import UserError
from turncredit.cli.options import Options
from turncredit.cli.play_session import PlaySession
from turncredit.registry import suggest

if TYPE_CHECKING:
    from turncredit.engines import Sampler
    from turncredit.training.config.run import Run
    from turncredit.training.engine.loaded_agent import LoadedAgent, ModelOptions

BASELINES = ("expert", "random")
AGENT_PREFIX, SAMPLER_PREFIX = "agent.", "sampler."
MODEL_ENGINES = {"transformers": "transformers:MODEL", "vllm": "vllm:MODEL", "openai": "openai:MODEL@URL"}
"""Samplers that run a model, and how it is named."""


@dataclass(frozen=True, slots=True)
class EnvChoice:
    """An environment: its id, its arguments, and the run that they come from, if any."""

    env_id: str
    kwargs: Options
    run: Run | None = None


def split_words(env_id: str | None, words: Sequence[str] | None) -> tuple[str | None, list[str]]:
    """Return the environment's id and the `key=value` words; a first word with "=" is no id."""
    others = list(words or ())
    return (None, [env_id, *others]) if env_id is not None and "=" in env_id else (env_id, others)


def take_options(options: Options, prefix: str) -> tuple[Options, Options]:
    """Split options into those without a prefix, and those with it, such as `agent.temperature=0.5` with "agent.".

    A further point leads into a table: `agent.chat.tools=true` is `agent.chat={tools=true}`.

    Raises:
        ConfigError: an option is a value, and another one lies in it.
    """
    from turncredit.training.config.renamed import put

    others = {key: value for key, value in options.items() if not key.startswith(prefix)}
    tables: Options = {}
    for key, value in options.items():
        if key.startswith(prefix):
            put(tables, key.split("."), value, f"{key} cannot be set: {{value}} is a value, not a table", replace=False)
    return others, tables.get(prefix.removesuffix("."), {})


def choose_env(env_id: str | None, options: Options, policy: str | None) -> EnvChoice:
    """Return the environment that a command uses.

    With an id, the options are all of its arguments. Without one, it is the environment on which the run of the
    checkpoint is evaluated, and the options override its arguments.

    Raises:
        Untrusted: the run names code, or sets an option, that needs --trust.
        UserError: there is neither an id nor a checkpoint with a run.
    """

    from turncredit.training.config.file_options import require_safe_env

    if env_id is not None:
        return EnvChoice(env_id, dict(options))
    run = run_of_player(policy) if policy else None
    if run is None:
        from turncredit.envs import env_ids

        choices = suggest("", env_ids(variants=False))
        raise UserError(f"expected the id of an environment, because no run determines it{choices}")
    require_safe_env(run.env.id, run.evaluation_kwargs(), options)
    return EnvChoice(run.env.id, {**run.evaluation_kwargs(), **options}, run)


def run_of_player(name: str) -> Run | None:
    """Return the run that a player's checkpoint belongs to; None for a player without one.

    Raises:
        UserError: the name is neither a sampler nor the path of a checkpoint.
    """
    from turncredit.engines import SAMPLERS, parse_sampler
    from turncredit.training.run_folder.paths import find_checkpoint, run_of

    path = Path(parse_sampler(name)[1] or name)
    is_sampler = name.partition(":")[0] in SAMPLERS.names() or ":" in name
    if is_sampler and not path.exists():
        return None
    return run_of(find_checkpoint(path, "the path of a run or checkpoint, expert or random"))


def load_player(
    name: str,
    options: Options | None = None,
    *,
    env_id: str | None = None,
    env_kwargs: Mapping[str, object] | None = None,
    seed: int = 0,
    model: ModelOptions | None = None,
    defaults: Mapping[str, object] | None = None,
    sampler: Sampler | None = None,
) -> LoadedAgent:
    """Return the player that a name means: a sampler, a demonstrator, or the path of a checkpoint or run.

    Args:
        name: a sampler as `ENGINE:MODEL@URL` (`expert`, `random`, `transformers:PATH`, `openai:MODEL@URL`), or
            "module:attribute" of a function that makes one from its settings; else a demonstrator's name or a path.
        options: fields of the agent that replace those of the run.
        env_id: the environment, for its demonstrators, and for what it says about prompts.
        env_kwargs: its arguments.
        seed: seed of the random player.
        model: how to run a model.
        defaults: fields of the agent that those of the run replace; None: those that the environment names.
        sampler: the sampler of an earlier player of this name, which is used again instead of loading the model.

    Raises:
        UserError: model options were given for a player without a model.
        TrainingError: the path holds no checkpoint, or one that cannot be read.
        AgentError: an option that agents do not have, or a sampler that cannot be made.
    """
    from turncredit.agents.instructions import agent_from, merged
    from turncredit.engines import MODEL_FREE, SAMPLERS, DemonstratorSampler, parse_sampler
    from turncredit.envs import demonstrators
    from turncredit.training.engine.loaded_agent import LoadedAgent, load_with_engine
    from turncredit.training.run_folder.paths import find_checkpoint

    options = dict(options or {})
    experts = {} if env_id is None else demonstrators(env_id)
    engine, path, url = parse_sampler(name)
    if defaults is None:
        defaults = _defaults(env_id, env_kwargs, reads=name not in experts and engine not in MODEL_FREE)
    if name in experts:
        _refuse_model_options(name, model)
        agent = agent_from(merged(defaults, {**options, "chat": False}))
        return LoadedAgent(name, agent, DemonstratorSampler(experts[name], parser=agent.parser))
    if engine in MODEL_FREE and (path or url):
        raise UserError(f"{engine} is not a model: {name} has no meaning, say {engine}")
    named = (engine in SAMPLERS.names() or ":" in engine) and not Path(engine).exists()
    if path or url or named:
        chosen = {} if model is None else model.options
        if engine in MODEL_ENGINES and not (path or url or {"model", "url"} & chosen.keys()):
            raise UserError(f"the sampler {engine} needs a model: {MODEL_ENGINES[engine]}")
        if engine in MODEL_FREE:
            _refuse_model_options(engine, model, takes=("noise",) if engine == "expert" else ())
    else:
        expected = ", ".join(["the path of a run or checkpoint", *experts])
        engine, path = "transformers", str(find_checkpoint(Path(name), f"{expected}, expert or random"))
    return load_with_engine(
        engine,
        path,
        url=url,
        defaults=defaults,
        options=options,
        model_options=model,
        seed=seed,
        sampler=sampler,
        env_id=env_id or "",
        env_kwargs=env_kwargs,
    )


def _defaults(env_id: str | None, env_kwargs: Mapping[str, object] | None, *, reads: bool) -> Mapping[str, object]:
    """Return the options of an agent that the environment names for a player that reads prompts, or does not."""
    from turncredit.agents.instructions import INSTRUCTED, instructions, player_options

    if env_id is None:
        return INSTRUCTED if reads else {}
    return instructions(env_id, env_kwargs) if reads else player_options(env_id, env_kwargs)


def _refuse_model_options(name: str, model: ModelOptions | None, takes: Sequence[str] = ()) -> None:
    """Refuse options of models, and those of samplers but for some that the player takes."""
    from turncredit.training.engine.loaded_agent import ModelOptions

    if model is None:
        return
    if model.options.keys() - set(takes) or replace(model, options={}) != ModelOptions():
        others = f"sampler.KEY=VALUE other than {', '.join(f'sampler.{key}' for key in takes)}" if takes else ""
        raise UserError(
            f"{name} is not a model: --device, --threads, --dtype, --batch-size and "
            f"{others or 'sampler.KEY=VALUE'} have no effect"
        )


@dataclass(frozen=True, slots=True)
class Advice:
    """What a player would do: its text, the action in it (or None), and the probability of the text."""

    text: str
    action: str | None
    probability: float | None


class Advisor:
    """A player that can be asked for an action at any turn of an episode that a person plays."""

    def __init__(self, player: LoadedAgent) -> None:
        """Keep the player that is asked."""
        self.player = player
        self._asked = 0

    def ask(self, session: PlaySession) -> Advice:
        """Return what the player would do now.

        The conversation is rebuilt from the turns so far, with the person's actions in the form that the player's
        parser reads.

        Raises:
            UserError: the conversation no longer fits into the model's context, the episode is over, or the sampler
                failed.
        """
        from turncredit.agents.errors import PromptError, SamplerError

        if session.ended:
            raise UserError("the episode is over")
        try:
            return asyncio.run(self._ask(session))
        except (PromptError, SamplerError) as error:  # the person can play on
            raise UserError(f"the agent cannot be asked: {error}") from error

    async def _ask(self, session: PlaySession) -> Advice:
        from turncredit.agents.prompts.dialogue import Dialogue
        from turncredit.agents.rollouts.turn_requests import request_for
        from turncredit.agents.trajectory import sampling_seed

        agent, sampler = self.player.agent.for_task(session.task or ""), self.player.sampler
        self._asked += 1
        episode = f"{session.task}#{self._asked}@{session.seed}"
        dialogue = Dialogue(agent, sampler.tokenizer, sampler.context)
        for past in session.turns:
            view = dialogue.view(past.observation, past.admissible, free=past.free, results=past.results)
            dialogue.add(view, agent.format(str(past.action)), past.action)
        latest = session.recorder.last
        view = dialogue.view(session.observation, latest.admissible, free=tuple(session.free), results=latest.results)
        prompt = dialogue.prompt(view)
        if sampler.context is not None and len(prompt.ids) + agent.max_tokens > sampler.context:
            size = f"{'' if prompt.whole else 'more than '}{len(prompt.ids)}"
            raise UserError(f"the conversation ({size} tokens) no longer fits into the context of the agent's model")
        request = request_for(view, prompt, dialogue, episode=episode, seed=sampling_seed(episode))
        try:
            sampler.attach(episode, session.plan)
            answer = await sampler.sample(request)
        finally:
            sampler.forget(episode)
        certainty = math.exp(sum(answer.logprobs)) if answer.logprobs else None
        text = agent.answer_text(answer.text, answer.reasoning)
        return Advice(text, agent.parse(text, sampled=bool(answer.tokens)).action, certainty)

    def close(self) -> None:
        """Release the model."""
        self.player.sampler.close()


def load_advisor(
    name: str, options: Options | None = None, *, env: EnvChoice | None = None, model: ModelOptions | None = None
) -> Advisor:
    """Return the advisor that a name means in an environment, as `load_player` does."""
    env_id, env_kwargs = (None, None) if env is None else (env.env_id, env.kwargs)
    return Advisor(load_player(name, options, env_id=env_id, env_kwargs=env_kwargs, model=model))
