"""`turnwise play`: a person is the agent. Actions by number, by prefix, or in full; hints, undo, history; and the
trained agent beside them (`--policy`), who can be asked or watched.

Reads lines from standard input, so that a script can play as well (`printf 'go to desk 1\\n:quit\\n' | turnwise play
...`). Words with a colon are for the program, everything else is an action. Left out: anything that needs a full-screen
terminal.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer

from turnwise.cli.console import out, say
from turnwise.cli.errors import UserError
from turnwise.cli.options import parse_options
from turnwise.cli.play_session import PlaySession, PlayTurn, complete, meaning, whole
from turnwise.registry import suggest

if TYPE_CHECKING:
    from turnwise.cli.players import Advisor

HELP = {
    "an action": "in full, by its number, or by the beginnings of its words: `g cab 1` for `go to cabinet 1`",
    "!an action": "send it exactly as written, possible or not",
    ":hint": "what the expert would do next",
    ":plan": "all that the expert would do from here",
    ":actions": "the actions that are possible here, numbered",
    ":history": "what was done so far",
    ":undo [N]": "take the last action back, or the last N",
    ":restart": "begin this task again",
    ":task": "the first observation again, with the task in it",
    ":ask": "what the agent of --policy would do here",
    ":watch [N]": "let the agent of --policy play N turns, or to the end",
    ":quit": "leave",
}


class NoPlanFromHere(UserError):
    """The expert knows no way from here: a dead end, or a search that found nothing."""


class PlayConsole:
    """Where the person sits: turns what they type into moves of a `PlaySession` and shows what follows."""

    def __init__(self, session: PlaySession, advisor: Advisor | None = None, *, hints: bool = False) -> None:
        """Sit down at an episode.

        Args:
            session: the episode.
            advisor: the trained agent, or None.
            hints: show the expert's next action before every turn.
        """
        self.session, self.advisor, self.hints = session, advisor, hints
        self.left = False
        self.commands: dict[str, Callable[[str], None]] = {
            ":hint": lambda _: self._hint(),
            ":plan": lambda _: self._plan(),
            ":actions": lambda _: self._actions(),
            ":history": lambda _: self._history(),
            ":undo": self._undo,
            ":restart": lambda _: self._restart(),
            ":task": lambda _: say(self.session.start),
            ":ask": lambda _: self._ask(),
            ":watch": self._watch,
            ":help": lambda _: show_help(),
            ":quit": lambda _: self._leave(),
        }

    def open(self) -> None:
        """Show where the episode begins."""
        say(f"task {self.session.task}, seed {self.session.seed}", "dim")
        say(self.session.start)
        self._before_turn()

    def take(self, line: str) -> None:
        """Do what one typed line says; what cannot be done is explained and costs nothing."""
        line = line.strip()
        if not line:
            return
        try:
            if line.startswith(":") or line == "?":
                self._command(line)
            else:
                here = self.session
                self._move(line[1:].strip() if line.startswith("!") else meaning(line, here.admissible, here.free))
        except UserError as error:
            say(str(error), "yellow")

    def _command(self, line: str) -> None:
        word, _, rest = line.partition(" ")
        word = ":help" if word == "?" else word
        matches = [name for name in self.commands if name.startswith(word)]
        if word in self.commands:
            matches = [word]
        if not matches:
            raise UserError(f"unknown command {word!r}{suggest(word, self.commands)}")
        if len(matches) > 1:
            raise UserError(f"{word!r} can mean: {', '.join(matches)}")
        self.commands[matches[0]](rest.strip())

    def _move(self, action: str) -> PlayTurn:
        moment = self.session.act(action)
        say(moment.observation)
        if not moment.valid:
            say("(not possible here; the turn is spent)", "yellow")
        if self.session.ended:
            self._closing()
        else:
            self._before_turn()
        return moment

    def _before_turn(self) -> None:
        if self.hints and not self.session.ended:
            try:
                self._hint()
            except NoPlanFromHere as error:  # the person plays on all the same
                say(str(error), "yellow")

    def _closing(self) -> None:
        session = self.session
        word = "Won" if session.won else "Out of turns" if session.ended == "truncated" else "Lost"
        say(
            f"{word} after {len(session.turns)} turns, reward {session.reward:g}. (:undo, :restart or :quit)",
            "bold green" if session.won else "bold yellow",
        )

    def _hint(self) -> None:
        plan = self._way()
        say(f"hint: {plan[0]}   ({len(plan)} to go)" if plan else "hint: there is nothing left to do", "cyan")

    def _plan(self) -> None:
        for number, action in enumerate(self._way(), start=1):
            say(f"{number:>4}  {action}", "cyan")

    def _way(self) -> list[str]:
        from turnwise.envs.errors import EnvError

        try:
            return self.session.plan()
        except EnvError as error:
            raise NoPlanFromHere(
                f"The expert has no plan from here: {error} (:undo takes the last action back)"
            ) from error

    def _actions(self) -> None:
        actions = self.session.admissible
        if not actions:
            say("(the episode is over)" if self.session.ended else "(this environment does not list its actions)")
            return
        width = max(len(action) for action in actions) + 8
        columns = max(1, min(3, out().width // width))
        rows = -(-len(actions) // columns)
        for row in range(rows):
            cells = [(index + 1, actions[index]) for index in range(row, len(actions), rows)]
            say("".join(f"{number:>4}  {action}".ljust(width) for number, action in cells).rstrip())

    def _history(self) -> None:
        if not self.session.turns:
            say("(nothing yet)", "dim")
        for number, moment in enumerate(self.session.turns, start=1):
            reward = f"   reward {moment.reward:g}" if moment.reward else ""
            say(f"{number:>4}  > {moment.action}{reward}{'' if moment.valid else '   (not possible)'}", "bold")
            say("\n".join(f"      {part}" for part in moment.observation.splitlines()))

    def _undo(self, rest: str) -> None:
        undone = self.session.undo(_whole(rest, 1))
        say(f"({undone} taken back)" if undone else "(nothing to take back)", "dim")
        say(self.session.observation)
        self._before_turn()

    def _restart(self) -> None:
        self.session.restart()
        say(self.session.start)
        self._before_turn()

    def _ask(self) -> None:
        advice = self._agent().ask(self.session)
        if advice.action is None:
            say(f"agent: wrote {advice.text!r}, in which there is no action", "magenta")
        else:
            share = "" if advice.probability is None else f"   (p = {advice.probability:.2f})"
            say(f"agent: {advice.action}{share}", "magenta")

    def _watch(self, rest: str) -> None:
        turns = _whole(rest, 1_000_000)
        while turns > 0 and not self.session.ended:
            advice = self._agent().ask(self.session)
            if advice.action is None:
                raise UserError(f"The agent wrote {advice.text!r}, in which there is no action.")
            say(f"> {advice.action}", "bold magenta")
            self._move(advice.action)
            turns -= 1

    def _agent(self) -> Advisor:
        if self.advisor is None:
            raise UserError("Nobody to ask: start with --policy CHECKPOINT.")
        return self.advisor

    def _leave(self) -> None:
        self.left = True


def _whole(text: str, default: int) -> int:
    if not text:
        return default
    number = whole(text)
    if number is None:
        raise UserError(f"A number of turns was expected, not {text!r}.")
    return number


def show_help() -> None:
    """Print what can be typed."""
    for word, meaning_of in HELP.items():
        say(f"  {word:<12} {meaning_of}")


def _lines(console: PlayConsole) -> None:
    """Read and do until the person leaves or the input ends."""
    interactive = sys.stdin.isatty()
    if interactive:
        _use_readline(console)
    while not console.left:
        try:
            line = input("> ")
        except EOFError:
            say()
            return
        if not interactive:
            say(line, "bold")
        console.take(line)


def _use_readline(console: PlayConsole) -> None:
    """Tab completes admissible actions and commands, where the terminal can."""
    try:
        import readline
    except ImportError:  # not on every platform
        return

    def completer(text: str, state: int) -> str | None:
        words = list(console.commands) if text.startswith(":") else complete(text, console.session.admissible)
        found = [word for word in words if word.lower().startswith(text.lower())]
        return found[state] if state < len(found) else None

    readline.set_completer(completer)
    readline.set_completer_delims("")
    readline.parse_and_bind("tab: complete")


def play(
    env_id: Annotated[
        str | None,
        typer.Argument(metavar="ENV_ID", help="Such as turnwise/Household-v0; with --policy, its run's when absent."),
    ] = None,
    options: Annotated[
        list[str] | None, typer.Argument(metavar="KEY=VALUE", help="Arguments of the environment.")
    ] = None,
    task: Annotated[str | None, typer.Option(help="Id of the task instance; drawn by the seed when absent.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of the episode.")] = 0,
    hint: Annotated[bool, typer.Option("--hint", help="Show the expert's next action before every turn.")] = False,
    policy: Annotated[
        str | None, typer.Option(metavar="CHECKPOINT", help="A run or checkpoint folder, to :ask and :watch.")
    ] = None,
) -> None:
    """Be the agent yourself, in the terminal (`:help` lists what can be typed)."""
    from turnwise.cli.players import load_advisor, split_words, take_agent_options, target
    from turnwise.envs import make

    env_id, words = split_words(env_id, options)
    env_options, agent_options = take_agent_options(parse_options(words))
    wanted = target(env_id, env_options, policy)
    env = make(wanted.env_id, **wanted.kwargs)
    advisor = load_advisor(policy, agent_options) if policy else None
    try:
        console = PlayConsole(PlaySession(env, task, seed), advisor, hints=hint)
        console.open()
        say("(:help lists what can be typed)", "dim")
        _lines(console)
    finally:
        env.close()
        if advisor is not None:
            advisor.close()
