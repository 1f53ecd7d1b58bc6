"""Tasks of Browser that fill in forms: the shop, a table, a report, a newsletter, a forum; and across apps."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Final

from turncredit.envs.android.tasks.app_routes import (
    CONTACTS,
    NOTES_FOLDER,
    add_note,
    reachable,
    said_day,
    send_message,
    sent,
)
from turncredit.envs.android.tasks.browser import (
    PACKAGE,
    fact_draw,
    find_fact,
    find_office,
    find_weather,
    office_draw,
    open_site,
    weather_draw,
)
from turncredit.envs.android.tasks.contacts import name_of
from turncredit.envs.android.tasks.effects import DeleteRow, Effect, FileIs, Infeasible, InsertRow, UpdateRow
from turncredit.envs.android.tasks.hand import Hand, Script, is_button, is_item
from turncredit.envs.android.tasks.steps import (
    Step,
    call,
    choose,
    fill,
    give_up,
    pick_date,
    pick_time,
    steps,
    switch,
    tap,
)
from turncredit.envs.android.tasks.template import Draw, DrawFunction, EffectsFunction, Params, TaskTemplate
from turncredit.phone.content.people import STREETS, person
from turncredit.phone.screen.parts import format_date
from turncredit.phone.toolkit.tables import Value
from turncredit.phone.web import bistro, forum, news, shop, town_hall

_APPS: Final = ("Browser",)
_WISHES: Final = ("A quiet corner please", "One of us eats no nuts", "We bring a small dog", "It is a birthday")
_DETAILS: Final = ("Since last night", "In front of the bakery", "Children play there", "It has been so for weeks")
_REPLIES: Final = (
    "Thank you, that helped me",
    "Mine did the same last year",
    "Try it with less of everything",
    "Please show us a picture",
)
_ABSENT: Final = ("Grand Piano", "Rowing Boat", "Wedding Dress", "Tractor", "Chandelier")


# The shop


def _product_draw(d: Draw) -> Params | None:
    product = d.random.pick(list(d.phone.stock))
    options = {name: d.random.pick(values) for name, values in product.options.items()}
    who = person(d.random)
    chosen = shop.options_text(options)
    return {
        "title": product.name,
        "options": chosen,
        "chosen": options,
        "with": f" ({chosen})" if chosen else "",
        "quantity": d.random.between(1, 3),
        "name": f"{who.first} {who.last}",
        "address": who.address,
        "delivery": d.random.pick(shop.DELIVERIES),
    }


def _line(p: Params) -> dict[str, Value]:
    return {"title": p["title"], "options": p["options"], "quantity": p["quantity"]}


def _to_basket(hand: Hand, p: Params) -> Script:
    yield from open_site(hand, "Corner Store")
    yield from _empty_basket(hand)
    yield from hand.fill("Search products", p["title"])
    yield from hand.tap("Search products", where=is_button)
    yield from hand.tap(p["title"], where=is_item)
    for name, value in p["chosen"].items():
        yield from hand.choose(name, value)
    if p["quantity"] > 1:
        yield from hand.choose("Quantity", str(p["quantity"]))
    yield from hand.tap("Add to basket")


def _empty_basket(hand: Hand) -> Script:
    """Take out what an interrupted order has left in the basket."""
    basket = next((e for e in hand.screen if any(re.match(r"Basket \([1-9]", text) for text in e.texts)), None)
    if basket is None:
        return
    yield from hand.tap_element(basket)
    while left := [e for e in hand.screen if any(text.startswith("Remove ") for text in e.texts)]:
        yield from hand.tap_element(left[0])
    yield from open_site(hand, "Corner Store")


def _order_effects(p: Params) -> list[Effect]:
    values = {**_line(p), "name": p["name"], "address": p["address"], "delivery": p["delivery"]}
    return [InsertRow(PACKAGE, "orders", values, free=("product", "price"))]


# The restaurant


def _table_draw(d: Draw) -> Params | None:
    day = d.phone.now.date() + timedelta(days=d.random.between(1, 24))
    if day.weekday() == 0:
        return None  # it is closed
    who = person(d.random)
    return {
        "name": f"{who.first} {who.last}",
        "day": day.isoformat(),
        "date": said_day(day),
        "time": f"{d.random.between(18, 21)}:{d.random.pick(('00', '15', '30'))}",
        "guests": d.random.pick(bistro.GUESTS[1:]),
        "seat": d.random.pick(bistro.SEATS),
        "wish": d.random.pick(_WISHES),
    }


def _table_effects(p: Params) -> list[Effect]:
    when = {"name": p["name"], "date": p["day"], "time": p["time"]}
    more = {"guests": int(p["guests"]), "seat": p["seat"], "wishes": p["wish"]}
    return [InsertRow(PACKAGE, "bookings", {**when, **more})]


def _booking_draw(d: Draw) -> Params | None:
    rows = d.rows(PACKAGE, "bookings")
    days = [row["date"] for row in rows]
    row = d.pick([row for row in rows if days.count(row["date"]) == 1])
    if row is None:
        return None
    day = said_day(d.phone.now.date().fromisoformat(row["date"]))
    return {"id": row["_id"], "date": day, "when": f"{format_date(row['date'])}, {row['time']}"}


# The town hall


def _report_draw(d: Draw) -> Params | None:
    street = f"{d.random.between(2, 90)} {d.random.pick(STREETS)}"
    kind, urgency = d.random.pick(town_hall.KINDS), d.random.pick(town_hall.URGENCIES)
    return {"kind": kind, "street": street, "urgency": urgency, "details": d.random.pick(_DETAILS)}


# The newspaper


def _newsletter_draw(d: Draw) -> Params | None:
    topics = sorted(d.some(news.TOPICS, 2), key=news.TOPICS.index)
    return {"email": person(d.random).email, "frequency": d.random.pick(news.FREQUENCIES), "topics": topics}


def _newsletter_effects(p: Params) -> list[Effect]:
    values = {"email": p["email"], "frequency": p["frequency"], "topics": ", ".join(p["topics"])}
    return [InsertRow(PACKAGE, "subscriptions", values)]


def _newsletter_solve(hand: Hand, p: Params) -> Iterator[str]:
    yield from open_site(hand, "The Northfield Times")
    yield from hand.tap("Get our newsletter")
    yield from hand.fill("Email", p["email"])
    yield from hand.choose("How often", p["frequency"])
    for topic in p["topics"]:
        yield from hand.switch(topic)
    yield from hand.switch("I accept the privacy rules")
    yield from hand.tap("Subscribe")
    yield from hand.done()


# The forum


def _thread_draw(d: Draw) -> Params | None:
    row = d.random.pick(d.rows(PACKAGE, "threads"))
    return {"thread": row["_id"], "title": row["title"], "text": d.random.pick(_REPLIES)}


def _open_thread(hand: Hand, title: str) -> Script:
    yield from open_site(hand, "Workbench")
    yield from hand.tap(title, where=is_item)


def _like_draw(d: Draw) -> Params | None:
    p = _thread_draw(d)
    posts = d.rows(PACKAGE, "posts", thread=p["thread"]) if p else []
    authors = [post["author"] for post in posts]
    post = d.pick([post for post in posts if authors.count(post["author"]) == 1 and not post["liked"]])
    if p is None or post is None:
        return None
    return {**p, "id": post["_id"], "author": post["author"], "likes": post["likes"] + 1}


def _own_post_draw(d: Draw) -> Params | None:
    p = _thread_draw(d)
    if p is None:
        return None
    return {**p, "id": d.insert(PACKAGE, "posts", thread=p["thread"], author=forum.ME, text=p["text"])}


# Over two apps


def _to(d: Draw, draw: Callable[[Draw], Params | None]) -> Params | None:
    to, p = reachable(d, 1), draw(d)
    return {**p, "to": name_of(to[0]), "number": to[0]["phone"]} if to and p else None


def _tell_rain_solve(hand: Hand, p: Params) -> Iterator[str]:
    weather = yield from find_weather(hand, p["town"], p["weekday"], p["day"])
    yield from send_message(hand, p["to"], f"{weather[1]} degrees")
    yield from hand.done()


def _office_contact_solve(hand: Hand, p: Params) -> Iterator[str]:
    number = yield from find_office(hand, p["office"], "phone")
    yield from hand.open("Contacts")
    yield from hand.tap("Create contact", scroll=False)
    yield from hand.fill("First name", p["office"])
    yield from hand.fill("Phone", number)
    yield from hand.tap("Save")
    yield from hand.done()


def _note_draw(d: Draw) -> Params | None:
    p = fact_draw(d)
    return {**p, "note": f"{p['subject']} {d.random.between(2, 99)}"} if p else None


def _note_solve(hand: Hand, p: Params) -> Iterator[str]:
    value = yield from find_fact(hand, p["subject"], p["label"])
    yield from add_note(hand, p["note"], value)
    yield from hand.done()


def _template(
    name: str,
    goal: str | tuple[str, ...],
    draw: DrawFunction,
    effects: EffectsFunction,
    solve: Step,
    complexity: float,
    apps: tuple[str, ...] = _APPS,
    split: str = "train",
    tags: tuple[str, ...] = (),
) -> TaskTemplate:
    return TaskTemplate(name, goal, draw, effects, solve, apps, complexity, split, tags)


TEMPLATES: Final = (
    _template(
        "BrowserOrder",
        "Order {quantity} x {title}{with} in the Corner Store. Name: {name}. Address: {address}. Delivery: {delivery}.",
        _product_draw,
        _order_effects,
        steps(
            _to_basket,
            tap("View", scroll=False),
            tap("Go to checkout"),
            fill("Name", "{name}"),
            fill("Address", "{address}"),
            switch("{delivery}"),
            tap("Place order"),
        ),
        4.4,
    ),
    _template(
        "BrowserBasket",
        "Put {quantity} x {title}{with} into the basket of the Corner Store, but do not order yet.",
        _product_draw,
        lambda p: [InsertRow(PACKAGE, "basket", _line(p), free=("product", "price"))],
        steps(_to_basket),
        3.0,
        split="held_out",
    ),
    _template(
        "BrowserOrderMissing",
        "Order a {thing} in the Corner Store. If the shop has none, say so.",
        lambda d: {"thing": d.random.pick(_ABSENT)},
        lambda p: [Infeasible()],
        steps(
            call(open_site, "Corner Store"),
            fill("Search products", "{thing}"),
            tap("Search products", where=is_button),
            give_up(),
        ),
        1.2,
        tags=("infeasible",),
    ),
    _template(
        "BrowserBookTable",
        'Book a table at Bistro Alma in Browser for {name}, {date} at {time}: {guests} guests, {seat}, wish "{wish}".',
        _table_draw,
        _table_effects,
        steps(
            call(open_site, "Bistro Alma"),
            tap("Book a table"),
            fill("Name", "{name}"),
            pick_date("Date", "{day}"),
            pick_time("Time", "{time}"),
            choose("Guests", "{guests}"),
            switch("{seat}"),
            fill("Wishes, such as allergies", "{wish}"),
            tap("Send booking"),
        ),
        4.4,
    ),
    _template(
        "BrowserCancelTable",
        ("Cancel my table at Bistro Alma on {date}.", "I cannot come to Bistro Alma on {date}: cancel the booking."),
        _booking_draw,
        lambda p: [DeleteRow(PACKAGE, "bookings", p["id"])],
        steps(call(open_site, "Bistro Alma"), tap("My bookings"), tap("Cancel {when}")),
        1.2,
    ),
    _template(
        "BrowserReport",
        'Report to Northfield Town Hall on its site: {kind}, at {street}. Urgency: {urgency}. Details: "{details}".',
        _report_draw,
        lambda p: [InsertRow(PACKAGE, "reports", {k: p[k] for k in ("kind", "street", "urgency", "details")})],
        steps(
            call(open_site, "Northfield Town Hall"),
            tap("Report it"),
            choose("What is it?", "{kind}"),
            fill("Street and number", "{street}"),
            fill("Details", "{details}"),
            switch("{urgency}"),
            tap("Send report"),
        ),
        2.8,
    ),
    _template(
        "BrowserNewsletter",
        "Subscribe {email} to the newsletter of The Northfield Times: {frequency}, with the topics {topics} only.",
        _newsletter_draw,
        _newsletter_effects,
        _newsletter_solve,
        4.0,
    ),
    _template(
        "BrowserReply",
        'Post the reply "{text}" to "{title}" on Workbench, the forum in Browser.',
        _thread_draw,
        lambda p: [InsertRow(PACKAGE, "posts", {"thread": p["thread"], "author": forum.ME, "text": p["text"]})],
        steps(call(_open_thread, "{title}"), fill("Your reply", "{text}"), tap("Post reply")),
        2.0,
    ),
    _template(
        "BrowserLike",
        'Like the post of {author} in the thread "{title}" on Workbench, the forum in Browser.',
        _like_draw,
        lambda p: [UpdateRow(PACKAGE, "posts", p["id"], {"liked": 1, "likes": p["likes"]})],
        steps(call(_open_thread, "{title}"), tap("Like the post of {author}")),
        1.8,
    ),
    _template(
        "BrowserDeletePost",
        'Delete my post in the thread "{title}" on Workbench, the forum in Browser.',
        _own_post_draw,
        lambda p: [DeleteRow(PACKAGE, "posts", p["id"])],
        steps(call(_open_thread, "{title}"), tap("Delete my post")),
        1.8,
        split="held_out",
    ),
    _template(
        "CrossTellWeather",
        'Look at the site Sky Office, and text {to} the highest temperature in {town} on {weekday}, as "12 degrees".',
        lambda d: _to(d, weather_draw),
        lambda p: [sent(p["number"], f"{p['high']} degrees")],
        _tell_rain_solve,
        3.0,
        apps=("Browser", "Messages"),
    ),
    _template(
        "CrossSaveOffice",
        'Save the phone number of the office "{office}", from the site of Northfield Town Hall, as a new contact with '
        'the first name "{office}".',
        office_draw,
        lambda p: [InsertRow(CONTACTS, "contacts", {"first": p["office"], "phone": p["phone"], "label": "Mobile"})],
        _office_contact_solve,
        2.6,
        apps=("Browser", "Contacts"),
    ),
    _template(
        "CrossNoteFact",
        'Look up {subject} in Openpages and write a note "{note}" that holds what stands next to "{label}", as it is.',
        _note_draw,
        lambda p: [FileIs(f"{NOTES_FOLDER}/{p['note']}.md", p["value"])],
        _note_solve,
        3.0,
        apps=("Browser", "Notes"),
        split="held_out",
    ),
)
