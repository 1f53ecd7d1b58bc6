"""Demonstrations: played by the environment's expert, a demonstrator or a model, or read from a file.

A demonstrator's deliberate mistakes (`turnwise.training.imitation.noisy_expert`) are played, stay as context, and are
never imitated; neither are the random actions of an expert that has no plan.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from turnwise.agents.agent import Agent
from turnwise.agents.demonstrations.files import read_demonstrations
from turnwise.agents.demonstrations.tokens import tokenize_trajectory
from turnwise.agents.rollouts.rollout import rollout
from turnwise.agents.samplers.base import Sampler, SamplerSettings, Tokenizer, parse_sampler
from turnwise.agents.samplers.expert import Expert
from turnwise.agents.samplers.scripted import DemonstratorSampler
from turnwise.agents.samplers.wrappers import make_sampler
from turnwise.agents.steps import steps_of
from turnwise.agents.trajectory import Group, Trajectory
from turnwise.credit.advantages import Advantages
from turnwise.envs import demonstrators
from turnwise.training.errors import NoDemonstrations
from turnwise.training.imitation.demonstrators import plays
from turnwise.training.imitation.noisy_expert import NoisyDemonstrator
from turnwise.training.setup import PreparedRun

OnFinish = Callable[[Trajectory], None]


@dataclass(frozen=True, slots=True)
class Demonstrations:
    """Played or stored demonstrations.

    Attributes:
        trajectories: in the order in which they were played.
        mistakes: (trajectory id, turn) of the turns that must not be imitated.
        left_out: a sentence about those that were left out or are missing; empty if there are none.
    """

    trajectories: tuple[Trajectory, ...]
    mistakes: set[tuple[str, int]] = field(default_factory=set)
    left_out: str = ""

    @property
    def texts(self) -> list[str]:
        """Every observation and answer, to train a tokenizer on."""
        return [
            text
            for trajectory in self.trajectories
            for turn in trajectory.turns
            for text in (turn.observation, turn.text)
        ]

    def tokenized(
        self, agent: Agent, tokenizer: Tokenizer, context: int | None = None
    ) -> tuple[list[Group], Advantages]:
        """Return the demonstrations with token ids, and advantages that leave the mistakes out of the loss.

        Args:
            agent: prompts and parser of the policy that will imitate.
            tokenizer: of that policy.
            context: most tokens that are used of a sequence; the rest of a much longer one may be missing.

        Returns:
            One group per demonstration, and an advantage of 1 for every turn, as `pack` takes them.
        """
        filled = [
            tokenize_trajectory(one, agent, tokenizer, rewrite=True, context=context) for one in self.trajectories
        ]
        groups = [Group(one.task, (one,)) for one in filled]
        keep = [(one.id, number) not in self.mistakes for one in filled for number in range(len(one.turns))]
        return groups, Advantages.of(steps_of(groups), np.ones(len(keep)), keep=np.array(keep, dtype=np.bool_))


def demonstrate(prepared: PreparedRun, tasks: Sequence[str], on_finish: OnFinish | None = None) -> Demonstrations:
    """Return demonstrations that can be imitated: played for the given tasks, or read from a file.

    Args:
        prepared: the run; its `[imitation]` section names the demonstrator.
        tasks: ids to demonstrate, one episode each; stored demonstrations ignore them.
        on_finish: called with every trajectory that was played.

    Returns:
        The demonstrations, without failed episodes and, with imitation.won_only, without unsuccessful ones.

    Raises:
        NoDemonstrations: none can be used.
    """
    section = prepared.run.imitation
    mistakes: set[tuple[str, int]] = set()
    if plays(prepared.run):
        sampler, agent = _demonstrator(prepared)
        try:
            played = _played(prepared, sampler, agent, tasks, on_finish)
        finally:
            sampler.close()
        if isinstance(sampler, NoisyDemonstrator):
            mistakes = sampler.mistakes
    else:
        stored = read_demonstrations(
            Path(section.demonstrator).expanduser(), prepared.agent(None).parse, section.episodes
        )
        played = _unique([one.trajectory for one in stored])
        mistakes = {(one.id, turn) for one, kept in zip(played, stored, strict=True) for turn in kept.mistakes}
    usable = [one for one in played if one.finished and one.turns and (one.won or not section.won_only)]
    if not usable:
        errors = [one.error for one in played if one.error]
        reason = (
            f"the first error was: {errors[0]}" if errors else "none succeeded (imitation.won_only = false uses all)"
        )
        raise NoDemonstrations(
            f"none of the {len(played)} demonstrations by {section.demonstrator} can be used: {reason}"
        )
    return Demonstrations(tuple(usable), mistakes, _left_out(played, len(usable), section.episodes))


def _left_out(played: Sequence[Trajectory], usable: int, total: int) -> str:
    """Return a sentence about the demonstrations that are not used, and why; empty if all are."""
    failed = [one for one in played if not one.finished]
    empty = sum(one.finished and not one.turns for one in played)
    lost = len(played) - usable - len(failed) - empty
    reasons = []
    if failed:
        reason, count = Counter(one.error or "no reason was given" for one in failed).most_common(1)[0]
        reasons.append(f"{len(failed)} failed ({count} with: {reason})")
    if empty:
        reasons.append(f"{empty} ended before the first turn")
    if lost:
        reasons.append(f"{lost} did not succeed (imitation.won_only = false uses them)")
    if len(played) < total:
        reasons.append(f"{total - len(played)} are not in the file")
    return f"{usable} of {total} demonstrations are imitated: {'; '.join(reasons)}" if reasons else ""


def _demonstrator(prepared: PreparedRun) -> tuple[Sampler, Agent]:
    """Return who demonstrates, and the agent that it plays as."""
    section = prepared.run.imitation
    agent = prepared.agent(None)
    known = demonstrators(prepared.run.env.id)
    engine, model, url = parse_sampler(section.demonstrator)
    if section.demonstrator != "expert" and section.demonstrator not in known:
        parser, concurrency = agent.parser, prepared.run.train.concurrency
        settings = SamplerSettings(model=model, url=url, device=prepared.device, parser=parser, concurrency=concurrency)
        sampler = make_sampler(engine, settings)
        return sampler, prepared.agent(sampler.tokenizer)
    inner = (
        Expert(parser=agent.parser)
        if section.demonstrator == "expert"
        else DemonstratorSampler(known[section.demonstrator], parser=agent.parser)
    )
    noisy = NoisyDemonstrator(inner, noise=section.noise, typos=section.typos, parser_name=agent.parser)
    return noisy, agent


def _played(
    prepared: PreparedRun, sampler: Sampler, agent: Agent, tasks: Sequence[str], on_finish: OnFinish | None
) -> list[Trajectory]:
    with prepared.env_pool(prepared.make_demonstrated) as pool:
        groups = rollout(
            agent,
            sampler,
            tasks,
            make=pool,
            seed=prepared.seed_for("demonstrations"),
            concurrency=prepared.run.train.concurrency,
            processes=prepared.run.processes if isinstance(sampler, NoisyDemonstrator) else 1,
            on_finish=on_finish,
        )
    return [trajectory for group in groups for trajectory in group.trajectories]


def _unique(stored: Sequence[Trajectory]) -> list[Trajectory]:
    """Return the trajectories with unique ids; a file that was joined from several may repeat them."""
    times: Counter[str] = Counter()
    found = []
    for one in stored:
        times[one.id] += 1
        found.append(one if times[one.id] == 1 else replace(one, id=f"{one.id}/{times[one.id]}"))
    return found
