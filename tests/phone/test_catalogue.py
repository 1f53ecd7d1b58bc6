"""The store of the browser: its own small catalogue, and one that is handed to the phone."""

from __future__ import annotations

import pytest

from turncredit.phone import Phone
from turncredit.phone.content.catalogue import Goods, SmallCatalogue, small_catalogue
from turncredit.phone.toolkit.app import Context
from turncredit.phone.web.sites import open_page

BROWSER, STORE = "org.turncredit.browser", "corner-store.example"


def one_lamp(seed: int | str) -> SmallCatalogue:
    return SmallCatalogue((Goods("L1", f"Lamp {seed}", "It glows.", (), "lamps", "Lamps › Desk", (9.5,), {}),))


def texts(phone: Phone) -> set[str]:
    return {node.text or node.description for node in phone.tree().walk()}


@pytest.mark.parametrize("seed", [0, 1, "held_out"])
def test_the_small_catalogue_has_products_that_can_be_told_apart(seed: int | str) -> None:
    products = list(small_catalogue(seed))
    assert len({product.name for product in products}) == len({p.asin for p in products}) == len(products) == 48
    assert all(small_catalogue(seed).get(product.asin) is product for product in products)
    assert list(small_catalogue(f"another than {seed}")) != products


def test_a_search_puts_products_with_more_of_the_words_first() -> None:
    catalogue = small_catalogue(0)
    wanted = next(iter(catalogue))
    results = catalogue.search(wanted.name, 5)
    assert (results[0][0], len(results)) == (wanted.asin, 5)
    assert [score for _, score in results] == sorted((score for _, score in results), reverse=True)
    assert catalogue.search("bulldozer", 5) == []


def test_every_product_of_the_phone_has_a_page() -> None:
    phone = Phone(1)
    for product in phone.stock:
        page = open_page(Context(phone, BROWSER), f"{STORE}/product/{product.asin}")
        assert page.title == f"{product.name} · Corner Store"


def test_the_store_sells_what_is_handed_to_the_phone() -> None:
    own, handed = Phone(3), Phone(3, catalogue=one_lamp)  # one seed: neither shows the other's pages
    for phone in (own, handed):
        phone.launch("Browser")
        phone.tap(*phone.tree().find("Search or type address").center)
        phone.text(STORE)
        phone.key(66)
    assert "Lamp 3" in texts(handed)
    assert "Lamp 3" not in texts(own)
    assert {next(iter(own.stock)).name} <= texts(own)
    assert own.state_key() == handed.state_key()


def test_a_phone_is_copied_with_its_catalogue() -> None:
    from copy import deepcopy

    phone = Phone(3, catalogue=one_lamp)
    assert [product.name for product in deepcopy(phone).stock] == ["Lamp 3"]
