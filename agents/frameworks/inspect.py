"""Environments as tasks of inspect_ai: each sample is a task instance, which inspect's model plays to its end.

    inspect eval file.py --model openai/gpt-4o       with `@task def household(): return environment_task(...)` in it

The model gets the same messages as any other model in turncredit, and its answers are parsed by the agent.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import stdev
from typing import Any, Final

from turncredit.agents.agent import Agent
from turncredit.agents.errors import RequestFailed
from turncredit.agents.models.weights import Weights
from turncredit.agents.rollouts.env_pool import MakeEnv
from turncredit.agents.rollouts.episode import play
from turncredit.agents.trajectory import Finish
from turncredit.engines.base import Completion, Request, Sampler
from turncredit.installation import MissingPackage

__all__ = ["InspectSampler", "environment_task"]

_MISSING: Final = "tasks for inspect need the package inspect_ai: pip install inspect-ai"
_ROLES: Final = {"system": "ChatMessageSystem", "user": "ChatMessageUser", "assistant": "ChatMessageAssistant"}


class InspectSampler(Sampler):
    """Inspect's active model as a sampler of messages."""

    def __init__(self) -> None:
        """Use the model of the evaluation that runs."""
        import inspect_ai.model

        self._library = inspect_ai.model

    def messages(self, request: Request) -> list[object]:
        """Return the prompt of a request as inspect's messages."""
        make = {role: getattr(self._library, name) for role, name in _ROLES.items()}
        return [make[message["role"]](content=message["content"]) for message in request.messages]

    async def sample(self, request: Request) -> Completion:
        """Return the model's answer.

        Raises:
            RequestFailed: the model reported an error, or the agent samples in a way that inspect has not.
        """
        if request.annealing is not None:
            raise RequestFailed(
                "inspect's models sample an answer at one temperature: leave annealing out of the agent"
            )
        if request.min_p:
            raise RequestFailed("inspect's models have no min_p: leave it out of the agent")
        config = self._library.GenerateConfig(
            max_tokens=request.max_tokens,
            temperature=request.temperature,
            top_p=request.top_p,
            top_k=request.top_k or None,
            stop_seqs=list(request.stop) or None,
        )
        output = await self._library.get_model().generate(self.messages(request), config=config)
        if output.error:
            raise RequestFailed(f"inspect's model failed: {output.error}")
        finish: Finish = "length" if output.stop_reason in ("max_tokens", "model_length") else "stop"
        return Completion((), (), output.completion, self.version, finish, _usage(output), reasoning=_reasoning(output))

    async def use(self, weights: Weights, version: int) -> None:
        """Refuse new weights.

        Raises:
            RequestFailed: always.
        """
        raise RequestFailed("inspect's models cannot load weights")


def _reasoning(output: Any) -> str:
    """Return the reasoning that a model returned in parts of its own."""
    content = output.message.content if output.choices else ""
    parts = content if isinstance(content, list) else []
    return "".join(part.reasoning for part in parts if part.type == "reasoning")


def _usage(output: Any) -> dict[str, int]:
    """Return the tokens of a call as extra columns of its turn."""
    if output.usage is None:
        return {}
    return {"prompt_tokens": output.usage.input_tokens, "response_tokens": output.usage.output_tokens}


def environment_task(make: MakeEnv, tasks: Sequence[str], agent: Agent, *, seed: int = 0, **options: Any) -> object:
    """Return an inspect_ai Task with one sample for every task instance, scored by success.

    The score has the value 1 or 0, and in its metadata the reward, the number of turns and tokens, and why the episode
    stopped. An episode whose environment or request failed is unscored. The metric `stderr` is NaN where the scores
    have no spread, since such samples do not say how far off the accuracy may be.

    Args:
        make: makes an environment.
        tasks: ids of task instances.
        agent: writes the prompts and parses the answers.
        seed: seed of the environments.
        options: further arguments of inspect_ai's Task, such as `epochs`.

    Raises:
        ImportError: inspect_ai is not installed.
    """
    try:
        from inspect_ai import Task
        from inspect_ai.dataset import Sample
    except ImportError as missing:
        raise MissingPackage(_MISSING) from missing
    samples = [Sample(input=task, id=task) for task in tasks]
    return Task(dataset=samples, solver=_solver(make, agent, seed), scorer=_scorer(), **options)


def _solver(make: MakeEnv, agent: Agent, seed: int) -> Any:
    """Return a solver that plays the episode and keeps its trajectory in the sample's metadata."""
    from inspect_ai.model import ChatMessageAssistant, ChatMessageUser
    from inspect_ai.solver import solver

    @solver(name="turncredit_episode")  # type: ignore[untyped-decorator]
    def episode() -> Any:
        async def solve(state: Any, generate: object) -> Any:
            env = make()
            try:
                task = str(state.sample_id)
                played = await play(agent, InspectSampler(), env, task, seed, f"{task}#{state.epoch - 1}@{seed}")
            finally:
                env.close()
            state.messages = [
                message
                for turn in played.turns
                for message in (ChatMessageUser(content=turn.observation), ChatMessageAssistant(content=turn.text))
            ]
            facts: dict[str, object] = {"won": played.won, "score": played.score, "reward": played.reward}
            for name in ("prompt_tokens", "response_tokens"):
                facts[name] = sum(int(str(turn.extras.get(name, 0))) for turn in played.turns)
            state.metadata |= {**facts, "turns": len(played.turns), "stop": played.stop, "error": played.error}
            return state

        return solve

    return episode()


def _scorer() -> Any:
    from inspect_ai.scorer import SampleScore, Score, accuracy, metric, scorer

    @metric(name="stderr")  # type: ignore[untyped-decorator]
    def standard_error() -> object:
        def of(scores: list[SampleScore]) -> float:
            return _standard_error([float(score.score.value) for score in scores])

        of.__annotations__["scores"] = list[SampleScore]  # inspect looks at it, and cannot see the names in here
        return of

    @scorer(metrics=[accuracy(), standard_error()], name="success")  # type: ignore[untyped-decorator]
    def success() -> Any:
        async def score(state: Any, target: object) -> Any:
            if state.metadata["stop"] == "error":
                return Score.unscored(reason=state.metadata["error"], metadata=dict(state.metadata))
            return Score(value=float(state.metadata["won"]), metadata=dict(state.metadata))

        return score

    return success()


def _standard_error(values: Sequence[float]) -> float:
    """Return the standard error of the mean; NaN of one value and of values that are all the same."""
    return stdev(values) / math.sqrt(len(values)) if len(set(values)) > 1 else math.nan
