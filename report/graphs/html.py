"""A diagram as one HTML file: the picture with tooltips, a choice of the credit rule, and the steps as a table.

The file loads nothing else, so it can be sent by mail.
"""

from __future__ import annotations

import json
from importlib.resources import files

from turncredit.report.graphs.diagram import KINDS, Diagram, DiagramEdge
from turncredit.report.graphs.style import signed, text
from turncredit.report.graphs.svg import draw, edge_tip, node_tip


def page(diagram: Diagram, rule: str | None = None) -> str:
    """Return the HTML of a diagram.

    Args:
        diagram: what is drawn.
        rule: whose advantages colour the steps at first; the reader can change it.
    """
    chosen = rule or (diagram.rules[0] if diagram.rules else "")
    options = "".join(f"<option{' selected' if name == chosen else ''}>{text(name)}</option>" for name in diagram.rules)
    data = {
        "extent": diagram.extent,
        "nodes": [node_tip(node) for node in diagram.nodes],
        "edges": [{"advantage": dict(edge.advantage), "tip": edge_tip(edge)} for edge in diagram.edges],
    }
    # "</" would end the script element wherever it stands
    stored = json.dumps(data, ensure_ascii=False).replace("</", "<\\/").replace("<!--", "<\\!--")
    return "\n".join(
        [
            '<!doctype html><html lang="en"><head><meta charset="utf-8">',
            f"<title>{text(diagram.title)}</title><style>{_read('style.css')}</style></head><body>",
            f'<p id="bar"><label>coloured by <select id="who">{options}</select></label>'
            '<label><input type="checkbox" id="fit" checked> fit to the window</label>'
            "point at a step or a state for details</p>",
            f'<div id="view" class="fit">{draw(diagram, chosen, tips=False)}</div><div id="tip"></div>',
            _table(diagram),
            f'<script type="application/json" id="data">{stored}</script>',
            f"<script>{_read('script.js')}</script></body></html>",
            "",
        ]
    )


def _table(diagram: Diagram) -> str:
    """Every step with its mean advantage by rule, the decisive ones first."""
    heads = "".join(f'<th class="n">{text(name)}</th>' for name in diagram.rules)
    order = sorted(diagram.edges, key=lambda edge: (list(KINDS).index(edge.kind), -edge.count))
    rows = "".join(_row(diagram, edge) for edge in order)
    return (
        "<table><thead><tr><th>kind</th><th>from</th><th>action</th>"
        f'<th class="n">times</th><th class="n">won</th>{heads}</tr></thead><tbody>{rows}</tbody></table>'
    )


def _row(diagram: Diagram, edge: DiagramEdge) -> str:
    node = diagram.nodes[edge.start]
    start = "start" if node.start else " ".join(node.label.split())[:60]
    actions = ", ".join(action or "(no action)" for action, _ in edge.actions[:3])
    actions += f" and {len(edge.actions) - 3} more" if len(edge.actions) > 3 else ""
    numbers = "".join(f'<td class="n">{signed(edge.advantage[name])}</td>' for name in diagram.rules)
    return (
        f'<tr class="{edge.kind}"><td>{edge.kind}</td><td>{text(start)}</td><td>{text(actions)}</td>'
        f'<td class="n">{edge.count}</td><td class="n">{edge.won} of {edge.trajectories}</td>{numbers}</tr>'
    )


def _read(name: str) -> str:
    return files("turncredit.report.graphs").joinpath("page", name).read_text(encoding="ascii")
