"""One episode: build a prompt, sample, parse, step and record, until something ends it."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace

from turncredit.agents.agent import Agent
from turncredit.agents.content import ImagePart
from turncredit.agents.errors import (
    AgentError,
    ContextOverflow,
    EnvEndedHost,
    EnvFailure,
    EnvLost,
    ForkRefused,
    ImageError,
    ModelError,
    RequestFailed,
    SamplerError,
    UnreadableAnswer,
)
from turncredit.agents.json_types import JsonObject
from turncredit.agents.prompts.dialogue import Dialogue, Prompt
from turncredit.agents.prompts.hints import TurnNotes, hinted, plan_hint
from turncredit.agents.prompts.prompt import View
from turncredit.agents.reported_values import check_columns
from turncredit.agents.rollouts.env_pool import Environment, EnvWorker, StepResult
from turncredit.agents.rollouts.forks import Fork, Moment, Snapshot, Snapshots
from turncredit.agents.rollouts.spans import (
    Parent,
    Span,
    call_of_tool,
    note_episode,
    note_turn,
    span_of_episode,
    span_of_turn,
)
from turncredit.agents.rollouts.turn_requests import answer_of, experts_of, request_for
from turncredit.agents.trajectory import Extra, Stop, Trajectory, Turn, check_extras, sampling_seed
from turncredit.engines.base import Completion, Request, Sampler, Samples
from turncredit.engines.wrappers import as_sampler

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


@dataclass(frozen=True, slots=True)
class EpisodeSpec:
    """An episode to be played."""

    task: str
    seed: int
    name: str
    sampling_seed: int
    position: tuple[int, int] = (0, 0)
    """Index of the group, index of the member."""
    fork: Fork | None = None
    """Where the episode begins; None: with a reset."""
    round: int = 0
    """The round of its group in which it was asked for."""
    hint: str = ""
    """Shown with the task."""
    plan: float = 0.0
    """Share of the expert's plan that is shown as the hint."""
    temperature: float | None = None
    """Of the sampling; None: that of the agent."""
    teacher: str = ""
    """The model that plays in the place of the policy; empty: none."""
    notes: TurnNotes | None = None
    """Shown turn by turn; None: none."""


@dataclass(slots=True)
class _Outcome:
    """What came of one action, as far as it is known."""

    reward: float = 0.0
    valid: bool = False
    extras: dict[str, Extra] = field(default_factory=dict)


