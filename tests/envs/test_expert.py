"""The expert wins every game from every state, near the shortest way, and reads goals rather than sentences."""

import random
from pathlib import Path

import pytest
from household_games import doomed, fresh, originals, stumble, wins
from hypothesis import given, settings
from hypothesis import strategies as st

from turncredit.envs.household.engine import World
from turncredit.envs.household.expert import GoalOutOfReach, plan, search
from turncredit.envs.household.game import compile_game
from turncredit.envs.household.generator import domain_text, generate, grammar_text
from turncredit.envs.household.goal import read_goal
from turncredit.envs.household.level import PRESETS
from turncredit.envs.household.pddl import And, Atom, Exists, Not, Or


@pytest.mark.parametrize("preset", list(PRESETS))
def test_the_expert_wins_no_slower_than_the_walkthrough(preset: str):
    for index in range(25):
        for split in ("train", "held_out"):
            world = fresh(split, index, preset)
            commands = plan(world)
            assert len(commands) <= len(generate(split, index, preset).walkthrough)
            assert wins(world, commands)
            assert plan(world) == []


def test_planning_does_not_change_the_world():
    world = fresh("train", 3, "small")
    before = world.state_key()
    plan(world)
    assert world.state_key() == before


@pytest.mark.parametrize("kind", ["put", "look", "clean", "heat", "cool", "two"])
def test_the_expert_wins_from_anywhere(kind: str):
    rng = random.Random(kind)
    for index in range(12):
        world = fresh("train", index, f"small+types={kind}+copies=0.5")
        for _ in range(4):
            stumble(world, rng, rng.randrange(12))
            assert wins(world.clone(), plan(world))


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(sorted(PRESETS)), st.integers(0, 10**9), st.integers(0, 30))
def test_the_expert_wins_from_any_state_of_any_game(preset: str, index: int, steps: int):
    world = fresh("train", index, preset)
    stumble(world, random.Random(index), steps)
    assert wins(world, plan(world))


def test_a_wrong_thing_in_the_hand_is_laid_down_on_the_way():
    world = fresh("train", 0, "small+types=put+objects=8-10")
    goal_things = {c.split(" ")[1] for c in plan(world) if c.startswith("take ")}
    for command in [c for c in world.admissible() if c.startswith("go to ")]:
        here = world.clone()
        here.apply(command)
        takes = [c for c in here.admissible() if c.startswith("take ") and c.split(" ")[1] not in goal_things]
        for take in takes:
            holding = here.clone()
            holding.apply(take)
            assert wins(holding.clone(), plan(holding))


def test_plans_are_shortest_on_tiny_games():
    longer = 0
    for index in range(14):
        world = fresh("train", index, "tiny+objects=2-3+types=put.look.clean.heat")
        stumble(world, random.Random(index), index % 5)
        if not world.won:
            longer += len(plan(world)) - len(search(world, states=100_000))
    assert longer <= 1


def test_search_says_when_there_is_no_way():
    world = fresh("train", 0, "tiny")
    with pytest.raises(GoalOutOfReach, match="within 3 states"):
        search(world, states=3)


def test_a_goal_that_the_planner_cannot_read_is_left_to_search():
    text = generate("train", 1, "tiny+types=clean+objects=2-2").problem_text
    goal = "(not (forall (?o - object) (not (isClean ?o))))"  # something is clean, said in a roundabout way
    world = World(
        compile_game(domain_text(), grammar_text(), text[: text.index("(:goal")] + f"(:goal {goal})\n)", task="wash.")
    )
    world.reset()
    assert read_goal(world.game.goal) is None
    assert not world.won
    commands = plan(world)
    assert commands[-1].startswith("clean ")
    assert wins(world, commands)


def test_goals_are_taken_apart_into_alternatives():
    on = Exists((("?o", ("object",)),), And((Atom("isclean", ("?o",)), Not(Atom("=", ("?o", "a"))))))
    found = read_goal(Or((on, Atom("ishot", ("b",)))))
    assert found is not None
    assert [len(one.atoms) for one in found] == [1, 1]
    assert found[0].different == ((next(iter(found[0].types)), "a"),)
    assert read_goal(Not(Atom("isclean", ("a",)))) is None


# ---- original games ----


def test_the_expert_wins_original_games_no_slower_than_their_walkthroughs(data_dir: Path):
    rng = random.Random(0)
    count = longer = lost = 0
    for game in originals(data_dir, 40):
        world = World(game)
        world.reset()
        commands = plan(world)
        longer += len(commands) > len(game.walkthrough)
        assert wins(world.clone(), commands)
        stumble(world, rng, 8)
        if doomed(world):
            lost += 1
            with pytest.raises(GoalOutOfReach, match="in which the agent holds"):
                plan(world)
        else:
            assert wins(world.clone(), plan(world))
        count += 1
    assert count == 96
    assert longer == 0
    assert lost < 10
