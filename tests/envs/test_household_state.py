"""State keys: equal exactly when everything that can follow is equal, checked on all states of small worlds."""

import itertools
import random

import pytest

from turncredit.envs.household.engine import World
from turncredit.envs.household.game import compile_game
from turncredit.envs.household.generator import domain_text, generate, grammar_text
from turncredit.envs.household.pddl import read_domain

PLACES = {
    "apart": {"shelf_bar_1": "loc_bar_1", "shelf_bar_2": "loc_bar_2", "sink_bar_1_bar_sinkbasin": "loc_bar_3"},
    "together": {"shelf_bar_1": "loc_bar_1", "shelf_bar_2": "loc_bar_1", "sink_bar_1_bar_sinkbasin": "loc_bar_3"},
}
KINDS = {"shelf_bar_1": "shelftype", "shelf_bar_2": "shelftype", "sink_bar_1_bar_sinkbasin": "sinkbasintype"}


GOALS = [
    "(and (exists (?o - object) (and (isclean ?o) (inreceptacle ?o shelf_bar_2))))",
    "(and (exists (?o - object ?r - receptacle) (and (inreceptacle ?o ?r) (receptacletype ?r fridgetype))))",
]


LAMP = ["objecttype lamp_bar_1 lamptype", "toggleable lamp_bar_1", "inreceptacle lamp_bar_1 shelf_bar_1"]
LIT = "(and (exists (?o - object) (and (istoggled ?o) (toggleable ?o))))"


def problem(domain, places, plate, wanted, more=()):
    """A room with two shelves and a sink, a cup (or a plate, which shows no dirt) that can be cleaned; more facts."""
    objects = ["agent1 - agent", "loc_bar_0 - location", "cup_bar_1 - object", "cuptype - otype"]
    objects += [f"{name} - receptacle" for name in places]
    objects += [f"{place} - location" for place in sorted(set(places.values()))]
    objects += [f"{kind} - rtype" for kind in ("shelftype", "sinkbasintype", "sinktype", "microwavetype", "fridgetype")]
    objects += ["knifetype - otype", "butterknifetype - otype"]
    facts = ["atlocation agent1 loc_bar_0", "objecttype cup_bar_1 cuptype", "inreceptacle cup_bar_1 shelf_bar_1"]
    facts += ["pickupable cup_bar_1", "cleanable cup_bar_1", f"objectatlocation cup_bar_1 {places['shelf_bar_1']}"]
    facts += [f"receptacleatlocation {name} {place}" for name, place in places.items()]
    facts += [f"receptacletype {name} {kind}" for name, kind in KINDS.items()]
    facts += ["cancontain shelftype cuptype", "cancontain sinkbasintype cuptype"]
    facts += ["isreceptacleobject cup_bar_1"] if plate else []
    facts += more
    objects += ["lamp_bar_1 - object", "lamptype - otype"] if more else []
    known = {name.lower() for name in read_domain(domain).predicates}
    init = "\n".join(f"({fact})" for fact in facts if fact.split()[0] in known)
    return f"(define (problem p) (:domain d)\n(:objects {chr(10).join(objects)})\n(:init {init})\n(:goal {wanted}))"


def explore(world):
    """All reachable states, told apart by all their facts; for each its key, what it shows, and its successors."""

    def facts(one):
        return tuple(sorted((name, tuple(sorted(rows))) for name, rows in one._facts.items()))

    world.reset()
    states = {facts(world): (world, 0)}
    waiting = [world]
    graph = []
    while waiting:
        one = waiting.pop()
        moves = {}
        for command in () if one.won else one.admissible():
            after = one.clone()
            text = after.step(command)
            if facts(after) not in states:
                states[facts(after)] = (after, len(states))
                waiting.append(after)
            moves[command] = (text, states[facts(after)][1])
        graph.append((states[facts(one)][1], one.state_key(), one.won, moves))
    return sorted(graph)


def classes(graph):
    """The coarsest partition in which equal states show the same and lead to equal states (Moore's refinement)."""
    block = [int(won) for _, _, won, _ in graph]
    while True:
        shown = [
            (block[index], tuple(sorted((command, text, block[to]) for command, (text, to) in moves.items())))
            for index, (_, _, _, moves) in enumerate(graph)
        ]
        numbers = {seen: number for number, seen in enumerate(dict.fromkeys(shown))}
        finer = [numbers[seen] for seen in shown]
        if len(numbers) == len(set(block)):
            return finer
        block = finer


def in_every_room(test):
    """Every small room."""
    test = pytest.mark.parametrize("places", sorted(PLACES))(test)
    return pytest.mark.parametrize(("plate", "wanted"), [(plate, goal) for plate in (False, True) for goal in GOALS])(
        test
    )


@in_every_room
def test_keys_are_equal_exactly_when_the_future_is(places, plate, wanted):
    proved(domain_text(), grammar_text(), PLACES[places], plate, wanted)


@in_every_room
def test_keys_are_equal_exactly_when_the_future_is_in_the_original_domain(places, plate, wanted, data_dir):
    folder = data_dir / "alfworld"
    texts = ((folder / name).read_text() for name in ("domain.pddl", "grammar.twl2"))
    proved(*texts, PLACES[places], plate, wanted)


@pytest.mark.parametrize(("wanted", "portable"), [(GOALS[0], False), (GOALS[0], True), (LIT, False)])
@pytest.mark.parametrize("original", [False, True])
def test_a_lamp_counts_where_somebody_can_see_whether_it_is_on(wanted, portable, original, request):
    if original:
        folder = request.getfixturevalue("data_dir") / "alfworld"
        texts = [(folder / name).read_text() for name in ("domain.pddl", "grammar.twl2")]
    else:
        texts = [domain_text(), grammar_text()]
    more = [*LAMP, *(["pickupable lamp_bar_1", "cancontain shelftype lamptype"] if portable else [])]
    proved(*texts, PLACES["apart"], False, wanted, more)


def proved(domain, grammar, places, plate, wanted, more=()):
    game = compile_game(domain, grammar, problem(domain, places, plate, wanted, more), task="x.")
    graph = explore(World(game))
    keys = [key for _, key, _, _ in graph]
    blocks = classes(graph)
    assert len(set(blocks)) > 10
    on = [not won for _, _, won, _ in graph]  # after the win nothing follows
    for by, of in ((keys, blocks), (blocks, keys)):
        together = {}
        for one, other in itertools.compress(zip(by, of, strict=True), on):
            assert together.setdefault(one, other) == other


def test_two_worlds_with_one_key_stay_together():
    made = generate("train", 11, "small")
    game = compile_game(domain_text(), grammar_text(), made.problem_text)
    rng = random.Random(0)
    seen = {}
    met = 0
    for _ in range(30):
        world = World(game)
        for _ in range(25):
            other = seen.setdefault(world.state_key(), world.clone())
            assert other.admissible() == world.admissible()
            command = rng.choice(world.admissible())
            copy = other.clone()
            met += other.facts("inreceptacle") != frozenset()
            assert copy.step(command) == world.step(command)
            assert (copy.state_key(), copy.won) == (world.state_key(), world.won)
            if world.won:
                break
    assert met > 100
