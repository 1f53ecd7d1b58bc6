"""The phones of the tasks: their store sells what the generated web shops sell."""

from __future__ import annotations

import pytest

from turncredit.envs.android.env import AndroidEnv
from turncredit.envs.android.phones import shop_catalogue, task_phone
from turncredit.envs.shop.generator import catalogue
from turncredit.phone.toolkit.app import Context
from turncredit.phone.web.sites import open_page


@pytest.mark.parametrize("seed", range(8))
def test_no_two_products_of_a_phone_share_a_name(seed: int) -> None:
    names = [product.name for product in shop_catalogue(seed)]
    assert len(set(names)) == len(names) > 50


def test_the_store_sells_generated_products() -> None:
    generated = {product.asin: product for seed in range(8) for product in catalogue("tiny", seed=seed)}
    phone = task_phone(3)
    assert {product.asin for product in phone.stock} <= set(generated)
    for product in phone.stock:
        title = open_page(
            Context(phone, "org.turncredit.browser"), f"corner-store.example/product/{product.asin}"
        ).title
        assert title == f"{product.name} · Corner Store"


def test_the_phones_of_episodes_have_such_a_store() -> None:
    env = AndroidEnv(task_types="BrowserOrder")
    env.reset(seed=0)
    phone = env.episode.device.phone
    assert list(phone.stock) == list(shop_catalogue(phone.seed))
