"""Browser: address bar, tabs, bookmarks, history and settings. The pages are in `turncredit.phone.web`."""

from __future__ import annotations

from typing import Any

from turncredit.phone.toolkit.app import App, Context, to_clock, to_datetime
from turncredit.phone.toolkit.handlers import do, opens
from turncredit.phone.toolkit.tables import Row as Record
from turncredit.phone.toolkit.tables import Schema
from turncredit.phone.toolkit.widgets import (
    Checkbox,
    Choice,
    Dialog,
    Divider,
    Empty,
    Grid,
    IconButton,
    Item,
    List,
    Menu,
    Row,
    Screen,
    Section,
    Spacer,
    Switch,
    Text,
    TextField,
    Tile,
    Widget,
    cancel_or,
)
from turncredit.phone.web.navigation import (
    NEW_TAB,
    current_tab,
    go,
    go_back,
    go_forward,
    reload,
    search_url,
    split_url,
)
from turncredit.phone.web.sites import SITES, open_page, search
from turncredit.tools.keyed_random import KeyedRandom

FOLDERS = ("Bookmarks", "Reading list", "Work")
SWITCHES = {"Block pop-ups": "1", "Ask where to save files": "0", 'Send "Do not track"': "0", "Preload pages": "1"}


def fill(ctx: Context) -> None:
    """Open a tab, and draw bookmarks, a history and what visitors of the sites have written."""
    random = ctx.random
    for site in SITES.values():
        if site.fill:
            site.fill(ctx)
    urls = _some_urls(random, ctx.phone.seed)
    for url, title in urls[:6]:
        ctx.db.insert("bookmarks", title=title, url=url, folder=random.pick(FOLDERS[:2]))
    clock = to_clock(ctx.now)
    visits = sorted(clock - random.between(2, 6 * 24 * 60) * 60 for _ in urls[4:18])
    for (url, _), when in zip(urls[4:18], visits, strict=False):
        ctx.db.insert("history", url=url, visited=when)
    tab = ctx.db.insert("tabs", url=NEW_TAB)
    ctx.db.insert("tabs", url=urls[3][0])
    ctx.db.insert("session", tab=tab)
    ctx.db.fill("preferences", [{"name": "Home page", "value": ""}])
    ctx.db.fill("preferences", [{"name": name, "value": value} for name, value in SWITCHES.items()])


def _some_urls(random: KeyedRandom, seed: int | str) -> list[tuple[str, str]]:
    fronts = [(site.host, site.name) for site in SITES.values()]
    inner = [(f"{s.host}/{path}", title) for s in SITES.values() for path, title, _ in s.index(seed) if path]
    return random.shuffled(fronts)[:4] + random.shuffled(inner)


def title_of(ctx: Context, url: str) -> str:
    """Return the title of the page at an address."""
    return open_page(ctx, url).title if url else "New tab"


def browser(ctx: Context) -> Screen:
    """The page of the tab in front, under the address bar."""
    tab = current_tab(ctx)
    url = str(tab["url"])
    body = list(open_page(ctx, url).body) if url else _new_tab(ctx)
    count = ctx.db.count("tabs")
    head = Row(
        [
            IconButton("home", "Home page", do(go_home)),
            TextField(
                "url", "Search or type address", url, keyboard="url", select_all=True, on_submit=do(enter_address)
            ),
            IconButton("recents", f"Tabs: {count} open", opens(tabs)),
            IconButton("more", "More options", opens(page_menu)),
        ],
        gap=0,
        padding=0,
    )
    return Screen("", body, up=False, top=[head, Spacer(4)], on_back=do(go_back))


def _new_tab(ctx: Context) -> list[Widget]:
    tiles: list[Widget] = [
        Tile(site.name, do(go, url=site.host), site.icon, site.colour, "app") for site in SITES.values()
    ]
    recent = [Item(row["title"], row["url"], "bookmark", on_tap=do(go, url=row["url"])) for row in _saved(ctx)[:4]]
    return [
        Spacer(32),
        Text("Findit", style="display", colour="primary", align="center"),
        Spacer(16),
        TextField("words", "Search the web", icon="search", on_submit=do(search)),
        Spacer(16),
        Grid(tiles, columns=4 if float(ctx.setting("font_scale") or "1") < 1.1 else 3),
        Section("Bookmarks"),
        *recent,
    ]


