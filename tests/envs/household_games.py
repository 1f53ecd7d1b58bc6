"""What tests of the household have in common: games at their start, random play, original games."""

import json
import lzma
import random
from collections.abc import Iterator
from pathlib import Path

from turncredit.envs.household.engine import World
from turncredit.envs.household.game import Game, compile_game
from turncredit.envs.household.generator import GameSource, domain_text, generate, grammar_text
from turncredit.envs.household.grammar import Grammar
from turncredit.envs.household.pddl import Domain

PARSED: dict[str, tuple[Domain, Grammar]] = {}  # our domain and grammar, read once


def compiled(source: GameSource) -> Game:
    """A generated game, compiled."""
    domain, grammar = PARSED.get("", (domain_text(), grammar_text()))
    game = compile_game(
        domain,
        grammar,
        source.problem_text,
        task=source.task,
        task_type=source.task_type,
        id=source.id,
        walkthrough=source.walkthrough,
    )
    PARSED[""] = (game.domain, game.grammar)
    return game


def fresh(split: str, index: int, dials: str) -> World:
    """A generated game at its start."""
    world = World(compiled(generate(split, index, dials)))
    world.reset()
    return world


def wins(world: World, commands: list[str]) -> bool:
    """Whether the commands are admissible one after the other and win at the last one, not before."""
    for command in commands:
        if world.won or not world.apply(command):
            return False
    return world.won


def stumble(world: World, rng: random.Random, steps: int) -> None:
    """Take random steps that change something, as long as the game is not won."""
    for _ in range(steps):
        doing = [c for c in world.admissible() if c.split()[0] not in ("look", "help", "inventory", "examine")]
        useful = [c for c in doing if not c.startswith("go ")]
        command = rng.choice(useful if useful and rng.random() < 0.7 else doing)
        after = world.clone()
        after.apply(command)
        if not after.won:
            world.apply(command)


def doomed(world: World) -> bool:
    """Whether the agent holds what fits into no receptacle, which happens in original games: hands full for ever."""
    kinds = dict(world.facts("objecttype"))
    places = {kind for _, kind in world.facts("receptacletype")}
    fits = {thing for place, thing in world.facts("cancontain") if place in places}
    return any(kinds.get(thing) not in fits for _, thing in world.facts("holds"))


def originals(folder: Path, every: int, start: int = 0) -> Iterator[Game]:
    alfworld = folder / "alfworld"
    domain: str | Domain = (alfworld / "domain.pddl").read_text(encoding="utf-8")
    grammar: str | Grammar = (alfworld / "grammar.twl2").read_text(encoding="utf-8")
    with lzma.open(alfworld / "games.jsonl.xz", "rt", encoding="utf-8") as lines:
        for number, line in enumerate(lines):
            if number % every == start:
                row = json.loads(line)
                game = compile_game(
                    domain,
                    grammar,
                    row["pddl_problem"],
                    task=row["task"],
                    id=row["path"],
                    walkthrough=tuple(row["walkthrough"]),
                )
                domain, grammar = game.domain, game.grammar
                yield game
