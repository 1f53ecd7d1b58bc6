"""Corner Store: the phone's catalogue as a web site with search, options, a basket and a checkout."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import Final

from turncredit.phone.toolkit.app import Context
from turncredit.phone.toolkit.handlers import do
from turncredit.phone.toolkit.store import StoreProduct
from turncredit.phone.toolkit.tables import Row as Record
from turncredit.phone.toolkit.widgets import (
    Button,
    Card,
    Choice,
    Divider,
    Empty,
    IconButton,
    Item,
    Radio,
    Row,
    Section,
    Spacer,
    Text,
    TextField,
    Widget,
)
from turncredit.phone.web.navigation import go
from turncredit.phone.web.page import Indexed, Site, WebPage, banner, form_error, paragraphs, refuse

__all__ = ["DELIVERIES", "HOST", "SITE", "options_text", "price_of"]

HOST: Final = "corner-store.example"
DELIVERIES: Final = ("Standard", "Express", "Pick up in the store")
_QUANTITIES: Final = tuple(str(number) for number in range(1, 10))
_SHOWN: Final = 20


def price_of(product: StoreProduct) -> float:
    """Return the price of a product in dollars."""
    return product.pricing[0]


def options_text(options: Mapping[str, str]) -> str:
    """Return chosen options as orders store them, such as 'color: red, size: m'."""
    return ", ".join(f"{name}: {value}" for name, value in options.items())


def _page(ctx: Context, path: str, query: Mapping[str, str]) -> WebPage | None:
    if path == "":
        return _front(ctx)
    if path == "search":
        return _results(ctx, query.get("q", ""))
    if path == "basket":
        return _basket(ctx)
    if path == "checkout":
        return _checkout(ctx)
    if path == "orders":
        return _orders(ctx)
    if path.startswith("department/"):
        return _department(ctx, path[11:])
    product = ctx.phone.stock.get(path[8:]) if path.startswith("product/") else None
    return _product(ctx, product) if product else None


def _head(ctx: Context) -> list[Widget]:
    count = sum(row["quantity"] for row in ctx.db.rows("basket"))
    basket = Button(f"Basket ({count})", do(go, url=f"{HOST}/basket"), "tonal", "cart")
    orders = Button("My orders", do(go, url=f"{HOST}/orders"), "text")
    name = banner("Corner Store", "Nearly everything, nearly always", "#8a4b1f", do(go, url=HOST))
    return [Spacer(4), name, Spacer(8), Row([basket, orders], padding=16), Spacer(4)]


def _front(ctx: Context) -> WebPage:
    products = ctx.phone.stock
    departments = sorted({product.category for product in products})
    body: list[Widget] = [*_head(ctx), _search_field(""), _search_button(), Section("Departments")]
    body += [Item(d.capitalize(), icon="label", on_tap=do(go, url=f"{HOST}/department/{d}")) for d in departments]
    return WebPage(
        "Corner Store", [*body, Section("Today's choice"), *[_entry(p) for p in islice(products, 4)], Spacer(24)]
    )


def _search_field(words: str) -> TextField:
    return TextField("words", "Search products", words, icon="search", on_submit=do(search))


def _search_button() -> Row:
    return Row([Spacer(), Button("Search products", do(search), icon="search")])


def search(ctx: Context) -> None:
    """Search the words of the field."""
    words = str(ctx.form.get("words", "")).strip()
    if words:
        go(ctx, f"{HOST}/search?q={words.replace('&', ' ').replace('#', ' ').replace('%', ' ').replace(' ', '+')}")


def _entry(product: StoreProduct) -> Card:
    about = f"${price_of(product):.2f} · {product.category}"
    lines = [Text(product.name, style="subtitle", lines=2), Text(about, style="caption")]
    return Card(lines, do(go, url=f"{HOST}/product/{product.asin}"), description=product.name)


def _results(ctx: Context, words: str) -> WebPage:
    products = ctx.phone.stock
    matches = [products.get(asin) for asin, _ in products.search(words, _SHOWN)] if words else []
    body: list[Widget] = [*_head(ctx), _search_field(words), _search_button(), Section(f"{len(matches)} products")]
    body += [_entry(product) for product in matches if product]
    return WebPage(
        f"{words} · Corner Store", [*body, Spacer(24)] if matches else [*body, Empty("search", "Nothing found")]
    )


def _department(ctx: Context, name: str) -> WebPage | None:
    members = [product for product in ctx.phone.stock if product.category == name]
    if not members:
        return None
    body = [
        *_head(ctx),
        Section(f"{name.capitalize()}: {len(members)} products"),
        *[_entry(p) for p in members],
        Spacer(24),
    ]
    return WebPage(f"{name.capitalize()} · Corner Store", body)


def _product(ctx: Context, product: StoreProduct) -> WebPage:
    body: list[Widget] = [
        *_head(ctx),
        Spacer(8),
        Text(product.name, style="title"),
        Spacer(4),
        Text(f"${price_of(product):.2f}", style="headline", colour="primary"),
        Spacer(4),
        Text(product.product_category, style="caption"),
        Spacer(8),
    ]
    for name, values in product.options.items():
        body.append(Choice(f"option_{name}", name.capitalize(), ("Choose", *values), "Choose"))
    body += [
        Choice("quantity", "Quantity", _QUANTITIES, "1"),
        *form_error(ctx),
        Button("Add to basket", do(add, asin=product.asin), icon="cart", wide=True),
        Divider(),
        paragraphs((product.description,)),
        paragraphs([f"• {bullet}" for bullet in product.bullets]),
        Spacer(24),
    ]
    return WebPage(f"{product.name} · Corner Store", body)


def add(ctx: Context, asin: str) -> None:
    """Put a product with the chosen options into the basket, or say which option is missing."""
    product = ctx.phone.stock.get(asin)
    if product is None:
        return
    chosen = {name: str(ctx.form[f"option_{name}"]) for name in product.options}
    for name, value in chosen.items():
        if value == "Choose":
            refuse(ctx, f"Choose the {name}")
            return
    values = {"product": asin, "title": product.name, "options": options_text(chosen)}
    quantity = int(ctx.form["quantity"])
    same = ctx.db.rows("basket", **values)
    if same:
        ctx.db.update("basket", same[0]["_id"], quantity=same[0]["quantity"] + quantity)
    else:
        ctx.db.insert("basket", **values, price=price_of(product), quantity=quantity)
    ctx.set("error", "")
    ctx.snackbar("Added to the basket", "View", do(go, url=f"{HOST}/basket"))


def _total(rows: list[Record]) -> str:
    return f"${sum(row['price'] * row['quantity'] for row in rows):.2f}"


def _basket(ctx: Context) -> WebPage:
    rows = ctx.db.rows("basket")
    body: list[Widget] = [*_head(ctx), Text("Your basket", style="title"), Spacer(8)]
    for row in rows:
        remove = IconButton("delete", f"Remove {row['title']}", do(remove_line, id=row["_id"]))
        about = f"{row['quantity']} x ${row['price']:.2f}" + (f" · {row['options']}" if row["options"] else "")
        body.append(Item(row["title"], about, end=remove, on_tap=do(go, url=f"{HOST}/product/{row['product']}")))
    if rows:
        body += [Divider(), Item("Total", trailing=_total(rows), bold=True), Spacer(8)]
        body.append(Button("Go to checkout", do(go, url=f"{HOST}/checkout"), wide=True))
    else:
        body.append(Empty("cart", "Your basket is empty"))
    return WebPage("Basket · Corner Store", body)


def remove_line(ctx: Context, id: int) -> None:
    """Take a line out of the basket."""
    ctx.db.delete("basket", id)


def _checkout(ctx: Context) -> WebPage:
    rows = ctx.db.rows("basket")
    delivery = str(ctx.get("delivery", DELIVERIES[0]))
    body: list[Widget] = [
        *_head(ctx),
        Text("Checkout", style="title"),
        Spacer(8),
        TextField("name", "Name", icon="person"),
        TextField("address", "Address", icon="home"),
        Section("Delivery"),
        *[Radio(name, name == delivery, key="delivery", choice=name) for name in DELIVERIES],
        Divider(),
        Item("Total", trailing=_total(rows), bold=True),
        *form_error(ctx),
        Button("Place order", do(order), wide=True),
        Spacer(24),
    ]
    return WebPage("Checkout · Corner Store", body)


def order(ctx: Context) -> None:
    """Turn the lines of the basket into orders, or say what is missing."""
    rows = ctx.db.rows("basket")
    name, address = str(ctx.form["name"]).strip(), str(ctx.form["address"]).strip()
    if not rows:
        refuse(ctx, "Your basket is empty")
    elif not name or not address:
        refuse(ctx, "Enter your name and your address")
    else:
        delivery = str(ctx.get("delivery", DELIVERIES[0]))
        for row in rows:
            line = {key: row[key] for key in ("product", "title", "options", "price", "quantity")}
            ctx.db.insert("orders", **line, name=name, address=address, delivery=delivery)
            ctx.db.delete("basket", row["_id"])
        go(ctx, f"{HOST}/orders")
        ctx.snackbar("Thank you for your order")


def _orders(ctx: Context) -> WebPage:
    body: list[Widget] = [*_head(ctx), Text("My orders", style="title"), Spacer(8)]
    rows = list(reversed(ctx.db.rows("orders")))
    for row in rows:
        about = f"{row['quantity']} x ${row['price']:.2f}" + (f" · {row['options']}" if row["options"] else "")
        lines = [Text(row["title"], style="subtitle"), Text(about, style="caption")]
        body.append(
            Card([*lines, Text(f"{row['delivery']} · {row['name']}, {row['address']}", style="caption", lines=2)])
        )
    return WebPage("My orders · Corner Store", [*body, Spacer(24)] if rows else [*body, Empty("cart", "No orders yet")])


def _index(seed: int | str) -> list[Indexed]:
    return [
        Indexed("", "Corner Store", "Shop for clothes, food, electronics, beauty and things for the home and garden."),
        Indexed("orders", "My orders at Corner Store", "What you have ordered."),
    ]


_LINE: Final = {"product": str, "title": str, "options": str, "price": float, "quantity": int}
SITE: Final = Site(
    HOST,
    "Corner Store",
    "Shop",
    "cart",
    "#8a4b1f",
    _page,
    _index,
    {"basket": _LINE, "orders": {**_LINE, "name": str, "address": str, "delivery": str}},
)
