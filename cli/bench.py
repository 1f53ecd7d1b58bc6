"""`turncredit bench`: a player on every panel of a suite, as a table and a card."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from turncredit.cli.bench_report import WORDS, print_card, write_card
from turncredit.cli.command_line import command, without_password
from turncredit.cli.console import say, warn
from turncredit.cli.errors import UserError
from turncredit.cli.evaluate import EpisodeCounter
from turncredit.cli.model_options import BatchSize, Device, Dtype, Threads
from turncredit.cli.options import Trust, parse_options
from turncredit.cli.players import AGENT_PREFIX, SAMPLER_PREFIX, take_options
from turncredit.registry import Untrusted
from turncredit.report.number_text import duration

if TYPE_CHECKING:
    from turncredit.agents.trajectory import Trajectory
    from turncredit.evaluation.benchmark import BenchmarkFolder
    from turncredit.evaluation.benchmark_card import Card, CardPanel
    from turncredit.evaluation.results import EvaluationResult
    from turncredit.evaluation.suite import PinnedPanel, Suite, SuitePanel
    from turncredit.training.engine.loaded_agent import LoadedAgent, ModelOptions


def bench(
    who: Annotated[
        str,
        typer.Argument(
            metavar="AGENT",
            help="ENGINE:MODEL@URL, a run or checkpoint folder, random, rule, expert, a demonstrator.",
        ),
    ],
    options: Annotated[
        list[str] | None,
        typer.Argument(metavar="KEY=VALUE", help="agent.KEY=VALUE and sampler.KEY=VALUE."),
    ] = None,
    suite: Annotated[str, typer.Option(metavar="NAME|FILE", help="quick, standard, or a suite's TOML file.")] = "quick",
    panels: Annotated[
        list[str] | None, typer.Option("--panel", metavar="NAME", help="Play only this panel (repeatable).")
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER", help="Folder for the results; continued if it exists. Default: bench/AGENT-SUITE."
        ),
    ] = None,
    against: Annotated[
        list[Path] | None,
        typer.Option(metavar="CARD.json", help="Another result to show beside this one (repeatable)."),
    ] = None,
    concurrency: Annotated[
        int | None, typer.Option(min=1, help="Maximum number of episodes at a time. Default: the suite's.")
    ] = None,
    device: Device = None,
    threads: Threads = 0,
    dtype: Dtype = None,
    batch_size: BatchSize = 0,
    trust: Trust = False,
) -> None:
    """Play the fixed panels of a suite, and write success with intervals, tokens, seconds and cost (a "card").

    Every finished episode is stored. The same command continues a benchmark that was stopped.
    """
    from turncredit.agents.instructions import agent_from
    from turncredit.evaluation.benchmark_card import Card
    from turncredit.evaluation.shipped_suites import baseline_cards, load_suite
    from turncredit.training.engine.loaded_agent import ModelOptions

    others, agent = take_options(parse_options(options), AGENT_PREFIX)
    others, sampler = take_options(others, SAMPLER_PREFIX)
    for key in others:
        raise UserError(f"expected agent.KEY=VALUE or sampler.KEY=VALUE, got {key}; environments are set in the suite")
    agent_from({**agent, "chat": False})  # fails on a wrong option before anything is played
    chosen = load_suite(suite).only(panels or [])
    scale = [*baseline_cards(), *(Card.load(path) for path in against or ())]
    folder = output or Path("bench") / f"{_slug(who)}-{chosen.name}"
    model = ModelOptions(device, threads, dtype, batch_size, sampler)
    with Benchmark(who, chosen, folder, agent, model, concurrency) as benchmark:
        card = benchmark.run()
        with benchmark.locked_folder():
            write_card(card, scale, folder)
    print_card(card, scale)
    say(f"card: {folder / 'card.md'}, {folder / 'card.json'}; episodes: {folder}", "dim")
    say(f"report: {shlex.join(['turncredit', 'report', str(folder)])}", "dim")


class Unplayable(Exception):
    """The player cannot play a panel; the message says why."""


@dataclass
class Benchmark:
    """One player on one suite, in a folder; a context manager."""

    who: str
    suite: Suite
    output: Path
    agent: Mapping[str, object]
    model: ModelOptions
    concurrency: int | None = None
    _player: LoadedAgent | None = field(default=None, init=False)
    _folder: BenchmarkFolder | None = field(default=None, init=False)

    def __enter__(self) -> Benchmark:
        """Return it; its player and folder are opened when they are needed."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the player, and let other processes use the folder."""
        if self._player is not None:
            self._player.sampler.close()
        if self._folder is not None:
            self._folder.close()

    def locked_folder(self) -> AbstractContextManager[object]:
        """Return what holds the lock of the folder while the card is written, also if no panel was played in it.

        Raises:
            StoreError: the folder cannot be written, or something in it leads elsewhere.
        """
        from turncredit.evaluation.benchmark import lock

        return lock(self.output) if self._folder is None else nullcontext()

    def _opened(self, player: LoadedAgent) -> BenchmarkFolder:
        """Return the folder, which is locked from the first panel that is played on.

        Raises:
            EvaluationError: it holds another benchmark.
            StoreError: it cannot be written, or something in it leads elsewhere.
        """
        from turncredit.evaluation.benchmark import BenchmarkFolder

        if self._folder is None:
            checkpoint = None if player.folder is None else str(player.folder)
            identity: dict[str, object] = {
                "player": without_password(self.who),
                "checkpoint": checkpoint,
                "suite": self.suite.name,
            }
            self._folder = BenchmarkFolder(self.output, identity | _model_options(self.model))
        return self._folder

    def run(self) -> Card:
        """Return the card, after playing every panel that can be played.

        Raises:
            KeyboardInterrupt: Ctrl-C; finished episodes are stored.
            EvaluationError: the suite gives an environment an argument that it does not take; nothing was played.
            UserError: the engine or server of the player failed; finished episodes are stored.
        """
        from turncredit.agents.errors import SamplerError
        from turncredit.evaluation.benchmark_card import Card
        from turncredit.evaluation.shipped_suites import RULE
        from turncredit.evaluation.suite import check_arguments

        started = _now()
        for spec in self.suite.panels:  # hours before the first panel that has a wrong one
            check_arguments(spec)
        try:
            panels = tuple(self._panel(spec, number) for number, spec in enumerate(self.suite.panels, start=1))
        except KeyboardInterrupt:
            if self._folder is not None:
                warn(self._continue())
            raise
        except SamplerError as error:
            if self._folder is None:
                raise
            raise UserError(f"{error} ({self._continue()})") from error
        name = without_password(self.who) if self._player is None or self.who == RULE else self._player.name
        return Card(name, self.suite.name, panels, self._about(started))

    def _panel(self, spec: SuitePanel, number: int) -> CardPanel:
        """Return the result of a panel, or why there is none."""
        from turncredit.evaluation.benchmark_card import CardPanel
        from turncredit.evaluation.suite import Unavailable, pin

        label = f"[{number}/{len(self.suite.panels)}] {spec.name}"
        try:
            _check(spec)
            player = self._load(spec)
            result = self._play(player, pin(spec), label)
        except Unavailable as error:
            entry = CardPanel(spec.name, spec.env, "unavailable", str(error))
        except Unplayable as error:
            entry = CardPanel(spec.name, spec.env, "unplayable", str(error))
        else:
            say(f"{label}: {result.summary().success} in {duration(result.seconds)}")
            return CardPanel(spec.name, spec.env, "played", _errors(result), result)
        say(f"{label}: {WORDS[entry.status]}: {entry.reason}", "dim")
        return entry

    def _load(self, spec: SuitePanel) -> LoadedAgent:
        """Return the player with the agent of this panel; a model stays loaded.

        Raises:
            Unplayable: there is no rule-based player, or the chat template of the model does not fit the prompt.
            Unavailable: this machine lacks what the environment needs.
            UserError: there is no such player.
            AgentError: there is no such engine, or it cannot be used.
        """
        from turncredit.agents.errors import PromptError
        from turncredit.cli.players import load_player
        from turncredit.evaluation.shipped_suites import BASELINES, RULE
        from turncredit.evaluation.suite import panel_options

        if self.who == RULE and not spec.rule:
            raise Unplayable("the environment has no rule-based player")
        if self.who in _demonstrators(*self.suite.panels) and self.who not in (own := _demonstrators(spec)):
            raise Unplayable(f"the environment has no player {self.who!r}; expected {', '.join([*own, *BASELINES])}")
        defaults = panel_options(spec)
        before, self._player = self._player, None
        model = before.sampler if before is not None and before.sampler.tokenizer is not None else None
        if before is not None and model is None:
            before.sampler.close()
        try:
            self._player = load_player(
                spec.rule if self.who == RULE else self.who,
                {"max_turns": spec.agent.get("max_turns", 50), **self.agent},
                env_id=spec.env,
                env_kwargs=spec.kwargs,
                seed=spec.seed,
                model=self.model,
                defaults=defaults,
                sampler=model,
            )
        except PromptError as error:
            raise Unplayable(str(error)) from error
        finally:
            if self._player is None and model is not None:
                self._player = before  # the model is still loaded
        return self._player

    def _play(self, player: LoadedAgent, pinned: PinnedPanel, label: str) -> EvaluationResult:
        """Return the result of a panel, after playing what is missing.

        Raises:
            Unplayable: the player does not fit the environment.
        """
        from turncredit.agents.errors import AgentError, EvaluationError, SamplerError, StoreError
        from turncredit.evaluation.benchmark import agent_settings, play_panel
        from turncredit.evaluation.unread_answers import UnreadAnswers

        folder = self._opened(player)
        stored = folder.episodes(pinned, agent_settings(folder.dated(pinned, player.agent)))
        total, won = len(pinned.panel.tasks), sum(row.won for row in stored.rows)
        unread = UnreadAnswers()
        with EpisodeCounter(total, f"{label}: ", (total - len(stored.missing), won)) as counter:

            def finished(trajectory: Trajectory) -> None:
                counter(trajectory)
                unread(trajectory)

            try:
                result = play_panel(
                    folder,
                    pinned,
                    player.agent,
                    player.sampler,
                    name=player.name,
                    concurrency=self.concurrency,
                    on_finish=finished,
                )
            except (SamplerError, EvaluationError, StoreError):
                raise
            except AgentError as error:
                raise Unplayable(str(error)) from error
        for line in unread.lines(player.agent):
            warn(line)
        return result

    def _continue(self) -> str:
        return f"finished episodes are stored in {self.output}; to continue: {command()}"

    def _about(self, started: str) -> dict[str, object]:
        from turncredit.cli.machine import machine, versions

        return {
            "model": without_password(self.who),
            "suite": self.suite.about,
            "options": {**{f"agent.{key}": value for key, value in self.agent.items()}, **_model_options(self.model)},
            "command": command(),
            "started": started,
            "finished": _now(),
            "versions": versions(),
            "machine": machine(),
        }


