"""Widgets of a screen: dataclasses that say what is shown and what a touch does; none of them has a state.

They are values: nobody changes one after it is built. Yet they are not frozen, since that would triple the time that
building one takes, and a phone builds thousands a second.

Sizes are in dp (1 dp is 2.625 pixels). `on_tap` and its like take `do(action, ...)`. A widget with a `key` keeps its
value in the page under this name (`ctx.get(key)`, `ctx.form[key]`) until the page is closed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

from turncredit.phone.toolkit.handlers import Do
from turncredit.phone.toolkit.tables import Value

__all__ = [
    "Avatar",
    "Bubble",
    "Button",
    "Card",
    "Checkbox",
    "Chip",
    "Choice",
    "Column",
    "DateField",
    "Dialog",
    "Divider",
    "Empty",
    "Fab",
    "Grid",
    "Icon",
    "IconButton",
    "Item",
    "List",
    "Menu",
    "Picture",
    "Radio",
    "Row",
    "Screen",
    "Section",
    "Shape",
    "Sheet",
    "Slider",
    "Spacer",
    "Spot",
    "Switch",
    "Tab",
    "Text",
    "TextField",
    "Tile",
    "TimeField",
    "Widget",
    "Window",
    "cancel_or",
    "wrong_field",
]


class Widget:
    """Base of all widgets."""

    __slots__ = ()


def wrong_field(widget: object) -> str:
    """Return which plain field of a widget or window has a value of another type, as a sentence; "" for none."""
    kinds = {"str": str, "int": int, "float": int | float, "bool": bool | int}
    for field in fields(widget) if is_dataclass(widget) else ():
        value = getattr(widget, field.name)
        if not isinstance(value, kinds.get(str(field.type), object)):
            return f"{type(widget).__name__}.{field.name} must be {field.type}, got {value!r}"
    return ""


@dataclass(slots=True, unsafe_hash=True)
class Text(Widget):
    """A text. Styles: display, headline, title, subtitle, body, label, caption. `selectable`: a long press selects."""

    text: str
    style: str = "body"
    colour: str = ""
    align: str = "left"
    lines: int = 0  # 0: as many as needed
    selectable: bool = False
    id: str = ""


@dataclass(slots=True, unsafe_hash=True)
class Icon(Widget):
    """A symbol of `icons.ICONS`; without a description it is decoration."""

    icon: str
    description: str = ""
    colour: str = ""
    size: int = 24


@dataclass(slots=True, unsafe_hash=True)
class Avatar(Widget):
    """A coloured disc with the first letter of a name, or with an icon."""

    name: str
    icon: str = ""
    size: int = 40


@dataclass(slots=True, unsafe_hash=True)
class Button(Widget):
    """A button. Kinds: filled, tonal, outlined, text, danger."""

    text: str
    on_tap: Do | None
    kind: str = "filled"
    icon: str = ""
    enabled: bool = True
    wide: bool = False
    description: str = ""


def cancel_or(text: str, on_tap: Do, kind: str = "filled") -> list[Button]:
    """Return the buttons of a dialog: one that closes it, and one that does something."""
    return [Button("Cancel", None, kind="text"), Button(text, on_tap, kind)]


@dataclass(slots=True, unsafe_hash=True)
class IconButton(Widget):
    """An icon to tap; its description is how an agent knows it."""

    icon: str
    description: str
    on_tap: Do | None
    colour: str = ""
    enabled: bool = True
    filled: bool = False
    on_long_press: Do | None = None


@dataclass(slots=True, unsafe_hash=True)
class Item(Widget):
    """A row of a list: title, subtitle, something in front (icon or avatar) and at the end (text or a button)."""

    title: str
    subtitle: str = ""
    icon: str = ""
    avatar: str = ""
    trailing: str = ""
    end: IconButton | None = None
    on_tap: Do | None = None
    on_long_press: Do | None = None
    on_swipe: Do | None = None
    selected: bool = False
    bold: bool = False
    id: str = ""


@dataclass(slots=True, unsafe_hash=True)
class Switch(Widget):
    """A row with a switch; `on_change` runs after the new value is in `ctx.value`."""

    title: str
    checked: bool
    on_change: Do | None = None
    key: str = ""
    subtitle: str = ""
    icon: str = ""
    enabled: bool = True


@dataclass(slots=True, unsafe_hash=True)
class Checkbox(Widget):
    """A row with a checkbox; `on_tap`, if given, is for a touch of the text beside the box."""

    title: str
    checked: bool
    on_change: Do | None = None
    key: str = ""
    subtitle: str = ""
    enabled: bool = True
    on_tap: Do | None = None
    on_long_press: Do | None = None
    struck: bool = False


@dataclass(slots=True, unsafe_hash=True)
class Radio(Widget):
    """A row with a radio button: one of several choices."""

    title: str
    checked: bool
    on_change: Do | None = None
    key: str = ""
    choice: Value = None  # what is stored under the key
    subtitle: str = ""


@dataclass(slots=True, unsafe_hash=True)
class Slider(Widget):
    """A slider of whole numbers, moved by a touch or a drag."""

    title: str
    value: int
    minimum: int = 0
    maximum: int = 100
    key: str = ""
    on_change: Do | None = None
    icon: str = ""


@dataclass(slots=True, unsafe_hash=True)
class TextField(Widget):
    """A field to type into. `value` is shown until something is typed; keyboards: text, number, phone, email."""

    key: str
    label: str
    value: str = ""
    hint: str = ""
    keyboard: str = "text"
    password: bool = False
    multiline: bool = False
    icon: str = ""
    error: str = ""
    select_all: bool = False  # a tap selects what is there, so that typing replaces it
    on_submit: Do | None = None
    on_change: Do | None = None


@dataclass(slots=True, unsafe_hash=True)
class Choice(Widget):
    """A field that offers a menu of options."""

    key: str
    label: str
    options: tuple[str, ...]
    value: str = ""
    on_change: Do | None = None


@dataclass(slots=True, unsafe_hash=True)
class DateField(Widget):
    """A field that opens the date picker. The value is 'YYYY-MM-DD', or "" for none."""

    key: str
    label: str
    value: str = ""
    on_change: Do | None = None


@dataclass(slots=True, unsafe_hash=True)
class TimeField(Widget):
    """A field that opens the time picker. The value is 'HH:MM' of 24 hours, or "" for none."""

    key: str
    label: str
    value: str = ""
    on_change: Do | None = None


@dataclass(slots=True, unsafe_hash=True)
class Chip(Widget):
    """A small filter or choice."""

    text: str
    on_tap: Do | None = None
    selected: bool = False


@dataclass(slots=True, unsafe_hash=True)
class Section(Widget):
    """A heading between the rows of a list."""

    text: str


@dataclass(slots=True, unsafe_hash=True)
class Divider(Widget):
    """A thin line."""


@dataclass(slots=True, unsafe_hash=True)
class Spacer(Widget):
    """Empty space: a height in a column, the rest of the width in a row."""

    height: int = 16


@dataclass(slots=True, unsafe_hash=True)
class Empty(Widget):
    """What a list shows when there is nothing."""

    icon: str
    text: str


@dataclass(slots=True, unsafe_hash=True)
class Bubble(Widget):
    """A message of a conversation."""

    text: str
    mine: bool
    detail: str = ""
    on_long_press: Do | None = None


@dataclass(slots=True, unsafe_hash=True)
class Row(Widget):
    """Widgets side by side: those with a width of their own keep it, the others share the rest."""

    children: Sequence[Widget]
    gap: int = 8
    padding: int = 16


@dataclass(slots=True, unsafe_hash=True)
class Column(Widget):
    """Widgets one below the other."""

    children: Sequence[Widget]
    gap: int = 0
    padding: int = 0


@dataclass(slots=True, unsafe_hash=True)
class Card(Widget):
    """A rounded panel around widgets. A card with `on_tap` should hold nothing that can be tapped."""

    children: Sequence[Widget]
    on_tap: Do | None = None
    on_long_press: Do | None = None
    description: str = ""
    colour: str = ""
    selected: bool = False


@dataclass(slots=True, unsafe_hash=True)
class Tile(Widget):
    """A cell of a grid: a picture, an app icon or a day. Kinds: app, home, toggle, day, key."""

    text: str
    on_tap: Do | None = None
    icon: str = ""
    colour: str = ""
    kind: str = "app"
    selected: bool = False
    marked: bool = False
    description: str = ""
    on_long_press: Do | None = None
    dots: int = 0  # under the number of a day: how much there is on it


@dataclass(slots=True, unsafe_hash=True)
class Grid(Widget):
    """Widgets in columns of equal width."""

    children: Sequence[Widget]
    columns: int = 4
    gap: int = 8
    padding: int = 16


@dataclass(slots=True, unsafe_hash=True)
class Shape:
    """A figure of a picture. Points are in the picture's own units.

    Kinds: box, disc and icon (two corners; `text` names the icon), line, polygon, text (one point, its centre; or two,
    the upper left corner and the right edge, where it is cut). A text at a centre may be turned and have a halo.
    """

    kind: str
    points: tuple[tuple[float, float], ...]
    colour: str
    width: float = 0.0  # of a line, or the height of a text
    text: str = ""
    radius: float = 0.0
    angle: float = 0.0  # of a text, in degrees, clockwise
    halo: str = ""  # colour around a text


@dataclass(slots=True, unsafe_hash=True)
class Spot:
    """A part of a picture that can be tapped, in the picture's units."""

    left: float
    top: float
    right: float
    bottom: float
    description: str
    on_tap: Do | None
    selected: bool = False


