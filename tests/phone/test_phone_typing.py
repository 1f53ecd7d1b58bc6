"""Typing, the soft keyboard, selection and the clipboard."""

from __future__ import annotations

from turncredit.phone import KEY_CODES, Phone

CONTACTS = "org.turncredit.contacts"


def open_form(phone: Phone) -> None:
    phone.launch(CONTACTS, "form", id=0)


def test_text_goes_where_the_focus_is(phone, user):
    open_form(phone)
    phone.text("lost")
    user.tap("First name")
    phone.text("Zoë O'Neil \U0001f600")
    assert user.see("First name").text == "Zoë O'Neil \U0001f600"
    assert user.see("First name").focused


def test_a_phone_field_keeps_letters_out(phone, user):
    open_form(phone)
    user.tap("Phone")
    phone.text("+1 (555) abc 12")
    assert user.see("Phone").text == "+1 (555)  12"


def test_keys_of_the_soft_keyboard_type(phone, user):
    open_form(phone)
    user.tap("First name")
    keyboard = phone.frame.system[-1]
    for name in ("Shift", "A", "d", "a", "x", "Delete"):
        board = phone.frame.system[-1]
        key = board.find(name)
        assert key is not None, name
        phone.tap(*key.center)
    assert user.see("First name").text == "Ada"
    assert keyboard.top < phone.size[1]


def test_select_all_cut_and_paste_with_keys(phone, user):
    open_form(phone)
    user.tap("First name")
    phone.text("moved")
    phone.key(113, KEY_CODES["A"])
    phone.key(113, KEY_CODES["X"])
    assert phone.state.clipboard == "moved"
    phone.key(KEY_CODES["TAB"])
    phone.key(KEY_CODES["PASTE"])
    assert (user.see("First name").text, user.see("Last name").text) == ("", "moved")


def test_a_long_press_selects_a_word_and_offers_copy(phone, user):
    open_form(phone)
    user.tap("Notes")
    phone.text("one two")
    user.hold("Notes")
    user.tap("Copy")
    assert phone.state.clipboard == "two"


def test_back_hides_the_keyboard_before_it_leaves_the_page(phone, user):
    phone.launch(CONTACTS)
    user.tap("Search contacts")
    phone.back()
    assert phone.page.screen == "contacts"
    assert not phone.page.keyboard
    phone.back()
    assert phone.page.screen == "home"


def test_a_field_under_the_keyboard_is_scrolled_into_view(phone, user):
    open_form(phone)
    user.tap("Notes")
    phone.text("seen")
    assert user.see("Notes").text == "seen"


def test_moving_the_cursor_and_deleting(phone, user):
    open_form(phone)
    user.tap("First name")
    phone.text("abcd")
    phone.key(KEY_CODES["DPAD_LEFT"])
    phone.key(KEY_CODES["DEL"])
    phone.key(KEY_CODES["MOVE_HOME"])
    phone.key(KEY_CODES["FORWARD_DEL"])
    assert user.see("First name").text == "bd"
