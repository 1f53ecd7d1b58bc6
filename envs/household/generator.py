"""Endless household games: `generate(split, index, level)` is a pure function, and a task id determines the game.

An id is SPLIT/LEVEL/INDEX, such as "train/small/000123" or "held_out/small+types=put.two/000007". The random generator
is seeded with the BLAKE2b digest of the id, so a game is the same in every process and version of Python.

Splits are disjoint by construction: the digest of a game's content (goal and layout without names, order and phrasing)
assigns it to a split, one in four to "held_out", and the generator draws until the content belongs to the requested
split. With the tiny vocabulary, contents would soon repeat; there the digest must also agree with the last bits of the
index, so that only games with congruent indices can be equal (if the level allows enough different games).

Not included: slicing, several rooms in one game, human phrasings.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path

from turncredit.envs.errors import UnknownOption, UnknownTask
from turncredit.envs.household.layout import HouseLayout, draw_layout
from turncredit.envs.household.level import HouseholdLevel
from turncredit.envs.household.problem import problem_and_walkthrough
from turncredit.registry import suggest
from turncredit.tools.keyed_random import KeyedRandom

__all__ = [
    "SPLITS",
    "GameSource",
    "HouseholdLevel",
    "domain_text",
    "generate",
    "grammar_text",
    "source",
    "task_ids",
    "write",
]

SPLITS = ("train", "held_out")
PHRASES: dict[str, tuple[str, str]] = {
    "pick_and_place_simple": ("put a {thing} in {target}.", "put some {thing} on {target}."),
    "look_at_obj_in_light": ("look at {thing} under the {target}.", "examine the {thing} with the {target}."),
    "pick_clean_then_place_in_recep": (
        "put a clean {thing} in {target}.",
        "clean some {thing} and put it in {target}.",
    ),
    "pick_heat_then_place_in_recep": ("put a hot {thing} in {target}.", "heat some {thing} and put it in {target}."),
    "pick_cool_then_place_in_recep": ("put a cool {thing} in {target}.", "cool some {thing} and put it in {target}."),
    "pick_two_obj_and_place": ("put two {thing} in {target}.", "find two {thing} and put them in {target}."),
}
MAX_DRAWS = 4000  # of layouts for one game; 4 to 64 are usual
CLASSES = (16, 1, 1)  # of indices, by vocabulary: equal games need equal index % CLASSES as well
_ID = re.compile(r"(?P<split>[^/]+)/(?P<level>[^/]+)/(?P<index>[0-9]{6,12})")


@dataclass(frozen=True, slots=True)
class GameSource:
    """A game as text, to be compiled or written.

    id: task id. task: the task sentence. task_type: one of the six. problem_text: PDDL. walkthrough: commands that win.
    layout: what it was made from. Domain and grammar are `domain_text()` and `grammar_text()`.
    """

    id: str
    task: str
    task_type: str
    problem_text: str
    walkthrough: tuple[str, ...]
    layout: HouseLayout


@cache
def domain_text() -> str:
    """Return the PDDL domain of generated games."""
    return files("turncredit.envs.household").joinpath("domain.pddl").read_text(encoding="utf-8")


@cache
def grammar_text() -> str:
    """Return the text grammar of generated games, with "UNKNOWN GOAL." in place of the task sentence."""
    return files("turncredit.envs.household").joinpath("grammar.twl2").read_text(encoding="utf-8")


def generate(split: str, index: int, level: HouseholdLevel | str = "small") -> GameSource:
    """Return game number `index` of a split; the same arguments always give the same game.

    Args:
        split: "train" or "held_out"; no game of one is a renaming of a game of the other, at any level.
        index: from 0 to 999,999,999,999.
        level: size and difficulty, or a text such as "tiny".

    Returns:
        The game's source, with a walkthrough that wins it.

    Raises:
        UnknownTask: invalid split or index.
        UnknownOption: the level is invalid, allows no task, or allows too few different games.
    """
    level = HouseholdLevel.parse(level) if isinstance(level, str) else level
    if split not in SPLITS:
        raise UnknownTask(f"unknown split {split!r} of generated games{suggest(split, SPLITS)}")
    if not 0 <= index < 10**12:
        raise UnknownTask(f"index must be from 0 to 999,999,999,999, got {index}")
    task_id = f"{split}/{level.text}/{index:06d}"
    draw = KeyedRandom(task_id)
    classes = CLASSES[level.words]
    for attempt in range(MAX_DRAWS):
        layout = draw_layout(draw, level)
        digest = layout.digest
        agrees = (digest >> 8) % classes == index % classes or attempt > MAX_DRAWS // 2
        if _split_of(digest) == split and agrees:
            return _source(task_id, layout, draw)
    raise UnknownOption(f"level {level.text!r} allows too few different games for two splits; choose wider settings")


def _split_of(digest: int) -> str:
    return "held_out" if digest % 4 == 0 else "train"


def source(task_id: str) -> GameSource:
    """Return the game of a task id.

    Raises:
        UnknownTask: this is not the id of a generated game.
        UnknownOption: its level is invalid.
    """
    match = _ID.fullmatch(task_id)
    if match is None:
        raise UnknownTask(
            f"{task_id!r} is not the id of a generated game; expected SPLIT/LEVEL/INDEX, such as train/small/000123"
        )
    game = generate(match["split"], int(match["index"]), match["level"])
    if game.id != task_id:
        raise UnknownTask(f"{task_id!r} is not a canonical id; the same game is {game.id!r}")
    return game


def task_ids(split: str, level: HouseholdLevel | str = "small", count: int = 1000, start: int = 0) -> list[str]:
    """Return the ids of `count` games of a split, starting at `start`, without generating them."""
    level = HouseholdLevel.parse(level) if isinstance(level, str) else level
    if split not in SPLITS:
        raise UnknownTask(f"unknown split {split!r} of generated games{suggest(split, SPLITS)}")
    return [f"{split}/{level.text}/{index:06d}" for index in range(start, start + count)]


def _source(task_id: str, layout: HouseLayout, draw: KeyedRandom) -> GameSource:
    problem, walkthrough = problem_and_walkthrough(layout, draw)
    goal = layout.goal
    task = draw.pick(PHRASES[goal.task_type]).format(thing=goal.thing, target=goal.target)
    return GameSource(task_id, task, goal.task_type, problem, tuple(walkthrough), layout)


# ---- files ----


def game_file(game: GameSource) -> dict[str, object]:
    """Return the content of a game's game.tw-pddl file as JSON-compatible data."""
    return {
        "pddl_domain": domain_text(),
        "grammar": grammar_text().replace("UNKNOWN GOAL.", game.task),
        "pddl_problem": game.problem_text,
        "solvable": True,
        "walkthrough": list(game.walkthrough),
    }


