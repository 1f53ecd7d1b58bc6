"""The commands `turncredit serve shop` and `search`, and all others of `turncredit serve`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.panel import Panel
from rich.text import Text

from turncredit.cli.console import out, say, warn
from turncredit.cli.errors import UserError
from turncredit.cli.options import Names
from turncredit.cli.serving.env import env
from turncredit.cli.serving.mcp import mcp
from turncredit.cli.serving.model import serve_model
from turncredit.cli.serving.phone import phone

if TYPE_CHECKING:
    from turncredit.envs.shop.env import WebShopEnv
    from turncredit.envs.shop.goal_sources import GoalSource
    from turncredit.envs.shop.site.app import OnPurchase
    from turncredit.tools.retrieval import Library

app = typer.Typer(
    help="Serve an environment or a tool on this machine.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
app.command("model", short_help="Serve a language model with vLLM, as a token engine.")(serve_model)
app.command("env", short_help="Serve an environment to clients of OpenEnv, TRL and verifiers.")(env)
app.command("mcp", short_help="Serve an environment as tools of an MCP server.")(mcp)
app.command("phone", short_help="Serve a phone in the browser and on an adb port.")(phone)


@app.command("shop", short_help="Serve the web shop as a site, for people and browsers.")
def shop(
    files: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="PRODUCTS ATTRIBUTES HUMAN",
            help="WebShop's product file, its file of attributes, and its file of human instructions; the first is "
            "enough. Default: a generated catalogue.",
        ),
    ] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 chooses a free port.")] = 3000,
    host: Annotated[str, typer.Option(help="Address to listen on; 0.0.0.0 accepts other machines.")] = "127.0.0.1",
    name: Names = None,
    level: Annotated[
        str | None, typer.Option(help="Generated catalogue: tiny, small (default), medium, large, or adjusted.")
    ] = None,
    split: Annotated[
        str | None, typer.Option(help="Goals of a generated catalogue: train or held_out (default).")
    ] = None,
    goals: Annotated[
        str | None, typer.Option(help="Goals of product files: auto (default), human or synthetic.")
    ] = None,
    reward: Annotated[str, typer.Option(help="Reward: original or fixed.")] = "original",
    seed: Annotated[int, typer.Option(min=0, help="Seed of the catalogue, or of the prices of product files.")] = 0,
    save: Annotated[
        Path | None, typer.Option(help="Append finished episodes to this file (.jsonl), as demonstrations.")
    ] = None,
    observation: Annotated[
        str, typer.Option(help="Observations that are saved: text or text_rich, as in the environment to train on.")
    ] = "text",
) -> None:
    """Serve the web shop until Ctrl-C. Open /TASK to play the goal of a task, or / for any."""
    from turncredit.agents.files.json_files import require_writable
    from turncredit.agents.files.trajectory_files import check_suffix
    from turncredit.envs.shop.site.app import create_app
    from turncredit.processes.serving import listen, require_packages, serve_forever, url_of

    require_packages()
    if files and len(files) > 3:
        raise UserError(f"expected at most three files (products, attributes, human), got {len(files)}")
    choices = {"level": level, "split": split, "goals": goals}
    _refuse_idle(choices, files=bool(files))
    if save is not None:
        check_suffix(save)
        require_writable(save)
    opened = listen(host, port)
    try:
        env = _environment(files or [], choices, reward=reward, seed=seed, observation=observation)
        source = env.source
        site = create_app(source.shop, source, on_purchase=None if save is None else _saver(env, save))
        _announce(url_of(opened), source)
        serve_forever(site, opened, names=name or ())
    finally:
        opened.close()
    say("closed")


def _refuse_idle(choices: dict[str, str | None], *, files: bool) -> None:
    """Refuse options that do not apply to the served catalogue."""
    for name in ("level", "split") if files else ("goals",):
        if choices[name] is not None:
            catalogue = "a generated catalogue" if files else "product files"
            raise UserError(
                f"--{name} applies to {catalogue}, but product files are {'given' if files else 'not given'}"
            )


def _environment(
    files: list[Path], choices: dict[str, str | None], *, reward: str, seed: int, observation: str
) -> WebShopEnv:
    """Return the environment whose goals visitors get: all those of the files, or a split of a generated catalogue."""
    from turncredit.envs.shop.env import WebShopEnv
    from turncredit.envs.shop.sources import GeneratedProducts, ProductFiles

    source: GeneratedProducts | ProductFiles
    if not files:
        source = GeneratedProducts(choices["level"] or "small", choices["split"] or "held_out", seed)
    else:
        attributes, human, *_ = [*files[1:], None, None]
        goals = choices["goals"] or "auto"
        source = ProductFiles(files[0], attributes, human, "test", "all", goals, catalogue_seed=seed)
    return WebShopEnv(source, reward=reward, observation=observation)


def _saver(env: WebShopEnv, path: Path) -> OnPurchase:
    """Return a function that replays a visitor's episode in the environment and appends it to a file."""
    from turncredit.agents.demonstrations.recording import EpisodeRecorder, append_episode

    def save(task: str, actions: list[str] | None) -> None:
        if actions is None:
            warn(f"the episode of {task} was not saved: it used an address that no action leads to")
            return
        recorder = EpisodeRecorder(*env.reset(seed=0, options={"task": task}), seed=0)
        for action in actions:
            recorder.add(action, *env.step(action))
        try:
            stored = append_episode(path, recorder.trajectory())
        except OSError as error:
            warn(f"the episode of {task} was not saved to {path}: {error.strerror}")
        else:
            say(f"saved {stored.id} to {path}: {len(actions)} actions, score {stored.score:.2f}")

    return save


