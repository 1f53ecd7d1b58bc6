"""`turncredit data`: pack original games into one file; write generated games, shop catalogues or Harbor folders."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from turncredit.cli.console import say
from turncredit.cli.errors import UserError
from turncredit.cli.options import parse_options
from turncredit.registry import choose
from turncredit.report.number_text import count, duration

app = typer.Typer(
    help="Pack ALFWorld's games into one file, or write generated games, shop catalogues and tasks as files.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.command("pack", short_help="Pack a folder of game files into one file.")
def pack(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Folder with .../game.tw-pddl files.")],
    target: Annotated[Path, typer.Argument(metavar="OUT", help="The packed file, .jsonl.xz.")],
) -> None:
    """Pack a folder of game files into one file, with domain and grammar beside it."""
    from turncredit.agents.files.trajectory_files import name_file_in_errors
    from turncredit.envs.household.library import pack as pack_games

    if not folder.is_dir():
        raise UserError(f"{folder} is not a folder of games")
    start = time.monotonic()
    with name_file_in_errors(target):
        packed = pack_games(folder, target)
    size = target.stat().st_size
    say(f"packed {packed} games into {target} ({count(size)}B) in {duration(time.monotonic() - start)}")
    say(f"play them: turncredit play turncredit/Household-v0 games={target}")


@app.command("generate", short_help="Write generated games as files that ALFWorld's engine can play.")
def generate(
    target: Annotated[Path, typer.Argument(metavar="OUT", help="Folder to write the games into.")],
    split: Annotated[str, typer.Option(help="train or held_out.")] = "train",
    number: Annotated[int, typer.Option("--count", min=1, help="Number of games.")] = 100,
    level: Annotated[str, typer.Option(help="tiny, small, medium, large, or adjusted: small+objects=4-6.")] = "small",
    start: Annotated[int, typer.Option(min=0, help="Index of the first game.")] = 0,
) -> None:
    """Write generated games as .tw-pddl files, which ALFWorld's own engine can play as well."""
    from turncredit.agents.files.folder_lock import make_folder
    from turncredit.agents.files.trajectory_files import name_file_in_errors
    from turncredit.envs.household.generator import SPLITS, task_ids, write

    choose("split", split, SPLITS)
    task_ids(split, level, number, start)  # refuses an unknown level before the folder is made
    make_folder(target)
    with name_file_in_errors(target):
        paths = write(target, split, number, level, start)
    say(f"wrote {len(paths)} games under {target / split}")
    say(f"play them: turncredit play turncredit/Household-v0 games={target} split={split}")


@app.command("shop", short_help="Write a generated catalogue as WebShop's files.")
def shop(
    target: Annotated[Path, typer.Argument(metavar="OUT", help="Folder to write the files into.")],
    level: Annotated[str, typer.Option(help="tiny, small, medium, large, or adjusted: small+products=500.")] = "small",
    seed: Annotated[int, typer.Option(min=0, help="Seed of the catalogue.")] = 0,
) -> None:
    """Write a generated product catalogue as the files that the original web shop reads."""
    from turncredit.agents.files.folder_lock import make_folder
    from turncredit.agents.files.trajectory_files import name_file_in_errors
    from turncredit.envs.shop.generator import catalogue, write

    products = catalogue(level, seed)
    make_folder(target)
    with name_file_in_errors(target):
        paths = write(target, level, seed)
    say(f"wrote {len(products):,} products under {target}")
    arguments = " ".join(f"{name}={path}" for name, path in paths.items())
    say(f"play them: turncredit play turncredit/WebShop-v0 {arguments} splits=all")


@app.command("harbor", short_help="Write tasks as Harbor folders.")
def harbor(
    env_id: Annotated[str, typer.Argument(metavar="ENV_ID", help="turncredit/Bash-v0 or turncredit/Code-v0.")],
    options: Annotated[
        list[str] | None, typer.Argument(metavar="KEY=VALUE", help="Arguments of the environment.")
    ] = None,
    output: Annotated[Path, typer.Option(metavar="FOLDER", help="Folder to write the task folders into.")] = Path(
        "harbor"
    ),
    number: Annotated[int, typer.Option("--count", min=1, help="Number of tasks.")] = 10,
    image: Annotated[
        str, typer.Option(help="Image that the Dockerfiles begin with; it needs a shell and python3.")
    ] = "python:3.12-slim",
) -> None:
    """Write tasks as Harbor folders: task.toml, instruction.md, environment/, tests/ and the oracle in solution/."""
    from turncredit.agents.files.folder_lock import require_plain_files
    from turncredit.agents.files.trajectory_files import name_file_in_errors
    from turncredit.envs.harbor_export import write_tasks

    require_plain_files(output)
    with name_file_in_errors(output):
        paths = write_tasks(env_id, parse_options(options), output, number, image)
    say(f"wrote {len(paths)} task folders into {output}")
    say(f"play them: turncredit eval expert turncredit/Bash-v0 tasks={output} sandbox=bwrap")