def _check(spec: SuitePanel) -> None:
    """Check what the suite's file hands to an environment.

    Raises:
        Unavailable: something needs --trust.
    """
    from turncredit.envs import EnvError
    from turncredit.evaluation.suite import Unavailable
    from turncredit.training.config.file_options import require_safe_env

    try:
        require_safe_env(spec.env, {**spec.kwargs, **spec.files})
    except Untrusted as error:
        raise Unavailable(str(error)) from error
    except EnvError:
        return  # loading the player says so


def _demonstrators(*panels: SuitePanel) -> list[str]:
    """Return the names of the demonstrators of the panels' environments, of those that can be imported here."""
    from turncredit.envs import EnvError, demonstrators

    names: list[str] = []
    for env in {panel.env: None for panel in panels}:
        with suppress(EnvError, Untrusted):
            names += [name for name in demonstrators(env) if name not in names]
    return names


def _model_options(model: ModelOptions) -> dict[str, object]:
    fields = {name: getattr(model, name) for name in ("device", "dtype")}
    return {name: value for name, value in fields.items() if value} | {
        f"sampler.{key}": value for key, value in model.options.items()
    }


def _errors(result: EvaluationResult) -> str:
    """Return a clause about the episodes that ended as errors, "" if there are none."""
    failed = [row for row in result.rows if row.stop == "error"]
    return f"{len(failed)} of {len(result.rows)} episodes failed: {failed[0].error}" if failed else ""


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def _slug(name: str) -> str:
    return re.sub(r"[^\w.-]+", "-", name).strip("-.") or "model"
