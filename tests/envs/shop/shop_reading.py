"""Reads HTML pages as WebShop's text environment does (by BeautifulSoup's rules), and defines a small shop with a
normal product and one with hostile text in every field.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from html.parser import HTMLParser

import small_shop

from turncredit.envs.shop.catalogue import Catalogue
from turncredit.envs.shop.goal import Goal
from turncredit.envs.shop.product import Product
from turncredit.envs.shop.reward import RewardFunction
from turncredit.envs.shop.session import Shop, ShopSession

VOID = {"meta", "link", "img", "input", "br", "hr", "circle", "rect", "path"}
UNSEEN = {"style", "script", "head", "title", "meta", "[document]"}
BLANK = " \n\t\f\r"

HOSTILE = '<script>alert("1")</script>&amp; \' " </h2><img src=x onerror=alert(1)> {{ 7 * 7 }}'

MUG = Product(
    asin="MUG1",
    name="Blue travel mug",
    description="A mug.",
    bullets=("steel", "", "dishwasher safe"),
    category="garden",
    query="mugs",
    product_category="Home › Kitchen › Mugs",
    pricing=(12.0,),
    price_tag="$12.0",
    options={"color": ("navy blue", "red"), "size": ("12 oz", 'large "xl"')},
    attributes=("steel", "dishwasher safe"),
)
BAD = Product(
    asin="BAD1",
    name=f"mug {HOSTILE}",
    description=HOSTILE,
    bullets=(HOSTILE, " ", "\n"),
    category=HOSTILE,
    query=HOSTILE,
    product_category=HOSTILE,
    price_tag=HOSTILE,
    options={HOSTILE.lower(): (HOSTILE.lower(), "a/b", "x + y", "100%", "é\x07")},
    attributes=(HOSTILE,),
)


def goal_of(product: Product, options: Mapping[str, str] | None = None, bound: float = 20.0) -> Goal:
    return small_shop.goal_of(product, options=options or {}, price_upper=bound)


def shop_of(*products: Product, attributes: bool = False) -> Shop:
    prices = {product.asin: product.pricing[0] for product in products}
    return Shop(Catalogue(products), prices, RewardFunction("original", "own"), attributes=attributes)


@dataclass
class Node:
    """An element, with the texts under it."""

    name: str
    attributes: dict[str, str | None] = field(default_factory=dict)
    text: str = ""

    @property
    def classes(self) -> list[str]:
        return (self.attributes.get("class") or "").split()


class Reader(HTMLParser):
    """Reads a document; raises AssertionError where its tags do not match.

    strings: (text, parent) of each visible string, white space that stands alone as BeautifulSoup leaves it.
    nodes: every element, in order.
    """

    def __init__(self, document: str) -> None:
        super().__init__()
        self.open = [Node("[document]")]
        self.nodes: list[Node] = []
        self.strings: list[tuple[str, Node]] = []
        self.waiting = ""
        self.feed(document)
        self.close()
        self.flush()
        assert len(self.open) == 1

    def flush(self) -> None:
        text, self.waiting = self.waiting, ""
        for node in self.open:
            node.text += text
        if text and not text.strip(BLANK) and all(node.name not in ("pre", "textarea") for node in self.open):
            text = "\n" if "\n" in text else " "
        if text and text != "\n" and self.open[-1].name not in UNSEEN:
            self.strings.append((text, self.open[-1]))

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.flush()
        node = Node(tag, dict(attributes))
        self.nodes.append(node)
        if tag not in VOID:
            self.open.append(node)

    def handle_startendtag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.flush()
        self.nodes.append(Node(tag, dict(attributes)))

    def handle_endtag(self, tag: str) -> None:
        self.flush()
        assert self.open[-1].name == tag, (tag, [node.name for node in self.open])
        self.open.pop()

    def handle_data(self, data: str) -> None:
        self.waiting += data

    def handle_comment(self, data: str) -> None:
        self.flush()


def read(document: str | Reader) -> Reader:
    """A document, read unless it was before."""
    return document if isinstance(document, Reader) else Reader(document)


def text(document: str | Reader) -> str:
    """The original's "text" observation of a document."""
    return " [SEP] ".join(string.strip() for string, _ in read(document).strings)


def rich(document: str | Reader, session: ShopSession) -> str:
    """The original's "text_rich" observation of a document."""
    observation = ""
    for string, parent in read(document).strings:
        shown = string
        if parent.name == "button":
            shown = f"[button] {string} [button_]"
        elif parent.name == "label":
            shown = f"  [button] {string} [button_]"
            if f'"{string}"' in session.url():
                observation = f"You have clicked {string}.\n{observation}"
                shown = f"  [clicked button] {string} [clicked button_]"
        elif parent.classes == ["product-link"]:
            mark = "clicked button" if string in session.visited else "button"
            shown = f"\n[{mark}] {string} [{mark}_]"
        observation += f"{shown}\n"
    return observation


def clickables(document: str | Reader) -> list[str]:
    """The original's clickables of a document."""
    nodes = read(document).nodes
    found = {node.text.lower(): node for name in ("btn", "product-link") for node in nodes if name in node.classes}
    for node in nodes:
        if node.name == "input" and node.attributes.get("type") == "radio":
            found[node.attributes["value"] or ""] = node
    return list(found)
