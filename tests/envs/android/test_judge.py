"""The judge by hand-made cases: what a legitimate way may differ in, and what must not pass."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from turnwise.envs import make
from turnwise.envs.android.elements import folded
from turnwise.envs.android.tasks.effects import FileIs, InsertRow
from turnwise.envs.android.tasks.judge import content, judge
from turnwise.envs.android.tasks.near_misses import Outcome, apply
from turnwise.envs.android.tasks.template import make_task


class Player:
    """Somebody who plays a task by what the elements on the screen say."""

    def __init__(self, task: str, **options: Any) -> None:
        self.env = make("turnwise/Android-v0", max_episode_steps=-1, **options)
        self.env.reset(options={"task": task})
        self.episode = self.env.unwrapped.episode
        self.params: dict[str, Any] = self.episode.task.params

    def find(self, text: str, kind: str = "") -> int:
        """Return the number of the first element that mentions a text; fail with what is there instead."""
        elements = folded(self.episode.device.dump(), self.episode.device.size())
        named = [e for e in elements if e.mentions(text) or e.node.description == text]
        found = [e.index for e in named if not kind or e.kind == kind]
        assert found, (text, [e.texts for e in elements])
        return found[0]

    def step(self, action: str) -> dict[str, Any]:
        observation, *_, info = self.env.step(action)
        assert info["valid"], observation
        return info

    def tap(self, *texts: str, kind: str = "") -> None:
        for text in texts:
            self.step(f"tap {self.find(text, kind)}")

    def type(self, field: str, text: str) -> None:
        self.step(f"type {self.find(field, 'field')} {text}")

    def plan(self) -> list[str]:
        return self.env.unwrapped.plan()

    def expert(self, change: Any = lambda action: action) -> dict[str, Any]:
        """Let the expert play from here, with its actions changed, and return the last `info`."""
        for action in self.plan():
            info = self.step(change(action))
        return info

    def done(self) -> tuple[bool, tuple[str, ...]]:
        info = self.step("done")
        return info["won"], info["reasons"]


# The form of a new contact


def fill_draft(player: Player) -> None:
    for field, name in (("First name", "first"), ("Last name", "last"), ("Phone", "phone")):
        player.type(field, player.params[name])
    player.tap("Phone label", player.params["label"])


def test_the_form_of_an_existing_contact_is_not_that_of_a_new_one() -> None:
    player = Player("ContactsDraft/1")
    player.step("open Contacts")
    player.step("tap 3")
    player.tap("Edit contact")
    fill_draft(player)
    for field in ("Email", "Company", "Address", "Notes"):
        player.type(field, "")
    won, reasons = player.done()
    assert not won
    assert "parameters {'id': " in reasons[0]


@pytest.mark.parametrize("field", ["Email", "Company", "Address", "Notes"])
def test_a_draft_has_nothing_but_what_the_goal_says(field: str) -> None:
    player = Player("ContactsDraft/1")
    player.step("open Contacts")
    player.tap("Create contact")
    fill_draft(player)
    player.type(field, "x")
    assert not player.done()[0]


# Copies are copies to the letter; what the agent types freely is not


def spaced(text: str) -> str:
    return text.replace(" ", "  ", 1)


def verdict_on(task: str, change: Any) -> bool:
    """Return the verdict on the right outcome with its last text changed."""
    drawn = make_task(task.split("/")[0], int(task.split("/")[1]))
    first = drawn.phone.snapshot()
    apply(drawn.phone, Outcome("changed", tuple(map(change, drawn.effects))))
    after = content(drawn.phone)
    drawn.phone.restore(first)
    return judge(content(drawn.phone, list(after.databases)), after, drawn.effects).won


def body(change: Any) -> Any:
    def changed(effect: Any) -> Any:
        if isinstance(effect, InsertRow):
            return replace(effect, values={**effect.values, "body": change(effect.values["body"])})
        return replace(effect, content=change(effect.content)) if isinstance(effect, FileIs) else effect

    return changed


COPIES = ("MessagesForward", "MessagesResend", "CrossForward", "MailForward", "NotesMove", "NotesRename", "NotesMerge")


@pytest.mark.parametrize("name", [*COPIES, "FilesMove", "FilesCopy", "FilesRename"])
def test_a_copy_is_the_same_to_the_letter(name: str) -> None:
    assert verdict_on(f"{name}/1", body(lambda text: text))
    assert verdict_on(f"{name}/1", body(lambda text: f"{text}\n"))
    for change in (str.upper, spaced, lambda text: f" {text}", lambda text: f"\n{text}"):
        assert not verdict_on(f"{name}/1", body(change))


@pytest.mark.parametrize("name", ["MessagesSend", "MailSend", "NotesCreate", "NotesReplaceText"])
def test_case_and_spacing_of_typed_text_do_not_count(name: str) -> None:
    for change in (str.upper, spaced):
        assert verdict_on(f"{name}/1", body(change))


@pytest.mark.parametrize("name", ["NotesAddAtEnd", "NotesAddOnTop"])
def test_a_new_line_is_typed_freely_and_the_rest_of_the_note_stays_to_the_letter(name: str) -> None:
    line = make_task(name, 1).params["line"]
    assert verdict_on(f"{name}/1", body(lambda text: text.replace(line, spaced(line.upper()))))
    assert not verdict_on(f"{name}/1", body(lambda text: text.lower().replace(line.lower(), line)))
    assert not verdict_on(f"{name}/1", body(lambda text: spaced(text) if name == "NotesAddAtEnd" else f"{text} "))
