"""Sessions: each of WebShop's rules by hand, and arbitrary texts."""

from __future__ import annotations

import copy
import json
import pickle
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_shop import GOAL, MANY, ODD, PRODUCTS, SHOE, session, shop

from turncredit.envs.shop.session import BASE, SHOWN, Page, ShopSession, parse

SHOES = "search[red shoe]"
OPEN = f"click[{SHOE.asin.lower()}]"
ODDLY = ("search[odd]", f"click[{ODD.asin.lower()}]")
brackets = st.text(alphabet="[]ab\n \r", max_size=12)
EXPRESSION = re.compile(r"(.+)\[(.+)\]")


def expressed(action: str) -> tuple[str, str] | None:
    """Name and argument by WebShop's regular expression."""
    found = EXPRESSION.match(action)
    return None if found is None else (found[1], found[2].lower())


@given(st.one_of(brackets, st.text(max_size=20)))
def test_actions_are_read_as_the_expression_reads_them(action: str) -> None:
    assert parse(action) == expressed(action)


@pytest.mark.parametrize(
    "action", ["click" + "[" * 10**6, "click[" + "]" * 10**6, "[" * 10**6, "search[" + "a" * 10**6, "x" * 10**6]
)
def test_a_megabyte_of_brackets_is_read_at_once(action: str) -> None:
    # The expression would need hours for the first of them.
    parsed = parse(action)
    assert parsed is None or len(parsed[1]) == 10**6 - 1


def test_the_way_to_a_purchase() -> None:
    customer = session()
    assert customer.page == Page()
    assert customer.clickables() == ["search"]
    assert customer.url() == f"{BASE}/7"
    assert customer.act(SHOES)
    assert customer.page == Page("results", ("red", "shoe"), 1)
    assert customer.clickables()[:3] == ["back to search", "next >", SHOE.asin.lower()]
    assert customer.url() == f"{BASE}/search_results/7/red+shoe/1"
    assert customer.act(OPEN)
    buttons = ["back to search", "< prev", "description", "features", "reviews", "buy now"]
    assert customer.clickables() == [*buttons, "red", "blue", "8", "9"]
    assert customer.act("click[blue]")
    assert customer.act("click[9]")
    assert customer.act("click[red]")
    chosen = (("color", "red"), ("size", "9"))  # another value of an option replaces the first
    assert customer.page == Page("item", ("red", "shoe"), 1, SHOE.asin, chosen)
    assert customer.url() == f'{BASE}/item_page/7/{SHOE.asin}/red+shoe/1/{{"color": "red", "size": "9"}}'
    assert not customer.done
    assert customer.act("click[buy now]")
    assert customer.done
    assert customer.reward is not None
    assert customer.reward.total == 1.0
    assert customer.clickables() == []
    assert customer.url() == f"{BASE}/done/7/{SHOE.asin}/{{'color': 'red', 'size': '9'}}"
    assert not customer.act(SHOES)


def test_the_price_of_the_session_is_the_one_that_counts() -> None:
    dear = ShopSession(shop(), GOAL, "7", prices={SHOE.asin: 31.0})
    for action in (SHOES, OPEN, "click[red]", "click[9]", "click[buy now]"):
        assert dear.act(action)
    assert dear.reward is not None
    assert not dear.reward.price
    assert dear.reward.total == 3 / 4


@pytest.mark.parametrize(
    "before",
    [(), (SHOES,), (SHOES, OPEN), (SHOES, OPEN, "click[red]"), (SHOES, OPEN, "click[features]")],
    ids=len,
)
def test_a_search_is_done_on_any_page_and_forgets_product_and_options(before: tuple[str, ...]) -> None:
    customer = session(*before, "search[sock]")
    assert customer.page == Page("results", ("sock",), 1)
    assert customer.visited == ({SHOE.asin} if OPEN in before else set())


def test_previous_keeps_or_forgets_options() -> None:
    on_item = (SHOES, OPEN, "click[red]")
    from_sub = session(*on_item, "click[reviews]", "click[< prev]")
    assert from_sub.page == session(*on_item).page
    assert session(*on_item, "click[< prev]").page == Page("results", ("red", "shoe"), 1)
    again = session(*on_item, "click[< prev]", OPEN)
    assert again.page.options == ()


def test_pages_of_results_never_end() -> None:
    customer = session("search[sock]")
    assert customer.total() == len(MANY)
    shown = []
    for page in range(1, 8):
        assert customer.page.number == page
        assert ("< prev" in customer.clickables()) == (page > 1)
        shown.append(len(customer.results()))
        assert customer.act("click[next >]")
    assert shown == [SHOWN, SHOWN, SHOWN, 0, 0, 0, 0]
    assert customer.act("click[< prev]")
    assert customer.page.number == 7


def test_back_to_search_forgets_everything() -> None:
    customer = session(SHOES, OPEN, "click[red]", "click[back to search]")
    assert (customer.page, customer.visited) == (Page(), set())
    assert customer.state_key() == session().state_key()


def test_the_address_decides_where_previous_leads() -> None:
    # WebShop searches the whole address for the name of a page, which a query may contain.
    customer = session("search[search_results shoe]", OPEN, "click[< prev]")
    assert customer.page == Page("results", ("search_results", "shoe"), 0)
    assert customer.results() == []
    assert customer.clickables() == ["back to search", "next >"]
    assert customer.act("click[next >]")
    assert customer.page.number == 1
    on_sub = session("search[item_page shoe]", OPEN, "click[features]", "click[< prev]")
    assert on_sub.page == Page("results", ("item_page", "shoe"), 1)


