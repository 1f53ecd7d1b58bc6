"""Actions of the code environment: any text is an action or an explanation, and edits work."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turncredit.envs.code.actions import FORMS, CodeAction, apply_edit, parse_action
from turncredit.envs.info import fits

WORDS = st.sampled_from(["run", "show", "write", "edit", "replace", "test", "submit", "<<<<<<<\n", "=======\n"])


@pytest.mark.parametrize(
    ("said", "action"),
    [
        ("test", CodeAction("test")),
        ("  submit \n", CodeAction("submit")),
        ("run", CodeAction("run")),
        ("run\nprint(1)\n  x", CodeAction("run", text="print(1)\n  x")),
        ("run\n```python\nprint(1)\n```", CodeAction("run", text="print(1)")),
        ("show a/b.py", CodeAction("show", "a/b.py")),
        ("write a.py\nx = 1", CodeAction("write", "a.py", "x = 1\n")),
        ("replace 3: return b", CodeAction("replace", text="return b", line=3, keep=True)),
        ("replace 3:return b", CodeAction("replace", text="return b", line=3, keep=True)),
        ("replace h.py 2: x", CodeAction("replace", "h.py", "x", line=2, keep=True)),
        ("replace 2\n    x\n    y", CodeAction("replace", text="    x\n    y\n", line=2)),
        ("edit a.py\n<<<<<<<\nold\n=======\nnew\n>>>>>>>", CodeAction("edit", "a.py", "new\n", "old\n")),
        ("edit a.py\r\n<<<<<<<\r\nold\r\n=======\r\n>>>>>>>", CodeAction("edit", "a.py", "", "old\n")),
    ],
)
def test_an_action_is_read_as_it_is_written(said: str, action: CodeAction) -> None:
    assert parse_action(said) == action


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ("", "empty"),
        ("compile", "no action begins with 'compile'"),
        ("test now", "stands alone"),
        ("run print(1)", "next line"),
        ("show", "wants the path"),
        ("show ../x", "does not go up"),
        ("show /etc/passwd", "is relative"),
        ("write a.py", "wants the text"),
        ("edit a.py\nx", "<<<<<<<"),
        ("edit a.py\n<<<<<<<\n\n=======\nx\n>>>>>>>", "empty"),
        ("replace x", "line number"),
        ("replace 0: x", "counted from 1"),
        ("replace 2", "wants the new line"),
        ("replace 2: x\ny", "behind the colon"),
        ("run\n\0", "'\\x00'"),
        ("run\n\ud800", "not"),
    ],
)
def test_what_is_no_action_is_explained(said: str, why: str) -> None:
    found = parse_action(said)
    assert isinstance(found, str)
    assert why in found


@given(st.one_of(st.text(), st.lists(st.one_of(WORDS, st.text(max_size=9))).map(" ".join)))
def test_any_text_is_an_action_or_an_explanation(said: str) -> None:
    found = parse_action(said)
    assert isinstance(found, CodeAction) or (found and "\n" not in found)


@given(st.lists(WORDS | st.text(max_size=9)).map("\n".join))
def test_an_action_has_a_form_or_is_a_single_word(said: str) -> None:
    text = said.replace("\r\n", "\n").strip()
    found = parse_action(text)
    if isinstance(found, CodeAction) and found.kind not in ("test", "submit") and text != "run" and "\t" not in text:
        assert fits(" ".join(text.split(" ")), FORMS) or "  " in text or text.startswith("run")


TEXT = "def f(a):\n    if a:\n        return 1\n    return 2\n"


@pytest.mark.parametrize(
    ("said", "text"),
    [
        ("replace 3: return 5", TEXT.replace("return 1", "return 5")),
        ("replace 4:   return 5", TEXT.replace("return 2", "return 5")),
        ("replace 3\n        b = 1\n        return b", TEXT.replace("return 1", "b = 1\n        return b")),
        ("edit x\n<<<<<<<\n    if a:\n        return 1\n=======\n>>>>>>>", "def f(a):\n    return 2\n"),
        ("edit x\n<<<<<<<\n return 1\n=======\n return 7\n>>>>>>>", TEXT.replace("return 1", "return 7")),
    ],
)
def test_edits(said: str, text: str) -> None:
    action = parse_action(said)
    assert isinstance(action, CodeAction)
    assert apply_edit(TEXT, action) == text


@pytest.mark.parametrize(
    ("said", "why"),
    [("replace 5: x", "the file has 4"), ("edit x\n<<<<<<<\nreturn\n=======\n>>>>>>>", "2 times")],
)
def test_an_edit_that_has_no_place_says_so(said: str, why: str) -> None:
    action = parse_action(said)
    assert isinstance(action, CodeAction)
    with pytest.raises(LookupError, match=why):
        apply_edit(TEXT, action)
