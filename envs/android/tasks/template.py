"""Templates of tasks, and how to write one. A module of templates is one file here and one line in `MODULES`.

    def _draw(d: Draw) -> Params | None:
        row = d.random.pick(d.rows(CONTACTS, "contacts"))
        if not row["phone"]:
            return None                                  # this phone offers no such task: drawn again on another phone
        return {"id": row["_id"], "name": f"{row['first']} {row['last']}", "company": d.random.pick(COMPANIES)}

    def _effects(p: Params) -> list[Effect]:             # the complete difference that success makes
        return [UpdateRow(CONTACTS, "contacts", p["id"], {"company": p["company"]})]

    TEMPLATES = (
        TaskTemplate(
            "ContactsSetCompany",
            ("{name} now works for {company}. Note that in Contacts.", "Set the company of {name} to {company}."),
            _draw, _effects,
            steps(start("Contacts"), tap("{name}"), tap("Edit contact"), fill("Company", "{company}"), tap("Save")),
            apps=("Contacts",), complexity=1.4,
        ),
    )

Rules.

- `draw` may prepare the phone: `d.insert(package, table, **columns)`, `d.update`, `d.delete`, `d.set_setting`,
  `d.write_file`. Parameters are plain data (str, int, float, bool, None, lists and dicts of these).
- The goal must name everything that the effects need, in a way that only one outcome fits: a name that two contacts
  share needs something more. Columns that the goal does not tell are `free=(...)` in the effect.
- `complexity`: the step limit of a task is 10 x complexity; the expert should need at most half of it.
- `solve` acts through the screen alone: `steps`, or, for a script that decides by what it sees, a generator function of
  the hand and the parameters (see `hand`). It must not rely on what it has done before it was interrupted: when the
  screen is not what it expects, the hand goes back to the home screen and the script starts again. A script with
  several effects asks `hand.met(i)` whether the i-th effect is there already, and leaves that part out. One with a
  single effect need not: it is not asked any more when all effects are there.
- Apps by the names of the drawer. A template whose apps include one of `HELD_OUT_APPS` belongs to the split `apps`;
  others with `split="held_out"` (about one fifth of each app's) belong to the split `templates`.
- Infeasible tasks: effects are [Infeasible()], and the script ends with `give_up()` or `hand.infeasible()`.
- Questions: effects are [Answer(kind, value)], and the script ends with `answer(read)` or `hand.answer(text)`, which
  also says done.

`tests/envs/android/test_tasks.py` plays every template that is registered: the expert wins, the exact effects pass, and
near misses derived from the effects fail.
"""

from __future__ import annotations

import string
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import blake2b
from importlib import import_module
from typing import Final, Protocol, TypedDict

from turncredit.envs.android.phones import task_phone
from turncredit.envs.android.tasks.attacks import Planted, plant
from turncredit.envs.android.tasks.draw import Draw, Params
from turncredit.envs.android.tasks.effects import Effect
from turncredit.envs.android.tasks.steps import Step
from turncredit.envs.errors import UnknownTask
from turncredit.phone.phone import Phone
from turncredit.tools.keyed_random import KeyedRandom

__all__ = [
    "HELD_OUT_APPS",
    "SPLITS",
    "Draw",
    "DrawFunction",
    "EffectsFunction",
    "Params",
    "PhoneTask",
    "TaskTemplate",
    "TemplateOptions",
    "all_templates",
    "make_task",
    "split_of",
    "written_goal",
]

MODULES: Final[tuple[str, ...]] = (
    "turncredit.envs.android.tasks.alarms",
    "turncredit.envs.android.tasks.browser",
    "turncredit.envs.android.tasks.browser_forms",
    "turncredit.envs.android.tasks.calendar",
    "turncredit.envs.android.tasks.clock",
    "turncredit.envs.android.tasks.contacts",
    "turncredit.envs.android.tasks.cross_app_tasks",
    "turncredit.envs.android.tasks.dialer",
    "turncredit.envs.android.tasks.expenses",
    "turncredit.envs.android.tasks.files",
    "turncredit.envs.android.tasks.gallery",
    "turncredit.envs.android.tasks.infeasible_tasks",
    "turncredit.envs.android.tasks.mail",
    "turncredit.envs.android.tasks.maps",
    "turncredit.envs.android.tasks.maps_and_more",
    "turncredit.envs.android.tasks.maps_ways",
    "turncredit.envs.android.tasks.messages",
    "turncredit.envs.android.tasks.music",
    "turncredit.envs.android.tasks.notes",
    "turncredit.envs.android.tasks.recipes",
    "turncredit.envs.android.tasks.settings",
    "turncredit.envs.android.tasks.telling",
    "turncredit.envs.android.tasks.todo",
)
"""Modules with `TEMPLATES`."""

HELD_OUT_APPS: Final = ("Maps", "Music", "Recipes")
"""Apps that no task of the splits train, instances and templates uses."""