def enter_address(ctx: Context) -> None:
    """Open what was typed: an address, or a search for words."""
    typed = str(ctx.form["url"]).strip()
    if typed:
        host, _, _ = split_url(typed)
        address = "." in host and " " not in typed
        go(ctx, _without_scheme(typed) if address else search_url(typed))


def _without_scheme(url: str) -> str:
    return url.split("://", 1)[-1].removeprefix("www.").rstrip("/")


def view(ctx: Context, url: str) -> None:
    """Open an address that another app names, in a new tab."""
    ctx.open_once(browser)
    _show_tab(ctx, ctx.db.insert("tabs", url=NEW_TAB))
    go(ctx, _without_scheme(url))


def web_search(ctx: Context, query: str = "") -> None:
    """Search for words that another app names, in a new tab."""
    view(ctx, search_url(query) if query else NEW_TAB)


def go_home(ctx: Context) -> None:
    """Open the home page."""
    rows = ctx.db.rows("preferences", name="Home page")
    go(ctx, str(rows[0]["value"]) if rows else NEW_TAB)


# Tabs


def tabs(ctx: Context) -> Screen:
    """The open tabs."""
    front = current_tab(ctx)["_id"]
    body: list[Widget] = []
    for row in ctx.db.rows("tabs"):
        title = title_of(ctx, row["url"])
        close = IconButton("close", f"Close {title}", do(close_tab, id=row["_id"]))
        show = do(switch_tab, id=row["_id"])
        body.append(Item(title, row["url"] or "findit", "globe", end=close, on_tap=show, selected=row["_id"] == front))
    add = IconButton("add", "New tab", do(new_tab))
    return Screen("Tabs", body or [Empty("globe", "No open tabs")], actions=[add], on_back=do(leave_tabs))


def leave_tabs(ctx: Context) -> None:
    """Close the list of tabs; where all were closed, a new one opens."""
    ctx.back()
    if not ctx.db.count("tabs"):
        _show_tab(ctx, ctx.db.insert("tabs", url=NEW_TAB))


def _show_tab(ctx: Context, id: int) -> None:
    rows = ctx.db.rows("session")
    if rows:
        ctx.db.update("session", rows[0]["_id"], tab=id)
    else:
        ctx.db.insert("session", tab=id)
    reload(ctx)


def switch_tab(ctx: Context, id: int) -> None:
    """Show another tab."""
    ctx.back()
    _show_tab(ctx, id)


def new_tab(ctx: Context) -> None:
    """Open a tab, from the list of tabs or from the menu."""
    if ctx.phone.page.screen == "tabs":
        ctx.back()
    _show_tab(ctx, ctx.db.insert("tabs", url=NEW_TAB))


def close_tab(ctx: Context, id: int) -> None:
    """Close a tab; the last of the others comes to the front."""
    front = current_tab(ctx)["_id"]
    ctx.db.delete("tabs", id)
    others = ctx.db.rows("tabs")
    session = ctx.db.rows("session")
    if others and front == id and session:
        ctx.db.update("session", session[0]["_id"], tab=others[-1]["_id"])


def close_other_tabs(ctx: Context) -> None:
    """Close all tabs but the one in front."""
    front = current_tab(ctx)["_id"]
    for row in ctx.db.rows("tabs"):
        if row["_id"] != front:
            ctx.db.delete("tabs", row["_id"])
    ctx.snackbar("Other tabs closed")


# Menu


def page_menu(ctx: Context) -> Menu:
    """The commands of the browser."""
    url = str(current_tab(ctx)["url"])
    saved = bool(ctx.db.rows("bookmarks", url=url))
    page = [
        ("Remove bookmark" if saved else "Add bookmark", do(flip_bookmark)),
        ("Copy address", do(copy_address)),
        ("Save page", do(save_page)),
    ]
    return Menu(
        [
            ("Forward", do(go_forward)),
            ("Reload", do(reload)),
            ("New tab", do(new_tab)),
            ("Close other tabs", do(close_other_tabs)),
            *(page if url else []),
            ("Bookmarks", opens(bookmarks)),
            ("History", opens(history)),
            ("Settings", opens(settings)),
        ]
    )


