"""Recipes: a cook book with categories, favourites, ingredients and steps."""

from __future__ import annotations

from typing import Final

from turncredit.phone.toolkit.app import App, Context
from turncredit.phone.toolkit.handlers import do, keeps, opens
from turncredit.phone.toolkit.tables import Columns
from turncredit.phone.toolkit.tables import Row as Record
from turncredit.phone.toolkit.widgets import (
    Checkbox,
    Chip,
    Choice,
    Dialog,
    Empty,
    Fab,
    IconButton,
    Item,
    List,
    Row,
    Screen,
    Section,
    Spacer,
    Tab,
    Text,
    TextField,
    Widget,
    cancel_or,
)
from turncredit.tools.keyed_random import KeyedRandom

CATEGORIES: Final = ("Breakfast", "Soup", "Main", "Salad", "Dessert")
TIMES: Final = ("10 min", "20 min", "30 min", "45 min", "60 min", "90 min")
SERVINGS: Final = ("1", "2", "4", "6", "8")
_DISHES: Final = {
    "Breakfast": ("porridge", "pancakes", "toast", "omelette", "muesli"),
    "Soup": ("soup", "broth", "chowder", "cream soup"),
    "Main": ("risotto", "stew", "pie", "noodles", "curry", "gratin"),
    "Salad": ("salad", "slaw", "grain bowl"),
    "Dessert": ("tart", "crumble", "pudding", "cake"),
}
MAIN: Final = {
    "Breakfast": ("oats", "spinach", "blueberries", "buckwheat", "bananas"),
    "Soup": ("carrots", "lentils", "leeks", "pumpkin", "tomatoes"),
    "Main": ("mushrooms", "chickpeas", "potatoes", "spinach", "lentils"),
    "Salad": ("beetroot", "chickpeas", "cabbage", "tomatoes"),
    "Dessert": ("apples", "plums", "blueberries", "bananas"),
}
_SINGULAR: Final = {
    "apples": "apple",
    "bananas": "banana",
    "blueberries": "blueberry",
    "carrots": "carrot",
    "chickpeas": "chickpea",
    "leeks": "leek",
    "lentils": "lentil",
    "mushrooms": "mushroom",
    "oats": "oat",
    "plums": "plum",
    "potatoes": "potato",
    "tomatoes": "tomato",
}
_EXTRAS: Final = ("a pinch of salt", "2 spoons of oil", "1 lemon", "100 ml cream", "1 onion", "a handful of parsley")
_SWEET: Final = ("2 spoons of honey", "100 ml cream", "2 eggs", "50 g butter", "a pinch of cinnamon", "1 lemon")
_STEPS: Final = (
    "Wash and cut the {main}.",
    "Warm a large pan over low heat.",
    "Add the {main} and stir for five minutes.",
    "Season, cover and leave it alone for a while.",
    "Taste, and add what is missing.",
    "Serve warm with bread.",
)
_FIELDS: Final = ("title", "category", "time", "servings", "ingredients", "steps")


def draw(random: KeyedRandom) -> Columns:
    """Draw a recipe."""
    category = random.pick(CATEGORIES)
    main = random.pick(MAIN[category])
    title = f"{_SINGULAR.get(main, main).capitalize()} {random.pick(_DISHES[category])}"
    amount = f"{random.between(2, 9) * 50} g {main}"
    extras = _SWEET if category in ("Breakfast", "Dessert") else _EXTRAS
    steps = [step.format(main=main) for step in random.shuffled(_STEPS)[:3]]
    return {
        "title": title,
        "category": category,
        "time": random.pick(TIMES),
        "servings": random.pick(SERVINGS),
        "ingredients": "\n".join([amount, *random.shuffled(extras)[:3]]),
        "steps": "\n".join(steps),
    }


def fill(ctx: Context) -> None:
    """Draw some fifteen recipes."""
    random = ctx.random
    rows: dict[str, Record] = {}
    while len(rows) < 16:
        drawn = draw(random)
        rows.setdefault(drawn["title"], {**drawn, "favourite": int(random.chance(0.25))})
    ctx.db.fill("recipes", rows.values())


def recipes(ctx: Context) -> Screen:
    """All recipes by title, or those of a category, or the favourites."""
    tab, chosen = str(ctx.get("tab", "all")), str(ctx.get("category", ""))
    query = str(ctx.get("query", "")).casefold().strip()
    rows = ctx.db.rows("recipes", order=lambda row: (str(row["title"]).casefold(), row["_id"]))
    rows = [row for row in rows if query in f"{row['title']}\n{row['ingredients']}\n{row['steps']}".casefold()]
    rows = [row for row in rows if (tab == "all" or row["favourite"]) and chosen in ("", row["category"])]
    chips = [Chip(name, do(show_category, name=name), name == chosen) for name in CATEGORIES]
    return Screen(
        "Recipes",
        [List(rows, _recipe) if rows else Empty("utensils", "No recipes")],
        top=[
            TextField("query", "Search recipes and ingredients", icon="search"),
            Spacer(6),
            Row(chips[:3]),
            Spacer(4),
            Row(chips[3:]),
            Spacer(4),
        ],
        bar=[
            Tab("All", keeps("tab", "all"), tab == "all", "book"),
            Tab("Favourites", keeps("tab", "favourites"), tab != "all", "heart"),
        ],
        fab=Fab("add", "New recipe", opens(form, id=0)),
    )


