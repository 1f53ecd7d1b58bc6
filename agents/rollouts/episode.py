"""One episode: build a prompt, sample, parse, step and record, until something ends it."""

from __future__ import annotations

import asyncio
import hashlib
import time
from dataclasses import dataclass

from turnwise.agents.agent import Agent
from turnwise.agents.content import ImagePart
from turnwise.agents.errors import (
    AgentError,
    ContextOverflow,
    EnvEndedHost,
    EnvFailure,
    EnvLost,
    RequestFailed,
    SamplerError,
)
from turnwise.agents.prompts.dialogue import Dialogue, Prompt
from turnwise.agents.prompts.prompt import View
from turnwise.agents.reported_values import check_columns
from turnwise.agents.rollouts.env_pool import Environment, EnvWorker, StepResult
from turnwise.agents.samplers.base import Completion, Request, Sampler, Samples
from turnwise.agents.samplers.token_requests import check_sample
from turnwise.agents.samplers.wrappers import as_sampler
from turnwise.agents.trajectory import Extra, Stop, Trajectory, Turn, check_extras

MAX_RESPONSE_CHARS = 20_000
"""Longest answer that is parsed and stored; the rest is cut off."""


async def play(
    agent: Agent,
    sampler: Samples,
    env: Environment,
    task: str,
    seed: int,
    episode_id: str | None = None,
) -> Trajectory:
    """Return one episode of the task, played in the given environment (which stays open unless it fails).

    Args:
        agent: prompts, parser, limits.
        sampler: the model.
        env: a Gymnasium environment with text observations and actions.
        task: id of the task instance.
        seed: seed of the environment's reset; the sampling seed follows from it and the id.
        episode_id: ``task#member@seed``; None: the first member.
    """
    name = episode_id or f"{task}#0@{seed}"
    spec = EpisodeSpec(task, seed, name, sampling_seed(name))
    return await Episode(agent, as_sampler(sampler), EnvWorker(lambda: env), spec).play()


def sampling_seed(episode_id: str) -> int:
    """Return the sampling seed of an episode, 63 bits: a hash of its id that is the same in every process."""
    name = episode_id.encode("utf-8", errors="surrogatepass")
    return int.from_bytes(hashlib.blake2b(name, digest_size=8).digest(), "big") >> 1


@dataclass(frozen=True, slots=True)
class EpisodeSpec:
    """An episode to be played."""

    task: str
    seed: int
    name: str
    sampling_seed: int
    position: tuple[int, int] = (0, 0)
    """Index of the group, index of the member."""


