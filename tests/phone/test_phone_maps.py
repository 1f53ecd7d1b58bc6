"""Maps: the town and its ways, and the app as a person uses it, judged by its database."""

from __future__ import annotations

import math
from datetime import date
from itertools import pairwise

import networkx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turncredit.phone import Phone
from turncredit.phone.apps.maps_places import KINDS, hours_on, me, places
from turncredit.phone.apps.maps_routes import MODES, far, route
from turncredit.phone.apps.maps_town import HEIGHT, WIDTH, StreetPoint, Town, town

MAPS, MESSAGES = "org.turncredit.maps", "org.turncredit.messages"
SEEDS = st.integers(0, 10_000)


def rows(phone: Phone, table: str) -> list[dict]:
    return [dict(row) for row in phone.tables(MAPS).rows(table)]


def first(phone: Phone, kind: str) -> dict:
    return next(row for row in rows(phone, "places") if row["kind"] == kind)


def open_place(phone, user, name: str) -> None:
    phone.launch("Maps")
    user.type("Search here", name)
    tap_row(phone, name)


def tap_row(phone: Phone, title: str) -> None:
    """Tap a row of a list; the field above it may say the same."""
    found = [node for node in phone.tree().walk() if node.text == title and node.resource_id.endswith("id/title")]
    phone.tap(*found[0].center)


# The town


@settings(max_examples=20, deadline=None)
@given(SEEDS)
def test_a_town_hangs_together_on_foot_and_by_car(seed: int) -> None:
    ground = town(seed)
    for kinds in (("main", "street", "path"), ("main", "street")):
        streets = networkx.Graph((edge.start, edge.end) for edge in ground.edges if edge.kind in kinds)
        assert networkx.is_connected(streets)
        missing = set(range(len(ground.crossings))) - set(streets)
        assert len(missing) == ("path" not in kinds), "only the middle of the park is out of reach by car"
    for edge in ground.edges:
        assert edge.length == pytest.approx(math.dist(ground.crossings[edge.start], ground.crossings[edge.end]))
    assert all(0 <= x <= WIDTH and 0 <= y <= HEIGHT for x, y in ground.crossings)


@settings(max_examples=20, deadline=None)
@given(SEEDS, st.integers(-300, WIDTH + 300), st.integers(-300, HEIGHT + 300))
def test_no_street_is_nearer_than_the_nearest(seed: int, x: int, y: int) -> None:
    ground = town(seed)
    nearest = ground.nearest(x, y)
    along = [StreetPoint(i, share / 20) for i in range(len(ground.edges)) for share in range(21)]
    assert math.dist((x, y), ground.point(nearest)) <= min(math.dist((x, y), ground.point(spot)) for spot in along)


@settings(max_examples=20, deadline=None)
@given(SEEDS)
def test_places_differ_and_stand_apart(seed: int) -> None:
    found = places(seed)
    for column in ("name", "address"):
        values = [row[column] for row in found if row["kind"] != "Park"]
        assert len(set(values)) == len(values)
    points = [(row["x"], row["y"]) for row in found]
    apart = min(math.dist(a, b) for i, a in enumerate(points) for b in points[:i])
    assert apart > 20
    for kind, about in KINDS.items():
        assert kind == "Park" or about.least <= sum(row["kind"] == kind for row in found) <= about.most


def shortest(ground: Town, start: tuple, end: tuple) -> float:
    """Return the metres of the shortest way on foot by another program."""
    graph = networkx.Graph()
    for edge in ground.edges:
        graph.add_edge(edge.start, edge.end, weight=edge.length)
    spots = {"start": ground.nearest(*start), "end": ground.nearest(*end)}
    for name, spot in spots.items():
        edge = ground.edges[spot.edge]
        graph.add_edge(name, edge.start, weight=spot.along * edge.length)
        graph.add_edge(name, edge.end, weight=(1 - spot.along) * edge.length)
    if spots["start"].edge == spots["end"].edge:
        apart = abs(spots["start"].along - spots["end"].along) * ground.edges[spots["start"].edge].length
        graph.add_edge("start", "end", weight=apart)
    return float(networkx.shortest_path_length(graph, "start", "end", "weight"))


@settings(max_examples=60, deadline=None)
@given(SEEDS, st.data())
def test_a_way_on_foot_is_the_shortest(seed: int, data: st.DataObject) -> None:
    point = st.tuples(st.integers(-50, WIDTH + 50), st.integers(-50, HEIGHT + 50))
    start, end = data.draw(point), data.draw(point)
    way = route(seed, start, end, "Walking")
    length = sum(math.dist(a, b) for a, b in pairwise(way.line))
    assert length == pytest.approx(shortest(town(seed), start, end), abs=0.01)
    assert way.minutes == max(1, math.ceil(length / 80 - 1e-9))
    assert way.metres == sum(leg.metres for leg in way.legs)
    assert all(one.street != two.street for one, two in pairwise(way.legs))
    back = route(seed, end, start, "Walking")
    assert sum(math.dist(a, b) for a, b in pairwise(back.line)) == pytest.approx(length, abs=0.01)


