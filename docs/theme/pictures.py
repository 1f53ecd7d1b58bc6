"""Pictures of the environments, made by playing them: `python docs/theme/pictures.py` writes docs/env-*.svg and *.png.

A transcript is an SVG of text in the style of a terminal. The screens need the extras `android` and `miniwob`.
"""

from __future__ import annotations

import html
import sys
import textwrap
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from turncredit.envs import make

DOCS = Path(__file__).resolve().parent.parent
COLUMNS, LINE, SIZE = 96, 19, 13
COLOURS = {"seen": "#d4d8dd", "done": "#5ce0c6", "note": "#8b949e", "won": "#ffd479"}

Line = tuple[str, str]
"""The kind of a line (`COLOURS`), and its text."""


def svg(title: str, lines: Iterable[Line]) -> str:
    """Return a transcript as an SVG: a window with a title, and lines in the colours of their kinds."""
    wrapped = [(kind, part) for kind, text in lines for part in wrap(text)]
    width, height = round(COLUMNS * SIZE * 0.602) + 40, 58 + len(wrapped) * LINE
    texts = [
        f'<text x="20" y="{56 + number * LINE}" fill="{COLOURS[kind]}">{escaped(text)}</text>'
        for number, (kind, text) in enumerate(wrapped)
        if text
    ]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}"',
            f'  font-family="DejaVu Sans Mono, Menlo, Consolas, monospace" font-size="{SIZE}">',
            f'<rect width="{width}" height="{height}" rx="8" fill="#1b1f26"/>',
            f'<text x="20" y="25" fill="{COLOURS["note"]}">{escaped(title)}</text>',
            f'<path d="M0 37 H{width}" stroke="#30363f"/>',
            *texts,
            "</svg>\n",
        ]
    )


def escaped(text: str) -> str:
    """Return a text for an SVG, with spaces that no viewer joins."""
    return html.escape(text, quote=False).replace(" ", "\u00a0")


def wrap(text: str) -> list[str]:
    """Return the lines of a text, each at most `COLUMNS` characters."""
    return [
        part
        for line in text.splitlines() or [""]
        for part in textwrap.wrap(line, COLUMNS, subsequent_indent="  ", drop_whitespace=False) or [""]
    ]


def shortened(text: str, limit: int) -> str:
    """Return the first lines of a text, and a mark where lines are left out."""
    lines = [line for line in text.strip("\n").splitlines() if line.strip()]
    return "\n".join(lines if len(lines) <= limit else [*lines[: limit - 1], "..."])


def played(
    env_id: str, task: str, actions: Sequence[str] | None = None, limit: int = 6, **arguments: Any
) -> list[Line]:
    """Return the transcript of an episode: the actions given, or those of the expert."""
    env = make(env_id, **arguments)
    observation, _ = env.reset(seed=0, options={"task": task})
    lines: list[Line] = [("seen", shortened(observation, 2 * limit))]
    remaining = list(actions) if actions else None
    terminated = False
    while not terminated and remaining != []:
        action = remaining.pop(0) if remaining else env.unwrapped.plan()[0]
        observation, reward, terminated, _, info = env.step(action)
        lines += [("seen", ""), ("done", "> " + action.replace("\n", "\n  "))]
        lines += [("seen", shortened(observation, limit))] if observation else []
    lines += [("seen", ""), ("won", f"reward {reward:g} · {'won' if info['won'] else 'not won'}")]
    env.close()
    return lines


def household() -> str:
    """Return a household game of the expert."""
    lines = played("turncredit/Household-v0", "held_out/tiny/000003", level="tiny", split="held_out")
    return svg("turncredit/Household-v0 · held_out/tiny/000003", lines)


def shop() -> str:
    """Return a purchase of the expert."""
    arguments = {"level": "tiny", "split": "held_out", "observation": "text_rich"}
    lines = played("turncredit/WebShop-v0", "held_out/tiny/000004", limit=7, **arguments)
    return svg("turncredit/WebShop-v0 · held_out/tiny/000004", lines)


