"""The heading and the legend above the graph."""

from __future__ import annotations

from turncredit.report.graphs.diagram import Diagram
from turncredit.report.graphs.style import CHARACTER, DIAMOND, DIAMOND_EDGE, FILL, LINE, colour, text

_LEFT = 24.0
_STEPS = {
    "decisive": "decisive: settles the outcome",
    "shared": "shared, still open",
    "detour": "one trajectory, still open",
    "winning": "only wins ahead",
    "dead end": "dead end: no win ahead",
}
_NODES = {"won": "only wins ahead", "open": "open", "lost": "no win ahead"}
_REST = (
    "line width: how often taken   ·   ★ ended here, won   ✕ ended here, not won   ·   "
    "stacked box: states that only one trajectory saw"
)


def head(diagram: Diagram, rule: str) -> list[str]:
    """Return the heading and the legend as lines of SVG.

    Args:
        diagram: what is drawn.
        rule: whose advantages colour the steps.
    """
    return [
        f'<text x="{_LEFT}" y="28" class="title">{text(diagram.title)}</text>',
        f'<text x="{_LEFT}" y="47" class="under">{text(diagram.subtitle)}</text>',
        *_kinds(),
        *_scale(rule, diagram.extent.get(rule, 0.0)),
    ]


def _kinds() -> list[str]:
    out, x = [], _LEFT
    for kind, words in _STEPS.items():
        if kind == "winning":
            continue  # drawn like a shared step; its nodes show it
        dash = f' stroke-dasharray="{LINE[kind]}"' if LINE[kind] else ""
        wide = 2 if kind == "detour" else 5
        if kind == "decisive":
            out.append(f'<path d="M{x} 72h44" stroke="#111" stroke-width="8"/>')
        out.append(f'<path d="M{x} 72h44" stroke="#8a8a8a" stroke-width="{wide}"{dash}/>')
        if kind == "decisive":
            out.append(f'<path d="M{x + 14} 72{DIAMOND}" fill="#8a8a8a" {DIAMOND_EDGE}/>')
        out.append(f'<text class="label" x="{x + 51}" y="76">{words}</text>')
        x += 74 + len(words) * CHARACTER
    for fate, words in _NODES.items():
        fill, edge = FILL[fate]
        dash = ' stroke-dasharray="4 2"' if fate == "lost" else ""
        box = f'width="24" height="16" rx="4" fill="{fill}" stroke="{edge}" stroke-width="1.6"{dash}'
        out.append(f'<rect x="{x:.1f}" y="64" {box}/>')
        out.append(f'<text class="label" x="{x + 30:.1f}" y="76">{words}</text>')
        x += 48 + len(words) * CHARACTER
    return out


def _scale(rule: str, extent: float) -> list[str]:
    words = f"advantage ({rule})"
    x = _LEFT + len(words) * CHARACTER + 46
    bars = [
        f'<rect x="{x + 4 * n:.1f}" y="90" width="4.2" height="11" fill="{colour(n / 20 - 1, 1)}"/>' for n in range(41)
    ]
    return [
        f'<text class="label" id="whose" x="{_LEFT}" y="99">{text(words)}</text>',
        f'<text class="label" id="least" text-anchor="end" x="{x - 6:.1f}" y="99">{-extent:+.2f}</text>',
        *bars,
        f'<text class="label" id="most" x="{x + 170:.1f}" y="99">{extent:+.2f}</text>',
        f'<text class="label" x="{x + 232:.1f}" y="99">{_REST}</text>',
    ]
