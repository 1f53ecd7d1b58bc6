"""Pages as text: each kind by hand, white space, marks, and the relation of the two observations."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_shop import GOAL, MANY, ODD, SHOE, session

from turncredit.envs.shop import pages
from turncredit.envs.shop.pages import PageLine

SHOES = "search[red shoe]"
OPEN = f"click[{SHOE.asin.lower()}]"
ODDLY = ("search[odd]", f"click[{ODD.asin.lower()}]")
HEAD = f"Instruction: [SEP] {GOAL.instruction} [SEP] Back to Search"


def test_the_first_page() -> None:
    assert pages.text(session()) == f"WebShop [SEP] Instruction: [SEP] {GOAL.instruction} [SEP] Search"
    assert pages.rich(session()) == f"WebShop\nInstruction: \n{GOAL.instruction}\n[button] Search [button_]\n"


def test_results() -> None:
    found = session("search[odd shoe]")
    products = f"{ODD.asin} [SEP] Odd Shoe <b>&amp; [SEP] $5.0 to $9.0 [SEP] {SHOE.asin} [SEP] Red Shoe [SEP] $20.0"
    assert pages.text(found) == f"{HEAD} [SEP] Page 1 (Total results: 2) [SEP] Next > [SEP] {products}"
    second = session("search[sock]", "click[next >]")
    shown = " [SEP] ".join(f"{p.asin} [SEP] {p.name} [SEP] $100.0" for p in MANY[10:20])
    assert pages.text(second) == f"{HEAD} [SEP] Page 2 (Total results: 30) [SEP] < Prev [SEP] Next > [SEP] {shown}"


def test_a_product() -> None:
    options = "color [SEP] red [SEP] blue [SEP] size [SEP] 8 [SEP] 9"
    told = "Red Shoe [SEP] Price: $20.0 [SEP] Rating: N.A. [SEP] Description [SEP] Features [SEP] Reviews [SEP] Buy Now"
    assert pages.text(session(SHOES, OPEN)) == f"{HEAD} [SEP] < Prev [SEP] {options} [SEP] {told}"


def test_sub_pages_and_the_blank_feature() -> None:
    top = f"{HEAD} [SEP] < Prev"
    assert pages.text(session(SHOES, OPEN, "click[description]")) == f"{top} [SEP] A shoe for running."
    # A feature without text leaves the blank before it, and so an empty place.
    assert pages.text(session(SHOES, OPEN, "click[features]")) == f"{top} [SEP] Soft [SEP]  [SEP] Light"
    assert pages.rich(session(SHOES, OPEN, "click[features]")).endswith("\n Soft\n \n Light\n")
    assert pages.text(session(SHOES, OPEN, "click[reviews]")) == top
    assert pages.text(session(*ODDLY, "click[description]")) == top
    attributes = session(SHOES, OPEN, "click[attributes]", attributes=True)
    assert pages.text(attributes) == f"{top} [SEP] soft [SEP] light [SEP] fashion [SEP] shoes [SEP] Clothing › Shoes"


def test_blank_strings_count_as_in_html() -> None:
    # "\n" alone is the space between tags; blanks alone shrink to one; what has text stays as it is.
    assert pages.lines(session(*ODDLY, "click[features]"))[4:] == [PageLine(" a\nb"), PageLine(" ")]


@pytest.mark.parametrize(
    ("value", "shown"),
    [("blue", True), ("a]b", True), ("é", False), ('q"q', False), ("it's", True)],
)
def test_a_chosen_value_is_marked_where_the_address_spells_it(value: str, shown: bool) -> None:
    way = (SHOES, OPEN) if value == "blue" else ODDLY
    rich = pages.rich(session(*way, f"click[{value}]"))
    assert (f"  [clicked button] {value} [clicked button_]\n" in rich) == shown
    assert rich.startswith(f"You have clicked {value}.\n") == shown
    assert (f"  [button] {value} [button_]\n" in rich) != shown


def test_the_last_value_on_the_page_is_said_first() -> None:
    rich = pages.rich(session(SHOES, OPEN, "click[red]", "click[9]"))
    assert rich.startswith("You have clicked 9.\nYou have clicked red.\nInstruction:\n")
    # A query in quotation marks looks chosen as well.
    assert pages.rich(session('search[shoe "blue"]', OPEN)).startswith("You have clicked blue.\n")


def test_visited_products_are_marked_until_back_to_search() -> None:
    assert f"\n\n[button] {SHOE.asin} [button_]\n" in pages.rich(session(SHOES))
    assert f"\n\n[clicked button] {SHOE.asin} [clicked button_]\n" in pages.rich(session(SHOES, OPEN, SHOES))
    assert f"\n\n[button] {SHOE.asin} [button_]\n" in pages.rich(session(SHOES, OPEN, "click[back to search]", SHOES))


def test_the_last_page() -> None:
    bought = session(*ODDLY, "click[it's]", "click[buy now]")
    text = pages.text(bought)
    assert text.startswith("Thank you for shopping with us! [SEP] Your code: [SEP] None [SEP] (Paste it in your MTurk")
    assert f'Purchased [SEP] asin [SEP] {ODD.asin} [SEP] options [SEP] {{"kind": "it\\u0027s"}} [SEP] attrs' in text
    assert bought.reward is not None
    assert f"Your score (min 0.0, max 1.0) [SEP] {bought.reward.total} [SEP] Reward Details [SEP] None" in text
    assert "\n (Paste it in your MTurk interface.)\n" in pages.rich(bought)
    ordered = session(SHOES, OPEN, "click[9]", "click[red]", "click[buy now]")
    assert '{"color": "red", "size": "9"}' in pages.text(ordered)


@given(st.integers(0, 2**32))
def test_both_texts_say_the_same_strings_on_every_page(seed: int) -> None:
    rng = random.Random(seed)
    customer = session(attributes=True)
    for _ in range(12):
        told = pages.lines(customer)
        assert pages.text(customer) == " [SEP] ".join(line.text.strip() for line in told)
        rich = pages.rich(customer)
        assert all(line.text in rich for line in told)
        buttons = {line.text.lower() for line in told if line.kind != "text"}
        assert buttons <= set(customer.clickables())
        if not customer.clickables():
            break
        customer.act(rng.choice([SHOES, "search[odd]", *(f"click[{text}]" for text in customer.clickables())]))
