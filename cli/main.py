"""The program `turncredit`: gathers the commands, explains errors in one sentence, and sets the exit code.

Exit codes: 0 success, 1 a failed check or a bug, 2 a mistake of the user (one sentence on standard error;
`TURNCREDIT_DEBUG=1` shows the traceback), 130 Ctrl-C or SIGTERM.

Modules are imported by name if the user typed the name, also from the working directory; names in files need --trust.

Modules of commands import heavy packages inside their functions, so that `--help` stays instant.
"""

from __future__ import annotations

import os
import re
import sys
import threading
import warnings
from collections.abc import Sequence
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from turncredit.cli import (
    ablate,
    audit,
    bench,
    check,
    compare,
    credit,
    data,
    demo,
    doctor,
    evaluate,
    interchange,
    model,
    package,
    plan,
    play,
    playing,
    report,
    show,
    train,
    verify,
)
from turncredit.cli.console import complain, discard_output, print_exception, say, visible_logs
from turncredit.cli.errors import INTERRUPTED, USER_ERROR, debugging, sentence_of
from turncredit.cli.help_examples import add_examples
from turncredit.cli.listing import list_command
from turncredit.cli.serving import commands as serve
from turncredit.processes.child_process import end_descendants_at_exit
from turncredit.processes.endings import interruption_seen, stop_at_endings
from turncredit.processes.garbage_collection import collect_garbage_less_often
from turncredit.registry import names_from_files

DESCRIPTION = (
    "Environments, step-level credit assignment and training for multi-turn language-model agents. "
    "Start with `turncredit demo` to train an agent in minutes, or `turncredit play` to be the agent yourself."
)
PLAYING = frozenset({"ablate", "bench", "check", "credit", "demo", "eval", "play", "rollout", "train"})
"""Commands in which environments act; what these start ends with the program."""
_HOME = re.compile(r"((?:--)?[\w.-]+=)?(~[\w.-]*)(?=/|$)")
"""A word that begins with a home directory, or an option whose value does: `~/runs`, `games=~/games`."""


def expand_home(word: str) -> str:
    """Return a word of the command line with a leading `~` or `~user` of its value expanded.

    The shell itself expands `~` only at the beginning of a word.
    """
    match = _HOME.match(word)
    if match is None:
        return word
    return f"{match[1] or ''}{os.path.expanduser(match[2])}{word[match.end() :]}"


class CommandGroup(TyperGroup):
    """A command group that turns errors into one sentence and an exit code."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        """Run a command line and exit with its code; return the code if `standalone_mode` is False."""
        more = {"complete_var": complete_var, "windows_expand_args": windows_expand_args, **extra}
        words = [expand_home(word) for word in (sys.argv[1:] if args is None else args)]
        code = self._run(words, prog_name, more)
        if standalone_mode:
            sys.exit(code)
        return code

    def _run(self, args: Sequence[str], prog_name: str | None, extra: dict[str, Any]) -> int:
        try:
            with warnings.catch_warnings(), visible_logs(), names_from_files(args, folder=_working_directory()):
                warnings.showwarning = _warn
                result = super().main(args=args, prog_name=prog_name or "turncredit", standalone_mode=False, **extra)
        except BrokenPipeError:
            discard_output()
            return USER_ERROR
        except (KeyboardInterrupt, typer.Abort):
            interruption_seen()
            complain("interrupted")
            return INTERRUPTED
        except Exception as error:
            return _explain(error)
        if result == INTERRUPTED:
            complain("interrupted")
        return result if isinstance(result, int) else 0


def _working_directory() -> str:
    try:
        return os.getcwd()
    except OSError:  # it was removed
        return ""


def _explain(error: Exception) -> int:
    usage = getattr(error, "format_message", None)
    sentence = str(usage()).replace("?.", "?") if callable(usage) else sentence_of(error)
    if sentence is None or (debugging() and not callable(usage)):
        raise error
    context = getattr(error, "ctx", None)
    if type(error).__name__ == "NoArgsIsHelpError":  # a group without a command shows its help
        say(sentence)
        return USER_ERROR
    where = f" See `{context.command_path} --help`." if context is not None else ""
    end = "" if sentence.endswith((".", "?")) else "."
    complain(f"{sentence}{end}{where}" if where else sentence)
    return USER_ERROR


def _warn(message: Warning | str, category: type[Warning], filename: str, *_: object, **__: object) -> None:
    """Show a warning as a sentence; `TURNCREDIT_DEBUG=1` adds where it was raised."""
    text = re.sub(r"\x1b\[[0-9;]*m", "", str(message))  # some libraries colour their warnings
    complain(f"warning: {text}{f' ({category.__name__}, {filename})' if debugging() else ''}")


def _version(requested: bool) -> None:
    if requested:
        import turncredit

        say(f"turncredit {turncredit.__version__}")
        raise typer.Exit


app = typer.Typer(
    cls=CommandGroup,
    name="turncredit",
    help=DESCRIPTION,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Options before the command; the help text of the program is `DESCRIPTION`."""