def trial_data(game: GameSource) -> dict[str, object]:
    """Return the smallest traj_data.json that the original loader accepts."""
    goal = game.layout.goal
    target = "" if goal.light else goal.target.capitalize()
    return {
        "task_id": game.id,
        "task_type": game.task_type,
        "pddl_params": {
            "object_target": goal.thing.capitalize(),
            "parent_target": target,
            "mrecep_target": "",
            "toggle_target": goal.target.capitalize() if goal.light else "",
            "object_sliced": False,
        },
        "scene": {"floor_plan": "generated", "scene_num": 0},
        "turk_annotations": {"anns": [{"task_desc": game.task, "high_descs": [], "votes": []}]},
    }


def write(
    folder: Path | str, split: str, count: int, level: HouseholdLevel | str = "small", start: int = 0
) -> list[Path]:
    """Write games in the original layout: FOLDER/SPLIT/TYPE-Object-None-Target-LEVEL/trial_INDEX/game.tw-pddl.

    Args:
        folder: folder of the splits; created if missing.
        split: "train" or "held_out".
        count: number of games.
        level: size and difficulty.
        start: number of the first game.

    Returns:
        The paths of the game files, by number.

    Raises:
        UnknownTask, UnknownOption: as `generate`.
        OSError: the folder cannot be written.
    """
    paths = []
    for task_id in task_ids(split, level, count, start):
        game = source(task_id)
        goal = game.layout.goal
        words = task_id.split("/")
        receptacle = "None-" + goal.target.capitalize()
        trial = Path(
            folder, split, f"{game.task_type}-{goal.thing.capitalize()}-{receptacle}-{words[1]}", f"trial_{words[2]}"
        )
        trial.mkdir(parents=True, exist_ok=True)
        path = trial / "game.tw-pddl"
        path.write_text(json.dumps(game_file(game)), encoding="utf-8")
        (trial / "traj_data.json").write_text(json.dumps(trial_data(game), indent=1), encoding="utf-8")
        paths.append(path)
    return paths
