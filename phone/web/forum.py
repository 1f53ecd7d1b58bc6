"""Workbench: a forum for people who repair, bake and grow things. Posts are rows, so that a visitor can add to them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from turncredit.phone.content.people import FIRST_NAMES
from turncredit.phone.toolkit.app import Context
from turncredit.phone.toolkit.handlers import do
from turncredit.phone.toolkit.tables import Row as Record
from turncredit.phone.toolkit.widgets import (
    Avatar,
    Button,
    Card,
    Choice,
    Column,
    Divider,
    Item,
    Row,
    Section,
    Spacer,
    Text,
    TextField,
    Widget,
)
from turncredit.phone.web.navigation import go, reload
from turncredit.phone.web.page import Indexed, Site, WebPage, banner, form_error, refuse
from turncredit.tools.keyed_random import KeyedRandom

__all__ = ["BOARDS", "HOST", "ME", "SITE"]

HOST: Final = "workbench.example"
ME: Final = "you"
BOARDS: Final = ("Baking", "Bicycles", "Garden", "Repair")

_THREADS: Final = (
    ("Baking", "My sourdough does not rise", "It stands for {n} hours in a cold kitchen. What am I doing wrong?"),
    (
        "Baking",
        "Which flour for pizza?",
        "I can get strong bread flour or the fine Italian one. The oven reaches {n}0 degrees.",
    ),
    ("Baking", "Rye bread in a cast iron pot", "How long do you leave the lid on? I bake for {n} minutes."),
    ("Bicycles", "Chain jumps on the small cog", "Only when I climb. The chain has done {n}00 kilometres."),
    ("Bicycles", "Lights that survive the rain", "My third front light drowned after {n} days."),
    ("Bicycles", "Trailer for a big dog", "He weighs {n} kilograms and does not like to sit still."),
    ("Garden", "Slugs are eating the lettuce", "I collected {n} of them last night. There must be another way."),
    ("Garden", "Tomatoes on a north balcony", "It gets {n} minutes of sun a day. Is it worth a try?"),
    ("Garden", "When to cut back roses?", "We had {n} frosty nights already."),
    ("Repair", "Washing machine stops before spinning", "It is {n} years old and beeps three times."),
    ("Repair", "Glue for a broken cup", "It fell in {n} pieces. It should hold hot tea again."),
    ("Repair", "Radio hums after {n} minutes", "It is an old valve set. The hum gets louder as it warms up."),
)
_ANSWERS: Final = {
    "Baking": (
        "Give it more time: in a cold kitchen I wait {n} hours.",
        "Put the bowl in the oven with only the light on.",
        "Mine took {n} days until it was lively. Do not give up.",
        "A spoon of rye flour works wonders.",
    ),
    "Bicycles": (
        "That is wear. Measure the chain before you buy anything.",
        "I had this for {n} weeks. New cogs solved it.",
        "A drop of oil a week, and wipe it dry.",
        "The shop on the corner did it for {n} dollars.",
    ),
    "Garden": (
        "Patience. Mine looked the same {n} days ago.",
        "A board on the ground: look under it every morning.",
        "I would wait until the forsythia blooms.",
        "Water in the morning, never at night. I use {n} litres.",
    ),
    "Repair": (
        "Check the filter first. In mine I found {n} coins.",
        "It is the capacitor, it nearly always is. The part costs {n} dollars.",
        "Pull the plug and wait {n} minutes before you open it.",
        "The repair café opens every second Saturday.",
    ),
}


def fill(ctx: Context) -> None:
    """Write the threads and their first posts."""
    seed = ctx.phone.seed
    ctx.db.fill("threads", lambda: _discussions(seed)[0])
    ctx.db.fill("posts", lambda: _discussions(seed)[1])


@lru_cache(maxsize=8)  # both tables of a phone are needed together
def _discussions(seed: int | str) -> tuple[list[Record], list[Record]]:
    """Return the rows of the threads, and of their first posts."""
    random = KeyedRandom(f"{seed}/web/forum")
    threads: list[Record] = []
    posts: list[Record] = []
    for number, (board, title, text) in enumerate(_THREADS, 1):
        n = random.between(6, 39)
        author = random.pick(FIRST_NAMES)
        threads.append({"board": board, "title": title.format(n=n), "author": author})
        authors = random.shuffled(FIRST_NAMES)
        posts.append(_post(number, author, text.format(n=n), random))
        for answer in random.shuffled(_ANSWERS[board])[: random.between(2, 4)]:
            posts.append(_post(number, authors.pop(), answer.format(n=random.between(3, 40)), random))
    return threads, posts


def _post(thread: int, author: str, text: str, random: KeyedRandom) -> Record:
    return {"thread": thread, "author": author, "text": text, "likes": random.between(0, 30)}


def _page(ctx: Context, path: str, query: Mapping[str, str]) -> WebPage | None:
    boards = {board.lower(): board for board in BOARDS}
    if path in ("", *boards):
        return _front(ctx, boards.get(path, ""))
    if path == "new":
        return _new()
    thread = ctx.db.get("threads", int(path[7:])) if path.startswith("thread/") and path[7:].isdecimal() else None
    return _thread(ctx, thread) if thread else None


def _head() -> Widget:
    return banner("Workbench", "Ask. Somebody has broken it before you.", "#3d6b4f", do(go, url=HOST))


def _front(ctx: Context, board: str) -> WebPage:
    body: list[Widget] = [
        Spacer(4),
        _head(),
        Spacer(12),
        Row([Button("New thread", do(go, url=f"{HOST}/new"), icon="add")]),
    ]
    for name in [board] if board else BOARDS:
        body.append(Section(name))
        for thread in ctx.db.rows("threads", board=name):
            count = len(ctx.db.rows("posts", thread=thread["_id"]))
            about = f"{thread['author']} · {count} {'post' if count == 1 else 'posts'}"
            body.append(Item(thread["title"], about, "chat", on_tap=do(go, url=f"{HOST}/thread/{thread['_id']}")))
    return WebPage("Workbench", [*body, Spacer(24)])


def _thread(ctx: Context, thread: Record) -> WebPage:
    posts = ctx.db.rows("posts", thread=thread["_id"])
    body: list[Widget] = [Spacer(4), _head(), Spacer(16), Text(thread["title"], style="title"), Spacer(2)]
    body += [Text(f"{thread['board']} · {len(posts)} posts", style="caption"), Spacer(12)]
    for post in posts:
        body.append(_card(post))
    body += [
        Divider(),
        TextField("reply", "Your reply", multiline=True),
        *form_error(ctx),
        Row([Spacer(), Button("Post reply", do(reply, thread=thread["_id"]), icon="send")]),
        Spacer(24),
    ]
    return WebPage(f"{thread['title']} · Workbench", body)


def _card(post: Record) -> Card:
    like = Button(
        f"{post['likes']}",
        do(like_post, id=post["_id"]),
        "text",
        "heart_full" if post["liked"] else "heart",
        description=f"{'Unlike' if post['liked'] else 'Like'} the post of {post['author']}",
    )
    own = [Button("Delete", do(delete_post, id=post["_id"]), "text", description="Delete my post")]
    head = Row(
        [Avatar(post["author"], size=32), Text(post["author"], style="subtitle"), *own * (post["author"] == ME), like]
    )
    return Card([head, Spacer(4), Column([Text(post["text"], selectable=True)])])


def like_post(ctx: Context, id: int) -> None:
    """Like a post, or take it back."""
    row = ctx.db.get("posts", id)
    if row:
        step = -1 if row["liked"] else 1
        ctx.db.update("posts", id, liked=not row["liked"], likes=row["likes"] + step)


def delete_post(ctx: Context, id: int) -> None:
    """Delete a post of one's own."""
    ctx.db.delete("posts", id)
    ctx.snackbar("Post deleted")