@dataclass(slots=True, unsafe_hash=True)
class Picture(Widget):
    """A drawing of shapes, as wide as there is room; `width` and `height` are its own units.

    One with `cut` is a window on a larger drawing: its upper left corner is at `origin`, what lies outside is not
    drawn, and edges are smooth. `on_drag` gets `right` and `down`, in its units, from a finger that moves on it.
    """

    shapes: tuple[Shape, ...] | Callable[[], tuple[Shape, ...]]  # a function is called for screenshots only
    width: float
    height: float
    description: str = ""
    spots: tuple[Spot, ...] = ()
    on_tap: Do | None = None
    on_long_press: Do | None = None
    on_drag: Do | None = None
    origin: tuple[float, float] = (0.0, 0.0)
    cut: bool = False
    fill: bool = False  # as wide as the screen, and as high as what is left of it


@dataclass(slots=True, unsafe_hash=True)
class List(Widget):
    """Many rows of one height, of which only the visible ones are built: `row(item)` returns the widget of an item."""

    items: Sequence[Any]
    row: Callable[[Any], Widget]


@dataclass(slots=True, unsafe_hash=True)
class Tab:
    """An entry of the tabs at the top, or of the bar at the bottom, of a screen."""

    text: str
    on_tap: Do | None
    selected: bool = False
    icon: str = ""


