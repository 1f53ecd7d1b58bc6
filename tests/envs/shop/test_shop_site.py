"""The site's pages: their text equals the text observations, and hostile products cannot inject anything."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from shop_reading import BAD, HOSTILE, MUG, Reader, clickables, goal_of, rich, shop_of, text
from small_shop import MANY, real_catalogue
from small_shop import session as small_session

from turncredit.envs.shop import pages
from turncredit.envs.shop.explanation import explain
from turncredit.envs.shop.generator import catalogue
from turncredit.envs.shop.goal import Goal
from turncredit.envs.shop.product import Product
from turncredit.envs.shop.reward import RewardFunction
from turncredit.envs.shop.session import Page, Shop, ShopSession
from turncredit.envs.shop.site import addresses
from turncredit.envs.shop.site.pictures import glyph_of, picture, tint
from turncredit.envs.shop.site.render import error, html

pytest.importorskip("jinja2", reason="needs the extra `serve`")


def hold(session: ShopSession) -> str:
    """Hold the law of the pages, and return the kind of the one that was looked at."""
    document = Reader(html(session))
    assert text(document) == pages.text(session)
    assert rich(document, session) == pages.rich(session)
    assert clickables(document) == session.clickables()
    return session.page.kind


def walk(session: ShopSession, rng: random.Random, turns: int) -> set[str]:
    """Wander about, hold the law on every page, and return the kinds of pages seen."""
    seen = {hold(session)}
    for _ in range(turns):
        choices = [name for name in session.clickables() if name != "search"]
        if not choices or rng.random() < 0.15:
            session.find(rng.choice(["mug", "blue mug " + HOSTILE, "nothing of the kind", "<r>", " "]))
        else:
            assert session.act(f"click[{rng.choice(choices)}]") or "\n" in str(choices)
        seen.add(hold(session))
        if session.done:
            break
    return seen


@pytest.mark.parametrize("attributes", [False, True])
def test_pages_read_as_the_text_observations_do(attributes: bool) -> None:
    shop = shop_of(MUG, BAD, attributes=attributes)
    rng = random.Random(5)
    seen: set[str] = set()
    for name in range(25):
        seen |= walk(ShopSession(shop, goal_of(rng.choice([MUG, BAD])), f"visitor {name} {HOSTILE}"), rng, 25)
    assert seen == {"index", "results", "item", "sub", "done"}


words = st.text(st.sampled_from("ab <>&\"'\n\t\r\f\v\x00\x85\xa0é{}%[]/+\\"), max_size=12)


@settings(max_examples=60, deadline=None)
@given(
    name=words, description=words, bullets=st.lists(words, max_size=3), tag=words, instruction=words,
    options=st.dictionaries(words.map(str.lower), st.lists(words.map(str.lower), max_size=3, unique=True), max_size=3),
    turns=st.integers(0, 2**32),
)  # fmt: skip
def test_any_product_reads_as_its_text_observation(
    name: str,
    description: str,
    bullets: list[str],
    tag: str,
    instruction: str,
    options: dict[str, list[str]],
    turns: int,
) -> None:
    product = Product(
        "A1",
        name,
        description,
        tuple(bullets),
        price_tag=tag,
        options={key: (*values,) for key, values in options.items()},
    )
    goal = Goal("A1", "", "", name, "", instruction, ("a",))
    session = ShopSession(shop_of(product), goal, "s")
    rng = random.Random(turns)
    session.find("<r>")
    hold(session)
    session.act("click[a1]")
    for _ in range(6):
        hold(session)
        if session.page.kind == "item":
            session.act(f"click[{rng.choice(session.clickables()[1:])}]")
        else:
            session.act("click[< prev]")


def test_the_recorded_catalogue_reads_as_its_text_observations(data_dir: Path) -> None:
    products = real_catalogue(data_dir)
    shop = Shop(products, {product.asin: product.pricing[0] for product in products}, RewardFunction("original", "own"))
    goal = goal_of(products[0])
    session = ShopSession(shop, goal, "all")
    for product in products[::9]:
        session.go(Page("item", ("x",), 1, product.asin))
        hold(session)
        for sub in ("Description", "Features"):
            session.go(Page("sub", ("x",), 1, product.asin, (), sub))
            hold(session)
    session.find("men's shirt")
    assert hold(session) == "results"


@pytest.mark.parametrize(
    ("actions", "number"),
    [
        (["search[sock]", "click[next >]", "click[next >]"], 2),  # results: one page back
        (["search[sock]", "click[next >]", f"click[{MANY[10].asin.lower()}]"], 2),  # a product: the page it was on
        (["search[sock]", f"click[{MANY[0].asin.lower()}]"], 1),
    ],
)
def test_the_link_back_leads_to_the_page_of_results_before(actions: list[str], number: int) -> None:
    visit = small_session(*actions)
    (target,) = re.findall(r'<form class="prev" method="post" action="([^"]*)"', html(visit))
    page = addresses.parse(target)[1]
    assert (page.kind, page.number) == ("results", number)


def test_ids_and_classes_are_the_originals() -> None:
    session = ShopSession(shop_of(MUG), goal_of(MUG), "s")
    reader = Reader(html(session))
    field = next(node for node in reader.nodes if node.attributes.get("id") == "search_input")
    assert (field.name, field.attributes["name"]) == ("input", "search_query")
    session.find("mug")
    assert [node.text for node in Reader(html(session)).nodes if "product-link" in node.classes] == ["MUG1"]
    session.act("click[mug1]")
    session.act("click[red]")
    nodes = Reader(html(session)).nodes
    assert {"instruction-text", "product-image"} <= {node.attributes.get("id") for node in nodes}
    radios = [node.attributes for node in nodes if node.attributes.get("type") == "radio"]
    assert [(radio["name"], radio["value"], "checked" in radio) for radio in radios] == [
        ("color", "navy blue", False),
        ("color", "red", True),
        ("size", "12 oz", False),
        ("size", 'large "xl"', False),
    ]
    labels = [node.attributes["for"] for node in nodes if node.name == "label"]
    assert labels == [radio["id"] for radio in radios]


def documents() -> list[str]:
    """Every kind of page, with hostile text wherever text can be."""
    session = ShopSession(shop_of(BAD, MUG), goal_of(BAD), HOSTILE)
    found = [html(session), error(404, HOSTILE)]
    session.find(f"mug {HOSTILE.lower()}")
    found.append(html(session))
    session.act("click[bad1]")
    session.act(f"click[{HOSTILE.lower()}]")
    found.append(html(session))
    for sub in ("description", "features", "reviews"):
        session.act(f"click[{sub}]")
        found.append(html(session))
        session.act("click[< prev]")
    assert session.act("click[buy now]")
    return [*found, html(session), html(session, explained=True)]


def test_text_of_others_cannot_become_markup() -> None:
    for document in documents():
        assert "<script>" not in document
        for node in Reader(document).nodes:
            assert "onerror" not in node.attributes
            assert node.attributes.get("src") != "x"


def test_pages_need_neither_inline_script_nor_style_nor_another_host() -> None:
    for document in documents():
        for node in Reader(document).nodes:
            assert node.name not in ("style", "iframe", "object", "base")
            assert not any(name == "style" or name.startswith("on") for name in node.attributes)
            if node.name == "script":
                assert node.text == ""
            for name in ("src", "href", "action", "data-url"):
                assert (node.attributes.get(name) or "/").startswith(("/", "#")), node
                assert not (node.attributes.get(name) or "/").startswith("//"), node


def test_the_end_page_for_people_accounts_for_every_part() -> None:
    goal = goal_of(MUG, {"color": "red", "size": "12 oz"}, bound=10.0)
    session = ShopSession(shop_of(MUG), goal, "s")
    session.find("mug")
    for action in ("click[mug1]", "click[red]", "click[buy now]"):
        assert session.act(action)
    assert session.reward is not None
    verdict = explain(session.shop.reward_function, MUG, goal, 12.0, {"color": "red"})
    nodes = Reader(html(session, explained=True)).nodes
    rows = [(node.classes[0], " ".join(node.text.split())) for node in nodes if node.name == "li" and node.classes]
    assert [kind for kind, _ in rows].count("met") == verdict.points
    assert len(rows) == verdict.possible == 5
    assert ("missed", "Not met: size: 12 oz nothing was selected") in rows
    assert ("missed", "Not met: at most $10.00 it cost $12.00") in rows
    assert ("met", "Met: color: red selected") in rows
    shown = next(node for node in nodes if node.name == "pre")
    assert shown.text == f"{session.reward.total:.2f}"
    summed = next(node for node in nodes if "sum" in node.classes).text
    assert float(summed.rpartition("=")[2]) == pytest.approx(session.reward.total, abs=5e-5)


plain = st.text(max_size=20)


@given(
    session=plain, kind=st.sampled_from(["index", "results", "item", "sub", "done"]), number=st.integers(1, 999_999),
    keywords=st.lists(plain.filter(lambda word: " " not in word), min_size=1, max_size=4),
    asin=plain | st.sampled_from([".", "..", ".+", "..+", "%2e"]),
    options=st.dictionaries(plain, plain, max_size=3), sub=st.sampled_from(["Description", "Features", "Reviews"]),
)  # fmt: skip
def test_addresses_lead_to_their_pages(
    session: str, kind: str, number: int, keywords: list[str], asin: str, options: dict[str, str], sub: str
) -> None:
    page = {
        "index": Page(),
        "results": Page("results", (*keywords,), number),
        "item": Page("item", (*keywords,), number, asin, (*options.items(),)),
        "sub": Page("sub", (*keywords,), number, asin, (*options.items(),), sub),
        "done": Page("done", asin=asin, options=(*options.items(),)),
    }[kind]
    address = addresses.href(session, page)
    assert address.isascii()
    assert address.startswith("/")
    if not session or not session.isprintable() or session in (".", ".."):
        with pytest.raises(addresses.SiteError):
            addresses.parse(address)
    elif tuple(keywords[:1]) in ((".",), ("..",)) and keywords[1:] == [""] and kind not in ("index", "done"):
        assert addresses.parse(address)[1].keywords == (keywords[0],)  # the one form with two meanings
    else:
        assert addresses.parse(address) == (session, page)
        assert not {".", ".."} & set(address.split("/")[2:])


@given(asin=plain | st.sampled_from([".", "..", "...", ".+", "..+", "a/b", "x.svg", "%2e"]), coloured=st.booleans())
def test_the_address_of_a_picture_names_its_product(asin: str, coloured: bool) -> None:
    """The segments "." and "..", also percent-encoded, are gone before a browser asks."""
    address = addresses.drawing(asin, "cc3430" if coloured else "")
    segments = address.removeprefix("/picture/").removesuffix(".svg").split("/")
    assert [addresses.asin_of(segments[0]), *segments[1:]] == ([asin, "cc3430"] if coloured else [asin])
    assert not {".", "..", "%2e", "%2e%2e"} & {part.lower() for part in address.split("/")}


@pytest.mark.parametrize(
    ("address", "page"),
    [
        ("/abc", Page()),
        ("/search_results/abc/red+shoes/2", Page("results", ("red", "shoes"), 2)),
        (
            '/item_page/abc/B1/red+shoes/1/{"color": "red"}',
            Page("item", ("red", "shoes"), 1, "B1", (("color", "red"),)),
        ),
        (
            "/item_sub_page/abc/B1/x/1/Features/{'size': 'm'}",
            Page("sub", ("x",), 1, "B1", (("size", "m"),), "Features"),
        ),
        ("/done/abc/B1/{}", Page("done", asin="B1")),
        ("/done/abc/B1/%7B%27a%27%3A%20%22b%27%22%7D", Page("done", asin="B1", options=(("a", "b'"),))),
    ],
)
def test_addresses_of_the_original_are_understood(address: str, page: Page) -> None:
    assert addresses.parse(address) == ("abc", page)


@pytest.mark.parametrize(
    ("address", "status"),
    [
        ("", 404),
        ("/a/b", 404),
        ("/a/b/c/d/e/f/g/h/i", 404),
        ("/search_results/s/x/0", 404),
        ("/search_results/s/x/-1", 404),
        ("/search_results/s/x/1.5", 404),
        ("/search_results/s/x/" + "9" * 5000, 404),
        ("/search_results/s/x/%D9%A1", 404),
        ("/item_page/s/A/x/1/[]", 404),
        ("/item_page/s/A/x/1/{1: 2}", 404),
        ("/item_page/s/A/x/1/" + "[" * 9000, 404),
        ("/item_page/s/A/x/1/__import__('os')", 404),
        ("/item_sub_page/s/A/x/1/Secrets/{}", 404),
        ("/%00", 404),
        ("/a%0Ab", 404),
        ("/%2e%2e", 404),
        ("/" + "n" * 300, 404),
        ("/search_results/s/" + "q" * 3000 + "/1", 414),
        ("/" + "n" * 40_000, 414),
    ],
)
def test_addresses_that_lead_nowhere_are_refused(address: str, status: int) -> None:
    with pytest.raises(addresses.SiteError) as refused:
        addresses.parse(address)
    assert refused.value.status == status
    assert str(refused.value).count("\n") == 0
    assert len(str(refused.value)) < 200


def test_our_own_catalogue_is_drawn_by_kind() -> None:
    drawn = {product.query: glyph_of(product) for product in catalogue("small")}
    assert len(drawn) == 15
    assert "box" not in drawn.values()
    assert len(set(drawn.values())) >= 10


def test_pictures_are_drawn_without_text() -> None:
    products = [
        MUG,
        BAD,
        Product("X", "thing"),
        Product("Y", "thing", category="fashion"),
        Product("Z", "", query="office chairs"),
    ]
    assert [glyph_of(product) for product in products] == ["cup", "cup", "box", "shirt", "chair"]
    for product in products:
        drawn = picture(product)
        assert Reader(drawn).strings == []
        assert drawn == picture(product)
        assert "<script" not in drawn
    assert picture(products[2]) != picture(Product("X2", "thing"))
    assert tint("deep navy") in picture(MUG, tint("deep navy"))
    assert [tint(value) for value in ("red", "Dark Red", "red and blue", "redwood", "")] == [
        "#cc3430",
        "#cc3430",
        "",
        "",
        "",
    ]


def test_a_picture_has_a_colour_that_the_product_is_offered_in() -> None:
    drawn = set()
    for product in catalogue("small"):
        if colours := product.options.get("color"):
            offered = {tint(value) for value in colours}
            assert all(offered), colours
            shown = {colour for colour in offered if f'"{colour}"' in picture(product)}
            assert len(shown) == 1
            drawn |= shown
    assert len(drawn) > 8
