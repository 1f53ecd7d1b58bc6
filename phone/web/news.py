"""The Northfield Times: a newspaper with sections, articles and a newsletter."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Final, NamedTuple

from turncredit.phone.content.people import FIRST_NAMES, LAST_NAMES, STREETS, TOWNS
from turncredit.phone.toolkit.app import Context
from turncredit.phone.toolkit.handlers import do
from turncredit.phone.toolkit.widgets import (
    Button,
    Card,
    Checkbox,
    Chip,
    Choice,
    Divider,
    Row,
    Spacer,
    Text,
    TextField,
    Widget,
)
from turncredit.phone.web.navigation import go
from turncredit.phone.web.page import Indexed, Site, WebPage, banner, form_error, paragraphs, refuse
from turncredit.tools.keyed_random import KeyedRandom

__all__ = ["FREQUENCIES", "HOST", "SITE", "TOPICS", "Article", "articles"]

HOST: Final = "northfield-times.example"
TOPICS: Final = ("Local", "Science", "Sport", "Culture", "Business")
FREQUENCIES: Final = ("Every day", "Once a week", "Once a month")


class Article(NamedTuple):
    """A story; `facts` are questions that it answers, each with the answer's kind and text."""

    path: str
    section: str
    title: str
    author: str
    minutes: int
    text: tuple[str, ...]
    facts: tuple[tuple[str, str, str], ...]


# Section, title, paragraphs, and facts as (question, kind of the answer, answer).
_STORIES: Final[tuple[tuple[str, str, tuple[str, ...], tuple[tuple[str, str, str], ...]], ...]] = (
    (
        "Local",
        "New footbridge joins {street} and the {river} meadows",
        (
            "After two winters of work the footbridge over the {river} is open. It is {length} metres long and saves "
            "walkers from {town} a detour of twenty minutes.",
            "The bridge rests on {n} oak posts and was designed by {person}. 'It should feel like a path that forgot "
            "to stop,' the engineer said at the opening.",
            "The town paid {money} thousand dollars; a fund of shopkeepers on {street} gave the rest.",
        ),
        (
            ("How many metres long is the new footbridge?", "number", "{length}"),
            ("Who designed the new footbridge?", "text", "{person}"),
        ),
    ),
    (
        "Local",
        "{town} library lends tools from {weekday}",
        (
            "Drills, ladders and a sewing machine: from {weekday} on, the library of {town} lends {n} tools beside its "
            "books. A library card is enough.",
            "Everything may be kept for {days} days. 'Most drills work eleven minutes in their life,' says {person}, "
            "who had the idea.",
        ),
        (
            ("How many tools does the library lend?", "number", "{n}"),
            ("On which day of the week does the library start to lend tools?", "text", "{weekday}"),
        ),
    ),
    (
        "Local",
        "Night bus to {town} will run until {time}",
        (
            "The last bus from the market square to {town} has left before five for as long as anybody remembers. "
            "That changes next month: the new night line runs until {time}.",
            "A ticket costs {n} dollars. {person} of the bus company expects {money} passengers a night.",
        ),
        (("Until what time will the night bus run?", "time", "{time}"),),
    ),
    (
        "Science",
        "Telescope on {hill} finds a comet",
        (
            "Students who were testing a camera on {hill} have found a comet. It was named after {person}, who noticed "
            "the faint smudge at {time}.",
            "The comet needs {length} years to go once around the sun. With field glasses it can be seen in the north "
            "for {days} more nights.",
        ),
        (
            ("How many years does the comet need to go around the sun?", "number", "{length}"),
            ("After whom was the comet named?", "text", "{person}"),
        ),
    ),
    (
        "Science",
        "Bees prefer the {n} wild flowers of {street}",
        (
            "What do bees like best? A class of the Riverside School counted visits on {n} kinds of wild flowers along "
            "{street} for {days} days.",
            "The winner was viper's bugloss with {length} visits, before clover and wild thyme. '{town} should mow "
            "less,' the pupils wrote to the mayor.",
        ),
        (("How many visits did viper's bugloss get?", "number", "{length}"),),
    ),
    (
        "Science",
        "A battery made of salt keeps {town} warm",
        (
            "In a hall behind {street} stands a battery that contains nothing but salt, iron and air. It stores "
            "{money} kilowatt hours, enough for {n} homes on a winter night.",
            "{person} leads the project. If it lasts {days} months without a failure, a second one will follow.",
        ),
        (
            ("How many homes can the salt battery supply on a winter night?", "number", "{n}"),
            ("Who leads the salt battery project?", "text", "{person}"),
        ),
    ),
    (
        "Sport",
        "{person} wins the {river} run",
        (
            "With a last mile that nobody could follow, {person} won the {length}th {river} run yesterday. The winner "
            "took {minutes} minutes for the twelve kilometres.",
            "{money} runners started at the boat house. The oldest, aged 81, came in before {n} others.",
        ),
        (
            ("How many minutes did the winner of the run take?", "number", "{minutes}"),
            ("Who won the run?", "text", "{person}"),
        ),
    ),
    (
        "Sport",
        "{town} Rowing Club gets a boat for eight",
        (
            "It is {n} years since {town} had a boat for eight. On {weekday} the new one was carried to the water, and "
            "named {girl}.",
            "Training begins at {morning} every Saturday. 'Beginners are welcome, early risers too,' says {person}.",
        ),
        (
            ("At what time does the Saturday training of the rowing club begin?", "time", "{morning}"),
            ("What is the name of the new boat?", "text", "{girl}"),
        ),
    ),
    (
        "Sport",
        "Chess in the park: {n} boards, one winner",
        (
            "{n} boards stood under the lime trees of {town}, and {money} people came to play or to give advice.",
            "{person} won the last game after {length} moves. The prize, a cake, was shared.",
        ),
        (("After how many moves was the last chess game won?", "number", "{length}"),),
    ),
    (
        "Culture",
        "Museum shows {n} clocks that run backwards",
        (
            "{person} has collected clocks that run backwards for thirty years. From {weekday} on, the museum of "
            "{town} shows {n} of them.",
            "The oldest hung in a barber's shop, so that customers could read it in the mirror. Admission is "
            "{days} dollars; children pay nothing.",
        ),
        (
            ("How many clocks does the museum show?", "number", "{n}"),
            ("How many dollars is the admission to the exhibition of clocks?", "number", "{days}"),
        ),
    ),
    (
        "Culture",
        "The choir of {street} needs basses",
        (
            "Sopranos it has plenty, but only {days} basses: the choir of {street} is looking for low voices.",
            "Rehearsals are on {weekday} at {time} in the chapel. {person} conducts. Nobody has to sing alone at the "
            "first visit.",
        ),
        (
            ("On which day of the week does the choir rehearse?", "text", "{weekday}"),
            ("At what time are the choir's rehearsals?", "time", "{time}"),
        ),
    ),
    (
        "Culture",
        "A film about the ferry of {town}",
        (
            "For {n} years the ferryman of {town} has crossed the {river} forty times a day. {person} filmed him for a "
            "whole summer.",
            "The film lasts {minutes} minutes and opens on {weekday} in the Lantern cinema.",
        ),
        (
            ("How many minutes long is the film about the ferry?", "number", "{minutes}"),
            ("Who made the film about the ferry?", "text", "{person}"),
        ),
    ),
    (
        "Business",
        "Bakery on {street} bakes with old bread",
        (
            "Bread that is left in the evening becomes flour for the next morning: with this the bakery on {street} "
            "saves {money} kilograms of flour a month.",
            "'One part in {days} of every loaf is yesterday's,' says {person}, the baker.",
        ),
        (("How many kilograms of flour does the bakery save a month?", "number", "{money}"),),
    ),
    (
        "Business",
        "Bicycle maker moves to {town}",
        (
            "Kestrel Bikes leaves its old hall and moves to {town} in spring. {money} people will work there.",
            "The new hall has room for {length} frames a week, twice as many as today. {person}, who founded the "
            "company, still tests every model on the way to work.",
        ),
        (
            ("To which town does Kestrel Bikes move?", "text", "{town}"),
            ("For how many frames a week does the new hall have room?", "number", "{length}"),
        ),
    ),
)
_RIVERS: Final = ("Elder", "Marl", "Tess", "Withy", "Orrin")
_HILLS: Final = ("Fox Hill", "Beacon Hill", "Larch Ridge", "Windmill Hill")
_WEEKDAYS: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


