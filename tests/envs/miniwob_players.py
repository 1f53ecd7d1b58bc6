"""Players of MiniWoB++ tasks that read an observation as an agent does, and answer with actions of the grammar."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

Player = Callable[[str], Iterator[str]]
"""Takes the first observation; yields actions and is sent the observation that follows each."""


def goal(seen: str) -> str:
    """Return the sentence of the task."""
    return seen.split("\n")[0].removeprefix("Goal: ")


def quoted(seen: str) -> list[str]:
    """Return what stands in quotes in the sentence of the task."""
    return re.findall(r'"([^"]*)"', goal(seen))


def ref(seen: str, role: str, name: str | None = None) -> str:
    """Return the reference of the first element of a role and name."""
    words = "" if name is None else f' "{re.escape(name)}"'
    found = re.search(rf"^ *\[(e\d+)\] {role}{words}", seen, re.MULTILINE)
    assert found, f"no {role} {name!r} in\n{seen}"
    return found[1]


def refs(seen: str, role: str) -> list[str]:
    """Return the references of all elements of a role."""
    return re.findall(rf"^ *\[(e\d+)\] {role}", seen, re.MULTILINE)


def words_of(seen: str, head: str, tail: str) -> list[str]:
    """Return the names that the sentence of the task lists between two texts."""
    return re.split(r", ", goal(seen).partition(head)[2].rpartition(tail)[0])


def click_button(seen: str) -> Iterator[str]:
    yield f"click[{ref(seen, 'button', quoted(seen)[0])}]"


def click_link(seen: str) -> Iterator[str]:
    wanted = quoted(seen)[0]
    found = re.search(rf'\[(e\d+)\] (?:link )?"{re.escape(wanted)}"', seen)
    assert found, seen
    yield f"click[{found[1]}]"


def click_dialog(seen: str) -> Iterator[str]:
    yield f"click[{ref(seen, 'button', 'Close')}]"


def click_checkboxes(seen: str) -> Iterator[str]:
    for name in words_of(seen, "Select ", " and click Submit"):
        if name != "nothing":
            yield f"click[{ref(seen, 'checkbox', name)}]"
    yield f"click[{ref(seen, 'button', 'Submit')}]"


def click_option(seen: str) -> Iterator[str]:
    yield f"click[{ref(seen, 'radio', words_of(seen, 'Select ', ' and click Submit')[0])}]"
    yield f"click[{ref(seen, 'button', 'Submit')}]"


def choose_list(seen: str) -> Iterator[str]:
    yield f"select[{ref(seen, 'combobox')}, {goal(seen).partition('Select ')[2].partition(' from the list')[0]}]"
    yield f"click[{ref(seen, 'button', 'Submit')}]"


def enter_text(seen: str) -> Iterator[str]:
    yield f"type[{ref(seen, 'textbox')}, {quoted(seen)[0]}]"
    yield f"click[{ref(seen, 'button', 'Submit')}]"


def enter_password(seen: str) -> Iterator[str]:
    for field in refs(seen, "textbox"):
        yield f"type[{field}, {quoted(seen)[0]}]"
    yield f"click[{ref(seen, 'button', 'Submit')}]"


def focus_text(seen: str) -> Iterator[str]:
    yield f"click[{ref(seen, 'textbox')}]"


def login_user(seen: str) -> Iterator[str]:
    for field, words in zip(refs(seen, "textbox"), quoted(seen), strict=True):
        yield f"type[{field}, {words}]"
    yield f"click[{ref(seen, 'button', 'Login')}]"


def read_table(seen: str) -> Iterator[str]:
    wanted = re.search(r"value of (.*) into the text field", goal(seen))
    assert wanted, seen
    cells = re.findall(r'cell "([^"]*)"', seen)
    yield f"type[{ref(seen, 'textbox')}, {cells[cells.index(wanted[1]) + 1]}]"
    yield f"click[{ref(seen, 'button', 'Submit')}]"


def click_tab(seen: str) -> Iterator[str]:
    number = re.search(r"Tab #(\d)", goal(seen))
    assert number, seen
    yield f"click[{ref(seen, 'link', f'Tab #{number[1]}')}]"


def click_tab_2(seen: str) -> Iterator[str]:
    wanted = f'"{quoted(seen)[0]}"'
    for tab in ("Tab #1", "Tab #2", "Tab #3"):
        seen = yield f"click[{ref(seen, 'link', tab)}]"
        panel = seen.partition("tabpanel")[2]
        found = re.search(rf"\[(e\d+)\] (?:link )?{re.escape(wanted)}", panel)
        if found:
            yield f"click[{found[1]}]"


def click_collapsible(seen: str) -> Iterator[str]:
    head = re.search(r"\[(e\d+)\] (?:heading|tab|button) ", seen)
    assert head, seen
    seen = yield f"click[{head[1]}]"
    seen = yield "wait[]"
    yield f"click[{ref(seen, 'button', 'Submit')}]"


def login_user_popup(seen: str) -> Iterator[str]:
    for number, words in enumerate(quoted(seen)):
        while True:
            seen = yield f"type[{refs(seen, 'textbox')[number]}, {words}]"
            if "Cancel" not in seen:
                break
            seen = yield f"click[{ref(seen, 'button', 'Cancel')}]"
    while True:
        seen = yield f"click[{refs(seen, 'button')[0]}]"
        seen = yield f"click[{ref(seen, 'button', 'Cancel')}]"


PLAYERS: dict[str, Player] = {
    "click-button": click_button,
    "click-link": click_link,
    "click-dialog": click_dialog,
    "click-checkboxes": click_checkboxes,
    "click-option": click_option,
    "choose-list": choose_list,
    "enter-text": enter_text,
    "enter-password": enter_password,
    "focus-text": focus_text,
    "login-user": login_user,
    "login-user-popup": login_user_popup,
    "read-table": read_table,
    "click-tab": click_tab,
    "click-tab-2": click_tab_2,
    "click-collapsible": click_collapsible,
}