def search() -> str:
    """Return a question answered by the expert."""
    arguments = {"level": "tiny", "split": "held_out", "form": "brackets"}
    lines = played("turncredit/Search-v0", "held_out/tiny/000012", **arguments)
    return svg("turncredit/Search-v0 · held_out/tiny/000012", lines)


def code() -> str:
    """Return a repair by the expert."""
    lines = played("turncredit/Code-v0", "train/tiny/000001", limit=8, level="tiny")
    return svg("turncredit/Code-v0 · train/tiny/000001", lines)


def bash() -> str:
    """Return a question about files, answered by the expert after a look around."""
    actions = ["ls -R | head -5", "find sensors -type f -name '*.md' -exec cat {} + | grep -c 'glove'", "submit 3"]
    lines = played("turncredit/Bash-v0", "train/tiny/000004", actions, limit=6, level="tiny")
    return svg("turncredit/Bash-v0 · train/tiny/000004", lines)


def tools() -> str:
    """Return an episode of the address book."""
    sys.path.insert(0, str(DOCS.parent / "examples"))
    import my_tools  # noqa: F401

    env = make("examples/AddressBook-v0")
    env.reset(options={"task": "move-0"})
    lines = played("examples/AddressBook-v0", "move-0", env.unwrapped.plan(), limit=7)
    return svg("examples/AddressBook-v0 · move-0", lines)


TRANSCRIPTS: dict[str, Callable[[], str]] = {
    "env-household.svg": household,
    "env-shop.svg": shop,
    "env-search.svg": search,
    "env-code.svg": code,
    "env-bash.svg": bash,
    "env-tools.svg": tools,
}


def save_row(images: Sequence[Any], path: Path, height: int, colours: int = 64) -> None:
    """Write images of one height beside each other, in few colours."""
    from PIL import Image

    scaled = [Image.fromarray(np.asarray(image)) for image in images]
    scaled = [image.resize((round(image.width * height / image.height), height)) for image in scaled]
    gap = 12
    row = Image.new("RGB", (sum(image.width + gap for image in scaled) - gap, height), "white")
    left = 0
    for image in scaled:
        row.paste(image, (left, 0))
        left += image.width + gap
    row.quantize(colours).save(path, optimize=True)


def phone() -> None:
    """Write four screens of the simulated phone."""
    env = make("turncredit/Android-v0", observation="screen")
    names = env.unwrapped.task_ids()
    images = []
    for template, steps in (("ClockAddAlarm", 0), ("ClockAddAlarm", 2), ("CalendarAdd", 3), ("BrowserAskNews", 4)):
        task = next(name for name in names if name.startswith(f"{template}/"))
        observation, _ = env.reset(options={"task": task})
        for _ in range(steps):
            observation, *_ = env.step(env.unwrapped.plan()[0])
        images.append(observation["image"])
    env.close()
    save_row(images, DOCS / "env-android.png", 560)


def miniwob() -> None:
    """Write four pages of MiniWoB++."""
    images = []
    for name in ("click-tab", "choose-date", "use-colorwheel", "social-media"):
        env = make(f"turncredit/MiniWoB-{name}-v0", screenshot=True)
        observation, _ = env.reset(seed=1)
        images.append(observation["image"])
        env.close()
    save_row(images, DOCS / "env-miniwob.png", 260)


def main(names: Sequence[str]) -> None:
    """Write the pictures whose names are given, or all."""
    for name, transcript in TRANSCRIPTS.items():
        if not names or name in names:
            (DOCS / name).write_text(transcript(), encoding="utf-8")
    for name, write in (("env-android.png", phone), ("env-miniwob.png", miniwob)):
        if not names or name in names:
            write()


if __name__ == "__main__":
    main(sys.argv[1:])
