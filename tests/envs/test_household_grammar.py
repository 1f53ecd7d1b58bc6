"""The text grammar: symbols, queries, expressions, documents; and errors that name file, line and construct."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turncredit.envs.errors import GameFileError
from turncredit.envs.household.grammar import (
    Insert,
    Listing,
    LiteralText,
    QueryAtom,
    parse_query,
    parse_symbols,
    read_grammar,
)

DOCUMENT = '''# a comment
grammar :: """
    {
        "intro": [{"rhs": "Hello\\n\\n#task#"}],
        # left out
        "task": [{"condition": "on(l:lamp)", "rhs": "It is on."}, {"rhs": "UNKNOWN GOAL."}]
    }
""";

action Light {
    template :: "light {l}";
    feedback :: "#lit#";
    grammar :: """{"lit": [{"rhs": "You light {l.indefinite + ' ' + l.name}.", "weight": 2}]}""";
}
'''


def test_document_is_read():
    grammar = read_grammar(DOCUMENT)
    assert set(grammar.rules) == {"intro", "task", "lit"}
    assert grammar.commands["light"].template == (LiteralText("light "), Insert(None, "l", None))
    lamp = QueryAtom("on", (("l", "lamp"),))
    assert [alternative.condition for alternative in grammar.rules["task"]] == [(lamp,), None]
    assert grammar.rules["intro"][0].symbols == (LiteralText("Hello\n\n"), Insert("task", None, None))


def test_symbols():
    items = parse_symbols("You see [{o.name | in(o:thing, b:box)}] and {#rule(o)#}.")
    query = (QueryAtom("in", (("o", "thing"), ("b", "box"))),)
    assert items == (
        LiteralText("You see "),
        Listing(Insert(None, "o.name", query)),
        LiteralText(" and "),
        Insert("rule(o)", None, None),
        LiteralText("."),
    )


def test_white_space_at_the_start_is_dropped_and_what_fits_no_symbol_ends_the_text():
    assert parse_symbols("\n  Commands:\n") == (LiteralText("Commands:\n"),)
    assert parse_symbols("{o.name})} more") == (Insert(None, "o.name", None), LiteralText(")"))
    assert parse_symbols("") == ()


def test_a_placeholder_without_a_type_is_of_its_name_without_digits():
    assert parse_query("p(box2) & q()") == (QueryAtom("p", (("box2", "box"),)), QueryAtom("q", ()))


@pytest.mark.parametrize("text", ["{__import__('os')}", "{o.__class__}", "{o.name[0]}", "{o.name()}", "{1}", "{o.}"])
def test_expressions_that_are_not_played_are_refused(text):
    if "[" in text:  # the outer language has no such text: it ends there, as in the original
        assert parse_symbols(text) == ()
    else:
        with pytest.raises(GameFileError, match="expression"):
            parse_symbols(text, "g.twl2", 3)


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ("template ::", "templet ::", 11),
        ('template :: "light {l}";', "", 10),
        ('"rhs": "Hello', '"rsh": "Hello', 2),
        ('"intro": [', '"intro": [,', 4),
        ("action Light {", "action Light [", 10),
        ("on(l:lamp)", "on l", 2),
    ],
)
def test_what_is_unknown_is_named_with_its_line(old, new, line):
    assert old in DOCUMENT
    with pytest.raises(GameFileError) as caught:
        read_grammar(DOCUMENT.replace(old, new), "g.twl2")
    assert (caught.value.path, caught.value.line) == ("g.twl2", line)


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_damaged_grammars_give_the_one_error_or_a_grammar(data):
    position = data.draw(st.integers(0, len(DOCUMENT)))
    junk = data.draw(st.text(max_size=5))
    length = data.draw(st.integers(0, 8))
    try:
        grammar = read_grammar(DOCUMENT[:position] + junk + DOCUMENT[position + length :])
    except GameFileError:
        return
    assert isinstance(grammar.digest, str)