@pytest.mark.parametrize("seed", range(4))
def test_cars_keep_to_streets_and_are_faster(seed: int) -> None:
    ground, found = town(seed), places(seed)
    paths = {edge.street for edge in ground.edges if edge.kind == "path"}
    for one, two in pairwise(found):
        start, end = (one["x"], one["y"]), (two["x"], two["y"])
        driven, walked = (route(seed, start, end, mode) for mode in ("Driving", "Walking"))
        assert driven.minutes <= walked.minutes
        assert not paths & {leg.street for leg in driven.legs[1:-1]}


def test_turns_are_told_as_they_are_seen() -> None:
    """Ways that turn left on the screen are told as left: y grows downwards."""
    for seed in range(6):
        found = places(seed)
        for one, two in pairwise(found):
            way = route(seed, (one["x"], one["y"]), (two["x"], two["y"]), "Walking")
            if len(way.legs) == 2 and len(way.line) == 3:
                a, b, c = way.line
                side = (b[0] - a[0]) * (c[1] - b[1]) - (b[1] - a[1]) * (c[0] - b[0])
                assert way.legs[1].turn in ("straight", "right" if side > 0 else "left")


@pytest.mark.parametrize(
    ("metres", "said"),
    [(4, "0 m"), (347, "350 m"), (994, "990 m"), (996, "1.0 km"), (1260, "1.3 km")],
)
def test_lengths_are_said_as_people_read_them(metres: float, said: str) -> None:
    assert far(metres) == said


@pytest.mark.parametrize(("day", "hours"), [(16, "08:00-18:00"), (20, "08:00-18:00"), (21, "09:00-12:00"), (22, "")])
def test_hours_of_a_day(day: int, hours: str) -> None:
    row = {"weekdays": "08:00-18:00", "saturday": "09:00-12:00", "sunday": ""}
    assert hours_on(row, date(2023, 10, day)) == hours


# The app


def test_a_finger_moves_the_map_and_the_town_has_an_end(phone, user):
    phone.launch("Maps")
    mark = next(node for node in phone.tree().walk() if ", " in node.description)
    x, y = mark.center
    phone.swipe(600, 1200, 500, 1300)
    moved = user.see(mark.description).center
    assert (moved[0] - x, moved[1] - y) == (pytest.approx(-100, abs=4), pytest.approx(100, abs=4))
    for _ in range(40):
        phone.swipe(200, 1200, 900, 1900)
    assert (phone.page.values["x"], phone.page.values["y"]) == (0, 0)
    user.tap("My location")
    user.tap("Allow")
    assert (phone.page.values.get("x"), phone.page.values.get("y")) == (None, None)


def test_maps_asks_for_the_location_until_it_is_allowed(phone, user):
    phone.launch("Maps")
    phone.swipe(600, 1200, 300, 1200)
    moved = phone.page.values["x"]
    user.tap("My location")
    user.see("Allow Maps to use: access fine location?")
    user.tap("Don't allow")
    assert phone.page.values["x"] == moved
    user.tap("My location")
    user.tap("Allow")
    assert phone.page.values.get("x") is None
    phone.swipe(600, 1200, 300, 1200)
    user.tap("My location")
    assert phone.page.values.get("x") is None


def test_location_off_is_said(phone, user):
    phone.set_setting("location_mode", "0", "secure")
    phone.launch("Maps")
    phone.swipe(600, 1200, 300, 1200)
    user.tap("My location")
    assert user.see("Location is off")


def test_zoom_shows_fewer_places_larger(phone, user):
    phone.launch("Maps")
    counts = []
    for _ in range(5):
        counts.append(sum(", " in node.description for node in phone.tree().walk()))
        user.tap("Zoom in")
    assert counts[0] > counts[1] > counts[2]
    assert counts[3] == counts[4], "there is an end"
    for _ in range(4):
        user.tap("Zoom out")
    assert sum(", " in node.description for node in phone.tree().walk()) > counts[0]


@pytest.mark.parametrize(("rotation", "font"), [("0", "1.0"), ("1", "1.0"), ("0", "1.3"), ("1", "1.3")])
def test_every_mark_opens_its_place(phone, rotation, font):
    phone.set_setting("user_rotation", rotation)
    phone.set_setting("font_scale", font)
    phone.launch("Maps")
    marks = [node for node in phone.tree().walk() if ", " in node.description]
    assert len(marks) > 1
    for mark in marks:
        phone.tap(*mark.center)
        assert phone.tree().find(mark.description.rpartition(", ")[0])
        assert phone.page.screen == "place"
        phone.back()
        phone.change_page(phone.page.__class__(MAPS, "maps"))