@lru_cache(maxsize=64)
def articles(seed: int | str) -> tuple[Article, ...]:
    """Return the articles of a phone with this seed, the newest first."""
    random = KeyedRandom(f"{seed}/web/news")
    result = []
    for section, title, text, facts in random.shuffled(_STORIES):
        values = _values(random)
        headline = title.format(**values)
        path = "/".join((section.lower(), "-".join(_letters(headline).split())))
        author = f"{random.pick(FIRST_NAMES)} {random.pick(LAST_NAMES)}"
        answers = tuple((question, kind, answer.format(**values)) for question, kind, answer in facts)
        written = tuple(paragraph.format(**values) for paragraph in text)
        result.append(Article(path, section, headline, author, random.between(2, 6), written, answers))
    return tuple(result)


def _letters(text: str) -> str:
    return "".join(letter for letter in text.lower() if letter.isalnum() or letter == " ")


def _values(random: KeyedRandom) -> dict[str, object]:
    return {
        "town": random.pick(TOWNS),
        "street": random.pick(STREETS),
        "river": random.pick(_RIVERS),
        "hill": random.pick(_HILLS),
        "weekday": random.pick(_WEEKDAYS),
        "person": f"{random.pick(FIRST_NAMES)} {random.pick(LAST_NAMES)}",
        "girl": random.pick(FIRST_NAMES),
        "n": random.between(12, 48),
        "days": random.between(5, 11),
        "length": random.between(52, 98),
        "minutes": random.between(49, 51) + random.between(0, 40),
        "money": 10 * random.between(12, 95),
        "morning": f"{random.between(6, 9):02d}:{random.pick((0, 15, 30, 45)):02d}",
        "time": f"{random.between(17, 23):02d}:{random.pick((0, 15, 30, 45)):02d}",
    }