def _recipe(row: Record) -> Item:
    about = f"{row['category']} · {row['time']} · serves {row['servings']}"
    icon = "heart_full" if row["favourite"] else "utensils"
    return Item(row["title"], about, icon, on_tap=opens(recipe, id=row["_id"]))


def show_category(ctx: Context, name: str) -> None:
    """Show one category, or all if it is shown already."""
    ctx.set("category", "" if ctx.get("category") == name else name)


def recipe(ctx: Context, id: int) -> Screen:
    """One recipe. Ingredients can be ticked off while cooking."""
    row = ctx.db.get("recipes", id)
    if row is None:
        return Screen("", [Empty("utensils", "This recipe was deleted")])
    parts: list[Widget] = [
        Checkbox(line, False, key=f"have_{n}") for n, line in enumerate(str(row["ingredients"]).splitlines())
    ]
    steps = [Item(line, f"Step {n}") for n, line in enumerate(str(row["steps"]).splitlines(), 1)]
    star = "Remove from favourites" if row["favourite"] else "Add to favourites"
    return Screen(
        row["category"],
        [
            Text(row["title"], style="headline", selectable=True),
            Spacer(8),
            Item(row["time"], "Time", "timer"),
            Item(row["servings"], "Servings", "person"),
            Section("Ingredients"),
            *parts,
            Section("Preparation"),
            *steps,
            Spacer(24),
        ],
        actions=[
            IconButton("heart_full" if row["favourite"] else "heart", star, do(flip, id=id)),
            IconButton("edit", "Edit recipe", opens(form, id=id)),
            IconButton("delete", "Delete recipe", opens(confirm, id=id)),
        ],
    )


def flip(ctx: Context, id: int) -> None:
    """Add the recipe to the favourites, or remove it."""
    row = ctx.db.get("recipes", id)
    if row:
        ctx.db.update("recipes", id, favourite=not row["favourite"])


def form(ctx: Context, id: int = 0) -> Screen:
    """The form of a recipe; `id` 0 is a new one."""
    empty = {**dict.fromkeys(_FIELDS, ""), "category": CATEGORIES[0], "time": TIMES[0], "servings": SERVINGS[1]}
    row = ctx.db.get("recipes", id) or empty
    return Screen(
        "Edit recipe" if id else "New recipe",
        [
            TextField("title", "Title", row["title"], icon="utensils"),
            Choice("category", "Category", CATEGORIES, ctx.get("category", row["category"])),
            Choice("time", "Time", TIMES, ctx.get("time", row["time"])),
            Choice("servings", "Servings", SERVINGS, ctx.get("servings", row["servings"])),
            TextField("ingredients", "Ingredients, one a line", row["ingredients"], multiline=True),
            TextField("steps", "Steps, one a line", row["steps"], multiline=True),
        ],
        up_icon="close",
        actions=[IconButton("check", "Save", do(save, id=id), colour="primary")],
    )


def save(ctx: Context, id: int) -> None:
    """Write the form into the database, unless it has no title."""
    values = {name: str(ctx.form[name]).strip() for name in _FIELDS}
    if not values["title"]:
        ctx.snackbar("Enter a title")
    elif id:
        ctx.db.update("recipes", id, **values)
        ctx.back()
    else:
        ctx.replace(recipe, id=ctx.db.insert("recipes", **values))


def confirm(ctx: Context, id: int) -> Dialog:
    """Ask whether a recipe is deleted."""
    row = ctx.db.get("recipes", id)
    buttons = cancel_or("Delete", do(delete, id=id), kind="danger")
    return Dialog("Delete this recipe?", [Text(row["title"] if row else "")], buttons)


def delete(ctx: Context, id: int) -> None:
    """Delete a recipe and leave its page."""
    ctx.db.delete("recipes", id)
    ctx.back()
    ctx.snackbar("Recipe deleted")


APP = App(
    package="org.turncredit.recipes",
    name="Recipes",
    icon="utensils",
    colour="#e8710a",
    schema={
        "recipes": {
            "title": str,
            "category": str,
            "time": str,
            "servings": str,
            "ingredients": str,
            "steps": str,
            "favourite": bool,
        }
    },
    fill=fill,
    screens=(recipes, recipe, form, confirm),
)