class Episode:
    """An episode in progress."""

    def __init__(self, agent: Agent, sampler: Sampler, worker: EnvWorker, spec: EpisodeSpec) -> None:
        """Prepare the episode; `play` plays it."""
        self.agent, self.sampler, self.worker, self.spec = agent, sampler, worker, spec
        self.dialogue = Dialogue(agent, sampler.tokenizer, sampler.context)
        self.turns: list[Turn] = []
        self.observation = ""
        self.images: tuple[ImagePart, ...] = ()
        self.result: StepResult | None = None
        self.valid: bool | None = None
        self.results: tuple[str, ...] = ()
        self.error: str | None = None
        self.env_failed = True
        """Whether an episode that ended as ``error`` did so because of its environment, and not of the sampler."""
        self.env_failure: EnvFailure | None = None
        """How its environment failed."""
        self._lists = agent.prompt.template.lists
        self._extras: dict[str, Extra] = {}

    async def play(self) -> Trajectory:
        """Play the episode to its end."""
        started = time.perf_counter()
        stop: Stop
        try:
            stop = await self._run()
        except EnvFailure as failure:
            stop, self.error, self.env_failure = "error", str(failure), failure
            self.worker.discard()
        except ContextOverflow as overflow:
            stop, self.error = "tokens", str(overflow)
        except RequestFailed as failure:
            stop, self.error, self.env_failed = "error", str(failure), False
        finally:
            self.sampler.forget(self.spec.name)
        return self._trajectory(stop, time.perf_counter() - started)

    @property
    def lost(self) -> EnvLost | None:
        """How its environment was lost with a process of several, as far as is known through no fault of its own."""
        return self.env_failure if isinstance(self.env_failure, EnvLost) else None

    @property
    def ended_host(self) -> bool:
        """Whether its environment ended a process in which others may have lived."""
        return isinstance(self.env_failure, EnvEndedHost)

    async def _run(self) -> Stop:
        self.result = result = self._checked(await self.worker.reset(self.spec.task, self.spec.seed))
        self.observation, self.images, self._extras = result.observation, result.images, dict(result.extras)
        planner = self.worker.planner()
        if planner is not None:
            self.sampler.attach(self.spec.name, planner)
        for _ in range(self.agent.max_turns):
            latest = self.result
            view = self.dialogue.view(
                self.observation,
                latest.admissible,
                free=latest.free,
                valid=self.valid,
                images=self.images,
                tools=result.tools,
                results=self.results,
            )
            prompt = self.dialogue.prompt(view)
            if not self._fits(prompt, view):
                return "tokens"
            await self._turn(view, prompt)
            if self.result.terminated:
                return "terminated"
            if self.result.truncated:
                return "truncated"
        return "turns"

    def _checked(self, result: StepResult) -> StepResult:
        """Refuse images that the sampler cannot use."""
        if result.images and not self.sampler.images:
            raise AgentError(
                f"the environment returns images, and the sampler {self.sampler.name} reads text only; make "
                "the environment with text observations (screenshot=false for the browser environments), or use a "
                "sampler that declares images = True"
            )
        return result

    def _fits(self, prompt: Prompt, view: View) -> bool:
        """Return whether prompt and response fit into the model's context."""
        context, room = self.sampler.context, self.agent.max_tokens
        if context is None or len(prompt.ids) + room <= context:
            return True
        size = f"{'' if prompt.whole else 'more than '}{len(prompt.ids)}"
        self.error = (
            f"turn {view.turn}: a prompt of {size} tokens and a response of up to {room} do not fit into "
            f"the model's context of {context}"
        )
        return False

    async def _turn(self, view: View, prompt: Prompt) -> None:
        """Sample, parse and step; record the turn even if the step fails."""
        agent, before = self.agent, self.result
        assert before is not None
        completion = await self._sample(self._request(view, prompt))
        text = storable(agent.answer_text(completion.text, completion.reasoning, MAX_RESPONSE_CHARS))
        parsed = agent.parse(text)
        reward, valid, extras = 0.0, False, self._extras | _extras_of(completion)
        try:
            if parsed.action is None:
                self.observation, self.images, self.valid = agent.correction(str(parsed.why)), (), False
                self.results = ()
            else:
                valid = before.admissible is None or parsed.action in before.admissible
                self.result = after = self._checked(await self.worker.step(parsed.action))
                self.observation, self.images, self.valid = after.observation, after.images, after.valid
                self.results = after.results
                extras |= after.extras
                reward, valid = after.reward, (valid if after.valid is None else after.valid)
        finally:
            self.turns.append(
                Turn(
                    prompt=prompt.ids,
                    response=completion.tokens,
                    logprobs=completion.logprobs,
                    version=completion.version,
                    observation=view.observation,
                    text=text,
                    action=parsed.action,
                    state=before.state,
                    reward=reward,
                    valid=valid,
                    admissible=view.admissible if self._lists else None,
                    extras=extras,
                    finish=completion.finish,
                    switches=completion.switches,
                    results=view.results,
                    free=view.free if self._lists else (),
                )
            )
            self.dialogue.add(view, text, parsed.action, completion.tokens, completion.message)

    async def _sample(self, request: Request) -> Completion:
        """Return the sampler's answer.

        Raises:
            RequestFailed: it cannot be used, or a library let its own cancellation out.
        """
        try:
            completion = await self.sampler.sample(request)
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            raise RequestFailed(f"turn {request.turn}: the sampler was cancelled from within") from error
        if completion.tokens or completion.logprobs:
            check_sample(request, completion.tokens, completion.logprobs, engine="the sampler")
        return completion

    def _request(self, view: View, prompt: Prompt) -> Request:
        return request_for(view, prompt, self.dialogue, episode=self.spec.name, seed=self.spec.sampling_seed)

    def _trajectory(self, stop: Stop, seconds: float) -> Trajectory:
        result = self.result
        won = False
        if result is not None and stop != "error":
            won = result.won if result.won is not None else stop == "terminated" and self.turns[-1].reward > 0
        return Trajectory(
            id=self.spec.name,
            task=self.spec.task,
            task_type=None if result is None else result.task_type,
            seed=self.spec.seed,
            turns=tuple(self.turns),
            stop=stop,
            won=won,
            score=float(won) if result is None or result.score is None else result.score,
            final_state="" if result is None else result.state,
            final_observation=self.observation,
            error=self.error,
            seconds=seconds,
        )


def _extras_of(completion: Completion) -> dict[str, Extra]:
    try:
        return check_columns(check_extras(completion.extras))
    except TypeError as error:
        raise SamplerError(f"the sampler's completion: {error}") from error
    except ValueError as error:
        raise RequestFailed(f"the sampler's completion: {error}") from error


def storable(text: str) -> str:
    """Return the text cut to a length that can be stored, with lone surrogates, which cannot be written, replaced."""
    text = text[:MAX_RESPONSE_CHARS]
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def request_for(view: View, prompt: Prompt, dialogue: Dialogue, *, episode: str, seed: int) -> Request:
    """Return what a sampler is asked for one turn, with the sampling options of the dialogue's agent.

    Args:
        view: what the agent sees in this turn.
        prompt: the prompt that was built for it.
        dialogue: memory of the episode.
        episode: name of the episode.
        seed: seed of the episode's sampling.
    """
    agent = dialogue.agent
    return Request(
        episode=episode,
        turn=view.turn,
        prompt=prompt.ids,
        messages=prompt.messages,
        seed=seed,
        view=view,
        temperature=agent.temperature,
        top_p=agent.top_p,
        top_k=agent.top_k,
        min_p=agent.min_p,
        max_tokens=agent.max_tokens,
        stop=agent.stop,
        past=prompt.past,
        end=dialogue.end,
    )
