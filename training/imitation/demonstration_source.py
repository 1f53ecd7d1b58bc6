"""Where demonstrations come from: the environment's expert, a demonstrator or a model plays them, or a file has them.

A demonstrator's deliberate mistakes (`turncredit.training.imitation.noisy_expert`) are played, stay as context, and are
never imitated; neither are the random actions of an expert that has no plan.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from turncredit.agents.agent import Agent
from turncredit.agents.demonstrations.files import read_demonstrations
from turncredit.agents.rollouts.group_rounds import GroupRounds, GroupSpec
from turncredit.agents.rollouts.rollout import rollout
from turncredit.agents.trajectory import Trajectory
from turncredit.engines.base import Sampler, SamplerSettings, parse_sampler
from turncredit.engines.wrappers import make_sampler
from turncredit.training.config.agents import MakeAgent
from turncredit.training.config.demonstrators import player_of, plays
from turncredit.training.config.sections import ImitationSection
from turncredit.training.errors import NoDemonstrations
from turncredit.training.imitation.demonstrations import Demonstrations
from turncredit.training.imitation.hinted_demonstrations import beyond_hints, with_plans
from turncredit.training.imitation.noisy_expert import NoisyDemonstrator
from turncredit.training.tasks.environments import Environments

if TYPE_CHECKING:
    from turncredit.training.run_folder.demonstration_file import DemonstrationFile

OnFinish = Callable[[Trajectory], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class DemonstrationSource:
    """Where the demonstrations of a run come from: a player, or a file.

    Attributes:
        section: the `[imitation]` section, which names the demonstrator.
        env_id: id of the environment, which may have demonstrators of its own.
        environments: where demonstrations are played.
        agents: makes the agent that a demonstrator plays as.
        seed: seed of the episodes.
        device: device of a demonstrator that is a model, as torch names it.
        concurrency: maximum number of episodes in play at once.
        processes: number of processes that play, of which this one is the first.
    """

    section: ImitationSection
    env_id: str
    environments: Environments
    agents: MakeAgent
    seed: int
    device: str
    concurrency: int
    processes: int

    @property
    def played(self) -> bool:
        """Whether demonstrations are played, and not read from a file of the user."""
        return plays(self.section, self.env_id)

    def demonstrate(
        self, tasks: Sequence[str], on_finish: OnFinish | None = None, file: "DemonstrationFile | None" = None
    ) -> Demonstrations:
        """Return demonstrations that can be imitated: played for the given tasks, or read from a file.

        Args:
            tasks: ids to demonstrate, one episode each; stored demonstrations ignore them.
            on_finish: called with every trajectory that was played.
            file: keeps those that are played; what it has already is not played again. None: they are not kept.

        Returns:
            The demonstrations, without failed episodes and, with imitation.won_only, without unsuccessful ones.

        Raises:
            NoDemonstrations: none can be used.
        """
        section = self.section
        trajectories, mistakes = self._play(tasks, on_finish, file) if self.played else self._read()
        usable = [item for item in trajectories if item.finished and item.turns and (item.won or not section.won_only)]
        if not usable:
            errors = [item.error for item in trajectories if item.error]
            reason = (
                f"the first error was: {errors[0]}"
                if errors
                else "none succeeded (imitation.won_only = false uses all)"
            )
            raise NoDemonstrations(
                f"none of the {len(trajectories)} demonstrations by {section.demonstrator.name} can be used: {reason}"
            )
        if file is not None and self.played:
            file.finish()
        return Demonstrations(tuple(usable), mistakes, _left_out(trajectories, len(usable), section.episodes))

    def _read(self) -> tuple[list[Trajectory], set[tuple[str, int]]]:
        """Return the stored demonstrations, and their mistakes."""
        file = Path(self.section.demonstrator.name).expanduser()
        stored = read_demonstrations(file, self.agents(None).parse, self.section.episodes)
        trajectories = _unique([item.trajectory for item in stored])
        pairs = zip(trajectories, stored, strict=True)
        return trajectories, {(trajectory.id, turn) for trajectory, item in pairs for turn in item.mistakes}

    def _play(
        self, tasks: Sequence[str], on_finish: OnFinish | None, file: "DemonstrationFile | None"
    ) -> tuple[list[Trajectory], set[tuple[str, int]]]:
        """Return demonstrations that are played, and the demonstrator's mistakes."""
        plain, hinted = with_plans(tasks, self.section.hinted, self.seed)
        trajectories, mistakes = self._rollout(self.section, plain, on_finish, file)
        if hinted:
            followed, unplanned = self._rollout(ImitationSection(), hinted, on_finish, file)
            trajectories, mistakes = trajectories + followed, mistakes | unplanned | beyond_hints(followed)
        return trajectories, mistakes

    def _rollout(
        self,
        section: ImitationSection,
        groups: Sequence[GroupSpec],
        on_finish: OnFinish | None,
        file: "DemonstrationFile | None",
    ) -> tuple[list[Trajectory], set[tuple[str, int]]]:
        """Return the episodes of groups by the demonstrator of a section, and its mistakes."""
        stored = {} if file is None else file.trajectories
        groups = [replace(group, played=_played(group, stored)) for group in groups]
        if file is not None and (file.complete or all(len(group.played) == group.size for group in groups)):
            return [trajectory for group in groups for trajectory in group.played], file.mistakes
        sampler, agent = self._player(section)
        mistakes = sampler.mistakes if isinstance(sampler, NoisyDemonstrator) else set()
        processes = self.processes if isinstance(sampler, NoisyDemonstrator) else 1

        def finished(trajectory: Trajectory) -> None:
            if file is not None:
                numbers = range(len(trajectory.turns))
                file.write(trajectory, [number for number in numbers if (trajectory.id, number) in mistakes])
            if on_finish is not None:
                on_finish(trajectory)

        try:
            with self.environments.pool() as pool:
                played = rollout(
                    agent,
                    sampler,
                    groups,
                    make=pool,
                    seed=self.seed,
                    concurrency=self.concurrency,
                    processes=processes,
                    on_finish=finished,
                )
        finally:
            sampler.close()
        trajectories = [trajectory for group in played for trajectory in group.trajectories]
        return trajectories, mistakes | (set() if file is None else file.mistakes)

    def _player(self, section: ImitationSection) -> tuple[Sampler, Agent]:
        """Return who demonstrates, and the agent that it plays as."""
        chosen, agent = section.demonstrator, self.agents(None)
        player = player_of(chosen.name, self.env_id, agent.parser)
        if player is not None:
            noisy = NoisyDemonstrator(player, noise=chosen.noise, typos=chosen.typos, parser_name=agent.parser)
            return noisy, agent
        engine, model, url = parse_sampler(chosen.name)
        settings = SamplerSettings(
            model=model, url=url, device=self.device, parser=agent.parser, concurrency=self.concurrency
        )
        sampler = make_sampler(engine, settings)
        return sampler, self.agents(sampler.tokenizer)