app.command("demo", short_help="Train an agent on this machine in minutes, and show what it learned.")(demo.demo)
app.command("play", short_help="Play an environment yourself, with hints and a trained agent.")(play.play)
app.command("train", short_help="Train an agent from a run's TOML file.")(train.train)
app.command("plan", short_help="Estimate what a run needs on several GPUs.")(plan.plan)
app.command("eval", short_help="Evaluate an agent on a fixed panel of tasks.")(evaluate.evaluate)
app.command("rollout", short_help="Play groups of episodes without training, to study credit.")(playing.rollout)
app.command("bench", short_help="Benchmark an agent on fixed panels of tasks.")(bench.bench)
app.command("ablate", short_help="Train variants of a run with several seeds and compare them.")(ablate.ablate)
app.command("compare", short_help="Compare two evaluations, or two benchmarks, on the same panels.")(compare.compare)
app.command("show", short_help="Print trajectories with the advantage of every turn.")(show.show)
app.command("report", short_help="Write a run as one HTML page, or serve it live.")(report.report)
app.command("credit", short_help="Compare credit rules on stored trajectories, or with the truth.")(credit.credit)
app.command("export", short_help="Write trajectories in the format of another program.")(interchange.export)
app.command("import", short_help="Read trajectories of another program.")(interchange.import_trajectories)
app.command("audit", short_help="Check stored trajectories and checkpoints of a run.")(audit.audit)
app.command("check", short_help="Check that an environment keeps the contract.")(check.check)
app.command("package", short_help="Write an environment as an OpenEnv package.")(package.package)
app.command("verify", short_help="Check credit rules and losses, or yours, against reference cases.")(verify.verify)
app.command("doctor", short_help="Check which optional features work on this machine.")(doctor.doctor)
app.command("list", short_help="List environments, credit rules, configuration keys and more.")(list_command.list_names)
app.add_typer(data.app, name="data", short_help="Pack ALFWorld's games, or write generated games and tasks.")
app.add_typer(model.app, name="model", short_help="Build a model folder, or show what a model needs.")
app.add_typer(serve.app, name="serve", short_help="Serve an environment, a model, a phone, the shop or search.")
add_examples(app)


def main() -> None:
    """Run the console script `turncredit`. SIGTERM, which cluster schedulers send, and SIGHUP, when a terminal closes,
    stop it as Ctrl-C does.
    """
    stop_at_endings()
    threading.excepthook = lambda failed: print_exception(
        failed.exc_type, failed.exc_value or failed.exc_type(), failed.exc_traceback
    )
    collect_garbage_less_often()
    if not PLAYING.isdisjoint(sys.argv[1:2]):
        end_descendants_at_exit()
    try:
        app()
    except Exception as error:  # a bug; typer would replace sys.excepthook
        print_exception(type(error), error, error.__traceback__)
        sys.exit(1)


if __name__ == "__main__":
    main()