def _page(ctx: Context, path: str, query: Mapping[str, str]) -> WebPage | None:
    if path == "newsletter":
        return _newsletter(ctx)
    if path == "newsletter/thanks":
        return _thanks()
    for article in articles(ctx.phone.seed):
        if article.path == path:
            return _story(ctx, article)
    sections = {section.lower(): section for section in TOPICS}
    if path in ("", *sections):
        return _front(ctx, sections.get(path, ""))
    return None


def _head() -> Widget:
    return banner("The Northfield Times", "News from the river and the hills", "#7a2e2e", do(go, url=HOST))


def _front(ctx: Context, section: str) -> WebPage:
    chips = [Chip("All", do(go, url=HOST), not section)]
    chips += [Chip(name, do(go, url=f"{HOST}/{name.lower()}"), name == section) for name in TOPICS[:4]]
    body: list[Widget] = [Spacer(4), _head(), Spacer(12), Row(chips, gap=4, padding=8), Spacer(12)]
    for article in articles(ctx.phone.seed):
        if section in ("", article.section):
            about = f"{article.section} · {article.minutes} minutes"
            parts = [Text(article.title, style="subtitle"), Spacer(4), Text(about, style="caption")]
            body.append(Card(parts, do(go, url=f"{HOST}/{article.path}"), description=article.title))
    body += [Spacer(8), Button("Get our newsletter", do(go, url=f"{HOST}/newsletter"), "tonal", "mail", wide=True)]
    return WebPage(f"The Northfield Times{' · ' * bool(section)}{section}", [*body, Spacer(24)])


def _story(ctx: Context, article: Article) -> WebPage:
    others = [other for other in articles(ctx.phone.seed) if other.section == article.section and other != article]
    body: list[Widget] = [
        Spacer(4),
        _head(),
        Spacer(16),
        Text(article.section, style="label", colour="primary"),
        Text(article.title, style="title"),
        Spacer(6),
        Text(f"By {article.author} · {article.minutes} minutes", style="caption"),
        Spacer(16),
        paragraphs(article.text),
        Divider(),
        Text("More to read", style="subtitle"),
        Spacer(8),
    ]
    body += [Card([Text(o.title)], do(go, url=f"{HOST}/{o.path}"), description=o.title) for o in others[:3]]
    return WebPage(article.title, [*body, Spacer(24)])


def _newsletter(ctx: Context) -> WebPage:
    body: list[Widget] = [
        Spacer(4),
        _head(),
        Spacer(16),
        Text("Our newsletter", style="title"),
        Text("The best stories in your mailbox. You can end it at any time.", style="caption"),
        Spacer(8),
        TextField("email", "Email", keyboard="email", icon="mail"),
        Choice("frequency", "How often", FREQUENCIES, FREQUENCIES[1]),
        Text("Topics", style="label"),
        *[Checkbox(topic, False, key=f"topic_{topic}") for topic in TOPICS],
        Divider(),
        Checkbox("I accept the privacy rules", False, key="accepted"),
        *form_error(ctx),
        Button("Subscribe", do(subscribe), wide=True),
        Spacer(24),
    ]
    return WebPage("Newsletter · The Northfield Times", body)


def subscribe(ctx: Context) -> None:
    """Store a subscription, or say what is missing."""
    form = ctx.form
    email = str(form["email"]).strip()
    topics = ", ".join(topic for topic in TOPICS if form[f"topic_{topic}"])
    if "@" not in email:
        refuse(ctx, "Enter an email address")
    elif not topics:
        refuse(ctx, "Choose at least one topic")
    elif not form["accepted"]:
        refuse(ctx, "Accept the privacy rules")
    else:
        ctx.db.insert("subscriptions", email=email, frequency=str(form["frequency"]), topics=topics)
        go(ctx, f"{HOST}/newsletter/thanks")


def _thanks() -> WebPage:
    body = [
        Spacer(4),
        _head(),
        Spacer(24),
        Text("Thank you!", style="title"),
        Text("You are on the list of our newsletter."),
        Spacer(16),
        Button("Back to the news", do(go, url=HOST), "tonal"),
    ]
    return WebPage("Thank you · The Northfield Times", body)


def _index(seed: int | str) -> list[Indexed]:
    pages = [Indexed(article.path, article.title, " ".join(article.text)) for article in articles(seed)]
    front = Indexed("", "The Northfield Times", "Newspaper with local news, science, sport and culture.")
    return [
        front,
        *pages,
        Indexed("newsletter", "Newsletter", "Subscribe to our newsletter."),
    ]


SITE: Final = Site(
    HOST,
    "The Northfield Times",
    "Newspaper",
    "book",
    "#7a2e2e",
    _page,
    _index,
    {"subscriptions": {"email": str, "frequency": str, "topics": str}},
)
