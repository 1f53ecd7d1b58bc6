"""`turncredit package`: an environment as a folder that OpenEnv's tools validate, build and push."""

from __future__ import annotations

import shutil
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from turncredit.cli.console import say
from turncredit.cli.errors import UserError
from turncredit.cli.options import parse_options

__all__ = ["package"]


def package(
    env_id: Annotated[str, typer.Argument(metavar="ENV_ID", help="For example turncredit/Household-v0.")],
    options: Annotated[
        list[str] | None, typer.Argument(metavar="KEY=VALUE", help="Arguments of the environment.")
    ] = None,
    folder: Annotated[Path | None, typer.Option(help="Folder to write. Default: the environment's name.")] = None,
    requirement: Annotated[
        str,
        typer.Option(
            show_default="a wheel of this turncredit, in wheels/",
            help="What pip installs to get turncredit, such as 'turncredit[openenv] @ git+https://...'.",
        ),
    ] = "",
    rewards: Annotated[tuple[float, float], typer.Option(help="Lowest and highest reward of a step.")] = (0.0, 1.0),
    sessions: Annotated[int, typer.Option(min=1, help="Clients that the server takes at once.")] = 64,
) -> None:
    """Write an environment as an OpenEnv package: openenv.yaml, server, Dockerfile, and an episode for validation."""
    from turncredit.agents.frameworks.openenv_package import OpenEnvPackage
    from turncredit.agents.frameworks.own_wheel import WHEEL, write_wheel

    if not rewards[0] < rewards[1]:
        raise UserError(f"--rewards needs a lower and a higher number, got {rewards[0]:g} {rewards[1]:g}")
    pinned = "" if requirement else WHEEL
    content = OpenEnvPackage(env_id, parse_options(options), requirement, pinned, rewards, sessions)
    target = Path(content.name) if folder is None else folder
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise UserError(f"{target} exists and is not an empty folder; name another one with --folder")
    files = content.files()  # an environment that cannot be played is refused before a wheel is built
    if content.wheel:
        with TemporaryDirectory() as built:
            wheel = write_wheel(Path(built))
            (target / "wheels").mkdir(parents=True)
            shutil.move(wheel, target / "wheels" / content.wheel)
    for name, text in files.items():
        path = target / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8", errors="backslashreplace")
    say(f"wrote {target}")
    say(f"next: cd {target} && uv lock && openenv validate, then openenv build or openenv push")