def test_values_that_read_like_something_else() -> None:
    customer = session(*ODDLY)
    # "both" stands where it stood first and belongs to the last option that has it.
    assert customer.clickables()[6:] == ["x[y", "a]b", "é", 'q"q', "it's", "both", "", "search"]
    assert customer.act("click[both]")
    assert customer.page.options == (("other", "both"),)
    assert customer.act("click[a]b]")
    assert dict(customer.page.options) == {"other": "both", "kind": "a]b"}
    assert not customer.act("click[x[y]")
    assert not customer.act("click[search]")
    assert not customer.act("click[]")
    assert customer.act("click[description]")  # the button's name goes before the value
    assert customer.page.sub == "Description"


def test_capitals_and_what_stands_after_an_action_do_not_matter() -> None:
    assert session("search[Red SHOE]").page == session(SHOES).page
    assert session(SHOES, OPEN.upper().replace("CLICK", "click") + " please").page.asin == SHOE.asin
    assert not session().act("Search[red shoe]")
    assert not session().act(" search[red shoe]")


def test_special_searches() -> None:
    everything = {product.asin for product in PRODUCTS}
    assert set(session("search[<c> fashion]")._found) == everything - {ODD.asin}
    assert session("search[<q> odd things]")._found == (ODD.asin,)
    assert session("search[<a> light]")._found == (SHOE.asin,)
    assert session("search[<c>]")._found == session("search[<a> none such]")._found == ()
    drawn = session("search[<r>]")
    assert set(drawn._found) == everything  # all there are, since they are fewer than fifty
    assert drawn._found == session("search[<r>]")._found
    assert drawn._found != session("search[<r>]", name="8")._found
    assert drawn.total() == len(everything)


def test_attributes_are_shown_only_where_asked_for() -> None:
    assert not session(SHOES, OPEN).act("click[attributes]")
    customer = session(SHOES, OPEN, "click[attributes]", attributes=True)
    assert customer.page.sub == "Attributes"
    assert customer.act("click[< prev]")
    assert customer.clickables()[:7][-2:] == ["attributes", "buy now"]


@given(st.lists(st.one_of(st.text(max_size=30), brackets.map("search[{}]".format), brackets.map("click[{}]".format))))
def test_no_text_raises_and_invalid_actions_change_nothing(actions: list[str]) -> None:
    customer = session(*ODDLY)
    for action in actions:
        before = (customer.page, set(customer.visited), customer.url())
        if not customer.act(action):
            assert (customer.page, customer.visited, customer.url()) == before
        assert customer.clickables() is not None
        json.dumps(customer.state_key())


@pytest.mark.parametrize(
    "query",
    [".*", "(?P<x>", "\\", "\0\1\x1b", "a" * 10**6, "]]", "]", "é語🙂", "<script>", "  ", "\t", "%s{}", "or and"],
)
def test_hostile_queries_list_something_or_nothing(query: str) -> None:
    customer = session()
    assert customer.act(f"search[{query}]")
    assert customer.page.kind == "results"
    assert len(customer.results()) <= SHOWN
    assert len(customer.state_key()) < 100


def test_invalid_unicode_and_huge_texts_are_refused() -> None:
    assert not session().act("search[\ud800]")
    assert not session().act("search[" + "a" * (1 << 21) + "]")


def test_state_keys() -> None:
    one = session(SHOES, OPEN, "click[red]", "click[9]")
    other = session(SHOES, OPEN, "click[9]", "click[blue]", "click[red]")
    assert one.state_key() == other.state_key()
    assert one.state_key() == f"item query='red shoe' page=1 asin={SHOE.asin} options={{'color': 'red', 'size': '9'}}"
    ways = [(), (SHOES,), (SHOES, "click[next >]"), ("search[shoe]",), (SHOES, OPEN), (SHOES, OPEN, "click[red]")]
    ways += [(SHOES, OPEN, "click[features]"), (SHOES, OPEN, "click[description]"), ("search[shoe]", OPEN)]
    ways += [(SHOES, OPEN, "click[buy now]"), (SHOES, OPEN, "click[red]", "click[buy now]")]
    assert len({session(*way).state_key() for way in ways}) == len(ways)


def test_the_task_is_in_no_state_key() -> None:
    assert GOAL.instruction.lower() not in session(f"search[{GOAL.instruction}]").state_key().lower()
    assert session(f"search[{GOAL.instruction}]").state_key() != session(f"search[{GOAL.instruction}.]").state_key()


def test_copies_are_independent() -> None:
    customer = session(SHOES, OPEN)
    for other in (copy.deepcopy(customer), pickle.loads(pickle.dumps(customer))):
        assert other.act("click[blue]")
        assert other.url() == session(SHOES, OPEN, "click[blue]").url()
    assert customer.page.options == ()


def test_a_search_that_is_remembered_is_the_same() -> None:
    place = shop()
    first = place.search("shoe", 2)
    assert [asin for asin, _ in first] == [SHOE.asin, ODD.asin]
    first.clear()
    assert place.search("shoe", 2) == shop().search("shoe", 2) != []
    assert len(place.search("sock", 3)) == 3