def _played(group: GroupSpec, stored: Mapping[str, Trajectory]) -> tuple[Trajectory, ...]:
    """Return the members of a group that are stored."""
    names = [episode.name for episode in GroupRounds(group).next(())]
    return tuple(stored[name] for name in names if name in stored)


def _left_out(played: Sequence[Trajectory], usable: int, total: int) -> str:
    """Return a sentence about the demonstrations that are not used, and why; empty if all are."""
    failed = [trajectory for trajectory in played if not trajectory.finished]
    empty = sum(trajectory.finished and not trajectory.turns for trajectory in played)
    lost = len(played) - usable - len(failed) - empty
    reasons = []
    if failed:
        reason, count = Counter(trajectory.error or "no reason was given" for trajectory in failed).most_common(1)[0]
        reasons.append(f"{len(failed)} failed ({count} with: {reason})")
    if empty:
        reasons.append(f"{empty} ended before the first turn")
    if lost:
        reasons.append(f"{lost} did not succeed (imitation.won_only = false uses them)")
    if len(played) < total:
        reasons.append(f"{total - len(played)} are not in the file")
    return f"{usable} of {total} demonstrations are imitated: {'; '.join(reasons)}" if reasons else ""


def _unique(stored: Sequence[Trajectory]) -> list[Trajectory]:
    """Return the trajectories with unique ids; a file that was joined from several may repeat them."""
    times: Counter[str] = Counter()
    unique = []
    for trajectory in stored:
        times[trajectory.id] += 1
        unique.append(
            trajectory
            if times[trajectory.id] == 1
            else replace(trajectory, id=f"{trajectory.id}/{times[trajectory.id]}")
        )
    return unique
