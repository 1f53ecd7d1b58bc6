"""`turnwise serve androidworld`: simulated phones behind AndroidWorld's HTTP interface."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.panel import Panel
from rich.text import Text

from turnwise.cli.console import out, say


def androidworld(
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 chooses a free port.")] = 5000,
    split: Annotated[str, typer.Option(help="Tasks: train, instances, templates or apps.")] = "train",
    instances: Annotated[int, typer.Option(min=1, max=1000, help="Instances of each task in the suite.")] = 2,
    seed: Annotated[int, typer.Option(help="Seed of the suite.")] = 42,
    injections: Annotated[
        float, typer.Option(min=0, max=1, help="Share of the tasks whose phone carries instructions to the agent.")
    ] = 0.0,
    sessions: Annotated[int, typer.Option(min=1, help="Most phones at once.")] = 64,
) -> None:
    """Serve simulated phones to agents written for AndroidWorld, on this machine only, until Ctrl-C."""
    serve_androidworld(port, split=split, instances=instances, seed=seed, injections=injections, sessions=sessions)


def serve_androidworld(
    port: int,
    *,
    split: str = "train",
    instances: int = 2,
    seed: int = 42,
    injections: float = 0.0,
    sessions: int = 64,
) -> None:
    """Serve until Ctrl-C; arguments as in `turnwise.envs.android.androidworld_server.create_app`."""
    from turnwise.envs.android.androidworld_server import create_app
    from turnwise.tools.serving import listen, require_packages, serve_forever, url_of

    require_packages()
    app = create_app(split, instances=instances, seed=seed, injections=injections, sessions=sessions)
    opened = listen("127.0.0.1", port)
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
