"""What holds on every phone whatever is done with it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from turncredit.phone import KEY_CODES, Phone
from turncredit.phone.installed_apps import all_apps
from turncredit.tools.android.node import Node, parse_xml

Act = Callable[[Phone], None]

NAMES = [app.name for app in all_apps()]
X, Y = st.integers(-5, 2500), st.integers(-5, 2500)


def tap_element(phone: Phone, index: int) -> None:
    targets = [node for node in phone.tree().walk() if node.clickable]
    if targets:
        phone.tap(*targets[index % len(targets)].center)


def hold_element(phone: Phone, index: int) -> None:
    targets = [node for node in phone.tree().walk() if node.long_clickable]
    if targets:
        phone.long_press(*targets[index % len(targets)].center)


ACTIONS = st.one_of(
    st.tuples(st.just(tap_element), st.integers(0, 60)),
    st.tuples(st.just(tap_element), st.integers(0, 60)),
    st.tuples(st.just(hold_element), st.integers(0, 60)),
    st.tuples(st.just(Phone.tap), X, Y),
    st.tuples(st.just(Phone.long_press), X, Y),
    st.tuples(st.just(Phone.swipe), X, Y, X, Y, st.integers(0, 1000)),
    st.tuples(st.just(Phone.key), st.sampled_from(sorted(set(KEY_CODES.values()) - {26, 223}))),
    st.tuples(st.just(Phone.key), st.just(113), st.sampled_from([29, 31, 50, 52])),
    st.tuples(st.just(Phone.text), st.text(max_size=8)),
    st.tuples(st.just(Phone.launch), st.sampled_from(NAMES)),
    st.tuples(st.just(Phone.advance), st.integers(0, 100_000)),
    st.tuples(st.just(Phone.set_setting), st.just("user_rotation"), st.sampled_from(["0", "1"])),
    st.tuples(st.just(Phone.set_setting), st.just("font_scale"), st.sampled_from(["0.85", "1.0", "1.3"])),
)
PLAYS = st.lists(ACTIONS, max_size=25)
RELAXED = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def play(phone: Phone, actions: list[tuple]) -> None:
    for function, *arguments in actions:
        function(phone, *arguments)


def check_screen(phone: Phone) -> None:
    """Every element is inside the screen and its parent's window, and every clickable one is hit in its middle."""
    width, height = phone.size
    for node in phone.tree().walk():
        assert 0 <= node.left <= node.right <= width, node
        assert 0 <= node.top <= node.bottom <= height, node
        if node.clickable:
            assert node.left < node.right, node
            assert node.top < node.bottom, node
            path = phone.frame.at(*node.center)
            hit = next(box for box in path if box.clickable)
            assert hit is node, f"{describe(node)} is covered by {describe(hit)}"


def describe(node: Node) -> str:
    return f"{node.class_name} {node.text!r} {node.description!r} {node.bounds}"


@RELAXED
@given(PLAYS)
def test_nothing_that_a_user_does_raises_and_every_element_can_be_hit(actions: list[tuple]) -> None:
    phone = Phone(1)
    for action in actions:
        play(phone, [action])
        check_screen(phone)


@RELAXED
@given(PLAYS)
def test_the_same_seed_and_actions_give_the_same_phone(actions: list[tuple]) -> None:
    one, two = Phone(5), Phone(5, apps=all_apps())
    play(one, actions)
    play(two, actions)
    assert one.state_key() == two.state_key()
    assert one.xml() == two.xml()


@RELAXED
@given(PLAYS, PLAYS)
def test_a_restored_snapshot_is_the_state_in_which_it_was_taken(before: list[tuple], after: list[tuple]) -> None:
    phone = Phone(2)
    play(phone, before)
    key, xml, saved = phone.state_key(), phone.xml(), phone.snapshot()
    play(phone, after)
    end, end_xml = phone.state_key(), phone.xml()
    phone.restore(saved)
    assert (phone.state_key(), phone.xml()) == (key, xml)
    play(phone, after)
    assert (phone.state_key(), phone.xml()) == (end, end_xml)


@RELAXED
@given(PLAYS)
def test_a_snapshot_continues_on_another_phone_of_the_same_seed(actions: list[tuple]) -> None:
    one, two = Phone(2), Phone(2, apps=all_apps())
    play(one, actions)
    two.restore(one.snapshot())
    assert two.state_key() == one.state_key()
    assert two.xml() == one.xml()


@RELAXED
@given(PLAYS)
def test_a_kept_screen_is_the_one_that_would_be_laid_out(actions: list[tuple]) -> None:
    phone = Phone(4)
    for action in actions:
        play(phone, [action])
        kept, fresh = phone.frame.root, phone.frame_of(phone.page).root
        assert [describe(node) for node in kept.walk()] == [describe(node) for node in fresh.walk()]


@RELAXED
@given(PLAYS)
def test_xml_can_be_read_back(actions: list[tuple]) -> None:
    phone = Phone(6)
    play(phone, actions)
    root, rotation = parse_xml(phone.xml())
    assert rotation == phone.rotation
    assert [node.bounds for node in root.walk()] == [node.bounds for node in phone.tree().walk()]


@settings(max_examples=15, deadline=None)
@given(PLAYS)
def test_every_screen_can_be_painted_the_same_twice(actions: list[tuple]) -> None:
    pytest.importorskip("PIL")
    one, two = Phone(7), Phone(7, apps=all_apps())
    play(one, actions)
    play(two, actions)
    assert one.screenshot((270, 600)).tobytes() == two.screenshot((270, 600)).tobytes()


@RELAXED
@given(PLAYS, PLAYS)
def test_a_phone_does_not_notice_what_was_done_on_others_of_its_seed(before: list[tuple], actions: list[tuple]) -> None:
    play(Phone(7), before)
    phone, alone = Phone(7), Phone(7, apps=all_apps())  # the second shares no content
    for action in actions:
        play(phone, [action])
        play(alone, [action])
        assert phone.state_key() == alone.state_key()
        assert phone.xml() == alone.xml()


def test_seeds_give_different_contents() -> None:
    contents = {
        str([row["phone"] for row in Phone(seed).tables("org.turncredit.contacts").rows("contacts")])
        for seed in range(8)
    }
    assert len(contents) == 8


def test_the_order_in_which_apps_are_opened_does_not_change_their_contents() -> None:
    one, two = Phone(3, apps=all_apps()), Phone(3, apps=all_apps())  # such phones share no content
    packages = [app.package for app in all_apps()]
    two.advance(86_400)
    for package in packages:
        one.tables(package)
    for package in reversed(packages):
        two.tables(package)
    for package in packages:
        for name, table in one.tables(package).tables.items():
            assert table.digest == two.tables(package).tables[name].digest


def test_a_change_that_is_undone_gives_the_same_state() -> None:
    phone = Phone(3)
    key = phone.state_key()
    contacts = phone.tables("org.turncredit.contacts")
    assert phone.state_key() == key, "opening a database is not a change"
    first = contacts.rows("contacts")[0]
    contacts.update("contacts", first["_id"], last="Other")
    assert phone.state_key() != key
    contacts.update("contacts", first["_id"], last=first["last"])
    assert phone.state_key() == key