def test_a_group_shows_only_its_places(phone, user):
    phone.launch("Maps")
    user.tap("Health")
    shown = {node.description.rpartition(", ")[2] for node in phone.tree().walk() if ", " in node.description}
    assert shown <= {"pharmacy", "dentist", "doctor"}
    assert shown
    user.tap("Health")
    assert any("restaurant" in node.description for node in phone.tree().walk())


def test_a_search_finds_by_kind_name_and_street_the_nearest_first(phone, user):
    here = me(phone.seed)
    phone.launch("Maps")
    user.type("Search here", "pharmac")
    wanted = [row for row in rows(phone, "places") if row["kind"] == "Pharmacy"]
    wanted.sort(key=lambda row: math.dist((row["x"], row["y"]), here))
    titles = [node.text for node in phone.tree().walk() if node.resource_id.endswith("id/title")]
    assert titles == [row["name"] for row in wanted]
    user.type("Search here", wanted[0]["address"].rpartition(",")[0])
    assert user.see(wanted[0]["name"])
    user.type("Search here", "no such thing")
    assert user.see("No places found")
    phone.back()
    phone.back()
    assert user.see("Zoom in")


def test_a_place_is_saved_moved_and_removed(phone, user):
    taken = {row["place"] for row in rows(phone, "saved")}
    place = next(row for row in rows(phone, "places") if row["_id"] not in taken)
    before = rows(phone, "saved")
    open_place(phone, user, place["name"])
    user.tap("Save")
    user.tap("Want to go")
    new = [row for row in rows(phone, "saved") if row not in before]
    assert [(row["place"], row["list"]) for row in new] == [(place["_id"], "Want to go")]
    stored = phone.database(MAPS).execute("SELECT place, list FROM saved ORDER BY _id DESC LIMIT 1").fetchone()
    assert stored == (place["_id"], "Want to go")
    user.tap("Saved")
    user.tap("Family")
    assert [row["list"] for row in rows(phone, "saved") if row["place"] == place["_id"]] == ["Family"]
    phone.back()
    user.tap("Saved")
    user.tap(f"Remove {place['name']}")
    assert rows(phone, "saved") == before


def test_an_address_is_shared_in_a_message(phone, user):
    place = first(phone, "Restaurant")
    who = phone.tables("org.turncredit.contacts").rows("contacts")[4]
    open_place(phone, user, place["name"])
    user.tap("Share")
    user.tap("Send address as message")
    user.type("To", f"{who['first']} {who['last']}")
    tap_row(phone, f"{who['first']} {who['last']}")
    user.tap("Send")
    sent = phone.tables(MESSAGES).rows("sms")[-1]
    assert (sent["address"], sent["body"]) == (who["phone"], place["address"])


def test_a_place_is_called(phone, user):
    place = first(phone, "Dentist")
    open_place(phone, user, place["name"])
    user.tap("Call")
    assert phone.page.package == "org.turncredit.dialer"
    assert user.see(place["phone"])


def test_directions_change_with_mode_and_ends(phone, user):
    one, two = first(phone, "Museum"), first(phone, "Hotel")
    open_place(phone, user, one["name"])
    user.tap("Directions")
    here, there = me(phone.seed), (one["x"], one["y"])
    assert user.see(f"{route(phone.seed, here, there, 'Walking').minutes} minutes")
    user.tap("From")
    user.type("Search places", two["name"])
    tap_row(phone, two["name"])
    user.tap("Driving")
    way = route(phone.seed, (two["x"], two["y"]), there, "Driving")
    assert user.see(f"{far(way.metres)} by car")
    assert user.see(f"Go {way.legs[0].heading} on {way.legs[0].street}")
    user.tap("Swap start and destination")
    back = route(phone.seed, there, (two["x"], two["y"]), "Driving")
    assert user.see(f"Go {back.legs[0].heading} on {back.legs[0].street}")
    assert phone.page.values == {"start": one["_id"], "end": two["_id"], "mode": "Driving"}
    assert MODES == ("Walking", "Driving")


def test_a_review_is_written_and_deleted(phone, user):
    place = first(phone, "Library")
    before = rows(phone, "reviews")
    open_place(phone, user, place["name"])
    for _ in range(6):
        if phone.tree().find("Write a review"):
            break
        phone.swipe(540, 1900, 540, 900)
    user.tap("Write a review")
    user.tap("Stars")
    user.tap("4")
    user.type("Your review", "Warm and quiet")
    phone.back()
    user.tap("Post")
    new = [row for row in rows(phone, "reviews") if row not in before]
    assert [(row["place"], row["author"], row["stars"], row["text"]) for row in new] == [
        (place["_id"], "You", 4, "Warm and quiet")
    ]
    for _ in range(6):
        if phone.tree().find("Delete my review"):
            break
        phone.swipe(540, 1900, 540, 900)
    user.tap("Delete my review")
    assert rows(phone, "reviews") == before
