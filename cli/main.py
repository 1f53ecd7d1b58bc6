"""`turnwise`: the program. Commands are one module a group; this file only gathers them and ends them well.

Exit codes: 0 done, 1 the thing examined is not in order (a failed check) or a fault of ours, 2 a mistake of the user
(one sentence on standard error; `TURNWISE_DEBUG=1` shows the traceback), 130 Ctrl-C.

The modules of the commands import their heavy parts inside the commands, so that help stays instant.
"""

from __future__ import annotations

import os
import re
import sys
import warnings
from collections.abc import Sequence
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from turnwise.cli import (
    ablate,
    check,
    credit,
    data,
    demo,
    doctor,
    evaluate,
    list_command,
    play,
    serve,
    show,
    train,
    verify,
)
from turnwise.cli.errors import INTERRUPTED, USER_ERROR, debugging, sentence_of

SENTENCE = (
    "An environment gives a task, an agent plays it turn by turn, credit says which turn deserved what, "
    "training moves the policy, evaluation proves it."
)


class CommandGroup(TyperGroup):
    """The command group that turns what went wrong into one sentence and an exit code."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        """Run a command line and leave the process with its exit code (return it, if it does not stand alone)."""
        more = {"complete_var": complete_var, "windows_expand_args": windows_expand_args, **extra}
        code = self._run(args, prog_name, more)
        if standalone_mode:
            sys.exit(code)
        return code

    def _run(self, args: Sequence[str] | None, prog_name: str | None, extra: dict[str, Any]) -> int:
        try:
            with warnings.catch_warnings():
                warnings.showwarning = _warn
                result = super().main(args=args, prog_name=prog_name or "turnwise", standalone_mode=False, **extra)
        except BrokenPipeError:
            _hush()
            return USER_ERROR
        except (KeyboardInterrupt, typer.Abort):
            _complain("interrupted")
            return INTERRUPTED
        except Exception as error:
            return _explain(error)
        if result == INTERRUPTED:
            _complain("interrupted")
        return result if isinstance(result, int) else 0


def _explain(error: Exception) -> int:
    usage = getattr(error, "format_message", None)
    sentence = usage() if callable(usage) else sentence_of(error)
    if sentence is None or (debugging() and not callable(usage)):
        raise error
    context = getattr(error, "ctx", None)
    if type(error).__name__ == "NoArgsIsHelpError":  # a group without a command: its help is the answer
        print(sentence)
        return USER_ERROR
    where = f" See `{context.command_path} --help`." if context is not None else ""
    _complain(f"{sentence.rstrip('.')}.{where}" if where else sentence)
    return USER_ERROR


def _complain(sentence: str) -> None:
    print(f"turnwise: {sentence}", file=sys.stderr)


def _warn(message: Warning | str, category: type[Warning], filename: str, *_: Any, **__: Any) -> None:
    """Show a warning as a sentence; where in the code it arose is for `TURNWISE_DEBUG=1`."""
    text = re.sub(r"\x1b\[[0-9;]*m", "", str(message))  # some libraries colour their warnings
    _complain(f"warning: {text}{f' ({category.__name__}, {filename})' if debugging() else ''}")


def _hush() -> None:
    """Stop the interpreter from complaining about a reader that went away (`turnwise show | head`)."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"turnwise {version('turnwise')}")
        raise typer.Exit


app = typer.Typer(
    cls=CommandGroup,
    name="turnwise",
    help=SENTENCE,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and stop.")
    ] = False,
) -> None:
    """Options that come before the command (the help text of the program is `SENTENCE`)."""


app.command("demo", short_help="Train an agent on this machine, in minutes; show what it learned.")(demo.demo)
app.command("play", short_help="Be the agent yourself, with hints, undo and a trained one beside you.")(play.play)
app.command("train", short_help="Train as a run's file says: imitation, then reinforcement learning.")(train.train)
app.command("eval", short_help="Play a fixed panel of tasks; success with its interval.")(evaluate.evaluate)
app.command("ablate", short_help="Train several ways and seeds from one warm start; compare them.")(ablate.ablate)
app.command("compare", short_help="Compare two results on one panel: more than noise?")(evaluate.compare)
app.command("show", short_help="Print trajectories with the advantage of every turn.")(show.show)
app.command("credit", short_help="Compare credit rules on stored trajectories; draw a task's graph.")(credit.credit)
app.command("check", short_help="Prove that an environment keeps the contract.")(check.check)
app.command("verify", short_help="Check golden vectors against our functions, or yours.")(verify.verify)
app.command("doctor", short_help="What this machine has of what turnwise can use.")(doctor.doctor)
app.command("list", short_help="List what can be named: environments, credit rules, keys, ...")(list_command.list_names)
app.add_typer(data.app, name="data", short_help="Pack original games, write generated ones.")
app.add_typer(serve.app, name="serve", short_help="The web shop as a site; a search service over passages.")


def main() -> None:
    """The console script `turnwise`."""
    app()


if __name__ == "__main__":
    main()