def reply(ctx: Context, thread: int) -> None:
    """Add a post to a thread."""
    text = str(ctx.form["reply"]).strip()
    if not text:
        refuse(ctx, "Write something first")
        return
    ctx.db.insert("posts", thread=thread, author=ME, text=text)
    reload(ctx)
    ctx.snackbar("Reply posted")


def _new() -> WebPage:
    body = [
        Spacer(4),
        _head(),
        Spacer(16),
        Text("New thread", style="title"),
        Spacer(8),
        Choice("board", "Board", BOARDS, BOARDS[0]),
        TextField("title", "Title"),
        TextField("text", "Text", multiline=True),
        Row([Spacer(), Button("Publish", do(publish), icon="send")]),
        Spacer(24),
    ]
    return WebPage("New thread · Workbench", body)


def publish(ctx: Context) -> None:
    """Open a thread with its first post."""
    title, text = str(ctx.form["title"]).strip(), str(ctx.form["text"]).strip()
    if not title or not text:
        ctx.snackbar("Enter a title and a text")
        return
    thread = ctx.db.insert("threads", board=str(ctx.form["board"]), title=title, author=ME)
    ctx.db.insert("posts", thread=thread, author=ME, text=text)
    go(ctx, f"{HOST}/thread/{thread}")


def _index(seed: int | str) -> list[Indexed]:
    front = Indexed("", "Workbench", "Forum about baking, bicycles, gardens and repair.")
    boards = [Indexed(board.lower(), f"{board} · Workbench", f"Threads about {board.lower()}.") for board in BOARDS]
    return [front, *boards]


SITE: Final = Site(
    HOST,
    "Workbench",
    "Forum",
    "chat",
    "#3d6b4f",
    _page,
    _index,
    {
        "threads": {"board": str, "title": str, "author": str},
        "posts": {"thread": int, "author": str, "text": str, "likes": int, "liked": bool},
    },
    fill,
)
