"""`turncredit serve phone`: a simulated phone in the browser and on an adb port, or with AndroidWorld's interface."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.panel import Panel
from rich.text import Text

from turncredit.cli.console import out, say
from turncredit.cli.errors import UserError
from turncredit.cli.options import Options, parse_options

if TYPE_CHECKING:
    from turncredit.agents.trajectory import Trajectory
    from turncredit.envs.android.site.player import Choice, PlayedAction, Save

_HOST = "127.0.0.1"
_OF_THE_PAGE = ("adb_port", "template", "app", "free", "save", "env")
_OF_ANDROIDWORLD = ("instances", "injections", "sessions")


def phone(
    port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="0 chooses a free port. Default: 4000; AndroidWorld's is 5000.")
    ] = None,
    adb_port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="Port for `adb connect`. Default: a free one.")
    ] = None,
    split: Annotated[str, typer.Option(help="Tasks: train, instances, templates or apps.")] = "train",
    template: Annotated[str | None, typer.Option(help="Kind of task, such as ClockAddAlarm. Default: any.")] = None,
    seed: Annotated[
        int | None, typer.Option(min=0, max=10**9, help="Seed of the task, and of its template without --template.")
    ] = None,
    app: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Only tasks with this app (repeatable).")
    ] = None,
    free: Annotated[bool, typer.Option("--free", help="Serve a phone without a task.")] = False,
    save: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Where the page saves demonstrations (.jsonl). Default: it downloads them."),
    ] = None,
    env: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY=VALUE",
            help="Argument of the environment of saved demonstrations, such as points=0..1000 (repeatable).",
        ),
    ] = None,
    androidworld: Annotated[
        bool, typer.Option("--androidworld", help="Serve AndroidWorld's HTTP interface instead of a page.")
    ] = False,
    instances: Annotated[
        int | None, typer.Option(min=1, max=1000, help="AndroidWorld: instances of each task in the suite. Default: 2.")
    ] = None,
    injections: Annotated[
        float | None,
        typer.Option(min=0, max=1, help="AndroidWorld: share of tasks with injected instructions. Default: 0."),
    ] = None,
    sessions: Annotated[
        int | None, typer.Option(min=1, help="AndroidWorld: maximum number of phones. Default: 64.")
    ] = None,
) -> None:
    """Serve a simulated phone on this machine only, until Ctrl-C: a page to play it, and its adb port."""
    typed = locals()
    if androidworld:
        _refuse(typed, _OF_THE_PAGE, "the page, which --androidworld does not serve")
        options = {"instances": instances, "seed": seed, "injections": injections, "sessions": sessions}
        chosen: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
        _serve_androidworld(5000 if port is None else port, split=split, **chosen)
        return
    _refuse(typed, _OF_ANDROIDWORLD, "AndroidWorld's interface: add --androidworld")
    if free:
        _refuse(typed, ("template", "app"), "a task, but --free asks for a phone without one")
    from turncredit.envs.android.site.player import Choice

    choice = Choice(split, template or "", seed, tuple(app or ()), free)
    _serve_page(4000 if port is None else port, adb_port or 0, choice, saver(save, parse_options(env)))


def _refuse(values: Mapping[str, object], names: Sequence[str], scope: str) -> None:
    """Refuse options that have no effect."""
    for name in names:
        if values[name] not in (None, False, []):
            raise UserError(f"--{name.replace('_', '-')} applies to {scope}")


def _serve_page(port: int, adb_port: int, choice: Choice, save: Save) -> None:
    from turncredit.envs.android.site.app import create_app
    from turncredit.envs.android.site.player import PhonePlayer
    from turncredit.processes.serving import listen, require_packages, serve_forever, url_of

    require_packages()
    opened = listen(_HOST, port)
    try:
        player = PhonePlayer(choice, adb_port, save)
        try:
            player.picture(270)  # without the extra `phone` this fails with its name, before the page is opened
            lines = [
                Text(url_of(opened), style="bold underline"),
                Text(f"adb connect {player.adb.serial}"),
                Text("the page and adb share one phone; Ctrl-C ends", style="dim"),
            ]
            out().print(Panel(Text("\n").join(lines), title="The phone is on", expand=False, padding=(0, 2)))
            serve_forever(create_app(player), opened)
        finally:
            player.close()
    finally:
        opened.close()
    say("closed")


def saver(path: Path | None, arguments: Options | None = None) -> Save:
    """Return a function that replays an episode in the environment and appends it to a file, or returns it as text.

    Args:
        path: the file; None: the episode is returned.
        arguments: of the environment.

    Raises:
        UserError: the file cannot be written, or images have no file beside which they could lie.
        EnvError: an argument is wrong.
    """
    from turncredit.agents.content import has_images
    from turncredit.agents.files.json_files import require_writable
    from turncredit.agents.files.trajectory_files import check_suffix
    from turncredit.envs import make

    kwargs = dict(arguments or {})
    if "split" in kwargs or "device" in kwargs:
        raise UserError("--env cannot choose split or device: demonstrations are of the phone that the page shows")
    if kwargs and has_images(make("turncredit/Android-v0", **kwargs).observation_space) and path is None:
        raise UserError("demonstrations with screens need --save FILE: the images are stored beside it")
    if path is not None:
        check_suffix(path)
        require_writable(path)

    def save(split: str, task: str, actions: Sequence[PlayedAction], won: bool) -> Mapping[str, str]:
        from turncredit.agents.demonstrations.recording import append_episode
        from turncredit.agents.files.trajectory_files import to_json

        trajectory = _replayed(split, task, actions, kwargs)
        if trajectory.won != won:
            raise _not_saved("its actions do not lead to the same end in the environment")
        if path is None:
            return {"name": f"{task.replace('/', '-')}.jsonl", "text": f"{to_json(trajectory)}\n"}
        try:
            stored = append_episode(path, trajectory)
        except OSError as error:
            raise _not_saved(f"{path} cannot be written: {error.strerror}") from error
        say(f"saved {stored.id} to {path}: {len(stored.turns)} actions, {'won' if stored.won else 'not won'}")
        return {"file": str(path)}

    return save


def _replayed(split: str, task: str, actions: Sequence[PlayedAction], arguments: Options) -> Trajectory:
    """Return an episode as the environment with these arguments plays it."""
    from turncredit.agents.demonstrations.recording import EpisodeRecorder
    from turncredit.envs.android.actions import BadAction
    from turncredit.envs.android.env import AndroidEnv

    env = AndroidEnv(split=split, **arguments)
    recorder = EpisodeRecorder(*env.reset(seed=0, options={"task": task}), seed=0)
    try:
        for played in actions:
            if recorder.ended:
                raise _not_saved("its actions go on after the end of the episode")
            for action in env.steps_of(*played):
                recorder.add(action, *env.step(action))
    except BadAction as error:
        raise _not_saved(f"the agent of this environment cannot do what was done: {error}") from error
    return recorder.trajectory()


def _not_saved(reason: str) -> Exception:
    from turncredit.envs.android.site.player import NotNow

    return NotNow(f"the episode was not saved: {reason}")


def _serve_androidworld(port: int, *, split: str, instances: int = 2, **options: Any) -> None:
    """Serve until Ctrl-C; options as in `turncredit.envs.android.androidworld_server.create_app`."""
    from turncredit.envs.android.androidworld_server import create_app
    from turncredit.processes.serving import listen, require_packages, serve_forever, url_of

    require_packages()
    app = create_app(split, instances=instances, **options)
    opened = listen(_HOST, port)
    try:
        tasks = len(app.state.phones.get("").suite)
        lines = [
            Text(url_of(opened), style="bold underline"),
            Text(f"{tasks} types of tasks, {instances} instances of each", style="dim"),
            Text("clients share one phone; with the header X-Session each has its own", style="dim"),
            Text("Ctrl-C ends", style="dim"),
        ]
        title = "The phone is on, with AndroidWorld's interface"
        out().print(Panel(Text("\n").join(lines), title=title, expand=False, padding=(0, 2)))
        serve_forever(app, opened)
    finally:
        opened.close()
    say("closed")