def flip_bookmark(ctx: Context) -> None:
    """Add the page to the bookmarks, or remove it."""
    url = str(current_tab(ctx)["url"])
    rows = ctx.db.rows("bookmarks", url=url)
    for row in rows:
        ctx.db.delete("bookmarks", row["_id"])
    if rows:
        ctx.snackbar("Bookmark removed")
    else:
        added = ctx.db.insert("bookmarks", title=title_of(ctx, url), url=url, folder=FOLDERS[0])
        ctx.snackbar("Bookmark added", "Edit", opens(bookmark_form, id=added))


def copy_address(ctx: Context) -> None:
    """Put the address on the clipboard."""
    ctx.copy(f"https://{current_tab(ctx)['url']}")
    ctx.snackbar("Address copied")


def save_page(ctx: Context) -> None:
    """Write the texts of the page into a file among the downloads."""
    page = open_page(ctx, str(current_tab(ctx)["url"]))
    name = "".join(letter if letter.isalnum() or letter in " -" else "" for letter in page.title)
    name = " ".join(name.split())[:60].strip() or "page"
    ctx.write_file(f"/sdcard/Download/{name}.txt", "\n".join([page.title, "", *_texts(page.body)]).encode())
    ctx.snackbar(f"Saved as {name}.txt")


def _texts(widgets: Any) -> list[str]:
    """Return what the widgets of a page say."""
    lines: list[str] = []
    for widget in widgets:
        if hasattr(widget, "children"):
            lines += _texts(widget.children)
        else:
            parts = (getattr(widget, name, "") for name in ("title", "text", "subtitle", "trailing"))
            line = ": ".join(part for part in parts if isinstance(part, str) and part)
            lines += [line] if line else []
    return lines


# Bookmarks


def _saved(ctx: Context) -> list[Record]:
    return ctx.db.rows("bookmarks", order=lambda row: (str(row["title"]).casefold(), row["_id"]))


def bookmarks(ctx: Context) -> Screen:
    """The bookmarks by folder."""
    rows = _saved(ctx)
    body: list[Widget] = []
    for folder in FOLDERS:
        bookmarked = [row for row in rows if row["folder"] == folder]
        if bookmarked:
            body.append(Section(folder))
            body += [_bookmark(row) for row in bookmarked]
    return Screen("Bookmarks", body or [Empty("bookmark", "No bookmarks")])


def _bookmark(row: Record) -> Widget:
    more = IconButton("edit", f"Edit {row['title']}", opens(bookmark_form, id=row["_id"]))
    return Item(row["title"], row["url"], "bookmark", end=more, on_tap=do(open_here, url=row["url"]))


def open_here(ctx: Context, url: str) -> None:
    """Close a list and open an address in the tab in front."""
    ctx.back()
    go(ctx, url)


def bookmark_form(ctx: Context, id: int) -> Screen:
    """Title, address and folder of a bookmark."""
    row = ctx.db.get("bookmarks", id)
    if row is None:
        return Screen("Edit bookmark", [Empty("bookmark", "This bookmark was deleted")])
    return Screen(
        "Edit bookmark",
        [
            TextField("title", "Title", row["title"], select_all=True),
            TextField("address", "Address", row["url"], keyboard="url"),
            Choice("folder", "Folder", FOLDERS, row["folder"]),
        ],
        up_icon="close",
        actions=[
            IconButton("delete", "Delete bookmark", do(delete_bookmark, id=id)),
            IconButton("check", "Save", do(save_bookmark, id=id), colour="primary"),
        ],
    )


