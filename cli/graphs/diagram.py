"""What is drawn of a trajectory graph: its states and steps, with what only one trajectory did folded up.

A state that a single trajectory saw, and that decides nothing, has nothing beside it to be compared with. Such states
are folded into one node ("7 states seen by one trajectory"), else they would bury the ones that matter.

Left out on purpose: coordinates and colours (`layout`, `svg`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

FATES = ("won", "open", "lost")
KINDS = {
    "decisive": "decides: a win was open before it, and won or lost after it",
    "shared": "shared: several trajectories went here, both ends still possible",
    "detour": "taken by one trajectory, both ends still possible",
    "winning": "leads only to wins",
    "dead end": "dead end: no win from here on in any trajectory",
}


@dataclass(frozen=True, slots=True)
class DiagramNode:
    """A state, or several that were folded up.

    `fate` is "won" (only wins lie ahead), "lost" (none does) or "open"; `states` counts what was folded up.
    """

    gist: str
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
    """A step from one node to another (numbers of nodes), or several that were folded up.

    `worth` is the mean advantage by estimator; `actions` says what was done and how often.
    """

    start: int
    end: int
    kind: str
    actions: tuple[tuple[str, int], ...]
    count: int
    trajectories: int
    won: int
    invalid: int
    worth: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Diagram:
    """A picture's content."""

    title: str
    subtitle: str
    estimators: tuple[str, ...]
    nodes: tuple[DiagramNode, ...]
    edges: tuple[DiagramEdge, ...]

    @property
    def extent(self) -> dict[str, float]:
        """The largest mean advantage of a step by estimator, sign aside; the end of its colour scale."""
        return {name: max((abs(edge.worth[name]) for edge in self.edges), default=0.0) for name in self.estimators}


def diagram_of(
    graph: Any, *, title: str, subtitle: str, texts: Mapping[str, str], estimators: Sequence[str], fold: bool = True
) -> Diagram:
    """Return what is to be drawn of the graph of one task.

    Args:
        graph: of `turnwise.credit.trajectory_graph`, whose edges have `advantage <name>` for every estimator.
        title: the first line.
        subtitle: the second.
        texts: what the agent saw in a state, by node; a node without one shows its key.
        estimators: names.
        fold: fold up what only one trajectory saw.
    """
    members = _folded(graph) if fold else [[node] for node in graph]
    number = {node: index for index, nodes in enumerate(members) for node in nodes}
    nodes = tuple(_node(graph, nodes, texts) for nodes in members)
    bundles: dict[tuple[int, int, str], list[dict[str, Any]]] = {}
    for start, end, data in graph.edges(data=True):
        a, b = number[start], number[end]
        if a == b and nodes[a].states > 1:
            continue  # inside of what was folded up
        together = a == b or nodes[a].states > 1 or nodes[b].states > 1
        bundles.setdefault((a, b, data["kind"] if together else data["action"]), []).append(data)
    edges = tuple(_edge(a, b, data, estimators) for (a, b, _), data in bundles.items())
    return Diagram(title, subtitle, tuple(estimators), nodes, edges)


def fate(data: Mapping[str, Any]) -> str:
    """What lies ahead of a node: "won", "open" or "lost"."""
    if data["settled"]:
        return "won"
    return "open" if data["alive"] else "lost"


def _folded(graph: Any) -> list[list[str]]:
    """The nodes, those that one trajectory alone saw and that no win goes through in connected heaps."""
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


def _alike(graph: Any, one: str, other: str) -> bool:
    return fate(graph.nodes[one]) == fate(graph.nodes[other])


def _node(graph: Any, nodes: Sequence[str], texts: Mapping[str, str]) -> DiagramNode:
    all_data = [graph.nodes[node] for node in nodes]
    first = all_data[0]
    text = texts.get(nodes[0], first["state"])
    gist = text
    if len(nodes) > 1:
        gist = f"{len(nodes)} states that one trajectory saw"
        text = "\n".join(f"· {' '.join(texts.get(node, graph.nodes[node]['state']).split())}" for node in nodes[:12])
        text = f"{gist}:\n{text}" + (f"\n… {len(nodes) - 12} more" if len(nodes) > 12 else "")
    return DiagramNode(
        gist=gist,
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


def _edge(start: int, end: int, data: Sequence[Mapping[str, Any]], estimators: Sequence[str]) -> DiagramEdge:
    count = sum(edge["count"] for edge in data)
    actions: dict[str, int] = {}
    for edge in data:
        actions[edge["action"]] = actions.get(edge["action"], 0) + edge["count"]
    worth = {name: sum(edge[f"advantage {name}"] * edge["count"] for edge in data) / count for name in estimators}
    return DiagramEdge(
        start,
        end,
        min((edge["kind"] for edge in data), key=list(KINDS).index),
        tuple(sorted(actions.items(), key=lambda item: -item[1])),
        count,
        max(edge["trajectories"] for edge in data),
        max(edge["won"] for edge in data),
        sum(edge["invalid"] for edge in data),
        worth,
    )
