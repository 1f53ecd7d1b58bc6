"""The content of a picture of a trajectory graph: nodes and edges, without coordinates and colours.

States that only one trajectory saw, and that no win goes through, cannot be compared with anything. Connected ones are
folded into one node ("7 states that one trajectory saw"), so that they do not hide the states that matter.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from networkx import MultiDiGraph

FATES = ("won", "open", "lost")
KINDS = {
    "decisive": "decisive: before it a win was possible, after it the outcome is settled",
    "shared": "shared: taken by several trajectories, both outcomes still possible",
    "detour": "detour: taken by one trajectory, both outcomes still possible",
    "winning": "winning: leads only to wins",
    "dead end": "dead end: no win from here on in any trajectory",
}


@dataclass(frozen=True, slots=True)
class DiagramNode:
    """A state, or several folded states.

    `fate` is "won" (every trajectory from here wins), "lost" (none wins) or "open"; `states` is the number of states.
    """

    label: str
    text: str
    fate: str
    start: bool
    states: int
    visits: int
    trajectories: int
    won: int
    ends: int
    ends_won: int


@dataclass(frozen=True, slots=True)
class DiagramEdge:
    """Steps from one node to another, given by their indices.

    `advantage` is the mean advantage by rule; `actions` are the actions with their counts.
    """

    start: int
    end: int
    kind: str
    actions: tuple[tuple[str, int], ...]
    count: int
    trajectories: int
    won: int
    invalid: int
    advantage: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Diagram:
    """The content of a picture."""

    title: str
    subtitle: str
    rules: tuple[str, ...]
    nodes: tuple[DiagramNode, ...]
    edges: tuple[DiagramEdge, ...]

    @property
    def extent(self) -> dict[str, float]:
        """The largest absolute mean advantage of a step, by rule: the end of its colour scale."""
        return {name: max((abs(edge.advantage[name]) for edge in self.edges), default=0.0) for name in self.rules}


def diagram_of(
    graph: MultiDiGraph, *, title: str, subtitle: str, texts: Mapping[str, str], rules: Sequence[str], fold: bool = True
) -> Diagram:
    """Return the diagram of the graph of one task.

    Args:
        graph: from `turncredit.credit.trajectory_graph`, with an edge attribute `advantage <name>` for every rule.
        title: first line of the heading.
        subtitle: second line of the heading.
        texts: what the agent saw, by state; a state without a text shows its key.
        rules: names of the credit rules.
        fold: whether to fold states that only one trajectory saw.
    """
    members = _folded(graph) if fold else [[node] for node in graph]
    number = {node: index for index, nodes in enumerate(members) for node in nodes}
    nodes = tuple(_node(graph, nodes, texts) for nodes in members)
    bundles: dict[tuple[int, int, str], list[dict[str, Any]]] = {}
    for start, end, data in graph.edges(data=True):
        a, b = number[start], number[end]
        if a == b and nodes[a].states > 1:
            continue  # inside a folded node
        together = a == b or nodes[a].states > 1 or nodes[b].states > 1
        bundles.setdefault((a, b, data["kind"] if together else data["action"]), []).append(data)
    edges = tuple(_edge(a, b, data, rules) for (a, b, _), data in bundles.items())
    return Diagram(title, subtitle, tuple(rules), nodes, edges)


def fate(data: Mapping[str, Any]) -> str:
    """Return the outcomes that are possible from a node: "won", "open" or "lost"."""
    if data["settled"]:
        return "won"
    return "open" if data["alive"] else "lost"


def _folded(graph: MultiDiGraph) -> list[list[str]]:
    """Return the states of each node: connected states that only one losing trajectory saw share a node."""
    heaps: list[list[str]] = []
    done: set[str] = set()
    for node in graph:
        if node in done:
            continue
        heap = [node]
        done.add(node)
        if _lone(graph.nodes[node]):
            for member in heap:  # grows as it is walked
                around = [*graph.successors(member), *graph.predecessors(member)]
                for other in dict.fromkeys(around):
                    if other not in done and _lone(graph.nodes[other]) and _alike(graph, node, other):
                        done.add(other)
                        heap.append(other)
        heaps.append(heap)
    return heaps


def _lone(data: Mapping[str, Any]) -> bool:
    return data["trajectories"] == 1 and fate(data) != "won" and data["first"] > 0


def _alike(graph: MultiDiGraph, node: str, other: str) -> bool:
    return fate(graph.nodes[node]) == fate(graph.nodes[other])


def _node(graph: MultiDiGraph, nodes: Sequence[str], texts: Mapping[str, str]) -> DiagramNode:
    all_data = [graph.nodes[node] for node in nodes]
    first = all_data[0]
    text = texts.get(nodes[0], first["state"])
    label = text
    if len(nodes) > 1:
        label = f"{len(nodes)} states that one trajectory saw"
        text = "\n".join(f"· {' '.join(texts.get(node, graph.nodes[node]['state']).split())}" for node in nodes[:12])
        text = f"{label}:\n{text}" + (f"\n… {len(nodes) - 12} more" if len(nodes) > 12 else "")
    return DiagramNode(
        label=label,
        text=text,
        fate=fate(first),
        start=any(data["first"] == 0 for data in all_data),
        states=len(nodes),
        visits=sum(data["visits"] for data in all_data),
        trajectories=max(data["trajectories"] for data in all_data),
        won=max(data["won"] for data in all_data),
        ends=sum(data["ends"] for data in all_data),
        ends_won=sum(data["ends_won"] for data in all_data),
    )


def _edge(start: int, end: int, data: Sequence[Mapping[str, Any]], rules: Sequence[str]) -> DiagramEdge:
    count = sum(edge["count"] for edge in data)
    actions: dict[str, int] = {}
    for edge in data:
        actions[edge["action"]] = actions.get(edge["action"], 0) + edge["count"]
    advantage = {name: sum(edge[f"advantage {name}"] * edge["count"] for edge in data) / count for name in rules}
    return DiagramEdge(
        start,
        end,
        min((edge["kind"] for edge in data), key=list(KINDS).index),
        tuple(sorted(actions.items(), key=lambda item: -item[1])),
        count,
        max(edge["trajectories"] for edge in data),
        max(edge["won"] for edge in data),
        sum(edge["invalid"] for edge in data),
        advantage,
    )
