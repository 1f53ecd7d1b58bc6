"""The policies of the library and the repair shop: what follows in hand-made databases, and what the tools do."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from turncredit.envs.desk.domain import DeskRequest, cents, dollars
from turncredit.envs.desk.library import LibraryDesk
from turncredit.envs.desk.repair_shop import HOURS, RepairShopDesk
from turncredit.envs.desk.task import says


def library(**member: Any) -> LibraryDesk:
    """A desk for Ada, who has C-1 and waits for nothing; Bo has C-2; C-3 is in at Hill."""
    desk = LibraryDesk()
    ada = {"name": "Ada", "postcode": "11111", "branch": "Market", "fees": 0, **member}
    out = {"branch": "Market", "state": "out", "due": "2026-03-20", "renewals": 0}
    desk.data = {
        "today": "2026-03-10",
        "members": {"L-1": ada, "L-2": {"name": "Bo", "postcode": "22222", "branch": "Hill", "fees": 0}},  # type: ignore[dict-item]
        "titles": {
            "T-1": {"title": "The Red Door", "author": "X", "price": 1250},
            "T-2": {"title": "The Blue Door", "author": "Y", "price": 900},
        },
        "copies": {
            "C-1": {"title": "T-1", "card": "L-1", **out},  # type: ignore[typeddict-item]
            "C-2": {"title": "T-2", "card": "L-2", **out},  # type: ignore[typeddict-item]
            "C-3": {"title": "T-2", "branch": "Hill", "state": "in", "card": "", "due": "", "renewals": 0},
        },
        "holds": {},
    }
    desk._card = "L-1"
    return desk


def decided(desk: Any, family: str, **subject: str) -> tuple[list[tuple[str, dict[str, object]]], tuple[str, ...]]:
    decision = desk.decide(DeskRequest(family, "", (), subject))
    assert all(any(says(decision.reply, [text])) for text in decision.told)
    return [(action.name, dict(action.arguments)) for action in decision.actions], decision.told


@pytest.mark.parametrize(
    ("renewals", "waiting", "fees", "actions", "told"),
    [
        (0, False, 0, [("renew", {"copy": "C-1"})], ("2026-04-10",)),
        (1, False, 2000, [("renew", {"copy": "C-1"})], ("2026-04-10",)),
        (2, False, 0, [], ("2026-03-20",)),
        (0, True, 0, [], ("2026-03-20",)),
        (0, False, 2001, [], ("2026-03-20",)),
    ],
)
def test_a_loan_is_renewed_if_it_may(
    renewals: int, waiting: bool, fees: int, actions: list[object], told: tuple[str, ...]
) -> None:
    desk = library(fees=fees)
    desk.data["copies"]["C-1"]["renewals"] = renewals
    if waiting:
        desk.data["holds"]["H-101"] = {"card": "L-2", "title": "T-1", "branch": "Hill"}
    assert decided(desk, "renew", copy="C-1") == (actions, told)


HOLD = [("place_hold", {"card": "L-1", "title_id": "T-2", "branch": "Market"})]


@pytest.mark.parametrize(
    ("branch", "holds", "fees", "actions", "told"),
    [
        ("Market", 0, 0, HOLD, ()),
        ("Market", 2, 2000, HOLD, ()),
        ("Hill", 0, 0, [], ("C-3",)),
        ("Hill", 3, 5000, [], ("C-3",)),
        ("Market", 3, 150, [], ("$1.50",)),
        ("Market", 0, 2001, [], ("$20.01",)),
    ],
)
def test_a_hold_is_placed_if_no_copy_is_in_and_the_member_may(
    branch: str, holds: int, fees: int, actions: list[Any], told: tuple[str, ...]
) -> None:
    desk = library(branch=branch, fees=fees)
    for number in range(holds):
        desk.data["holds"][f"H-{101 + number}"] = {"card": "L-1", "title": "T-1", "branch": "Hill"}
    assert decided(desk, "hold", title="T-2") == (actions, told)


def test_fees_are_paid_and_waived_within_the_rules() -> None:
    pay = [("take_payment", {"card": "L-1", "amount": 4.5})]
    assert decided(library(fees=1000), "pay", amount="450") == (pay, ("$5.50",))
    assert decided(library(fees=449), "pay", amount="450") == ([], ("$4.49",))
    assert decided(library(fees=1000), "waive") == ([("waive_fees", {"card": "L-1"})], ())
    assert decided(library(fees=1001), "waive") == ([], ("$10.01",))
    overdue = library(fees=5)
    overdue.data["copies"]["C-1"]["due"] = "2026-03-09"
    assert decided(overdue, "waive") == ([], ("$0.05",))


def test_a_lost_copy_costs_its_price() -> None:
    desk = library(fees=100)
    assert decided(desk, "lost", copy="C-1") == ([("mark_lost", {"copy": "C-1"})], ("$12.50",))
    desk.mark_lost("C-1")
    assert desk.data["members"]["L-1"]["fees"] == 1350
    assert desk.data["copies"]["C-1"]["state"] == "lost"
    before = copy.deepcopy(desk.data)
    desk.mark_lost("C-1")  # is not out any more
    assert desk.data == before


def test_tools_refuse_what_does_not_exist() -> None:
    desk = library(fees=300)
    before = copy.deepcopy(desk.data)
    for answer in (
        desk.find_member("L-9"),
        desk.find_title("Green"),
        desk.renew("C-3"),
        desk.place_hold("L-9", "T-1", "Hill"),
        desk.cancel_hold("H-1"),
        desk.take_payment("L-1", 3.01),
        desk.take_payment("L-1", -1.0),
        desk.take_payment("L-1", 0.001),
        desk.waive_fees("L-9"),
        desk.change_branch("L-9", "Hill"),
    ):
        assert isinstance(answer, str)
    assert desk.data == before
    assert desk.place_hold("L-1", "T-2", "Hill") == "The hold H-101 was placed."
    assert "waits for this title already" in desk.place_hold("L-1", "T-2", "Hill")
    assert desk.take_payment("L-1", 1.1) == "The member owes $1.90."


def shop(fault: str = "", light: str = "green", stock: int = 1, until: str = "2026-03-10") -> RepairShopDesk:
    """A desk for the device S-1; 2026-03-10 09:00 is taken by S-2."""
    desk = RepairShopDesk()
    days = ("2026-03-10", "2026-03-11", "2026-03-17")
    free = {"serial": "", "part": "", "charge": 0, "moves": 0}
    desk.data = {
        "today": "2026-03-10",
        "customers": {"555-1": {"name": "Alma"}, "555-2": {"name": "Bo"}},
        "devices": {
            "S-1": {"phone": "555-1", "model": "radio A1", "warranty_until": until},
            "S-2": {"phone": "555-2", "model": "radio A1", "warranty_until": until},
        },
        "parts": {"P-1": {"model": "radio A1", "price": 4999, "stock": stock, "ordered": 0}},
        "slots": {f"{day} {hour}": dict(free) for day in days for hour in HOURS},  # type: ignore[misc]
        "at_home": {"S-1": {"fault": fault, "light": light, "settings": "own"}},
        "mine": "S-1",
    }
    desk.data["slots"]["2026-03-10 09:00"] = {"serial": "S-2", "part": "P-1", "charge": 0, "moves": 0}
    return desk


def booking(slot: str, charge: float) -> tuple[str, dict[str, object]]:
    return "book", {"serial": "S-1", "slot": slot, "part": "P-1", "charge": charge}


RESTART, RESET = ("restart", dict[str, object]()), ("reset", dict[str, object]())


@pytest.mark.parametrize(
    ("desk", "actions", "told"),
    [
        (shop("hung", "amber"), [RESTART], ()),
        (shop("hung", "red"), [RESTART], ()),
        (shop("settings", "amber"), [RESTART, RESET], ()),
        (shop("board", "red"), [RESTART, booking("2026-03-10 11:00", 0.0)], ("2026-03-10 11:00",)),
        (
            shop("board", "red", until="2026-03-09"),
            [RESTART, booking("2026-03-10 11:00", 49.99)],
            ("2026-03-10 11:00",),
        ),
        (
            shop("board", "red", stock=0),
            [RESTART, ("order_part", {"part": "P-1"}), booking("2026-03-17 09:00", 0.0)],
            ("2026-03-17 09:00",),
        ),
    ],
)
def test_a_broken_device_is_restarted_reset_or_repaired(
    desk: RepairShopDesk, actions: list[Any], told: tuple[str, ...]
) -> None:
    assert decided(desk, "trouble") == (actions, told)


def test_the_user_changes_the_device() -> None:
    desk = shop("settings", "amber")
    tools = desk.user_tools()
    assert tools["restart"].run() == "I have restarted it."
    assert tools["light"].run() == "The light is amber."
    tools["reset"].run()
    assert tools["light"].run() == "The light is green. My own settings are lost."
    assert desk.data["at_home"]["S-1"] == {"fault": "", "light": "green", "settings": "factory"}
    hung = shop("hung", "red")
    hung.user_tools()["restart"].run()
    assert hung.data["at_home"]["S-1"] == {"fault": "", "light": "green", "settings": "own"}


def test_appointments_are_told_moved_and_cancelled() -> None:
    desk = shop()
    desk.book("S-1", "2026-03-11 14:00", "P-1", 49.99)
    assert desk.data["slots"]["2026-03-11 14:00"]["charge"] == 4999
    move = [("move_booking", {"slot": "2026-03-11 14:00", "to": "2026-03-10 11:00"})]
    assert decided(desk, "move", day="2026-03-10") == (move, ("2026-03-10 11:00",))
    assert decided(desk, "cancel") == ([("cancel_booking", {"slot": "2026-03-11 14:00"})], ())
    desk.data["slots"]["2026-03-11 14:00"]["moves"] = 2
    assert decided(desk, "move", day="2026-03-10") == ([], ("2026-03-11 14:00",))
    assert decided(desk, "warranty") == ([], ("2026-03-10",))
    assert decided(desk, "quote") == ([], ("$49.99",))
    assert "not a free appointment" in desk.book("S-1", "2026-03-10 09:00", "P-1", 0)
    assert "Nothing was moved" in desk.move_booking("2026-03-11 14:00", "2026-03-10 09:00")
    assert desk.move_booking("2026-03-11 14:00", "2026-03-17 16:00") == "The appointment is on 2026-03-17 16:00."
    assert desk.data["slots"]["2026-03-17 16:00"]["moves"] == 3
    assert desk.data["slots"]["2026-03-11 14:00"]["serial"] == ""


@pytest.mark.parametrize(
    ("message", "text", "said"),
    [
        ("It is due on 2026-03-31.", "2026-03-31", True),
        ("You owe $12.50!", "$12.50", True),
        ("You owe $112.50.", "$12.50", False),
        ("You owe $12.5.", "$12.50", False),
        ("on 2026-03-31 at 09:00", "2026-03-31 09:00", False),
        ("on 2026-03-31 09:00", "2026-03-31 09:00", True),
        ("The copy c-12345 is in.", "C-12345", True),
        ("1 2 3 4 5 6 7", "6", True),
    ],
)
def test_what_is_said_is_read_by_words(message: str, text: str, said: bool) -> None:
    assert says(message, [text]) == [said]


def test_amounts_are_cents() -> None:
    assert [dollars(amount) for amount in (0, 5, 1405)] == ["$0.00", "$0.05", "$14.05"]
    assert [cents(amount) for amount in (0.05, 14.05, 49.99)] == [5, 1405, 4999]
