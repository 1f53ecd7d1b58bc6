"""Tasks of Recipes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from turncredit.envs.android.tasks.effects import Answer, DeleteRow, Effect, Infeasible, InsertRow, UpdateRow
from turncredit.envs.android.tasks.hand import Hand, Script, is_item
from turncredit.envs.android.tasks.steps import Step, call, choose, fill, give_up, start, steps, tap
from turncredit.envs.android.tasks.template import Draw, EffectsFunction, Params, TaskTemplate
from turncredit.phone.apps.recipes import SERVINGS, TIMES, draw
from turncredit.phone.toolkit.tables import Value

PACKAGE: Final = "org.turncredit.recipes"
_APPS: Final = ("Recipes",)


def _known(d: Draw, **equal: Value) -> Params | None:
    row = d.pick(d.rows(PACKAGE, "recipes", **equal))
    return {"id": row["_id"], "title": row["title"], "row": dict(row)} if row else None


def _new_draw(d: Draw) -> Params | None:
    drawn = draw(d.random)
    drawn["steps"] = drawn["steps"].splitlines()[0]
    drawn["ingredients"] = drawn["ingredients"].splitlines()[0]
    have = {row["title"] for row in d.rows(PACKAGE, "recipes")}
    return None if drawn["title"] in have else drawn


def open_recipe(hand: Hand, title: str) -> Script:
    """Show a recipe, by way of the search."""
    yield from hand.open("Recipes")
    yield from hand.fill("Search recipes and ingredients", title)
    yield from hand.tap(title, where=is_item)


def _added(p: Params) -> list[Effect]:
    names = ("title", "category", "time", "servings", "ingredients", "steps")
    return [InsertRow(PACKAGE, "recipes", {name: p[name] for name in names})]


def _delete(hand: Hand, title: str) -> Script:
    yield from open_recipe(hand, title)
    yield from hand.tap("Delete recipe", scroll=False)
    yield from hand.tap("Delete", scroll=False)


_delete_solve = steps(call(_delete, "{title}"))


def _several_draw(d: Draw) -> Params | None:
    rows = d.some(d.rows(PACKAGE, "recipes"), 3)
    return {"titles": [row["title"] for row in rows], "ids": [row["_id"] for row in rows]}


def _several_solve(hand: Hand, p: Params) -> Iterator[str]:
    for n, title in enumerate(p["titles"]):
        if not hand.met(n):
            yield from _delete(hand, title)
    yield from hand.done()


def _twice_draw(d: Draw) -> Params | None:
    p = _known(d) or {}
    copy = d.insert(PACKAGE, "recipes", **{name: value for name, value in p["row"].items() if name != "_id"})
    return {"id": copy, "first": p["id"], "title": p["title"]}


def _change_draw(d: Draw) -> Params | None:
    p = _known(d) or {}
    servings = d.pick([number for number in SERVINGS if number != p["row"]["servings"]])
    return {**p, "servings": servings, "time": d.pick([time for time in TIMES if time != p["row"]["time"]])}


def _choice_solve(label: str, column: str) -> Step:
    def solve(hand: Hand, p: Params) -> Iterator[str]:
        yield from open_recipe(hand, p["title"])
        yield from hand.tap("Edit recipe", scroll=False)
        yield from hand.choose(label, p[column])
        yield from hand.tap("Save", scroll=False)
        yield from hand.done()

    return solve


def _set(column: str) -> EffectsFunction:
    return lambda p: [UpdateRow(PACKAGE, "recipes", p["id"], {column: p[column]})]


def _ask_solve(detail: str) -> Step:
    def solve(hand: Hand, p: Params) -> Iterator[str]:
        yield from open_recipe(hand, p["title"])
        texts = hand.texts()
        yield from hand.answer(texts[texts.index(detail) - 1].split()[0])

    return solve


def _grams_draw(d: Draw) -> Params | None:
    p = _known(d) or {}
    amount, _, main = p["row"]["ingredients"].splitlines()[0].partition(" g ")
    return {"title": p["title"], "main": main, "grams": int(amount)}


def _grams_solve(hand: Hand, p: Params) -> Iterator[str]:
    yield from open_recipe(hand, p["title"])
    line = next(text for text in hand.texts() if text.endswith(f" g {p['main']}"))
    yield from hand.answer(line.split()[0])


def _favourites_draw(d: Draw) -> Params | None:
    titles = [row["title"] for row in d.rows(PACKAGE, "recipes", favourite=1)]
    return {"titles": titles, "app": "Recipes"} if titles else None


def _favourites_solve(hand: Hand, p: Params) -> Iterator[str]:
    yield from hand.open("Recipes")
    yield from hand.tap("Favourites", scroll=False)
    titles = yield from hand.read_all(lambda e: e.texts[0] if len(e.texts) == 2 and " · " in e.texts[1] else None)
    yield from hand.answer(", ".join(titles))


TEMPLATES: Final = (
    TaskTemplate(
        "RecipesAdd",
        "Add a recipe: {title}. Category {category}, time {time}, servings {servings}. Ingredients: {ingredients}. "
        "Steps: {steps}",
        _new_draw,
        _added,
        steps(
            start("Recipes"),
            tap("New recipe", scroll=False),
            fill("Title", "{title}"),
            choose("Category", "{category}"),
            choose("Time", "{time}"),
            choose("Servings", "{servings}"),
            fill("Ingredients, one a line", "{ingredients}"),
            fill("Steps, one a line", "{steps}"),
            tap("Save", scroll=False),
        ),
        _APPS,
        complexity=2.8,
    ),
    TaskTemplate(
        "RecipesDelete",
        ("Delete the recipe {title}.", "Remove {title} from my recipes."),
        _known,
        lambda p: [DeleteRow(PACKAGE, "recipes", p["id"])],
        _delete_solve,
        _APPS,
        complexity=1.2,
    ),
    TaskTemplate(
        "RecipesDeleteSeveral",
        "Delete these recipes: {titles}.",
        _several_draw,
        lambda p: [DeleteRow(PACKAGE, "recipes", key) for key in p["ids"]],
        _several_solve,
        _APPS,
        complexity=4.0,
        split="held_out",
    ),
    TaskTemplate(
        "RecipesDeleteDuplicate",
        "The recipe {title} is in Recipes twice. Delete one of the two.",
        _twice_draw,
        lambda p: [DeleteRow(PACKAGE, "recipes", p["id"], instead=(p["first"],))],
        _delete_solve,
        _APPS,
        complexity=1.2,
    ),
    TaskTemplate(
        "RecipesAddFavourite",
        "Make the recipe {title} a favourite.",
        lambda d: _known(d, favourite=0),
        lambda p: [UpdateRow(PACKAGE, "recipes", p["id"], {"favourite": 1})],
        steps(call(open_recipe, "{title}"), tap("Add to favourites", scroll=False)),
        _APPS,
    ),
    TaskTemplate(
        "RecipesSetServings",
        "The recipe {title} serves {servings}. Correct that.",
        _change_draw,
        _set("servings"),
        _choice_solve("Servings", "servings"),
        _APPS,
        complexity=1.6,
    ),
    TaskTemplate(
        "RecipesSetTime",
        "Change the time of the recipe {title} to {time}.",
        _change_draw,
        _set("time"),
        _choice_solve("Time", "time"),
        _APPS,
        complexity=1.6,
        split="held_out",
    ),
    TaskTemplate(
        "RecipesAskTime",
        "How many minutes does the recipe {title} take? Answer with a number.",
        _known,
        lambda p: [Answer("number", int(p["row"]["time"].split()[0]))],
        _ask_solve("Time"),
        _APPS,
    ),
    TaskTemplate(
        "RecipesAskGrams",
        "How many grams of {main} does the recipe {title} need? Answer with a number.",
        _grams_draw,
        lambda p: [Answer("number", p["grams"])],
        _grams_solve,
        _APPS,
    ),
    TaskTemplate(
        "RecipesAskFavourites",
        "Which recipes are favourites? Answer with the titles, separated by commas.",
        _favourites_draw,
        lambda p: [Answer("list", p["titles"])],
        _favourites_solve,
        _APPS,
    ),
    TaskTemplate(
        "RecipesDeleteMissing",
        "Delete the recipe {title}.",
        _new_draw,
        lambda p: [Infeasible()],
        steps(start("Recipes"), fill("Search recipes and ingredients", "{title}"), give_up()),
        _APPS,
        tags=("infeasible",),
    ),
)
