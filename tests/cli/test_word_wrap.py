"""Texts and tables on a narrow terminal: no word is broken, and nothing is lost."""

from __future__ import annotations

import io
import re
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.table import Table
from rich.text import Text

from turncredit.cli import console
from turncredit.cli.printing.word_wrap import wrapped

WORDS = st.lists(st.text("abc`:/é漢.", min_size=1, max_size=30), min_size=1, max_size=40)


def lines(text: str, width: int) -> list[str]:
    return wrapped(Text(text), width).plain.split("\n")


@given(words=WORDS, width=st.integers(8, 80), indent=st.integers(0, 4))
def test_any_text_keeps_its_words_and_breaks_only_where_it_must(words: list[str], width: int, indent: int) -> None:
    text = " " * indent + " ".join(words)
    broken = lines(text, width)
    assert " ".join(" ".join(broken).split()) == " ".join(words)
    for line, following in zip(broken, [*broken[1:], ""], strict=True):
        assert cell_len(line) <= width or "`" in line or len(line.split()) == 1
        if following and "`" not in text:
            assert cell_len(line) + 1 + cell_len(following.split()[0]) > width


def test_a_sentence_is_broken_at_spaces() -> None:
    assert lines("Looking quickly around you, you see a sink 1.", 20) == [
        "Looking quickly",
        "around you, you see",
        "a sink 1.",
    ]
    assert lines("short", 20) == ["short"]
    assert lines("two\n\nparagraphs of words", 12) == ["two", "", "paragraphs", "of words"]


def test_later_lines_are_indented_as_the_first_or_below_their_column() -> None:
    assert lines("  note: all of them", 12) == ["  note: all", "  of them"]
    assert lines("  :undo [N]   take the last action back", 30) == [
        "  :undo [N]   take the last",
        "              action back",
    ]
    assert lines("a wide column of words   and another one", 30) == ["a wide column of words   and", "another one"]


def test_paths_quoted_text_and_commands_stay_whole() -> None:
    path = "/a/folder/with/a/name/that/is/longer/than/the/line"
    assert lines(f"it is in {path} now", 20) == ["it is in", path, "now"]
    assert lines("write `a = b` or `a = [b, c, d]` here", 14) == ["write `a = b`", "or", "`a = [b, c, d]`", "here"]
    command = "turncredit train runs/demo --resume"
    text = f"stopped; to continue: {command}; it is safe"
    assert lines(text, 30) == [
        "stopped; to continue:",
        f"{command};",
        "it is safe",
    ]
    assert lines("  no   missing peft, see: pip install -e '.[lora,train]'", 32) == [
        "  no   missing peft, see:",
        "       pip install -e '.[lora,train]'",
    ]
    assert lines("turncredit: no such folder, sorry", 20) == ["turncredit: no such", "folder, sorry"]


def test_styles_stay_with_their_words() -> None:
    text = wrapped(Text("plain ").append("red words here", "red"), 10)
    assert text.plain == "plain red\nwords here"
    assert [text.plain[span.start : span.end] for span in text.spans if span.style == "red"] == ["red", "words here"]


@pytest.fixture(params=[60, 80, 120])
def width(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setenv("COLUMNS", str(request.param))
    return int(request.param)


def features(count: int) -> Table:
    table = Table("feature", *(f"column-{number}" for number in range(count)), "to install it")
    for name in ("retrieval-with-embeddings", "x"):
        table.add_row(name, *(f"some words and {name}-{number}" for number in range(count)), "pip install 'a[b]' c")
    return table


@pytest.mark.parametrize("count", [1, 2, 5])
def test_a_table_has_all_its_words_at_any_width(width: int, count: int, capsys: pytest.CaptureFixture[str]) -> None:
    console.out().print(features(count))
    said = capsys.readouterr().out
    assert max(map(len, said.splitlines())) <= width
    shown = set(re.findall(r"[^\s│┃┏┓┡┩└┘─━┳╇┴┬]+", said))
    for name in ("retrieval-with-embeddings", "x"):
        assert {name, *(f"{name}-{number}" for number in range(count)), "some", "words"} <= shown
    assert said.count("pip install 'a[b]' c") == 2
    assert {f"column-{number}" for number in range(count)} <= shown


def test_a_table_that_fits_is_as_it_was(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    console.out().print(features(1))
    assert "┃ feature " in capsys.readouterr().out


def test_a_row_that_does_not_fit_is_a_paragraph(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    table = Table("feature", "found", "note", box=None)
    table.add_row("sandbox", "/usr/bin/a-program-with-a-name\npip install b", "x" * 20)
    console.out().print(table)
    assert capsys.readouterr().out.splitlines() == [
        "sandbox",
        "  found  /usr/bin/a-program-with-a-name",
        "         pip install b",
        f"  note   {'x' * 20}",
    ]


@pytest.mark.parametrize("columns", [None, "40"])
def test_without_a_terminal_no_line_is_broken(
    columns: str | None, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLUMNS")
    if columns is not None:
        monkeypatch.setenv("COLUMNS", columns)
    text = "word " * 100
    console.say(text)
    console.warn(text)
    console.complain(text)
    said = capsys.readouterr()
    assert said.out == f"{text}\n"
    assert said.err == f"{text}\nturncredit: {text}\n"


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_on_a_terminal_texts_are_broken_and_json_and_tracebacks_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setattr(sys, "stdout", Screen())
    monkeypatch.setattr(sys, "stderr", Screen())
    words = "word " * 30
    console.say(words)
    console.warn(words)
    console.complain(words)
    text = sys.stdout.getvalue() + sys.stderr.getvalue()  # type: ignore[attr-defined]
    assert max(map(len, text.splitlines())) <= 40
    assert len(re.findall(r"\bword\b", text)) == 90
    monkeypatch.setattr(sys, "stdout", Screen())
    monkeypatch.setattr(sys, "stderr", Screen())
    console.say_json([words])
    console.print_exception(ValueError, ValueError(words), None)
    assert sys.stdout.getvalue() == f'[\n "{words}"\n]\n'  # type: ignore[attr-defined]
    assert f"ValueError: {words}\n" in sys.stderr.getvalue()  # type: ignore[attr-defined]