@dataclass(slots=True, unsafe_hash=True)
class Fab:
    """The round button that floats over the lower right corner."""

    icon: str
    description: str
    on_tap: Do | None
    text: str = ""


class Window:
    """Base of what a screen function returns."""

    __slots__ = ()


@dataclass(slots=True, unsafe_hash=True)
class Screen(Window):
    """A whole screen: bar with title and actions, a fixed part, tabs, a body that scrolls, a bar at the bottom.

    Without title, actions and arrow there is no bar at the top.
    """

    title: str
    body: Sequence[Widget]
    actions: Sequence[IconButton] = ()
    up: bool = True  # an arrow to go back, on every screen but the first of an app
    up_icon: str = "back"
    on_back: Do | None = None  # of the arrow and of the Back key; default: the page closes
    top: Sequence[Widget] = ()
    tabs: Sequence[Tab] = ()
    bottom: Sequence[Widget] = ()
    bar: Sequence[Tab] = ()
    fab: Fab | None = None
    from_end: bool = False  # the body starts at its end, as conversations do
    style: str = "page"  # page, wallpaper or shade
    on_swipe_up: Do | None = None  # a swipe from below where the body cannot be scrolled further


@dataclass(slots=True, unsafe_hash=True)
class Dialog(Window):
    """A question in front of the screen. A touch outside closes it, unless `modal`."""

    title: str
    body: Sequence[Widget] = ()
    buttons: Sequence[Button] = ()
    modal: bool = False
    icon: str = ""


@dataclass(slots=True, unsafe_hash=True)
class Menu(Window):
    """A short list of commands in front of the screen."""

    entries: Sequence[tuple[str, Do | None]]
    selected: str = ""


@dataclass(slots=True, unsafe_hash=True)
class Sheet(Window):
    """A panel that comes from below."""

    title: str
    body: Sequence[Widget]