def _announce(where: str, source: GoalSource) -> None:
    tasks = source.ids(3)
    shop = source.shop
    facts = f"{len(shop.catalogue):,} products; tagger of the reward: {shop.reward_function.tagger_name}"
    lines = [Text(where, style="bold underline"), Text(facts, style="dim")]
    if tasks:
        lines.append(Text(f"a task of your choice: {where}/{tasks[0].replace('/', '-')}", style="dim"))
    lines.append(Text("Ctrl-C ends", style="dim"))
    out().print(Panel(Text("\n").join(lines), title="The shop is open", expand=False, padding=(0, 2)))


@app.command("search", short_help="Serve passages with Search-R1's /retrieve.")
def search(
    corpus: Annotated[Path, typer.Argument(help='JSON lines such as {"id": "7", "contents": "\\"Title\\"\\nText"}.')],
    index: Annotated[str, typer.Option(help="bm25 (words), dense (meaning) or hybrid (both).")] = "bm25",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 chooses a free port.")] = 8000,
    host: Annotated[str, typer.Option(help="Address to listen on; 0.0.0.0 accepts other machines.")] = "127.0.0.1",
    name: Names = None,
    topk: Annotated[
        int, typer.Option(min=1, help="Passages per query, unless the request asks for another number.")
    ] = 3,
    keep: Annotated[
        Path | None, typer.Option(help="Folder to keep the index in, so that the next start is quick.")
    ] = None,
    model: Annotated[
        Path | None, typer.Option(help="Folder of a sentence encoder. Default: that of the extra `dense`.")
    ] = None,
    skip: Annotated[bool, typer.Option("--skip", help="Skip incomplete lines and repeated ids.")] = False,
    workers: Annotated[
        int, typer.Option(min=1, help="Processes that answer requests (bm25 only), for example one per core.")
    ] = 1,
) -> None:
    """Serve a corpus until Ctrl-C: POST /retrieve, GET /health."""
    from turncredit.processes.serving import listen, require_packages, serve_forever, url_of
    from turncredit.processes.serving_workers import listen_for_workers, serve_with_workers
    from turncredit.tools.retrieval import BadCorpus, open_library
    from turncredit.tools.retrieval.server import create_app

    require_packages()
    if workers > 1 and index != "bm25":
        raise UserError(f"--workers needs the index bm25, got {index}: a sentence encoder uses all cores by itself")
    sockets = [listen(host, port)] if workers == 1 else listen_for_workers(workers, host, port)
    try:
        library = open_library(corpus, index, strict=not skip, keep=keep, model=model, progress=warn)
        service = create_app(library, topk=topk, about=f"{corpus.name}, {index}")
        _open_for_queries(url_of(sockets[0]), library, index)
        if workers == 1:
            serve_forever(service, sockets[0], names=name or ())
        else:
            serve_with_workers(service, sockets, report=warn, names=name or ())
    except BadCorpus as error:
        # What Python's callers are advised to do has another name here.
        raise UserError(str(error).replace("strict=False", "--skip")) from error
    finally:
        for opened in sockets:
            opened.close()
    say("closed")


def _open_for_queries(where: str, library: Library, index: str) -> None:
    left_out = library.passages.skipped
    facts = f"{len(library):,} passages, {index}" + (f"; {left_out:,} lines left out" if left_out else "")
    if left_out:
        warn(library.passages.complaints[0])
    lines = [
        Text(f"{where}/retrieve", style="bold underline"),
        Text(facts, style="dim"),
        Text(f"{where}/health reports the state; Ctrl-C ends", style="dim"),
    ]
    out().print(Panel(Text("\n").join(lines), title="The search service is running", expand=False, padding=(0, 2)))
