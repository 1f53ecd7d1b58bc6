"""The engine: the original's transcripts without one difference, walkthroughs, state keys, clones, memory."""

import json
import lzma
import os
import pickle
import random
import subprocess
import sys

import pytest

from turncredit.envs.errors import GameFileError
from turncredit.envs.household import game_tables
from turncredit.envs.household.engine import NOTHING_HAPPENS, World
from turncredit.envs.household.game import compile_game
from turncredit.envs.household.generator import domain_text, generate, grammar_text, source, task_ids
from turncredit.envs.household.grammar import read_grammar
from turncredit.envs.household.pddl import read_domain

DOMAIN = """(define (domain d) (:requirements :adl :typing) (:types man room - object lamp box - thing)
 (:predicates (at ?m - man ?r - room) (in ?t - thing ?r - room) (on ?l - lamp) (seen ?t - thing) (dark ?r - room))
 (:action go :parameters (?m - man ?a - room ?b - room) :precondition (at ?m ?a)
   :effect (and (at ?m ?b) (not (at ?m ?a))))
 (:action press :parameters (?m - man ?r - room ?l - lamp) :precondition (and (at ?m ?r) (in ?l ?r))
   :effect (and (when (on ?l) (not (on ?l))) (when (not (on ?l)) (on ?l)) (seen ?l)))
 (:action look :parameters (?m - man) :precondition () :effect (seen ?m))
 (:action clap :parameters (?m - man) :precondition (exists (?r - room) (and (at ?m ?r) (dark ?r)))
   :effect (forall (?l - lamp) (not (on ?l)))))
"""
GRAMMAR = '''grammar :: """{
  "intro": [{"rhs": "Here: #things#. #task#"}],
  "task": [{"rhs": "Do: UNKNOWN GOAL."}],
  "things": [{"rhs": "[{#state(t)# | at(m:man, r:room) & in(t:thing, r:room)}]"}],
  "state(t)": [{"condition": "on(t:thing)", "rhs": "{t} lit"},
               {"condition": "not_on(t:thing)", "rhs": "{t} after dark"},
               {"rhs": "{t.indefinite} {t.name or t.id}"}],
  "list_empty": [{"rhs": "nothing"}], "list_separator": [{"rhs": ", "}], "list_last_separator": [{"rhs": ", and "}]
}""";
action go { template :: "go {b}"; feedback :: "#things#"; }
action press { template :: "press {l}"; feedback :: "Click. #things#"; }
action look { template :: "look"; feedback :: "#things#"; }
action clap { template :: "clap"; feedback :: "#things#"; }
'''
PROBLEM = """(define (problem p) (:domain d)
(:objects m - man hall_bar_1 - room hall_bar_2 - room lamp_bar_1 - lamp lamp_bar_2 - lamp crate - box)
(:init (at m hall_bar_1) (in lamp_bar_1 hall_bar_1) (in lamp_bar_2 hall_bar_1) (in crate hall_bar_1) (dark hall_bar_2))
(:goal (forall (?l - lamp) (on ?l))))
"""


def small(problem=PROBLEM, domain=DOMAIN, grammar=GRAMMAR):
    return compile_game(domain, grammar, problem, task="light all.", id="p")


def playout(world, seed, turns):
    rng = random.Random(seed)
    seen = [world.reset()]
    for _ in range(turns):
        command = rng.choice(world.admissible())
        seen.append((command, world.step(command), world.admissible(), world.won, world.state_key()))
    return seen


def test_texts_and_commands_of_a_small_world():
    world = World(small())
    assert world.reset() == "Here: a lamp 2, a lamp 1, and a crate . Do: light all."
    assert world.admissible() == ("go hall 1", "look", "press lamp 1", "press lamp 2")
    # the lamp of the action is not among the others: different placeholders never stand for one object
    assert world.step("press lamp 2") == "Click. a lamp 1, and a crate "
    assert world.step("look") == "lamp 2 lit, a lamp 1, and a crate "
    assert world.step("go hall 1") == "nothing"
    assert world.admissible() == ("clap", "go hall 2", "look")


def test_an_action_without_effect_is_not_offered_and_an_unknown_one_changes_nothing():
    world = World(small())
    world.reset()
    before = world.state_key()
    assert "go hall 2" not in world.admissible()  # that is where one stands
    for command in ("go hall 2", "", "PRESS lamp 1", "\x00" * 5000):
        assert world.step(command) == NOTHING_HAPPENS
    assert world.state_key() == before
    assert world.step("  press lamp 1\n").startswith("Click.")


