"""Generated tasks of service desks, without end: DOMAIN/SPLIT/LEVEL/NUMBER, such as "library/train/small/000012".

The splits are disjoint, since a digest of a task's database and requests decides to which one it belongs: a quarter of
all tasks are held out.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from functools import lru_cache
from itertools import count
from typing import Final

from turncredit.envs.desk.domain import DeskDomain, as_json
from turncredit.envs.desk.level import DeskLevel
from turncredit.envs.desk.library import LibraryDesk
from turncredit.envs.desk.repair_shop import RepairShopDesk
from turncredit.envs.desk.task import DeskAction, DeskTask
from turncredit.envs.errors import UnknownOption, UnknownTask
from turncredit.registry import suggest
from turncredit.tools.keyed_random import KeyedRandom

__all__ = ["DOMAINS", "SPLITS", "generate", "split_of", "task_ids"]

DOMAINS: Final[dict[str, type[DeskDomain]]] = {desk.name: desk for desk in (LibraryDesk, RepairShopDesk)}
SPLITS: Final = ("train", "held_out")
_ID: Final = re.compile(r"(?P<domain>[a-z_]+)/(?P<split>[a-z_]+)/(?P<level>[^/]+)/(?P<number>[0-9]{6,12})")


def task_ids(domain: str, split: str, level: DeskLevel, count: int, start: int = 0) -> list[str]:
    """Return `count` ids, starting with number `start`, without generating the tasks."""
    return [f"{domain}/{split}/{level.text}/{number:06d}" for number in range(start, start + count)]


@lru_cache(maxsize=256)
def generate(id: str) -> DeskTask:
    """Return the generated task with an id.

    Raises:
        UnknownTask: the text is not the id of a generated task.
    """
    match = _ID.fullmatch(id)
    if match is None or match["domain"] not in DOMAINS or match["split"] not in SPLITS:
        raise UnknownTask(f"unknown task {id!r} of service desks: ids are like 'library/train/small/000012'")
    try:
        level = DeskLevel.parse(match["level"])
    except UnknownOption as error:
        raise UnknownTask(f"unknown task {id!r} of service desks: {error}") from None
    (canonical,) = task_ids(match["domain"], match["split"], level, 1, int(match["number"]))
    if id != canonical:
        raise UnknownTask(f"unknown task {id!r} of service desks{suggest(id, [canonical])}")
    for attempt in count():  # a few: each fails with a probability of 3/4 or 1/4
        task = _draw(id, DOMAINS[match["domain"]](), level, KeyedRandom(f"desk {id} {attempt}"))
        if split_of(task) == match["split"]:
            return task
    raise AssertionError("unreachable")


def split_of(task: DeskTask) -> str:
    """Return the split to which a digest of a task's database and requests belongs."""
    content = f"{task.before}\n{task.opening}\n{task.after}"
    digest = hashlib.blake2b(content.encode(), digest_size=8).digest()
    return "held_out" if digest[0] % 4 == 0 else "train"


def _draw(id: str, desk: DeskDomain, level: DeskLevel, draw: KeyedRandom) -> DeskTask:
    families = desk.families[: level.variety or None]
    identity = desk.draw_world(draw, level)
    chosen = _choose(desk, families, draw, draw.between(*level.requests))
    requests = [desk.draw_request(family, draw, draw.chance(level.forbidden)) for family in chosen]
    demand, before = desk.draw_demand(draw), as_json(desk.data)
    decisions = []
    for request in requests:
        decision = desk.decide(request)
        for action in decision.actions:
            desk.run(action)
        decisions.append(decision)
    return DeskTask(
        id=id,
        domain=desk.name,
        family=f"{desk.name} {chosen[0] if len(chosen) == 1 else f'{len(chosen)} requests'}",
        families=families,
        wants=tuple(request.sentence for request in requests),
        facts=(*identity, *(fact for request in requests for fact in request.facts)),
        demand=demand,
        before=before,
        after=as_json(desk.data),
        lookups=_different(action for decision in decisions for action in decision.lookups),
        actions=tuple(action for decision in decisions for action in decision.actions),
        told=tuple(dict.fromkeys(text for decision in decisions for text in decision.told)),
        replies=tuple(decision.reply for decision in decisions if decision.reply),
    )


def _different(actions: Iterable[DeskAction]) -> tuple[DeskAction, ...]:
    """Return actions without repetition."""
    different: list[DeskAction] = []
    for action in actions:
        if action not in different:
            different.append(action)
    return tuple(different)


def _choose(desk: DeskDomain, families: tuple[str, ...], draw: KeyedRandom, number: int) -> list[str]:
    """Return different families, with at most one of those that exclude each other."""
    chosen: list[str] = []
    for family in draw.shuffled(families):
        if len(chosen) < number and not (family in desk.exclusive and desk.exclusive & set(chosen)):
            chosen.append(family)
    return chosen
