"""A scene as SVG: width says how often, colour what the estimator thinks of it, the line's form what kind it is.

Blue is a positive advantage, orange a negative one, grey none: told apart by every kind of colour vision, and none of
it is said by colour alone. Decisive steps carry a diamond, dead ends are dashed, and wins and losses have their marks.

Left out on purpose: fonts and files from elsewhere. The picture is one text.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from turnwise.cli.graphs.layout import HEIGHT, WIDTH, Layout, Point, along, curve, layout_of
from turnwise.cli.graphs.legend import head
from turnwise.cli.graphs.paint import (
    CHARACTER,
    DIAMOND,
    DIAMOND_EDGE,
    FILL,
    LINE,
    LOST_INK,
    STYLE,
    WON_INK,
    colour,
    signed,
    text,
    thickness,
)
from turnwise.cli.graphs.scene import KINDS, Place, Scene, Way

_HEAD = 112.0
_LABEL = 23


def draw(scene: Scene, estimator: str | None = None, *, tips: bool = True) -> str:
    """Return the SVG of a scene.

    Args:
        scene: what is drawn.
        estimator: whose advantages colour the steps; the first when absent.
        tips: put the details of every place and step into `<title>`, which viewers show under the pointer. A page with
            tips of its own leaves them out.
    """
    chosen = estimator or (scene.estimators[0] if scene.estimators else "")
    layout = layout_of(scene)
    width, height = max(layout.width, 1180.0), layout.height + _HEAD
    bends = _bends(scene)
    back_first = sorted(range(len(scene.ways)), key=lambda n: _importance(scene.ways[n], layout))
    body = [_way(scene, layout, n, chosen, bends[n], tips) for n in back_first]
    body += [_place(scene.places[n], n, layout.centres[n], tips) for n in range(len(scene.places))]
    body += _labels(scene, layout, back_first[::-1], bends)
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" '
            f'height="{height:.0f}" role="img" aria-label="{text(scene.title)}">',
            f"<style>{STYLE}</style>",
            f'<rect width="{width:.0f}" height="{height:.0f}" fill="#ffffff"/>',
            *head(scene, chosen),
            f'<g transform="translate(0 {_HEAD:.0f})">',
            *body,
            "</g>",
            "</svg>",
            "",
        ]
    )


def place_tip(place: Place) -> str:
    """Return what is said of a place under the pointer."""
    here = f"{_number(place.trajectories, 'trajectory', 'trajectories')} here, {place.won} won"
    lines = [place.text, f"{here}; {_number(place.visits, 'turn', 'turns')} from here"]
    if place.ends:
        ended = _number(place.ends, "trajectory", "trajectories")
        lines.append(f"{ended} ended here, {place.ends_won} with a win")
    return "\n".join(lines)


def way_tip(way: Way) -> str:
    """Return what is said of a step under the pointer."""
    shown = [f"{action or '(no action)'}  x{count}" for action, count in way.actions[:10]]
    if len(way.actions) > 10:
        shown.append(f"… {len(way.actions) - 10} more")
    refused = f", {_number(way.invalid, 'time', 'times')} refused" if way.invalid else ""
    by = _number(way.trajectories, "trajectory", "trajectories")
    taken = f"{_number(way.count, 'time', 'times')} by {by}, {way.won} won{refused}"
    return "\n".join(
        [*shown, KINDS[way.kind], taken, *(f"{name}: {signed(worth)}" for name, worth in way.worth.items())]
    )


def _number(count: int, one: str, several: str) -> str:
    return f"{count} {one if count == 1 else several}"


def _importance(way: Way, layout: Layout) -> tuple[bool, bool, int]:
    """Drawn later and labelled first: decisive steps, then steps forward, then the often taken."""
    return way.kind == "decisive", layout.layers[way.end] > layout.layers[way.start], way.count


def _bends(scene: Scene) -> list[float]:
    """Steps between the same two places lie beside one another."""
    seen: dict[tuple[int, int], int] = {}
    bends = []
    for way in scene.ways:
        number = seen.get((way.start, way.end), 0)
        seen[way.start, way.end] = number + 1
        bends.append(26.0 * ((number + 1) // 2) * (1 if number % 2 else -1))
    return bends


def _way(scene: Scene, layout: Layout, number: int, chosen: str, bend: float, tips: bool) -> str:
    way = scene.ways[number]
    points = curve(layout, way, bend)
    (x0, y0), (x1, y1), (x2, y2), (x3, y3) = points
    wide = thickness(way.count)
    paint = colour(way.worth.get(chosen, 0.0), scene.extent.get(chosen, 0.0))
    path = f"M{x0:.1f} {y0:.1f}C{x1:.1f} {y1:.1f} {x2:.1f} {y2:.1f} {x3:.1f} {y3:.1f}"
    forward = layout.layers[way.end] > layout.layers[way.start]
    faint = "" if forward or way.kind == "decisive" else ' opacity="0.6"'
    dash = f' stroke-dasharray="{LINE[way.kind]}"' if LINE[way.kind] else ""
    tip = f"<title>{text(way_tip(way))}</title>" if tips else ""
    parts = [f'<g class="step" data-way="{number}"{faint}>{tip}']
    if way.kind == "decisive":
        parts.append(f'<path class="way" d="{path}" stroke="#111" stroke-width="{wide + 3:.1f}"/>')
    parts.append(f'<path class="way ink" d="{path}" stroke="{paint}" stroke-width="{wide:.1f}"{dash}/>')
    parts.append(f'<path class="tip" d="{_arrow(points, wide)}" fill="{paint}"/>')
    if way.kind == "decisive":
        x, y = along(points, 0.5)
        parts.append(f'<path class="tip" d="M{x - 8:.1f} {y:.1f}{DIAMOND}" fill="{paint}" {DIAMOND_EDGE}/>')
    parts.append(f'<path class="way" d="{path}" stroke="#000" stroke-opacity="0" stroke-width="{wide + 8:.1f}"/></g>')
    return "".join(parts)


def _arrow(points: tuple[Point, Point, Point, Point], wide: float) -> str:
    (x2, y2), (x3, y3) = along(points, 0.93), points[3]
    length = max(((x3 - x2) ** 2 + (y3 - y2) ** 2) ** 0.5, 1e-6)
    ux, uy = (x3 - x2) / length, (y3 - y2) / length
    half = 2.5 + wide / 2
    corners = ((x3 + 7 * ux, y3 + 7 * uy), (x3 - uy * half, y3 + ux * half), (x3 + uy * half, y3 - ux * half))
    return "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in corners) + "z"


def _place(place: Place, number: int, centre: Point, tips: bool) -> str:
    x, y = centre[0] - WIDTH / 2, centre[1] - HEIGHT / 2
    fill, edge = FILL[place.fate]
    dash = ' stroke-dasharray="5 3"' if place.fate == "lost" else ""
    wide = 2.4 if place.trajectories > 1 else 1.0
    tip = f"<title>{text(place_tip(place))}</title>" if tips else ""
    lines = textwrap.wrap(" ".join(place.gist.split()), 24, max_lines=2, placeholder="…") or [""]
    if place.start:
        lines = ["start"]
    box = f'width="{WIDTH:.0f}" height="{HEIGHT:.0f}" rx="7" fill="{fill}" stroke="{edge}"{dash}'
    parts = [f'<g class="place" data-place="{number}">{tip}']
    if place.states > 1:
        parts.append(f'<rect x="{x + 5:.1f}" y="{y + 5:.1f}" {box}/>')
    parts.append(f'<rect x="{x:.1f}" y="{y:.1f}" stroke-width="{wide}" {box}/>')
    for row, line in enumerate(lines):
        bold = _bold(place.start)
        parts.append(f'<text class="gist" x="{x + 8:.1f}" y="{y + 15 + 13 * row:.1f}"{bold}>{text(line)}</text>')
    parts.append(_bar(place, x + 8, y + HEIGHT - 9))
    parts.append(_marks(place, x + WIDTH, y))
    return "".join([*parts, "</g>"])


def _bold(wanted: bool) -> str:
    return ' font-weight="bold"' if wanted else ""


def _bar(place: Place, x: float, y: float) -> str:
    """How many trajectories came here, and what share of them won: a bar in two colours with the numbers beside it."""
    whole = 62.0
    won = whole * place.won / max(place.trajectories, 1)
    return (
        f'<rect x="{x:.1f}" y="{y - 3:.1f}" width="{whole}" height="5" fill="{LOST_INK}" fill-opacity="0.5"/>'
        f'<rect x="{x:.1f}" y="{y - 3:.1f}" width="{won:.1f}" height="5" fill="{WON_INK}"/>'
        f'<text class="small" x="{x + whole + 6:.1f}" y="{y + 3:.1f}">{place.won} of {place.trajectories} won</text>'
    )


def _marks(place: Place, right: float, top: float) -> str:
    """Where trajectories ended: a star for the wins, a cross for the others, each with its number."""
    marks = []
    if place.ends_won:
        marks.append(("★", place.ends_won, WON_INK))
    if place.ends > place.ends_won:
        marks.append(("✕", place.ends - place.ends_won, LOST_INK))
    out = ""
    for number, (sign, count, paint) in enumerate(marks):
        x, y = right - 12 - 34 * number, top - 3
        out += (
            f'<rect x="{x - 16:.1f}" y="{y - 9:.1f}" width="31" height="18" rx="9" fill="{paint}"/>'
            f'<text x="{x - 0.5:.1f}" y="{y + 4:.1f}" class="mark">{sign} {count}</text>'
        )
    return out


def _labels(scene: Scene, layout: Layout, order: Sequence[int], bends: Sequence[float]) -> list[str]:
    """The actions on the steps, where there is room: the important ones first, none upon another."""
    taken = [(x - WIDTH / 2 - 2, y - HEIGHT / 2 - 8, x + WIDTH / 2 + 2, y + HEIGHT / 2 + 3) for x, y in layout.centres]
    for number in order:
        if scene.ways[number].kind == "decisive":
            x, y = along(curve(layout, scene.ways[number], bends[number]), 0.5)
            taken.append((x - 9, y - 9, x + 9, y + 9))
    out = []
    for number in order:
        way = scene.ways[number]
        half = len(_label(way)) * CHARACTER / 2 + 3
        points = curve(layout, way, bends[number])
        for share in (0.5, 0.42, 0.58, 0.34, 0.66, 0.26, 0.74):
            x, y = along(points, share)
            y -= 17 if way.kind == "decisive" else 0
            box = (x - half, y - 7.5, x + half, y + 7.5)
            if not any(box[0] < t[2] and t[0] < box[2] and box[1] < t[3] and t[1] < box[3] for t in taken):
                taken.append(box)
                out.append(_label_at(_label(way), x, y, half, bold=way.kind == "decisive"))
                break
    return out


def _label_at(words: str, x: float, y: float, half: float, *, bold: bool) -> str:
    return (
        f'<g pointer-events="none"><rect x="{x - half:.1f}" y="{y - 7.5:.1f}" width="{2 * half:.1f}" height="15" '
        f'rx="3" fill="#ffffff" fill-opacity="0.86"/>'
        f'<text class="label" text-anchor="middle" x="{x:.1f}" y="{y + 3.6:.1f}"{_bold(bold)}>{text(words)}</text></g>'
    )


def _label(way: Way) -> str:
    first = way.actions[0][0]
    if way.start == way.end:
        return f"{way.count}×" if len(way.actions) > 1 else f"{way.count}× {_short(first, 14)}"
    tail = f" +{len(way.actions) - 1}" if len(way.actions) > 1 else ""
    tail += f" ×{way.count}" if way.count > 1 else ""
    return _short(first, _LABEL - len(tail)) + tail


def _short(text: str, width: int) -> str:
    line = " ".join(text.split()) or "(no action)"
    return line if len(line) <= width else line[: width - 1].rstrip() + "…"