def test_conditional_effects_see_the_state_before_and_winning_is_the_goal():
    world = World(small())
    world.reset()
    for command, won in (("press lamp 1", False), ("press lamp 2", True), ("press lamp 1", False)):
        assert world.apply(command)
        assert world.won is won
    assert not world.apply("fly")


def test_what_an_action_made_false_can_be_asked_for():
    world = World(small())
    world.step("press lamp 1")
    world.step("press lamp 1")
    assert world.step("look") == "a lamp 2, lamp 1 after dark, and a crate "
    world.step("go hall 1")
    world.step("clap")  # makes it false for all lamps, also for those that were not on
    world.step("go hall 2")
    assert world.step("look") == "lamp 2 after dark, lamp 1 after dark, and a crate "


def test_state_keys_are_equal_exactly_when_the_facts_that_matter_are():
    world = World(small())
    world.reset()
    start = world.state_key()
    keys = [start]
    for command in ("go hall 1", "go hall 2"):
        world.step(command)
        keys.append(world.state_key())
    assert keys[2] == start != keys[1]
    world.step("press lamp 1")
    assert world.state_key() not in keys
    assert "seen" not in game_tables.game_tables(world.game).live  # nothing can ever read it


def test_replays_clones_and_pickles_agree():
    game = compile_game(domain_text(), grammar_text(), source("train/medium/000003").problem_text, task="x.")
    one, two = World(game), World(game)
    first = playout(one, 1, 80)
    game_tables.game_tables(game).forget()
    assert playout(two, 1, 80) == first
    copy, stored = one.clone(), pickle.loads(pickle.dumps(one))
    assert copy.state_key() == stored.state_key() == one.state_key()
    command = one.admissible()[0]
    expected = (one.step(command), one.admissible(), one.state_key())
    for other in (copy, stored):
        assert (other.step(command), other.admissible(), other.state_key()) == expected


def test_a_clone_is_independent():
    world = World(small())
    world.reset()
    copy = world.clone()
    copy.step("press lamp 1")
    assert world.state_key() != copy.state_key()
    assert copy.step("look") == "a lamp 2, lamp 1 lit, and a crate "
    assert world.step("look") == "a lamp 2, a lamp 1, and a crate "


def test_a_full_memory_is_emptied_without_a_difference(monkeypatch):
    game = small()
    first = playout(World(game), 5, 60)
    monkeypatch.setattr("turncredit.envs.household.engine.KEPT_ANSWERS", 3)
    game_tables.game_tables(game).forget()
    assert playout(World(game), 5, 60) == first


def test_keys_are_the_same_in_another_process():
    code = (
        "from turncredit.envs.household.env import HouseholdEnv\n"
        "env = HouseholdEnv()\n"
        "info = env.reset(options={'task': 'train/small/000007'})[1]\n"
        "print(info['state'], env.step(env.plan()[0])[4]['state'])"
    )
    runs = [
        subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("1", "2")
    ]
    assert runs[0] == runs[1]
    assert len(runs[0].split()) == 2


@pytest.mark.parametrize(
    ("old", "new", "construct"),
    [
        ("(in crate hall_bar_1)", "(in chest hall_bar_1)", "chest"),
        ("(dark hall_bar_2)", "(drak hall_bar_2)", "(drak ...)"),
        ("(dark hall_bar_2)", "(dark hall_bar_2 m)", "(dark ...)"),
        ("(on ?l)))", "(lit ?l)))", "(lit ...)"),
        ("(on ?l)))", "(on ?x)))", "?x"),
        ("(on ?l)))", "(= ?l)))", "(= ...)"),
    ],
)
def test_a_problem_that_does_not_fit_its_domain_is_named_with_its_line(old, new, construct):
    assert old in PROBLEM
    with pytest.raises(GameFileError) as caught:
        small(PROBLEM.replace(old, new))
    assert caught.value.construct == construct
    assert caught.value.line in (3, 4)


