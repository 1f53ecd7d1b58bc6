"""The browser as a person uses it: pages, forms and the shop, judged by its database."""

from __future__ import annotations

import pytest

from turncredit.phone import Phone
from turncredit.phone.screen.box import STYLES, dp
from turncredit.phone.screen.fonts import text_width, wrap
from turncredit.phone.toolkit.app import Context
from turncredit.phone.web import encyclopedia, news, shop
from turncredit.phone.web.sites import SITES, find, open_page

BROWSER = "org.turncredit.browser"


def rows(phone: Phone, table: str) -> list[dict]:
    return [dict(row) for row in phone.tables(BROWSER).rows(table)]


def _unit(value: str) -> str:
    """Return the unit behind a number, such as ' km'."""
    number, _, unit = value.partition(" ")
    return f" {unit}" if number.isdigit() else ""


def visit(phone, user, address: str) -> None:
    phone.launch("Browser")
    user.tap("Search or type address")
    phone.text(address)
    phone.key(66)


def tap(phone, user, text: str) -> None:
    """Tap something, after scrolling down to it."""
    for _ in range(12):
        if phone.tree().find(text):
            break
        phone.swipe(540, 1700, 540, 900)
    user.tap(text)


@pytest.mark.parametrize("seed", [0, 1, "held_out"])
def test_every_page_of_the_index_opens(seed):
    phone = Phone(seed)
    ctx = Context(phone, BROWSER)
    for site in SITES.values():
        for path, _, _ in site.index(seed):
            assert "not found" not in open_page(ctx, f"{site.host}/{path}").title, (site.host, path)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_an_article_contains_the_answers_to_its_questions(seed):
    for article in news.articles(seed):
        for _, _, answer in article.facts:
            assert answer in f"{article.title} {' '.join(article.text)}"
    for subject in encyclopedia.subjects(seed):
        said = " ".join(subject.text)
        assert all(value.removesuffix(unit) in said for value in subject.facts.values() for unit in (_unit(value),))


def test_an_address_replaces_the_one_that_is_there_and_back_returns(phone, user):
    visit(phone, user, "https://www.weather.example/")
    assert user.see("Sky Office: Weather for the valley")
    visit(phone, user, "railway.example")
    assert user.see("Search or type address").text == "railway.example"
    phone.back()
    assert user.see("Sky Office: Weather for the valley")
    user.tap("More options")
    user.tap("Forward")
    assert user.see("Trains from Northfield to")


def test_words_are_searched(phone, user):
    article = news.articles(3)[0]
    assert any(found.title == article.title for found in find(3, article.title))
    visit(phone, user, "lighthouses and rivers")
    tap(phone, user, "Openpages")
    assert user.see("Search Openpages")


def test_addresses_that_lead_nowhere_say_so(phone, user):
    visit(phone, user, "nowhere.example")
    assert user.see("nowhere.example could not be found")
    visit(phone, user, "weather.example/atlantis")
    assert user.see("This page does not exist (404)")


def test_a_product_is_ordered(phone, user):
    product = next(one for one in phone.stock if len(one.options) > 1)
    visit(phone, user, f"corner-store.example/product/{product.asin}")
    tap(phone, user, "Add to basket")
    assert rows(phone, "basket") == []
    chosen = {}
    for name, values in product.options.items():
        tap(phone, user, name.capitalize())
        user.tap(values[-1])
        chosen[name] = values[-1]
    tap(phone, user, "Add to basket")
    user.tap("View")
    user.tap("Go to checkout")
    user.type("Name", "Robin Blum")
    user.type("Address", "4 Mill Lane")
    phone.back()
    user.tap("Express")
    tap(phone, user, "Place order")
    line = {"product": product.asin, "title": product.name, "options": shop.options_text(chosen), "quantity": 1}
    address = {"name": "Robin Blum", "address": "4 Mill Lane", "delivery": "Express"}
    assert rows(phone, "orders") == [{"_id": 1, **line, "price": product.pricing[0], **address}]
    assert rows(phone, "basket") == []


def test_a_newsletter_needs_all_that_it_asks_for(phone, user):
    visit(phone, user, "northfield-times.example/newsletter")
    tap(phone, user, "Subscribe")
    assert user.see("Enter an email address")
    user.type("Email", "robin@mailbox.example")
    phone.key(4)
    tap(phone, user, "Sport")
    tap(phone, user, "I accept the privacy rules")
    tap(phone, user, "Subscribe")
    expected = {"_id": 1, "email": "robin@mailbox.example", "frequency": "Once a week", "topics": "Sport"}
    assert rows(phone, "subscriptions") == [expected]


def test_a_reply_is_posted_liked_and_deleted(phone, user):
    before = rows(phone, "posts")
    visit(phone, user, "workbench.example/thread/3")
    tap(phone, user, "Your reply")
    phone.text("Twenty minutes with the lid on.")
    phone.key(4)
    tap(phone, user, "Post reply")
    new = [row for row in rows(phone, "posts") if row not in before]
    assert [(row["thread"], row["text"]) for row in new] == [(3, "Twenty minutes with the lid on.")]
    tap(phone, user, "Delete my post")
    assert rows(phone, "posts") == before


def test_a_booking_is_cancelled(phone, user):
    before = rows(phone, "bookings")
    visit(phone, user, "bistro-alma.example/bookings")
    cancel = next(node for node in phone.tree().walk() if node.description.startswith("Cancel "))
    phone.tap(*cancel.center)
    assert rows(phone, "bookings") == before[1:]


def test_tabs_open_and_close(phone, user):
    first = rows(phone, "tabs")
    phone.launch("Browser")
    user.tap("More options")
    user.tap("New tab")
    assert len(rows(phone, "tabs")) == len(first) + 1
    user.tap(f"Tabs: {len(first) + 1} open")
    while closing := [n for n in phone.tree().walk() if n.description.startswith("Close ")]:
        phone.tap(*closing[-1].center)
    assert rows(phone, "tabs") == []
    phone.back()
    assert [row["url"] for row in rows(phone, "tabs")] == [""]


def test_a_bookmark_is_added_renamed_and_deleted(phone, user):
    url = "openpages.example/kind/Bird"
    visit(phone, user, url)
    user.tap("More options")
    user.tap("Add bookmark")
    user.tap("Edit")
    user.type("Title", "All birds")
    user.tap("Save")
    found = [row for row in rows(phone, "bookmarks") if row["url"] == url]
    assert [row["title"] for row in found] == ["All birds"]
    user.tap("More options")
    user.tap("Remove bookmark")
    assert not [row for row in rows(phone, "bookmarks") if row["url"] == url]


@pytest.mark.parametrize("font", [0.85, 1.0, 1.15, 1.3])
def test_the_names_of_all_sites_are_readable_on_a_new_tab(phone, user, font):
    """A tile has two lines for its name."""
    phone.set_setting("font_scale", str(font))
    phone.launch("Browser")
    for site in SITES.values():
        tile = user.see(site.name)
        size = int(STYLES["caption"].size * font)
        lines = wrap(site.name, size, tile.right - tile.left + 2 * dp(4))
        assert len(lines) <= 2
        assert all(text_width(line, size) <= tile.right - tile.left + 2 * dp(4) for line in lines)