def save_bookmark(ctx: Context, id: int) -> None:
    """Write the form."""
    title, url = str(ctx.form["title"]).strip(), str(ctx.form["address"]).strip()
    if not title or not url:
        ctx.snackbar("Enter a title and an address")
        return
    ctx.db.update("bookmarks", id, title=title, url=url, folder=str(ctx.form["folder"]))
    ctx.back()


def delete_bookmark(ctx: Context, id: int) -> None:
    """Delete a bookmark and leave its form."""
    ctx.db.delete("bookmarks", id)
    ctx.back()
    ctx.snackbar("Bookmark deleted")


# History


def history(ctx: Context) -> Screen:
    """The visited pages, the last first."""
    rows = ctx.db.rows("history", order=lambda row: (-row["visited"], -row["_id"]))
    body: list[Widget] = [List(rows, lambda row: _visit(ctx, row))] if rows else [Empty("clock", "No history")]
    return Screen("History", body, actions=[IconButton("delete", "Clear browsing data", opens(clear_data))])


def _visit(ctx: Context, row: Record) -> Widget:
    when = to_datetime(row["visited"])
    day = "Today" if when.date() == ctx.today else f"{when:%a} {when.day} {when:%b}"
    title = title_of(ctx, row["url"])
    remove = IconButton("close", f"Remove {title} from history", do(forget, id=row["_id"]))
    about = f"{day}, {when:%H:%M} · {row['url']}"
    return Item(title, about, "globe", end=remove, on_tap=do(open_here, url=row["url"]))


def forget(ctx: Context, id: int) -> None:
    """Remove a visit from the history."""
    ctx.db.delete("history", id)


def clear_data(ctx: Context) -> Dialog:
    """Ask whether history and basket are emptied."""
    return Dialog(
        "Clear browsing data",
        [Checkbox("History", True, key="history"), Checkbox("Shopping basket", False, key="basket")],
        cancel_or("Clear", do(clear), "danger"),
    )


def clear(ctx: Context) -> None:
    """Delete what was ticked."""
    for table in ("history", "basket"):
        if ctx.form[table]:
            for row in ctx.db.rows(table):
                ctx.db.delete(table, row["_id"])
    ctx.snackbar("Browsing data cleared")


# Settings


def settings(ctx: Context) -> Screen:
    """Home page and switches."""
    rows = {row["name"]: row for row in ctx.db.rows("preferences")}
    home = rows["Home page"]["value"]
    names = {site.host: site.name for site in SITES.values()}
    body: list[Widget] = [
        Choice("", "Home page", ("New tab", *names.values()), names.get(home, home or "New tab"), do(set_home)),
        Divider(),
    ]
    for name in SWITCHES:
        body.append(Switch(name, rows[name]["value"] == "1", do(set_switch, name=name)))
    return Screen("Browser settings", body)


def set_home(ctx: Context) -> None:
    """Choose the home page."""
    hosts = {site.name: site.host for site in SITES.values()}
    _prefer(ctx, "Home page", hosts.get(str(ctx.value), ""))


def set_switch(ctx: Context, name: str) -> None:
    """Turn a preference on or off."""
    _prefer(ctx, name, "1" if ctx.value else "0")


def _prefer(ctx: Context, name: str, value: str) -> None:
    for row in ctx.db.rows("preferences", name=name):
        ctx.db.update("preferences", row["_id"], value=value)


_SCHEMA: Schema = {
    "tabs": {"url": str, "back": str, "forward": str},
    "session": {"tab": int},
    "bookmarks": {"title": str, "url": str, "folder": str},
    "history": {"url": str, "visited": int},
    "preferences": {"name": str, "value": str},
}

APP = App(
    package="org.turncredit.browser",
    name="Browser",
    icon="globe",
    colour="#2f6fb3",
    schema={**_SCHEMA, **{name: columns for site in SITES.values() for name, columns in site.schema.items()}},
    fill=fill,
    screens=(browser, tabs, page_menu, bookmarks, bookmark_form, history, clear_data, settings),
    intents={
        "android.intent.action.VIEW http": view,
        "android.intent.action.VIEW https": view,
        "android.intent.action.WEB_SEARCH": web_search,
    },
    volatile=("history", "session", "tabs"),
)