SPLITS: Final = ("train", "instances", "templates", "apps")
"""Training, and three kinds of tasks that training has not seen."""

_ATTEMPTS: Final = 30

DrawFunction = Callable[[Draw], Params | None]
EffectsFunction = Callable[[Params], list[Effect]]


class TemplateOptions(TypedDict, total=False):
    """What most templates leave as it is."""

    complexity: float
    split: str
    tags: tuple[str, ...]


@dataclass(frozen=True)
class TaskTemplate:
    """A kind of task. `goal` is one sentence or several of the same meaning, with parameters in braces."""

    name: str
    goal: str | tuple[str, ...]
    draw: DrawFunction
    effects: EffectsFunction
    solve: Step
    apps: tuple[str, ...]
    complexity: float = 1.0
    split: str = "train"
    tags: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Check what would only fail later.

        Raises:
            ValueError: the split is not train or held_out, or there is no app or goal.
        """
        if self.split not in ("train", "held_out"):
            raise ValueError(f"the split of template {self.name} must be train or held_out, got {self.split!r}")
        if not self.apps or not self.goals or self.complexity <= 0:
            raise ValueError(f"template {self.name} needs apps, a goal and a complexity above 0")

    @property
    def goals(self) -> tuple[str, ...]:
        """All sentences."""
        return (self.goal,) if isinstance(self.goal, str) else self.goal

    @property
    def step_limit(self) -> int:
        """Steps that an agent has."""
        return int(10 * self.complexity)


@dataclass(frozen=True)
class PhoneTask:
    """One task: its phone at the start, and what it asks for."""

    id: str
    template: TaskTemplate
    goal: str
    params: Params
    phone: Phone = field(repr=False)
    planted: Planted | None = None  # the attack on it

    @property
    def effects(self) -> list[Effect]:
        """The complete difference that success makes."""
        return self.template.effects(self.params)


@lru_cache(maxsize=1)
def all_templates() -> Mapping[str, TaskTemplate]:
    """Return the templates of all modules by name.

    Raises:
        ValueError: two have the same name.
    """
    templates: dict[str, TaskTemplate] = {}
    for module in MODULES:
        for template in import_module(module).TEMPLATES:
            if template.name in templates:
                raise ValueError(f"two templates are called {template.name}; one is in {module}")
            templates[template.name] = template
    return templates


class _InSplit(Protocol):
    """What the split of a template depends on."""

    @property
    def name(self) -> str: ...
    @property
    def apps(self) -> tuple[str, ...]: ...
    @property
    def split(self) -> str: ...


def split_of(template: _InSplit, number: int) -> str:
    """Return the split of a template's instance: one of `SPLITS`. Every instance belongs to exactly one.

    A fifth of the instances of training templates, chosen by a hash, is held out.
    """
    if set(template.apps) & set(HELD_OUT_APPS):
        return "apps"
    if template.split == "held_out":
        return "templates"
    digest = blake2b(f"{template.name}/{number}".encode(), digest_size=4).digest()
    return "instances" if int.from_bytes(digest, "big") % 5 == 0 else "train"


def make_task(name: str, number: int, injections: float = 0.0) -> PhoneTask:
    """Return an instance of a template: the same arguments give the same task.

    Args:
        name: of the template.
        number: of the instance, from 0.
        injections: probability that the content of the phone carries instructions to the agent (see `attacks`).

    Raises:
        UnknownTask: there is no such template, or 30 phones in a row offer no such task.
    """
    template = all_templates().get(name)
    if template is None:
        raise UnknownTask(f"there is no task template {name!r}; there are {', '.join(sorted(all_templates()))}")
    for attempt in range(_ATTEMPTS):
        key = f"{name}/{number}/{attempt}" if attempt else f"{name}/{number}"
        phone, random = task_phone(key), KeyedRandom(f"{key}/task")
        planted = None
        if KeyedRandom(f"{name}/{number}/attacked").chance(injections):
            planted = plant(Draw(phone, KeyedRandom(f"{key}/attack")), template.apps)
        params = template.draw(Draw(phone, random))
        if params is not None:
            goal = written_goal(random.pick(template.goals), params)
            if planted is None or planted.fits(goal, template.effects(params)):
                return PhoneTask(f"{name}/{number}", template, goal, params, phone, planted)
    raise UnknownTask(f"template {name} found no task on {_ATTEMPTS} phones for number {number}")


def written_goal(goal: str, params: Params) -> str:
    """Return a goal with its parameters in place; lists are joined with commas."""
    return _Formatter().vformat(goal, (), params)


class _Formatter(string.Formatter):
    """Fills a goal with parameters; lists are joined with commas."""

    def format_field(self, value: object, format_spec: str) -> str:
        """Return a parameter as text."""
        if isinstance(value, list | tuple) and not format_spec:
            return ", ".join(map(str, value))
        return str(super().format_field(value, format_spec))
