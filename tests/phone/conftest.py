"""Phones for the tests, and what a user does with one."""

from __future__ import annotations

import pytest

from turncredit.phone import Phone
from turncredit.tools.android.node import Node


class User:
    """Somebody who finds things on the screen by what they say."""

    def __init__(self, phone: Phone) -> None:
        self.phone = phone

    def see(self, text: str) -> Node:
        """Return the element with a text or description; fail with what is there instead."""
        found = self.phone.tree().find(text)
        assert found is not None, f"{text!r} is not on the screen: {self.texts()}"
        return found

    def texts(self) -> list[str]:
        return [node.text or node.description for node in self.phone.tree().walk() if node.text or node.description]

    def tap(self, text: str) -> None:
        self.phone.tap(*self.see(text).center)

    def hold(self, text: str) -> None:
        self.phone.long_press(*self.see(text).center)

    def type(self, field: str, text: str) -> None:
        """Replace the content of a field."""
        self.tap(field)
        self.phone.key(113, 29)
        self.phone.key(67)
        self.phone.text(text)


@pytest.fixture
def phone() -> Phone:
    return Phone(3)


@pytest.fixture
def user(phone: Phone) -> User:
    return User(phone)