class Episode:
    """An episode in progress."""

    def __init__(
        self,
        agent: Agent,
        sampler: Sampler,
        worker: EnvWorker,
        spec: EpisodeSpec,
        snapshots: Snapshots | None = None,
    ) -> None:
        """Prepare the episode; `play` plays it, and leaves the state before every turn in `snapshots`."""
        agent = agent.for_task(spec.task)
        self.agent, self.sampler, self.worker, self.spec = agent, sampler, worker, spec
        self.snapshots = snapshots
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
        self._tools: tuple[JsonObject, ...] = ()
        self._hint = spec.hint if spec.fork is None else spec.fork.trajectory.hint

    async def play(self, parent: Parent = None) -> Trajectory:
        """Play the episode to its end.

        Args:
            parent: place of its span; None: below the one in progress.
        """
        started = time.perf_counter()
        with span_of_episode(self.sampler, self.spec.name, self.spec.task, parent) as span:
            stop = await self._play(span)
            trajectory = self._trajectory(stop, time.perf_counter() - started)
            note_episode(span, trajectory)
        return trajectory

    async def _play(self, span: Span) -> Stop:
        """Play the episode; return why it is over."""
        stop: Stop
        try:
            stop = await self._run()
        except EnvFailure as failure:
            stop, self.error, self.env_failure = "error", str(failure), failure
            self.worker.discard()
            span.fail(failure)
        except ContextOverflow as overflow:
            stop, self.error = "tokens", str(overflow)
        except UnreadableAnswer as answer:
            stop, self.error = "answer", str(answer)
        except RequestFailed as failure:
            stop, self.error, self.env_failed = "error", str(failure), False
            span.fail(failure)
        finally:
            self.sampler.forget(self.spec.name)
        return stop

    @property
    def lost(self) -> EnvLost | None:
        """How its environment was lost with a process of several, as far as is known through no fault of its own."""
        return self.env_failure if isinstance(self.env_failure, EnvLost) else None

    @property
    def ended_host(self) -> bool:
        """Whether its environment ended a process in which others may have lived."""
        return isinstance(self.env_failure, EnvEndedHost)

    async def retrace(self) -> None:
        """Take over the turns of the episode's fork, and leave the state before each of them in `snapshots`.

        Raises:
            ForkRefused: the environment does not repeat what was recorded.
            EnvFailure: it failed.
        """
        assert self.spec.fork is not None
        try:
            await self._replay(self.spec.fork, keep=True)
        except EnvFailure:
            self.worker.discard()
            raise

    async def _run(self) -> Stop:
        stop = await self.begin()
        planner = self.worker.planner()
        if planner is not None:
            self.sampler.attach(self.spec.name, planner)
        while stop is None and len(self.turns) < self.agent.max_turns:
            stop = await self._next_turn()
        return stop or "turns"

    async def begin(self) -> Stop | None:
        """Bring the environment to where the episode begins; return why the episode is over, if it is.

        Raises:
            ForkRefused: the environment does not repeat what was recorded.
            EnvFailure: it failed.
        """
        fork = self.spec.fork
        if fork is None:
            result = await self.worker.reset(self.spec.task, self.spec.seed)
            if self.spec.plan:
                self._hint = plan_hint(self._plan(), self.spec.plan)
            self._start(result)
            return None
        if fork.tokens and not self.sampler.continues:
            raise AgentError(
                f"a fork of {fork.trajectory.id} begins inside an answer, after {fork.tokens} of its tokens, and the "
                f"sampler {self.sampler.name} does not go on from given tokens; transformers, vllm and openai with "
                "tokens = true do"
            )
        snapshot = fork.snapshot if self.snapshots is None else self.snapshots.find(fork)
        if snapshot is not None and snapshot.dialogue.agent is self.agent:
            await self._restore(fork, snapshot)
        else:
            await self._replay(fork)
        if fork.fresh:
            await self.worker.reseed(sampling_seed(f"{self.spec.name} noise"))
        return await self._repeat(fork) if fork.repeat else None

    def _start(self, result: StepResult) -> None:
        """Take over the first result of a reset."""
        self.result = self._checked(result)
        self.observation = self._noted(result.observation, self._hint)
        self.images, self._extras, self._tools = result.images, dict(result.extras), result.tools

    def _noted(self, observation: str, hint: str = "") -> str:
        """Return an observation with what the agent is told about it."""
        notes = "" if self.spec.notes is None else self.spec.notes.about(observation)
        return hinted(observation, "\n".join(filter(None, (hint, notes))))

    def _plan(self) -> list[str]:
        """Return the actions of the expert from the first state.

        Raises:
            AgentError: the environment has no expert.
        """
        planner = self.worker.planner()
        if planner is None:
            raise AgentError("a share of the expert's plan is to be shown, and the environment has no plan()")
        return planner()

    async def _restore(self, fork: Fork, snapshot: Snapshot) -> None:
        """Begin in a saved state."""
        restored = await self.worker.restore(snapshot.env)
        moment = snapshot.moment
        if restored.state != moment.latest.state:
            fork.refuse(fork.turn, "the restored state key", restored.state, moment.latest.state)
        fork.check(fork.turn, moment.latest.state, moment.observation)
        self.turns = list(fork.taken)
        self.dialogue = snapshot.dialogue.copy()
        self.result, self.observation, self.images = moment.latest, moment.observation, moment.images
        self.valid, self.results = moment.valid, moment.results
        self._tools, self._extras = moment.tools, dict(moment.extras)

    async def _replay(self, fork: Fork, *, keep: bool = False) -> None:
        """Begin by taking the recorded actions again, and compare each state with the recorded one."""
        result = await self.worker.reset(self.spec.task, self.spec.seed)
        if self.worker.no_forks:
            raise ForkRefused(f"an episode of this environment cannot be forked: {self.worker.no_forks}")
        self._start(result)
        for number, turn in enumerate(fork.taken):
            await self._arrive(fork, number, keep=keep)
            outcome = await self._take(fork, number)
            if outcome.reward != turn.reward:
                fork.refuse(number, "the reward", outcome.reward, turn.reward)
            if self._ended is not None:
                fork.refuse(number, "the end of the episode", self._ended, "no end")
            self.turns.append(turn)
        await self._arrive(fork, fork.turn, keep=keep)

    async def _arrive(self, fork: Fork, number: int, *, keep: bool) -> None:
        """Compare the state before a turn with the recorded one, and leave it in the snapshots if asked to."""
        fork.check(number, self._latest.state, self.observation)
        if keep:
            await self._keep(fork.trajectory.id)

    async def _take(self, fork: Fork, number: int) -> _Outcome:
        """Give the parent's answer of a turn to the environment once more."""
        turn = fork.trajectory.turns[number]
        view, prompt = self._look()
        fork.check_prompt(number, prompt.ids)
        outcome = _Outcome()
        why = "" if turn.action else str(self.agent.parse(turn.text, sampled=bool(turn.response)).why)
        await self._act(turn.action, why, outcome)
        self.dialogue.add(view, turn.text, turn.action, turn.response or None)
        return outcome

    async def _repeat(self, fork: Fork) -> Stop | None:
        """Repeat the parent's answer at the turn of the fork, and record what the environment does now."""
        turn = fork.trajectory.turns[fork.turn]
        outcome = await self._take(fork, fork.turn)
        extras = {**turn.extras, **outcome.extras}
        self.turns.append(replace(turn, reward=outcome.reward, valid=outcome.valid, extras=extras))
        return self._ended

    async def _keep(self, episode: str) -> None:
        """Leave the state before the next turn in the snapshots, if the environment can be saved."""
        if self.snapshots is None or (data := await self.worker.save()) is None:
            return
        moment = Moment(
            self._latest, self.observation, self.images, self.valid, self.results, self._tools, self._extras
        )
        self.snapshots.put(episode, len(self.turns), Snapshot(data, self.dialogue.copy(), moment))

    @property
    def _latest(self) -> StepResult:
        assert self.result is not None
        return self.result

    @property
    def _ended(self) -> Stop | None:
        """How the environment ended the episode, if it did."""
        return "terminated" if self._latest.terminated else "truncated" if self._latest.truncated else None

    def _look(self) -> tuple[View, Prompt]:
        """Return what the agent sees now, and the prompt about it.

        Raises:
            RequestFailed: the model cannot read an image.
        """
        view = self.dialogue.view(
            self.observation,
            self._latest.admissible,
            free=self._latest.free,
            valid=self.valid,
            images=self.images,
            tools=self._tools,
            results=self.results,
        )
        try:
            return view, self.dialogue.prompt(view)
        except (ImageError, ModelError) as error:
            raise RequestFailed(f"turn {view.turn}: {error}") from error

    async def _next_turn(self) -> Stop | None:
        """Play a turn; return why the episode is over, if it is."""
        if self.snapshots is not None:
            await self._keep(self.spec.name)
        view, prompt = self._look()
        if not self._fits(prompt, view):
            return "tokens"
        with span_of_turn(self.spec.name, view.turn) as span:
            await self._turn(view, prompt)
            note_turn(span, self.turns[-1])
        return self._ended

    def _checked(self, result: StepResult) -> StepResult:
        """Refuse images that the sampler cannot use."""
        if result.images and not self.sampler.images:
            raise AgentError(
                f"the environment returns images, and the sampler {self.sampler.name} reads text only; make "
                "the environment with text observations (observation=text, screenshot=false), or use a "
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
        agent, state = self.agent, self._latest.state
        completion = await answer_of(self.sampler, self._request(view, prompt))
        text = storable(agent.answer_text(completion.text, completion.reasoning, MAX_RESPONSE_CHARS))
        parsed = agent.parse(text, sampled=bool(completion.tokens))
        outcome = _Outcome(extras=self._extras | _extras_of(completion))
        try:
            await self._act(parsed.action, str(parsed.why), outcome)
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
                    state=state,
                    reward=outcome.reward,
                    valid=outcome.valid,
                    admissible=view.admissible if self._lists else None,
                    extras=outcome.extras,
                    finish=completion.finish,
                    switches=completion.switches,
                    results=view.results,
                    free=view.free if self._lists else (),
                    images=tuple(image.compressed() for image in view.images),
                    shown=tuple(image.compressed() for image in prompt.shown),
                    experts=experts_of(completion, self.turns),
                )
            )
            self.dialogue.add(view, text, parsed.action, completion.tokens, completion.message)

    async def _act(self, action: str | None, why: str, outcome: _Outcome) -> None:
        """Give an action to the environment, or a correction to the agent, and note what came of it."""
        before = self._latest
        if action is None:
            self.observation, self.valid = self.agent.correction(why), False
            self.images = () if self.agent.prompt.appends else self.images  # a prompt that is rebuilt shows it again
            self.results = ()
            return
        outcome.valid = before.admissible is None or action in before.admissible
        with call_of_tool(self.spec.name, action):
            self.result = after = self._checked(await self.worker.step(action))
        self.observation, self.images, self.valid = self._noted(after.observation), after.images, after.valid
        self.results = after.results
        outcome.extras |= after.extras
        outcome.reward = after.reward
        outcome.valid = outcome.valid if after.valid is None else after.valid

    def _request(self, view: View, prompt: Prompt) -> Request:
        request = request_for(view, prompt, self.dialogue, episode=self.spec.name, seed=self.spec.sampling_seed)
        own, fork = self.spec.temperature, self.spec.fork
        if fork is not None:
            request = replace(request, parent=fork.trajectory.id)
            if fork.tokens and view.turn == fork.turn:
                fork.check_prompt(view.turn, prompt.ids)
                request = replace(request, start=fork.start)
        return request if own is None else replace(request, temperature=own)

    def _trajectory(self, stop: Stop, seconds: float) -> Trajectory:
        result = self.result
        won = False
        if result is not None and stop not in ("error", "answer"):
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
            fork_of=None if self.spec.fork is None else self.spec.fork.trajectory.id,
            fork_turn=None if self.spec.fork is None else self.spec.fork.first,
            fork_tokens=0 if self.spec.fork is None else self.spec.fork.tokens,
            round=self.spec.round,
            hint=self._hint,
            temperature=self.spec.temperature,
            teacher=self.spec.teacher,
            notes=self.spec.notes is not None,
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
