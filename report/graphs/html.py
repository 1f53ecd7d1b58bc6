"""A diagram as one HTML file: the picture with tooltips, a choice of the credit rule, and the steps as a table.

The file loads nothing else, so it can be sent by mail.
"""

from __future__ import annotations

import json

from turncredit.report.graphs.diagram import KINDS, Diagram, DiagramEdge
from turncredit.report.graphs.style import signed, text
from turncredit.report.graphs.svg import draw, edge_tip, node_tip

_CSS = """
body{font-family:Helvetica,Arial,'DejaVu Sans',sans-serif;margin:16px;color:#222;background:#fff}
#bar{font-size:13px;margin:0 0 8px}#bar select,#bar label{margin-right:18px}
#view{overflow:auto;border:1px solid #ddd;max-height:86vh}
#view.fit svg{display:block;width:100%;height:auto;max-height:84vh}
#tip{position:fixed;display:none;max-width:430px;white-space:pre-wrap;background:#fffef4;border:1px solid #888;
border-radius:5px;padding:7px 9px;font-size:12px;line-height:1.35;pointer-events:none;box-shadow:2px 3px 8px #0003}
.step:hover .ink{stroke-opacity:.65}.node:hover rect{filter:brightness(.97)}
table{border-collapse:collapse;font-size:12.5px;margin-top:18px}th,td{padding:3px 12px 3px 0;text-align:left}
th{border-bottom:1px solid #aaa}td.n,th.n{text-align:right;font-variant-numeric:tabular-nums}
tr.decisive td:first-child{font-weight:bold}
"""
_JS = """
const data=JSON.parse(document.getElementById('data').textContent),tip=document.getElementById('tip');
const rgb={p:[33,102,172],z:[150,150,150],n:[217,95,2]};
function paint(v,e){const s=e>0?Math.max(-1,Math.min(1,v/e)):0,a=Math.pow(Math.abs(s),.6),c=s>0?rgb.p:rgb.n;
return'rgb('+rgb.z.map((g,i)=>Math.round(g+(c[i]-g)*a)).join(',')+')'}
function show(name){const e=data.extent[name];
document.querySelectorAll('.step').forEach(g=>{const c=paint(data.edges[g.dataset.edge].advantage[name],e);
g.querySelectorAll('.ink').forEach(p=>p.setAttribute('stroke',c));
g.querySelectorAll('.tip').forEach(p=>p.setAttribute('fill',c))});
document.getElementById('whose').textContent='advantage ('+name+')';
document.getElementById('least').textContent='-'+e.toFixed(2);document.getElementById('most').textContent='+'+e.toFixed(2)}
document.getElementById('who').addEventListener('change',e=>show(e.target.value));
document.getElementById('fit').addEventListener('change',e=>
document.getElementById('view').classList.toggle('fit',e.target.checked));
document.getElementById('view').addEventListener('mousemove',e=>{const g=e.target.closest('.step,.node');
if(!g){tip.style.display='none';return}
tip.textContent=g.dataset.edge!==undefined?data.edges[g.dataset.edge].tip:data.nodes[g.dataset.node];
tip.style.display='block';const w=tip.offsetWidth,h=tip.offsetHeight;
tip.style.left=Math.min(e.clientX+14,innerWidth-w-8)+'px';tip.style.top=Math.min(e.clientY+14,innerHeight-h-8)+'px'});
document.getElementById('view').addEventListener('mouseleave',()=>{tip.style.display='none'});
"""


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
            f"<title>{text(diagram.title)}</title><style>{_CSS}</style></head><body>",
            f'<p id="bar"><label>coloured by <select id="who">{options}</select></label>'
            '<label><input type="checkbox" id="fit" checked> fit to the window</label>'
            "point at a step or a state for details</p>",
            f'<div id="view" class="fit">{draw(diagram, chosen, tips=False)}</div><div id="tip"></div>',
            _table(diagram),
            f'<script type="application/json" id="data">{stored}</script><script>{_JS}</script></body></html>',
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
