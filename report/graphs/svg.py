"""A diagram as one SVG text without external fonts or files.

The width of an edge shows how often it was taken, its colour the mean advantage (blue positive, orange negative, grey
zero, distinguishable with any colour vision), and its line style the kind of step. Nothing is shown by colour alone:
decisive steps have a diamond, dead ends are dashed, and wins and losses have markers.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from turncredit.report.graphs.diagram import KINDS, Diagram, DiagramEdge, DiagramNode
from turncredit.report.graphs.layout import HEIGHT, WIDTH, DiagramLayout, Point, along, curve, layout_of
from turncredit.report.graphs.legend import head
from turncredit.report.graphs.style import (
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

_HEAD = 112.0
_LABEL = 23


def draw(diagram: Diagram, rule: str | None = None, *, tips: bool = True) -> str:
    """Return the SVG of a diagram.

    Args:
        diagram: what is drawn.
        rule: whose advantages colour the steps; the first when absent.
        tips: add the details of every node and step as `<title>`, which viewers show as tooltips.
    """
    chosen = rule or (diagram.rules[0] if diagram.rules else "")
    layout = layout_of(diagram)
    width, height = max(layout.width, 1180.0), layout.height + _HEAD
    bends = _bends(diagram)
    back_first = sorted(range(len(diagram.edges)), key=lambda n: _importance(diagram.edges[n], layout))
    body = [_edge(diagram, layout, n, chosen, bends[n], tips) for n in back_first]
    body += [_node(diagram.nodes[n], n, layout.centres[n], tips) for n in range(len(diagram.nodes))]
    body += _labels(diagram, layout, back_first[::-1], bends)
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" '
            f'height="{height:.0f}" role="img" aria-label="{text(diagram.title)}">',
            f"<style>{STYLE}</style>",
            f'<rect width="{width:.0f}" height="{height:.0f}" fill="#ffffff"/>',
            *head(diagram, chosen),
            f'<g transform="translate(0 {_HEAD:.0f})">',
            *body,
            "</g>",
            "</svg>",
            "",
        ]
    )


def node_tip(node: DiagramNode) -> str:
    """Return the tooltip of a node."""
    here = f"{_number(node.trajectories, 'trajectory', 'trajectories')} here, {node.won} won"
    lines = [node.text, f"{here}; {_number(node.visits, 'turn', 'turns')} from here"]
    if node.ends:
        ended = _number(node.ends, "trajectory", "trajectories")
        lines.append(f"{ended} ended here, {node.ends_won} with a win")
    return "\n".join(lines)


def edge_tip(edge: DiagramEdge) -> str:
    """Return the tooltip of an edge."""
    shown = [f"{action or '(no action)'}  x{count}" for action, count in edge.actions[:10]]
    if len(edge.actions) > 10:
        shown.append(f"… {len(edge.actions) - 10} more")
    refused = f", {_number(edge.invalid, 'time', 'times')} refused" if edge.invalid else ""
    by = _number(edge.trajectories, "trajectory", "trajectories")
    taken = f"{_number(edge.count, 'time', 'times')} by {by}, {edge.won} won{refused}"
    return "\n".join(
        [
            *shown,
            KINDS[edge.kind],
            taken,
            *(f"{name}: {signed(advantage)}" for name, advantage in edge.advantage.items()),
        ]
    )


def _number(count: int, singular: str, plural: str) -> str:
    return f"{count} {singular if count == 1 else plural}"


def _importance(edge: DiagramEdge, layout: DiagramLayout) -> tuple[bool, bool, int]:
    """Return the sort key of an edge; important ones are drawn last and labelled first."""
    return edge.kind == "decisive", layout.layers[edge.end] > layout.layers[edge.start], edge.count


def _bends(diagram: Diagram) -> list[float]:
    """Return an offset for each edge, so that parallel edges do not coincide."""
    seen: dict[tuple[int, int], int] = {}
    bends = []
    for edge in diagram.edges:
        number = seen.get((edge.start, edge.end), 0)
        seen[edge.start, edge.end] = number + 1
        bends.append(26.0 * ((number + 1) // 2) * (1 if number % 2 else -1))
    return bends


def _edge(diagram: Diagram, layout: DiagramLayout, number: int, chosen: str, bend: float, tips: bool) -> str:
    edge = diagram.edges[number]
    points = curve(layout, edge, bend)
    (x0, y0), (x1, y1), (x2, y2), (x3, y3) = points
    wide = thickness(edge.count)
    paint = colour(edge.advantage.get(chosen, 0.0), diagram.extent.get(chosen, 0.0))
    path = f"M{x0:.1f} {y0:.1f}C{x1:.1f} {y1:.1f} {x2:.1f} {y2:.1f} {x3:.1f} {y3:.1f}"
    forward = layout.layers[edge.end] > layout.layers[edge.start]
    faint = "" if forward or edge.kind == "decisive" else ' opacity="0.6"'
    dash = f' stroke-dasharray="{LINE[edge.kind]}"' if LINE[edge.kind] else ""
    tip = f"<title>{text(edge_tip(edge))}</title>" if tips else ""
    parts = [f'<g class="step" data-edge="{number}"{faint}>{tip}']
    if edge.kind == "decisive":
        parts.append(f'<path class="edge" d="{path}" stroke="#111" stroke-width="{wide + 3:.1f}"/>')
    parts.append(f'<path class="edge ink" d="{path}" stroke="{paint}" stroke-width="{wide:.1f}"{dash}/>')
    parts.append(f'<path class="tip" d="{_arrow(points, wide)}" fill="{paint}"/>')
    if edge.kind == "decisive":
        x, y = along(points, 0.5)
        parts.append(f'<path class="tip" d="M{x - 8:.1f} {y:.1f}{DIAMOND}" fill="{paint}" {DIAMOND_EDGE}/>')
    parts.append(f'<path class="edge" d="{path}" stroke="#000" stroke-opacity="0" stroke-width="{wide + 8:.1f}"/></g>')
    return "".join(parts)


def _arrow(points: tuple[Point, Point, Point, Point], wide: float) -> str:
    (x2, y2), (x3, y3) = along(points, 0.93), points[3]
    length = max(((x3 - x2) ** 2 + (y3 - y2) ** 2) ** 0.5, 1e-6)
    ux, uy = (x3 - x2) / length, (y3 - y2) / length
    half = 2.5 + wide / 2
    corners = ((x3 + 7 * ux, y3 + 7 * uy), (x3 - uy * half, y3 + ux * half), (x3 + uy * half, y3 - ux * half))
    return "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in corners) + "z"


def _node(node: DiagramNode, number: int, centre: Point, tips: bool) -> str:
    x, y = centre[0] - WIDTH / 2, centre[1] - HEIGHT / 2
    fill, edge = FILL[node.fate]
    dash = ' stroke-dasharray="5 3"' if node.fate == "lost" else ""
    wide = 2.4 if node.trajectories > 1 else 1.0
    tip = f"<title>{text(node_tip(node))}</title>" if tips else ""
    lines = textwrap.wrap(" ".join(node.label.split()), 24, max_lines=2, placeholder="…") or [""]
    if node.start:
        lines = ["start"]
    box = f'width="{WIDTH:.0f}" height="{HEIGHT:.0f}" rx="7" fill="{fill}" stroke="{edge}"{dash}'
    parts = [f'<g class="node" data-node="{number}">{tip}']
    if node.states > 1:
        parts.append(f'<rect x="{x + 5:.1f}" y="{y + 5:.1f}" {box}/>')
    parts.append(f'<rect x="{x:.1f}" y="{y:.1f}" stroke-width="{wide}" {box}/>')
    for row, line in enumerate(lines):
        bold = _bold(node.start)
        parts.append(f'<text class="name" x="{x + 8:.1f}" y="{y + 15 + 13 * row:.1f}"{bold}>{text(line)}</text>')
    parts.append(_bar(node, x + 8, y + HEIGHT - 9))
    parts.append(_marks(node, x + WIDTH, y))
    return "".join([*parts, "</g>"])


def _bold(bold: bool) -> str:
    return ' font-weight="bold"' if bold else ""


def _bar(node: DiagramNode, x: float, y: float) -> str:
    """Return a bar with the share of trajectories through a node that won, and the numbers beside it."""
    whole = 62.0
    won = whole * node.won / max(node.trajectories, 1)
    return (
        f'<rect x="{x:.1f}" y="{y - 3:.1f}" width="{whole}" height="5" fill="{LOST_INK}" fill-opacity="0.5"/>'
        f'<rect x="{x:.1f}" y="{y - 3:.1f}" width="{won:.1f}" height="5" fill="{WON_INK}"/>'
        f'<text class="small" x="{x + whole + 6:.1f}" y="{y + 3:.1f}">{node.won} of {node.trajectories} won</text>'
    )


def _marks(node: DiagramNode, right: float, top: float) -> str:
    """Return the markers of trajectories that ended in a node: a star for wins, a cross for others, with counts."""
    marks = []
    if node.ends_won:
        marks.append(("★", node.ends_won, WON_INK))
    if node.ends > node.ends_won:
        marks.append(("✕", node.ends - node.ends_won, LOST_INK))
    out = ""
    for number, (sign, count, paint) in enumerate(marks):
        x, y = right - 12 - 34 * number, top - 3
        out += (
            f'<rect x="{x - 16:.1f}" y="{y - 9:.1f}" width="31" height="18" rx="9" fill="{paint}"/>'
            f'<text x="{x - 0.5:.1f}" y="{y + 4:.1f}" class="mark">{sign} {count}</text>'
        )
    return out


def _labels(diagram: Diagram, layout: DiagramLayout, order: Sequence[int], bends: Sequence[float]) -> list[str]:
    """Return the labels of the edges that fit without overlap, the important ones first."""
    taken = [(x - WIDTH / 2 - 2, y - HEIGHT / 2 - 8, x + WIDTH / 2 + 2, y + HEIGHT / 2 + 3) for x, y in layout.centres]
    for number in order:
        if diagram.edges[number].kind == "decisive":
            x, y = along(curve(layout, diagram.edges[number], bends[number]), 0.5)
            taken.append((x - 9, y - 9, x + 9, y + 9))
    out = []
    for number in order:
        edge = diagram.edges[number]
        half = len(_label(edge)) * CHARACTER / 2 + 3
        points = curve(layout, edge, bends[number])
        for share in (0.5, 0.42, 0.58, 0.34, 0.66, 0.26, 0.74):
            x, y = along(points, share)
            y -= 17 if edge.kind == "decisive" else 0
            box = (x - half, y - 7.5, x + half, y + 7.5)
            if not any(box[0] < t[2] and t[0] < box[2] and box[1] < t[3] and t[1] < box[3] for t in taken):
                taken.append(box)
                out.append(_label_at(_label(edge), x, y, half, bold=edge.kind == "decisive"))
                break
    return out


def _label_at(words: str, x: float, y: float, half: float, *, bold: bool) -> str:
    return (
        f'<g pointer-events="none"><rect x="{x - half:.1f}" y="{y - 7.5:.1f}" width="{2 * half:.1f}" height="15" '
        f'rx="3" fill="#ffffff" fill-opacity="0.86"/>'
        f'<text class="label" text-anchor="middle" x="{x:.1f}" y="{y + 3.6:.1f}"{_bold(bold)}>{text(words)}</text></g>'
    )


def _label(edge: DiagramEdge) -> str:
    first = edge.actions[0][0]
    if edge.start == edge.end:
        return f"{edge.count}×" if len(edge.actions) > 1 else f"{edge.count}× {_short(first, 14)}"
    tail = f" +{len(edge.actions) - 1}" if len(edge.actions) > 1 else ""
    tail += f" ×{edge.count}" if edge.count > 1 else ""
    return _short(first, _LABEL - len(tail)) + tail


def _short(text: str, width: int) -> str:
    line = " ".join(text.split()) or "(no action)"
    return line if len(line) <= width else line[: width - 1].rstrip() + "…"
