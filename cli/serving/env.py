"""`turncredit serve env`: any environment behind OpenEnv's server interface."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer
from rich.panel import Panel
from rich.text import Text

from turncredit.cli.console import out, say
from turncredit.cli.options import Names, parse_options


def env(
    env_id: Annotated[str, typer.Argument(metavar="ENV_ID", help="For example turncredit/Household-v0.")],
    options: Annotated[
        list[str] | None, typer.Argument(metavar="KEY=VALUE", help="Arguments of the environment.")
    ] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 chooses a free port.")] = 8000,
    host: Annotated[str, typer.Option(help="Address to listen on; 0.0.0.0 accepts other machines.")] = "127.0.0.1",
    name: Names = None,
    sessions: Annotated[
        int, typer.Option(min=1, help="Maximum number of clients, each with its own environment.")
    ] = 64,
    idle: Annotated[
        float,
        typer.Option(min=0, help="Close an environment after this many seconds without a request; 0: never."),
    ] = 600.0,
    deadline: Annotated[float, typer.Option(min=0.001, help="Time limit of a reset or step, in seconds.")] = 60.0,
) -> None:
    """Serve an environment to clients of OpenEnv, TRL and verifiers until Ctrl-C."""
    from turncredit.agents.frameworks.openenv import create_app
    from turncredit.envs import make
    from turncredit.processes.serving import listen, require_packages, serve_forever, url_of

    require_packages()
    arguments = parse_options(options)
    maker = partial(make, env_id, **arguments)
    maker().close()  # an unknown id or option is refused before the port is opened
    opened = listen(host, port)
    try:
        split = arguments.get("split")
        app = create_app(
            maker,
            name=env_id,
            sessions=sessions,
            idle=idle or None,
            deadline=deadline,
            split=split if isinstance(split, str) else "train",
        )
        lines = [
            Text(url_of(opened), style="bold underline"),
            Text(f"{env_id} for up to {sessions} clients at once; Ctrl-C ends", style="dim"),
        ]
        out().print(Panel(Text("\n").join(lines), title="The environment is open", expand=False, padding=(0, 2)))
        serve_forever(app, opened, websockets=True, names=name or ())
    finally:
        opened.close()
    say("closed")
