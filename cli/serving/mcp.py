"""`turncredit serve mcp`: any environment as tools of an MCP server."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer
from rich.panel import Panel
from rich.text import Text

from turncredit.cli.console import out, say
from turncredit.cli.options import Names, parse_options


def mcp(
    env_id: Annotated[str, typer.Argument(metavar="ENV_ID", help="For example turncredit/Household-v0.")],
    options: Annotated[
        list[str] | None, typer.Argument(metavar="KEY=VALUE", help="Arguments of the environment.")
    ] = None,
    http: Annotated[
        bool, typer.Option("--http", help="Serve over HTTP, at /mcp. Default: standard input and output.")
    ] = False,
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 chooses a free port.")] = 8000,
    host: Annotated[str, typer.Option(help="Address to listen on; 0.0.0.0 accepts other machines.")] = "127.0.0.1",
    name: Names = None,
    sessions: Annotated[
        int, typer.Option(min=1, help="Maximum number of clients, each with its own environment.")
    ] = 64,
    idle: Annotated[
        float, typer.Option(min=0, help="Close an environment after this many seconds without a call; 0: never.")
    ] = 600.0,
    deadline: Annotated[float, typer.Option(min=0.001, help="Time limit of a reset or step, in seconds.")] = 60.0,
) -> None:
    """Serve an environment as tools: those of a ToolEnv as they are, reset and step for others."""
    from turncredit.agents.frameworks.mcp_server import EnvironmentTools, create_app, serve_stdio
    from turncredit.envs import make
    from turncredit.processes.serving import listen, require_packages, serve_forever, url_of

    maker = partial(make, env_id, **parse_options(options))
    tools = EnvironmentTools(maker, sessions=sessions, idle=idle or None, deadline=deadline)
    try:
        if not http:
            serve_stdio(tools, name=env_id)
            return
        require_packages()
        app = create_app(tools, name=env_id, idle=idle or None)
        opened = listen(host, port)
        lines = [
            Text(f"{url_of(opened)}/mcp", style="bold underline"),
            Text(f"{env_id} for up to {sessions} clients at once; Ctrl-C ends", style="dim"),
        ]
        out().print(Panel(Text("\n").join(lines), title="The tools are open", expand=False, padding=(0, 2)))
        serve_forever(app, opened, websockets=True, names=name or ())
    finally:
        tools.close()
    say("closed")
