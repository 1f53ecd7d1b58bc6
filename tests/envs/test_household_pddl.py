"""The PDDL front end: what it reads, what it refuses (with the line), and that the fast way agrees."""

import itertools
import json
import lzma
import warnings

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turncredit.envs.errors import GameFileError, UndeclaredType
from turncredit.envs.household.game import compile_game
from turncredit.envs.household.generator import domain_text, grammar_text, source, task_ids
from turncredit.envs.household.grammar import read_grammar
from turncredit.envs.household.pddl import (
    And,
    Atom,
    Exists,
    Not,
    Or,
    _fast_problem,
    _PddlParser,
    read_domain,
    read_problem,
)
from turncredit.envs.household.s_expressions import read_sexp

DOMAIN = """(define (domain d) ; a comment
  (:requirements :adl :typing)
  (:types box - thing lamp)
  (:predicates (on ?l - lamp) (in ?a - thing ?b - box))
  (:action Light
    :parameters (?l - lamp ?b - (either box lamp))
    :precondition (forall (?x - box) (imply (in ?l ?x) (on ?l)))
    :effect (and (on ?l) (when (not (on ?l)) (not (in ?l ?b))) (increase (total-cost) 1))))
"""
PROBLEM = """(define (problem p) (:domain d)
(:objects B1 - box L1 - lamp)
(:init (On L1)
   (in L1 B1))
(:goal (and (exists (?x - lamp) (on ?x)))))
"""


def test_domain_is_read():
    domain = read_domain(DOMAIN)
    assert domain.types == {"object": "object", "thing": "object", "box": "thing", "lamp": "object"}
    assert domain.predicates == {"on": 1, "in": 2}
    schema = domain.schemas["light"]
    assert schema.parameters == (("?l", ("lamp",)), ("?b", ("box", "lamp")))
    inside, lit = Atom("in", ("?l", "?x")), Atom("on", ("?l",))
    assert schema.precondition == Not(Exists((("?x", ("box",)),), Not(Or((Not(inside), lit)))))
    always, when = schema.effects
    assert (always.condition, always.atom, always.positive) == (None, lit, True)
    assert (when.condition, when.atom, when.positive) == (Not(lit), Atom("in", ("?l", "?b")), False)


def test_a_type_that_is_a_typo_is_played_and_warned_of():
    with pytest.warns(UndeclaredType, match=r"d\.pddl, line 6: type 'lmap' .*did you mean 'lamp'") as caught:
        domain = read_domain(DOMAIN.replace("(?l - lamp ?b", "(?l - lmap ?b"), "d.pddl")
    assert len(caught) == 1
    assert domain.subtypes("lmap") == frozenset()


def test_a_declared_type_with_a_comma_is_the_games_own_and_not_warned_of():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        domain = read_domain(DOMAIN.replace("(?l - lamp ?b", "(?l - lamp, ?b"))
    assert domain.subtypes("lamp,") == frozenset()
    with pytest.warns(UndeclaredType, match="'lmap,'"):
        read_domain(DOMAIN.replace("(?l - lamp ?b", "(?l - lmap, ?b"))


@pytest.mark.parametrize(
    ("old", "new", "match"),
    [
        ("receptacle\n", "recptacle\n", "type 'recptacle' .*did you mean 'receptacle'"),
        ("(exists (?r - receptacle)", "(exists (?r - reseptacle)", "type 'reseptacle' .*'receptacle'"),
    ],
)
def test_a_typo_in_a_problem_is_warned_of(old, new, match):
    game = source(task_ids("train", "tiny", 1)[0])
    assert old in game.problem_text
    with pytest.warns(UndeclaredType, match=rf"p\.pddl, line \d+: {match}"):
        compile_game(domain_text(), grammar_text(), game.problem_text.replace(old, new, 1), path="p.pddl")


def test_generated_games_have_no_undeclared_type():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for level in ("tiny", "small", "large"):
            for id in task_ids("train", level, 20):
                compile_game(domain_text(), grammar_text(), source(id).problem_text, id=id)


