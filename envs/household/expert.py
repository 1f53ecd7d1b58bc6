"""A privileged planner that wins every household game with close to the fewest commands.

It sees all facts, including the contents of closed receptacles, and reads the goal formula rather than the task
sentence. Each binding of the goal (objects, receptacles, lamps) is costed with a simplified model of the world, in the
order of a lower bound; the best plan is then played on a copy of the world, to be sure that it wins. Games whose goals
are not supported are solved by blind search.

In the model all locations are one step apart, the agent holds one object, and doors must be open to take and put, but
not to clean, heat, cool or light. Doors are never closed again. The actions are ALFWorld's (Shridhar et al. 2020, arXiv
2010.03768).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import permutations

from turncredit.envs.errors import EnvError
from turncredit.envs.household.engine import World
from turncredit.envs.household.goal import GoalBinding, GoalCase, goal_bindings, read_goal
from turncredit.envs.household.pddl import And, Atom, Exists, Formula, Not, Or

__all__ = ["GoalOutOfReach", "plan", "search"]

Step = tuple[str, int, int]  # schema, object (-1: none), receptacle (-1: any)
WORK_SCHEMAS = {"isclean": "cleanobject", "ishot": "heatobject", "iscool": "coolobject"}
ABLE = {"isclean": "cleanable", "ishot": "heatable", "iscool": "coolable"}
UNDOES = {"ishot": "iscool", "iscool": "ishot"}


class GoalOutOfReach(EnvError):
    """No way to the goal was found from this state."""


@dataclass(slots=True)
class _PlanningFacts:
    """The facts that the planner needs; they do not change during planning."""

    at: int
    held: int
    where: dict[int, frozenset[int]]  # in original games, a few objects lie in two receptacles
    spot: dict[int, int]
    closed: frozenset[int]
    true: frozenset[tuple[int, str]]  # (object, predicate) of works and lamps
    able: dict[str, frozenset[int]]  # predicate -> objects that can get it
    tools: dict[str, tuple[int, ...]]
    fits: dict[int, frozenset[int]]  # kind of object -> kinds of receptacles
    kind: dict[int, int]
    pickupable: frozenset[int]

    def takes(self, receptacle: int, thing: int) -> bool:
        return self.kind.get(receptacle, -1) in self.fits.get(self.kind.get(thing, -1), ())


def _survey(world: World) -> _PlanningFacts:
    def single(predicate: str) -> frozenset[int]:
        return frozenset(row[0] for row in world.facts(predicate))

    def pairs(predicate: str) -> dict[int, int]:
        return {row[0]: row[1] for row in world.facts(predicate)}

    fits: dict[int, set[int]] = {}
    for receptacle, thing in world.facts("cancontain"):
        fits.setdefault(thing, set()).add(receptacle)
    lies: dict[int, set[int]] = {}
    for thing, receptacle in world.facts("inreceptacle"):
        lies.setdefault(thing, set()).add(receptacle)
    works = {(thing, predicate) for predicate in (*WORK_SCHEMAS, "istoggled") for thing in single(predicate)}
    kind = pairs("objecttype") | pairs("receptacletype")
    return _PlanningFacts(
        at=next(location for _, location in world.facts("atlocation")),
        held=next((thing for _, thing in world.facts("holds")), -1),
        where={thing: frozenset(places) for thing, places in lies.items()},
        spot=pairs("receptacleatlocation"),
        closed=single("openable") - single("opened"),
        true=frozenset(works),
        able={predicate: single(able) for predicate, able in ABLE.items()},
        tools={predicate: _tools(world, schema, kind) for predicate, schema in WORK_SCHEMAS.items()},
        fits={thing: frozenset(places) for thing, places in fits.items()},
        kind=kind,
        pickupable=single("pickupable"),
    )


def _tools(world: World, schema: str, kind: dict[int, int]) -> tuple[int, ...]:
    """Return the receptacles that an action works with, by the kinds in its precondition."""
    action = world.game.domain.schemas.get(schema)
    if action is None:
        return ()
    number = {name: index for index, name in enumerate(world.game.objects)}
    kinds = {number.get(name, -1) for name in _named_kinds(action.precondition)}
    placed = {row[0] for row in world.facts("receptacleatlocation")}
    return tuple(
        sorted(receptacle for receptacle, kind_number in kind.items() if kind_number in kinds and receptacle in placed)
    )


def _named_kinds(formula: Formula) -> Iterator[str]:
    if isinstance(formula, Atom):
        if formula.predicate == "receptacletype":
            yield formula.terms[1]
    elif isinstance(formula, And | Or):
        for part in formula.parts:
            yield from _named_kinds(part)
    elif isinstance(formula, Not | Exists):
        yield from _named_kinds(formula.body)


class _Infeasible(Exception):
    """The plan cannot be completed, or is longer than the best one."""


@dataclass(slots=True)
class _PlanSketch:
    """A partial plan, with its changes to the world."""

    map: _PlanningFacts
    limit: int
    at: int
    held: int
    where: dict[int, frozenset[int]]
    opened: set[int] = field(default_factory=set)
    steps: list[Step] = field(default_factory=list)

    def add(self, schema: str, thing: int, receptacle: int) -> None:
        self.steps.append((schema, thing, receptacle))
        if len(self.steps) >= self.limit:
            raise _Infeasible

    def go(self, receptacle: int) -> None:
        spot = self.map.spot.get(receptacle)
        if spot is None:
            raise _Infeasible
        if spot != self.at:
            self.at = spot
            self.add("gotolocation", -1, receptacle)

    def enter(self, receptacle: int) -> None:
        """Go to a receptacle and open it."""
        self.go(receptacle)
        if self.shut(receptacle):
            self.opened.add(receptacle)
            self.add("openobject", -1, receptacle)

    def lies(self, thing: int) -> frozenset[int]:
        return self.where.get(thing, frozenset())

    def shut(self, receptacle: int) -> bool:
        return receptacle in self.map.closed and receptacle not in self.opened

    def put(self, receptacle: int) -> None:
        if not self.map.takes(receptacle, self.held):
            raise _Infeasible
        self.enter(receptacle)
        thing, self.held = self.held, -1
        self.where[thing] = self.lies(thing) | {receptacle}
        self.add("putobject", thing, receptacle)

    def drop(self, towards: int) -> None:
        """Put down what is held: here, on the way, or at the next best place."""
        fit = [spot for spot in self.map.spot if self.map.takes(spot, self.held)]
        if not fit:
            raise _Infeasible
        goal = self.map.spot.get(towards)
        extra = {
            spot: (self.map.spot[spot] not in (self.at, goal)) + (self.shut(spot) and spot != towards) for spot in fit
        }
        self.put(min(fit, key=lambda spot: (extra[spot], self.map.spot[spot] != self.at)))

    def fetch(self, thing: int, goal: int = -1) -> None:
        """Pick up an object, preferably not from where it must rest."""
        if self.held == thing:
            return
        places = self.lies(thing)
        if not places or thing not in self.map.pickupable:
            raise _Infeasible
        receptacle = min(
            places, key=lambda spot: (spot == goal, self.map.spot.get(spot) != self.at, self.shut(spot), spot)
        )
        if self.held >= 0:
            self.drop(receptacle)
        self.enter(receptacle)
        self.where[thing] = places - {receptacle}
        self.held = thing
        self.add("pickupobject", thing, receptacle)

    def work(self, predicate: str, towards: int) -> None:
        """Clean, heat or cool what is held: here if possible, else on the way, else anywhere."""
        tools = self.map.tools[predicate]
        if self.held not in self.map.able[predicate] or not tools:
            raise _Infeasible
        near = (self.at, self.map.spot.get(towards))
        tool = min(tools, key=lambda option: near.index(self.map.spot[option]) if self.map.spot[option] in near else 2)
        self.go(tool)
        self.add(WORK_SCHEMAS[predicate], self.held, tool)

    def light(self, lamp: int) -> None:
        """Go to a lamp and turn it on."""
        if self.held == lamp:
            self.drop(-1)
        places = self.lies(lamp)
        if not places:
            raise _Infeasible
        receptacle = min(places, key=lambda candidate: (self.map.spot.get(candidate) != self.at, candidate))
        self.go(receptacle)
        if (lamp, "istoggled") not in self.map.true:
            self.add("toggleobject", lamp, receptacle)


def _missing(wish: GoalBinding, thing: int, facts: _PlanningFacts) -> list[str]:
    """Return what must still be done with an object."""
    changes = [predicate for candidate, predicate in wish.works if candidate == thing]
    if any(UNDOES.get(predicate) in changes for predicate in changes):
        raise _Infeasible
    return [predicate for predicate in changes if (thing, predicate) not in facts.true]


def _draw(facts: _PlanningFacts, wish: GoalBinding, order: tuple[int, ...], limit: int) -> list[Step]:
    """Return the steps that achieve a binding, handling the objects in this order."""
    sketch = _PlanSketch(facts, limit, facts.at, facts.held, dict(facts.where))
    rests = dict(wish.rests)
    for thing in order:
        missing, goal = _missing(wish, thing, facts), rests.get(thing, -1)
        if missing or (goal >= 0 and goal not in sketch.lies(thing)):
            sketch.fetch(thing, goal)
        for predicate in missing:
            sketch.work(predicate, goal)
        if goal >= 0 and goal not in sketch.lies(thing):
            sketch.put(goal)
    for thing in wish.held:
        if thing in wish.lit:
            raise _Infeasible  # a held lamp gives no light
        if sketch.held in wish.lit:
            sketch.drop(min(sketch.lies(thing), default=-1))
        sketch.fetch(thing)
    for lamp in wish.lit:
        sketch.light(lamp)
    return sketch.steps


def _bound(facts: _PlanningFacts, wish: GoalBinding) -> int:
    """Return a lower bound of the number of steps."""
    steps = 0
    spots: set[int] = set()
    doors: set[int] = set()

    def visit(places: frozenset[int], *, enter: bool = True) -> None:
        if len(places) == 1:  # else any of them may be visited
            spots.update(facts.spot.get(receptacle, facts.at) for receptacle in places)
            doors.update(places & facts.closed if enter else ())

    for thing, goal in wish.rests:
        missing = sum(worked == thing and (thing, predicate) not in facts.true for worked, predicate in wish.works)
        places = facts.where.get(thing, frozenset())
        if missing or goal not in places:
            steps += missing + (thing != facts.held)
            visit(places)
        if goal not in places:
            steps += 1
            visit(frozenset({goal}))
    for thing in wish.held:
        if thing != facts.held:
            steps += 1
            visit(facts.where.get(thing, frozenset()))
    for lamp in wish.lit:
        steps += (lamp, "istoggled") not in facts.true
        visit(facts.where.get(lamp, frozenset()), enter=False)
    return steps + len(spots - {facts.at}) + len(doors)


def _orders(wish: GoalBinding, facts: _PlanningFacts) -> Iterator[tuple[int, ...]]:
    """Yield the orders in which to handle the objects: the held one first, the others in every order."""
    things = list(dict.fromkeys([thing for thing, _ in wish.rests] + [thing for thing, _ in wish.works]))
    first = tuple(thing for thing in things if thing == facts.held)
    others = [thing for thing in things if thing != facts.held]
    for order in permutations(others) if len(others) < 4 else (tuple(others),):
        yield first + order


def _sketches(world: World, goals: list[GoalCase]) -> list[list[Step]]:
    """Return candidate plans, the shortest first."""
    facts = _survey(world)
    ways = {wish: _bound(facts, wish) for goal in goals for wish in goal_bindings(world, goal)}
    sketches: list[list[Step]] = []
    best = 10**6
    for wish, bound in sorted(ways.items(), key=lambda item: item[1]):
        if bound >= best:
            break
        for order in _orders(wish, facts):
            try:
                sketches.append(_draw(facts, wish, order, best))
            except _Infeasible:
                continue
            best = len(sketches[-1])
    return sketches[::-1]


def _play(world: World, steps: list[Step]) -> list[str] | None:
    """Return the commands of a plan if they win on a copy of the world, else None."""
    copy = world.clone()
    schemas = world.game.domain.schemas
    commands = []
    for schema, thing, receptacle in steps:
        names = [name for name, _ in schemas[schema].parameters]
        bindings = [(names.index(name), value) for name, value in (("?o", thing), ("?r", receptacle)) if value >= 0]
        fit = (
            command
            for command, action in copy.actions().items()
            if action.schema == schema and all(action.arguments[i] == value for i, value in bindings)
        )
        command = next(fit, None)
        if command is None:
            return None
        copy.apply(command)
        commands.append(command)
    return commands if copy.won else None


def plan(world: World) -> list[str]:
    """Return commands from the current state to the goal, close to the fewest; [] if the goal holds.

    The world itself is not changed: the commands are verified on a copy.

    Raises:
        GoalOutOfReach: the goal cannot be reached (in original games, a held object may fit nowhere), or its formula is
            not supported and a blind search of 20,000 states failed.
    """
    if world.won:
        return []
    goals = read_goal(world.game.goal)
    if goals is not None:
        sketches = _sketches(world, goals)
        if not sketches:
            raise GoalOutOfReach(
                f"the goal of {world.game.id!r} cannot be reached from this state{_held_object(world)}"
            )
        for steps in sketches:
            commands = _play(world, steps)
            if commands is not None:
                return commands
    return search(world)


def _held_object(world: World) -> str:
    held = [world.game.names[thing] for _, thing in world.facts("holds")]
    return f", where the agent holds {held[0]}" if held else ""


def search(
    world: World, states: int = 20_000, skip: tuple[str, ...] = ("look", "inventory", "help", "examine")
) -> list[str]:
    """Return a shortest list of commands to the goal, by breadth-first search; too slow for large games.

    Args:
        world: a world, which is not changed.
        states: maximum number of states.
        skip: first words of commands that are not tried, because they change nothing.

    Raises:
        GoalOutOfReach: the goal cannot be reached, or not within `states`.
    """
    if world.won:
        return []
    seen = {world.state_key()}
    waiting: deque[tuple[World, list[str]]] = deque([(world, [])])
    while waiting:
        here, before = waiting.popleft()
        for command in here.admissible():
            if command.split(" ", 1)[0] in skip:
                continue
            there = here.clone()
            there.apply(command)
            if there.won:
                return [*before, command]
            key = there.state_key()
            if key not in seen:
                seen.add(key)
                waiting.append((there, [*before, command]))
        if len(seen) > states:
            raise GoalOutOfReach(f"the goal of {world.game.id!r} was not reached within {states:,} states")
    raise GoalOutOfReach(f"the goal of {world.game.id!r} cannot be reached from here")
