"""`turncredit play`: a person is the agent. Actions by number, by prefix, or in full; hints, undo, history; and a
trained agent (`--policy`) that can be asked or watched.

Lines are read from standard input, so a script can play as well: `printf 'go to desk 1\\n:quit\\n' | turncredit play`.
Words that begin with a colon are commands, everything else is an action.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from turncredit.cli.console import out, say
from turncredit.cli.errors import UserError
from turncredit.cli.options import Trust, parse_options
from turncredit.cli.play_session import PlaySession, complete, meaning, parse_count
from turncredit.cli.printing.terminal_picture import Pictures
from turncredit.registry import suggest
from turncredit.tools.visible_text import escaped

if TYPE_CHECKING:
    from turncredit.cli.players import Advisor

DEFAULT_ENV = ("turncredit/Household-v0", {"level": "tiny"})
"""What is played when neither an environment nor a policy is named."""

HELP = {
    "an action": "in full, by its number, or by the beginnings of its words: `g cab 1` for `go to cabinet 1`",
    "!an action": "send it exactly as written, possible or not",
    ":hint": "the expert's next action",
    ":plan": "all of the expert's actions from here",
    ":actions": "the possible actions, numbered",
    ":history": "the turns so far",
    ":undo [N]": "take the last action back, or the last N",
    ":restart": "begin this task again",
    ":task": "the first observation again, with the task in it",
    ":screen": "the picture of the last observation again",
    ":ask": "what the agent of --policy would do here",
    ":watch [N]": "let the agent of --policy play N turns, or to the end",
    ":quit": "leave",
}


class NoPlanFromHere(UserError):
    """The expert has no plan: a dead end, or a search that found nothing."""


class PlayConsole:
    """Reads what a person types, plays it in a `PlaySession`, and prints what follows."""

    def __init__(
        self, session: PlaySession, advisor: Advisor | None = None, *, hints: bool = False, save: Path | None = None
    ) -> None:
        """Prepare an episode.

        Args:
            session: the episode.
            advisor: the trained agent, or None.
            hints: show the expert's next action before every turn.
            save: file that finished episodes are appended to, or None.
        """
        self.session, self.advisor, self.hints, self.save = session, advisor, hints, save
        self.left = False
        self._pictures = Pictures()
        self.commands: dict[str, Callable[[str], None]] = {
            ":hint": lambda _: self._hint(),
            ":plan": lambda _: self._plan(),
            ":actions": lambda _: self._actions(),
            ":history": lambda _: self._history(),
            ":undo": self._undo,
            ":restart": lambda _: self._restart(),
            ":task": lambda _: say(self.session.start),
            ":screen": lambda _: self._screen(),
            ":ask": lambda _: self._ask(),
            ":watch": self._watch,
            ":help": lambda _: show_help(),
            ":quit": lambda _: self._leave(),
        }

    def open(self) -> None:
        """Show the beginning of the episode."""
        say(f"task {self.session.task}, seed {self.session.seed}", "dim")
        say(self.session.start)
        self._screen()
        self._before_turn()

    def store(self) -> None:
        """Append the episode to the file of demonstrations, if there is one and the episode has ended."""
        if self.save is None or not self.session.turns:
            return
        if not self.session.ended:
            say(f"the episode has not ended, so it was not saved to {self.save}", "yellow")
            return
        from turncredit.agents.demonstrations.recording import append_episode

        stored = append_episode(self.save, self.session.recorder.trajectory())
        say(f"saved to {self.save} ({stored.id}); imitate it with imitation.demonstrator={self.save}", "dim")

    def take(self, line: str) -> None:
        """Do what a typed line says; a line that cannot be done is explained and costs no turn."""
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
        word, _, argument = line.partition(" ")
        word = ":help" if word == "?" else word
        matches = [name for name in self.commands if name.startswith(word)]
        if word in self.commands:
            matches = [word]
        if not matches:
            raise UserError(f"unknown command {word!r}{suggest(word, self.commands)}")
        if len(matches) > 1:
            raise UserError(f"{word!r} can mean: {', '.join(matches)}")
        self.commands[matches[0]](argument.strip())

    def _move(self, action: str) -> None:
        turn = self.session.act(action)
        self._observed()
        if not turn.valid:
            say("(not possible here; the turn is spent)", "yellow")
        if self.session.ended:
            self._print_end()
        else:
            self._before_turn()

    def _observed(self) -> None:
        """Show what the agent saw last."""
        if self.session.observation or self.session.image is None:
            say(self.session.observation)
        self._screen()

    def _screen(self) -> None:
        """Show the picture of the last observation, if it has one."""
        image = self.session.image
        if image is not None and (path := self._pictures.show(image.png)):
            width, height = image.size
            say(f"[screen of {width} x {height} pixels: {path}]", "dim")

    def _before_turn(self) -> None:
        if self.hints and not self.session.ended:
            try:
                self._hint()
            except NoPlanFromHere as error:  # the person can play on
                say(str(error), "yellow")

    def _print_end(self) -> None:
        session = self.session
        result = "Won" if session.won else "Out of turns" if session.ended == "truncated" else "Lost"
        say(
            f"{result} after {len(session.turns)} turns, reward {session.reward:g}. (:undo, :restart or :quit)",
            "bold green" if session.won else "bold yellow",
        )

    def _hint(self) -> None:
        plan = self._way()
        say(f"hint: {plan[0]}   ({len(plan)} to go)" if plan else "hint: there is nothing left to do", "cyan")

    def _plan(self) -> None:
        for number, action in enumerate(self._way(), start=1):
            say(f"{number:>4}  {action}", "cyan")

    def _way(self) -> list[str]:
        from turncredit.envs.errors import EnvError

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
        turns = self.session.turns
        if not turns:
            say("(nothing yet)", "dim")
        seen = [*(turn.observation for turn in turns[1:]), self.session.observation]
        for number, (turn, observation) in enumerate(zip(turns, seen, strict=False), start=1):
            reward = f"   reward {turn.reward:g}" if turn.reward else ""
            say(f"{number:>4}  > {turn.action}{reward}{'' if turn.valid else '   (not possible)'}", "bold")
            say("\n".join(f"      {part}" for part in observation.splitlines()))

    def _undo(self, argument: str) -> None:
        undone = self.session.undo(_count(argument, 1))
        say(f"({undone} taken back)" if undone else "(nothing to take back)", "dim")
        self._observed()
        self._before_turn()

    def _restart(self) -> None:
        if self.session.ended:
            self.store()
        self.session.restart()
        say(self.session.start)
        self._screen()
        self._before_turn()

    def _ask(self) -> None:
        advice = self._agent().ask(self.session)
        if advice.action is None:
            say(f"agent: wrote {advice.text!r}, which contains no action", "magenta")
        else:
            share = "" if advice.probability is None else f"   (p = {advice.probability:.2f})"
            say(f"agent: {advice.action}{share}", "magenta")

    def _watch(self, argument: str) -> None:
        turns = _count(argument, 1_000_000)
        while turns > 0 and not self.session.ended:
            advice = self._agent().ask(self.session)
            if advice.action is None:
                raise UserError(f"the agent wrote {advice.text!r}, which contains no action")
            say(f"> {advice.action}", "bold magenta")
            self._move(advice.action)
            turns -= 1

    def _agent(self) -> Advisor:
        if self.advisor is None:
            raise UserError("there is no agent to ask; start with --policy CHECKPOINT")
        return self.advisor

    def _leave(self) -> None:
        self.left = True


def _count(text: str, default: int) -> int:
    number = parse_count(text) if text else default
    if number is None:
        raise UserError(f"expected a number of turns, got {text!r}")
    return number


def show_help() -> None:
    """Print the commands."""
    for word, text in HELP.items():
        say(f"  {word:<12} {text}")


def _read_lines(console: PlayConsole) -> None:
    """Read and execute lines until the person leaves or the input ends."""
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


def completions(console: PlayConsole, text: str) -> list[str]:
    """Return what Tab offers after a text: commands after a colon, else actions; all actions on an empty line."""
    admissible = [action for action in console.session.admissible if action == escaped(action, keep="")]
    if not text:
        return admissible
    words = list(console.commands) if text.startswith(":") else complete(text, admissible)
    return [word for word in words if word.lower().startswith(text.lower())]


def _use_readline(console: PlayConsole) -> None:
    """Complete admissible actions and commands with Tab, where the terminal supports it."""
    try:
        import readline
    except ImportError:  # not on every platform
        return

    def completer(text: str, state: int) -> str | None:
        matches = completions(console, text)
        return matches[state] if state < len(matches) else None

    readline.set_completer(completer)
    readline.set_completer_delims("")
    readline.parse_and_bind("tab: complete")


def play(
    env_id: Annotated[
        str | None,
        typer.Argument(metavar="ENV_ID", help="Environment. Default: that of --policy, else small household games."),
    ] = None,
    options: Annotated[
        list[str] | None, typer.Argument(metavar="KEY=VALUE", help="Arguments of the environment.")
    ] = None,
    task: Annotated[str | None, typer.Option(help="Id of the task instance. Default: chosen by the seed.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the episode.")] = 0,
    hint: Annotated[bool, typer.Option("--hint", help="Show the expert's next action before every turn.")] = False,
    policy: Annotated[
        str | None,
        typer.Option(
            metavar="CHECKPOINT", help="Agent to :ask and :watch: a run, a checkpoint, openai:MODEL@URL, expert, ..."
        ),
    ] = None,
    save: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Append finished episodes to this file, as demonstrations (.jsonl, .jsonl.gz)."
        ),
    ] = None,
    trust: Trust = False,
) -> None:
    """Play an environment yourself in the terminal (`:help` lists the commands)."""
    from turncredit.agents.files.json_files import require_writable
    from turncredit.agents.files.trajectory_files import check_suffix
    from turncredit.cli.players import (
        AGENT_PREFIX,
        SAMPLER_PREFIX,
        choose_env,
        load_advisor,
        run_of_player,
        split_words,
        take_options,
    )
    from turncredit.envs import make
    from turncredit.training.engine.loaded_agent import ModelOptions

    env_id, words = split_words(env_id, options)
    others, agent_options = take_options(parse_options(words), AGENT_PREFIX)
    env_options, sampler_options = take_options(others, SAMPLER_PREFIX)
    if env_id is None and (policy is None or (not Path(policy).exists() and run_of_player(policy) is None)):
        env_id, env_options = DEFAULT_ENV[0], {**DEFAULT_ENV[1], **env_options}
    if save is not None:
        check_suffix(save)
        require_writable(save)
    chosen = choose_env(env_id, env_options, policy)
    env = make(chosen.env_id, **chosen.kwargs)
    advisor = None
    if policy:
        advisor = load_advisor(policy, agent_options, env=chosen, model=ModelOptions(options=sampler_options))
    try:
        console = PlayConsole(PlaySession(env, task, seed), advisor, hints=hint, save=save)
        console.open()
        say("(:help lists the commands)", "dim")
        try:
            _read_lines(console)
        finally:
            console.store()
    finally:
        env.close()
        if advisor is not None:
            advisor.close()
