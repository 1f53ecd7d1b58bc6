"""Pictures in a terminal: the protocols of kitty and iTerm2, and files where there is no such terminal."""

from __future__ import annotations

import base64
import re
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from turncredit.cli.printing.terminal_picture import Pictures, inline


@given(png=st.binary(min_size=1, max_size=20_000))
def test_kitty_gets_the_picture_in_pieces(png: bytes) -> None:
    sequence = inline(png, {"TERM": "xterm-kitty"})
    pieces = re.findall(r"\x1b_G([^;]*);([^\x1b]*)\x1b\\", sequence)
    assert base64.b64decode("".join(data for _, data in pieces)) == png
    assert all(len(data) <= 4096 for _, data in pieces)
    assert [head.endswith("m=1") for head, _ in pieces] == [True] * (len(pieces) - 1) + [False]
    assert pieces[0][0].startswith("a=T,f=100")


@given(png=st.binary(max_size=1000))
def test_iterm_gets_the_picture_whole(png: bytes) -> None:
    match = re.fullmatch(r"\x1b\]1337;File=inline=1;size=(\d+);.*:(.*)\a", inline(png, {"TERM_PROGRAM": "WezTerm"}))
    assert match is not None
    assert int(match[1]) == len(png)
    assert base64.b64decode(match[2]) == png


def test_other_terminals_and_pipes_get_files(tmp_path: Path) -> None:
    assert inline(b"x", {"TERM": "xterm-256color"}) == ""
    assert inline(b"x", {"TERM": "xterm-kitty", "TMUX": "1"}) == ""
    pictures = Pictures()
    paths = [Path(pictures.show(png)) for png in (b"one", b"two")]
    assert [path.read_bytes() for path in paths] == [b"one", b"two"]
    assert [path.name for path in paths] == ["001.png", "002.png"]
