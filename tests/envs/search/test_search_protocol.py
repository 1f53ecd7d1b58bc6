"""The two action formats: parsing, results, and no slow or failing input."""

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turncredit.envs.search.protocol import BracketFormat, TagFormat, asked
from turncredit.tools.retrieval import Passage

PASSAGES = [Passage("1", '"Red Lamp"', "Red Lamp is a novel."), Passage("2", '"Ada"', "Marsh wrote it.\nTwice.")]


@pytest.mark.parametrize(
    ("text", "kind", "words"),
    [
        ("<search> red lamp </search>", "search", "red lamp"),
        ("<think>hm</think>\n<search>a\nb</search> and <answer>x</answer>", "search", "a\nb"),
        ("<answer> x </answer> <search> y </search>", "answer", "x"),
        ("<answer> x </answer> <answer> y </answer>", "answer", "x"),
        ("<search> never closed <answer> x </answer>", "answer", "x"),
        ("<answer> a </search> <answer> b </answer>", None, None),
        ("<search></search>", "search", ""),
        ("<SEARCH> x </SEARCH>", None, None),
        ("", None, None),
    ],
)
def test_tags_read_the_first_whole_pair(text, kind, words):
    move = TagFormat().read(text)
    assert (None if move is None else (move.kind, move.words)) == (None if kind is None else (kind, words))


def test_what_follows_the_first_search_is_cut_off():
    assert TagFormat().read("<search>a</search><information>invented</information>").output == "<search>a</search>"
    assert TagFormat().read("<answer>a</answer> tail").output == "<answer>a</answer>"


@pytest.mark.parametrize(
    "text",
    ["<search>a</search><answer>b</answer>", "<search>a</search><search>b</search>", "<search><search>a</search>"],
)
def test_single_refuses_more_than_one_pair(text):
    assert TagFormat(single=True).read(text) is None
    assert TagFormat().read(text) is not None


pieces = st.lists(
    st.sampled_from(["<search>", "</search>", "<answer>", "</answer>", "a", " ", "\n", "<", "search[", "answer[", "]"])
)


@given(pieces)
def test_tags_agree_with_the_original_pattern(parts):
    text = "".join(parts)
    cut = text
    for end in ("</search>", "</answer>"):
        if end in text:
            cut = text.split(end)[0] + end
            break
    found = re.search(r"<(search|answer)>(.*?)</\1>", cut, re.DOTALL)
    move = TagFormat().read(text)
    assert (move is None) == (found is None)
    if found:
        assert (move.kind, move.words) == (found[1], found[2].strip())


@given(pieces)
def test_brackets_read_what_is_said_last(parts):
    text = "".join(parts)
    move = BracketFormat().read(text)
    if move is not None:
        assert text.rstrip().endswith("]")
        assert "search[" not in move.words
        assert "answer[" not in move.words


@pytest.mark.parametrize(
    ("text", "kind", "words"),
    [
        ("search[red lamp]", "search", "red lamp"),
        ("I think so. answer[Ada [the first]] \n", "answer", "Ada [the first]"),
        ("search[a] answer[b]", "answer", "b"),
        ("search[a] and then", None, None),
    ],
)
def test_brackets(text, kind, words):
    move = BracketFormat().read(text)
    assert (None if move is None else (move.kind, move.words)) == (None if kind is None else (kind, words))


@pytest.mark.parametrize("surface", [TagFormat(), BracketFormat()])
@pytest.mark.parametrize("kind", ["search", "answer"])
def test_what_is_written_is_read_and_has_the_free_form(surface, kind):
    from turncredit.envs.info import fits

    action = surface.write(kind, "red lamp")
    move = surface.read(action)
    assert (move.kind, move.words) == (kind, "red lamp")
    assert fits(action, surface.free)


def test_a_megabyte_of_openings_is_read_in_no_time():
    for text in (
        "<search>" * 130_000 + "</answer>",
        "<answer>" * 130_000,
        "search[" * 150_000,
        "search[" * 150_000 + "]",
    ):
        began = time.perf_counter()
        TagFormat().read(text)
        BracketFormat().read(text)
        assert time.perf_counter() - began < 120  # the pattern of the original takes hours


def test_results_read_as_the_original_writes_them():
    assert TagFormat().show(PASSAGES, 1000) == (
        '\n\n<information>Doc 1(Title: "Red Lamp") Red Lamp is a novel.\nDoc 2(Title: "Ada") Marsh wrote it.\nTwice.'
        "</information>\n\n"
    )
    assert BracketFormat().show(PASSAGES, 1000) == "\n1 Red Lamp is a novel.\n2 Ada: Marsh wrote it.\nTwice.\n"


def test_results_are_cut_inside_the_tags():
    assert TagFormat().show(PASSAGES, 5) == "\n\n<information>Doc 1</information>\n\n"


def test_a_question_gets_its_mark_once():
    assert asked("who wrote it ") == "who wrote it?"
    assert asked("who?") == "who?"