def test_original_games_have_no_undeclared_type(data_dir):
    domain = read_domain((data_dir / "alfworld" / "domain.pddl").read_text())
    grammar = read_grammar((data_dir / "alfworld" / "grammar.twl2").read_text())
    with warnings.catch_warnings(), lzma.open(data_dir / "alfworld" / "games.jsonl.xz") as file:
        warnings.simplefilter("error")
        for line in itertools.islice(file, 0, None, 40):
            compile_game(domain, grammar, json.loads(line)["pddl_problem"])


def test_problem_is_read_in_lower_case():
    problem = read_problem(PROBLEM)
    assert problem.objects == {"b1": "box", "l1": "lamp"}
    assert problem.init == (("on", "l1"), ("in", "l1", "b1"))
    assert problem.goal == And((Exists((("?x", ("lamp",)),), Atom("on", ("?x",))),))


def test_subtypes_are_those_below_and_an_undeclared_type_is_empty():
    domain = read_domain(DOMAIN)
    assert domain.subtypes("thing") == {"thing", "box"}
    assert domain.subtypes("object") == {"object", "thing", "box", "lamp"}
    assert domain.subtypes("lamp,") == frozenset()


@pytest.mark.parametrize(
    ("old", "new", "line", "construct"),
    [
        (":typing", ":fluents", 2, ":fluents"),
        ("(:types", "(:axioms", 3, "(:axioms"),
        ("(on ?l) (when", "(off ?l) (when", 8, "(off ...)"),
        (":effect", ":effects", 8, ":effects"),
        ("(imply (in ?l ?x)", "(imply (in ?l)", 7, "(in ...)"),
        ("(when (not (on ?l))", "(when (> (on ?l))", 8, "(> ...)"),
        ("(define (domain d)", "(define (problem d)", 1, "(problem"),
        ("(increase (total-cost) 1))))", "(increase (total-cost) 1)))", 1, "(define"),
        ("(increase (total-cost) 1))))", "(increase (total-cost) 1)))) )", 8, ")"),
    ],
)
def test_what_is_unknown_is_named_with_its_line(old, new, line, construct):
    assert old in DOMAIN
    with pytest.raises(GameFileError) as caught:
        read_domain(DOMAIN.replace(old, new), "kitchen.pddl")
    assert (caught.value.path, caught.value.line, caught.value.construct) == ("kitchen.pddl", line, construct)


@pytest.mark.parametrize("cut", [1, 30, 60, 100, 130])
def test_a_torn_problem_is_one_clear_error(cut):
    with pytest.raises(GameFileError, match=r"p\.pddl, line \d+"):
        read_problem(PROBLEM[:cut], "p.pddl")


def test_the_fast_way_agrees_on_generated_games():
    for task in task_ids("train", "medium", 5):
        text = source(task).problem_text
        fast = _fast_problem(text, "x")
        assert fast is not None
        assert fast == _PddlParser("x").problem(read_sexp(text, "x"))
        assert ("object", "object") in read_domain(domain_text()).types.items()


def test_the_fast_way_agrees_on_original_games(data_dir):
    with lzma.open(data_dir / "alfworld" / "games.jsonl.xz", "rt") as file:
        for number, line in enumerate(file):
            if number % 250 == 0:
                text = json.loads(line)["pddl_problem"]
                fast = _fast_problem(text, "x")
                assert fast is not None
                assert fast == _PddlParser("x").problem(read_sexp(text, "x"))


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_damaged_problems_give_the_one_error_or_the_same_as_the_general_reader(data):
    position = data.draw(st.integers(0, len(PROBLEM)))
    junk = data.draw(st.text(alphabet="()-?;: abL1\n", max_size=4))
    length = data.draw(st.integers(0, 5))
    text = PROBLEM[:position] + junk + PROBLEM[position + length :]
    try:
        general = _PddlParser("x").problem(read_sexp(text, "x"))
    except GameFileError:
        general = None
    try:
        ours = read_problem(text, "x")
    except GameFileError:
        ours = None
    assert ours == general
