"""Options, error messages, home directories, and numbers for people."""

from __future__ import annotations

import errno
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turncredit.cli.errors import UserError, sentence_of
from turncredit.cli.main import expand_home
from turncredit.cli.options import parse_options
from turncredit.installation import MissingPackage
from turncredit.registry import UnknownName, choose
from turncredit.report.number_text import count, duration, percent
from turncredit.training.config.run import parse_value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("3", 3),
        ("1e-3", 1e-3),
        ("true", True),
        ("False", False),
        ("none", "none"),
        ("held_out", "held_out"),
        ('"3"', "3"),
        ('["a", "b"]', ["a", "b"]),
        ("", ""),
        ("/some/path with = in it", "/some/path with = in it"),
        ("3 # not a comment", "3 # not a comment"),
        ("1\nx = 2", "1\nx = 2"),
    ],
)
def test_values_are_read_as_toml_or_as_they_are(text: str, value: object) -> None:
    assert parse_value(text) == value


@given(st.text())
def test_any_text_is_a_value(text: str) -> None:
    parse_value(text)


@given(st.text(min_size=1).map(json.dumps))
def test_a_quoted_text_is_itself(text: str) -> None:
    if "\\u" not in text:
        assert parse_value(text) == json.loads(text)


def test_options_keep_their_order_and_their_equals_signs() -> None:
    assert list(parse_options(["b=1", "a=x=y"]).items()) == [("b", 1), ("a", "x=y")]
    assert parse_options(None) == {}


@pytest.mark.parametrize("words", [["split"], ["=3"], ["a=1", "a=2"]])
def test_what_is_not_an_option_is_named(words: list[str]) -> None:
    with pytest.raises(UserError, match=words[-1].split("=")[0] or "=3"):
        parse_options(words)


def test_a_wrong_name_names_the_near_one_and_the_choices() -> None:
    with pytest.raises(UnknownName, match=r"unknown list 'env'; did you mean 'envs'\?"):
        choose("list", "env", ["envs", "credit"])
    assert choose("list", "envs", ["envs"]) == "envs"


def test_errors_of_the_user_have_a_sentence_and_ours_have_none() -> None:
    assert sentence_of(UserError("one\n  sentence")) == "one sentence"
    assert sentence_of(PermissionError(errno.EACCES, "Permission denied", "runs/x")) == "runs/x: Permission denied"
    assert sentence_of(OSError(errno.ENOSPC, "No space left on device")) == "No space left on device"
    assert sentence_of(MissingPackage("it needs torch")) is not None
    assert sentence_of(ImportError("No module named 'turncredit.agents.nothing'")) is None
    assert sentence_of(ValueError("a bug")) is None


def test_errors_of_every_folder_are_known() -> None:
    from turncredit.agents.errors import AgentError
    from turncredit.credit.errors import CreditError
    from turncredit.envs.errors import EnvError
    from turncredit.training.errors import TrainingError

    for error in (AgentError, CreditError, EnvError, TrainingError):
        assert sentence_of(error("what happened")) == "what happened"


def test_home_directories_are_expanded_wherever_a_path_can_be_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    for word, expanded in (
        ("~/a", "/home/me/a"),
        ("~", "/home/me"),
        ("--output=~/a.json", "--output=/home/me/a.json"),
        ("games=~/games", "games=/home/me/games"),
        ("policy.model=~/model", "policy.model=/home/me/model"),
        ("a~/b", "a~/b"),
        ("x=about ~/this", "x=about ~/this"),
        ("~nobody-has-this-name/a", "~nobody-has-this-name/a"),
    ):
        assert expand_home(word) == expanded


def test_numbers_as_people_write_them() -> None:
    assert percent(0.125) == "12.5 %"
    assert [duration(seconds) for seconds in (4.4, 185, 7800)] == ["4 s", "3 min 05 s", "2 h 10 min"]
    assert [count(number) for number in (950, 12_340, 4_500_000)] == ["950", "12.3k", "4.5M"]