@pytest.mark.parametrize(
    ("old", "new", "name", "line"),
    [
        ("(?m - man ?a - room ?b - room)", "(?m - man ?a - room)", "?b", 3),
        ("(exists (?r - room)", "(exists (?s - room)", "?r", 8),
        ("(when (on ?l) (not", "(when (on ?x) (not", "?x", 5),
        ("(forall (?l - lamp)", "(forall (?k - lamp)", "?l", 8),
    ],
)
def test_a_variable_that_nothing_in_an_action_has_is_named_with_its_line(old, new, name, line):
    assert old in DOMAIN
    with pytest.raises(GameFileError, match="no parameter or quantifier has this variable") as caught:
        World(small(domain=DOMAIN.replace(old, new)))
    assert (caught.value.construct, caught.value.line) == (name, line)


@pytest.mark.parametrize(
    ("old", "new", "construct"),
    [
        ('"on(t:thing)', '"om(t:thing)', "om(...)"),
        ('"on(t:thing)', '"on(t:thingg)', "t:thingg"),
        ("#things#. #task#", "#thing#. #task#", "#thing#"),
        ("action clap", "action clab", "(:action clap"),
        ('"Do: UNKNOWN GOAL."', '"#task2#"}], "task2": [{"rhs": "{x.name}"', "{x.name}"),
    ],
)
def test_a_grammar_that_does_not_fit_its_domain_is_named(old, new, construct):
    assert old in GRAMMAR
    with pytest.raises(GameFileError) as caught:
        World(compile_game(DOMAIN, GRAMMAR.replace(old, new), PROBLEM)).reset()
    assert caught.value.construct == construct


def test_rules_that_refer_to_each_other_without_end_are_an_error():
    with pytest.raises(GameFileError, match="endlessly"):
        World(compile_game(DOMAIN, GRAMMAR.replace("Do: UNKNOWN GOAL.", "#task#"), PROBLEM)).reset()


def test_random_games_are_played_to_the_end_by_their_walkthroughs():
    for task in task_ids("held_out", "medium", 10):
        made = source(task)
        game = compile_game(domain_text(), grammar_text(), made.problem_text, task=made.task)
        world = World(game)
        world.reset()
        wins = [(world.step(command), world.won)[1] for command in made.walkthrough]
        assert wins == [False] * (len(wins) - 1) + [True]


def test_shuffled_names_change_numbers_only():
    made = generate("train", 3, "medium")
    game = compile_game(domain_text(), grammar_text(), made.problem_text)
    other = game.shuffled(random.Random(4))
    assert other.names != game.names
    assert sorted(other.names) == sorted(game.names)
    assert other.digest != game.digest
    assert game.shuffled(random.Random(4)).names == other.names


def originals(data_dir):
    folder = data_dir / "alfworld"
    domain = read_domain((folder / "domain.pddl").read_text())
    grammar = read_grammar((folder / "grammar.twl2").read_text())

    def compiled(entry):
        return compile_game(domain, grammar, entry["pddl_problem"], task=entry["task"], id=entry["path"])

    with lzma.open(folder / "games.jsonl.xz", "rt") as file:
        for line in file:
            yield line, compiled


def test_transcripts_of_the_original_replay_without_one_difference(data_dir):
    with lzma.open(data_dir / "alfworld" / "transcripts.jsonl.xz", "rt") as file:
        transcripts = [json.loads(line) for line in file]
    assert len(transcripts) == 36
    wanted = {transcript["game"] for transcript in transcripts}
    games = {}
    for line, compiled in originals(data_dir):
        path = line[10 : line.index('"', 10)]
        if path in wanted:
            games[path] = compiled(json.loads(line))
    for transcript in transcripts:
        world = World(games[transcript["game"]])
        for step in transcript["steps"]:
            text = world.reset() if step["action"] is None else world.step(step["action"])
            came = (text, list(world.admissible()), world.won, float(world.won), world.won)
            assert came == (step["obs"], step["admissible"], step["won"], step["reward"], step["done"])


def test_walkthroughs_of_original_games_win_at_their_last_step(data_dir):
    every = 1 if os.environ.get("TURNCREDIT_FULL") == "1" else 64
    count = 0
    for number, (line, compiled) in enumerate(originals(data_dir)):
        if number % every == 0:
            entry = json.loads(line)
            world = World(compiled(entry))
            world.reset()
            wins = [(world.step(command), world.won)[1] for command in entry["walkthrough"]]
            assert wins == [False] * (len(wins) - 1) + [True], entry["path"]
            count += 1
    assert count == -(-3827 // every)
