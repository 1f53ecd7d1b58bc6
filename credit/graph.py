"""The graph of the states that the trajectories of a task visited, and of the steps between them.

States are nodes, and each distinct (state, action, next state) is one edge. Step-level credit compares steps where
trajectories meet in a state and part again; the graph shows where that is.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from turncredit.credit.advantages import Advantages
from turncredit.credit.errors import BadTable
from turncredit.credit.key_codes import freeze
from turncredit.credit.numerics import compact, discounted_returns, group_sums, groups_of, trajectory_scores
from turncredit.credit.steps import Bools, Floats, Ints, Steps, need
from turncredit.credit.turn.gigpo import gigpo

if TYPE_CHECKING:
    import networkx

END = "(end)"
NO_ACTION = "(none)"
LABEL = 32
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff\ufffe\uffff]")


def trajectory_graph(
    steps: Steps,
    advantages: Advantages | npt.ArrayLike | None = None,
    *,
    task: object = None,
    gamma: float = 0.95,
    won: npt.ArrayLike | None = None,
) -> networkx.MultiDiGraph:
    """Return the graph of the states that the trajectories of a task visited, with the advantage of each step.

    Nodes are states, named by their texts. Their attributes, all plain `str`, `int`, `float` or `bool`:

        state, label        the key as text, and shortened to 32 characters
        task                the task's id as text
        visits              turns that started here
        trajectories, won   distinct trajectories that visited, and how many of them won
        ends, ends_won      trajectories that ended here, and how many of them won
        first               earliest turn of a visit (0: a start)
        mean_return         mean discounted reward from here on (absent where no turn started)
        alive               whether the end of a won trajectory can be reached from here
        settled             whether all ends reachable from here are those of won trajectories

    Edges are steps, keyed by the action's text:

        action, label       complete and shortened
        count               how often the step was taken
        trajectories, won   distinct trajectories that took it, and how many of them won
        invalid             how often the action was refused
        mean_return         mean discounted reward from the step on
        advantage           mean advantage of the step
        kind                "decisive": the outcome is open before the step and decided after it; "dead end": no win
                            can be reached before or after it; "winning": only wins can be reached before and after
                            it; otherwise "shared" if several trajectories took the step, else "detour"

    `alive`, `settled` and `kind` describe these trajectories only. Copies are ignored. The graph has the attributes
    `task`, `gamma`, `trajectories` and `won`.

        >>> steps = Steps.from_columns(task=["t"] * 4, trajectory=["a", "a", "b", "b"], turn=[0, 1, 0, 1],
        ...     reward=[0, 1.0, 0, 0], state=["hall", "door", "hall", "pit"], action=["on", "open", "jump", "cry"],
        ...     next_state=["door", "garden", "pit", "pit"])
        >>> graph = trajectory_graph(steps)
        >>> sorted(graph), graph.edges["hall", "pit", "jump"]["kind"], graph.edges["pit", "pit", "cry"]["kind"]
        (['door', 'garden', 'hall', 'pit'], 'decisive', 'dead end')

    Args:
        steps: the table; needs `state`. Without `next_state` a turn leads to the state of the next turn, and the last
            turn to a node "(end)"; without `action` all steps between two states are one edge.
        advantages: the result of a credit rule, or float [N]; None uses
            `gigpo(steps, scale="none", gamma=gamma)`.
        task: id of the task to draw; None draws all tasks as separate components, whose node names start with
            the task.
        gamma: discount per turn of the returns, in [0, 1].
        won: bool [N], whether the row's trajectory won; None uses score > 0.

    Raises:
        MissingColumn: there is no `state`.
        BadTable: there is no such task, or `advantages` or `won` have another length.
        BadOption: gamma is outside [0, 1].

    Source: the merged graph of SALT, arXiv 2510.20022. Our reading: `kind`, `alive` and `settled` are ours.
    """
    import networkx

    need(steps, "trajectory_graph", "state")
    worth = _worth(steps, gigpo(steps, gamma=gamma, scale="none") if advantages is None else advantages)
    returns = discounted_returns(steps, gamma)
    winners = _winners(steps, won)
    rows = steps.time_order if task is None else _of_task(steps, task)
    graph = networkx.MultiDiGraph(
        task=_title(_tasks(steps, rows)),
        gamma=float(gamma),
        trajectories=len(np.unique(steps.trajectory[rows])),
        won=len(np.unique(steps.trajectory[rows[winners[rows]]])),
    )
    if not len(rows):
        return graph
    places = _Places(steps, rows)
    _add_nodes(graph, places, returns[rows], winners[rows])
    _add_edges(graph, places, returns[rows], winners[rows], worth[rows])
    _judge(graph)
    return graph


def to_graphml(graph: networkx.MultiDiGraph) -> str:
    """Return the graph as GraphML; control characters, which XML does not allow, become "?"."""
    import networkx

    clean = networkx.MultiDiGraph(**{name: _printable(value) for name, value in graph.graph.items()})
    names = _xml_names(graph)
    clean.add_nodes_from((names[n], {k: _printable(v) for k, v in d.items()}) for n, d in graph.nodes(data=True))
    for start, end, data in graph.edges(data=True):  # an edge's id is the file's own number: keys recur in a graph
        clean.add_edge(names[start], names[end], key=None, **{k: _printable(v) for k, v in data.items()})
    return "\n".join(networkx.generate_graphml(clean)) + "\n"


def to_json(graph: networkx.MultiDiGraph) -> str:
    """Return the graph as JSON in networkx's node-link form: `nodes` with `id`, `edges` with `source` and `target`."""
    nodes = [{"id": name, **data} for name, data in graph.nodes(data=True)]
    edges = [
        {"source": start, "target": end, "key": key, **data}
        for start, end, key, data in graph.edges(keys=True, data=True)
    ]
    whole = {"directed": True, "multigraph": True, "graph": dict(graph.graph), "nodes": nodes, "edges": edges}
    return json.dumps(whole, indent=1, ensure_ascii=False)


def to_dot(graph: networkx.MultiDiGraph) -> str:
    """Return the graph in the DOT language, left to right, with all attributes."""
    lines = ["digraph trajectories {", "  rankdir=LR;", "  node [shape=box];"]
    lines += [f"  {_quoted(name)} [{_attributes(data)}];" for name, data in graph.nodes(data=True)]
    lines += [
        f"  {_quoted(start)} -> {_quoted(end)} [{_attributes(data)}, penwidth={1 + np.log2(data['count']):.2f}];"
        for start, end, data in graph.edges(data=True)
    ]
    return "\n".join([*lines, "}", ""])


class _Places:
    """The nodes before and after each row, and the names of nodes.

    Args:
        steps: the table.
        rows: int64 [R], the rows to draw, by trajectory and time.
    """

    def __init__(self, steps: Steps, rows: Ints) -> None:
        """Number the states of each task."""
        self.steps, self.rows = steps, rows
        self.trajectory = compact(steps.trajectory[rows])
        self.turn = _turn_numbers(self.trajectory)
        self.last = np.append(self.trajectory[1:] != self.trajectory[:-1], True)
        before = steps.column("state")[rows]
        after = steps.column("next_state")[rows] if "next_state" in steps else np.append(before[1:], -1)
        if "next_state" not in steps:
            after = np.where(self.last, int(before.max()) + 1, after)
        task = np.tile(steps.task[rows], 2)
        state = np.concatenate([before, after])
        node = compact(task, state)
        self.before, self.after = node[: len(rows)], node[len(rows) :]
        first = np.unique(node, return_index=True)[1]
        self.states = [self._text("state", int(code), END) for code in state[first]]
        self.tasks = [self._text("task", int(code), str(code)) for code in task[first]]
        several = len(set(task.tolist())) > 1
        self.names = _distinct(f"{t}: {s}" if several else s for t, s in zip(self.tasks, self.states, strict=True))

    def _text(self, column: str, code: int, otherwise: str) -> str:
        known = self.steps.names.get(column, ())
        if code < len(known):
            return str(known[code])
        return otherwise if known else str(code)

    def actions(self) -> tuple[Ints, list[str]]:
        """The action of each row as a code, and the codes' texts."""
        if "action" not in self.steps:
            return np.zeros(len(self.rows), dtype=np.int64), [""]
        codes = self.steps.column("action")[self.rows]
        known = self.steps.names.get("action", ())
        texts = [NO_ACTION if name is None else str(name) for name in known]
        return codes, texts or [str(code) for code in range(int(codes.max()) + 1)]


def _add_nodes(graph: Any, places: _Places, returns: Floats, winners: Bools) -> None:
    count = len(places.names)
    everywhere = np.concatenate([places.before, places.after])
    who, lucky = np.tile(places.trajectory, 2), np.tile(winners, 2)
    first = np.full(count, np.iinfo(np.int64).max)
    np.minimum.at(first, places.before, places.turn)
    np.minimum.at(first, places.after, places.turn + 1)
    visits = np.bincount(places.before, minlength=count)
    total = group_sums(places.before, returns, count)
    columns = {
        "visits": visits,
        "trajectories": _distinct_members(everywhere, who, count),
        "won": _distinct_members(everywhere[lucky], who[lucky], count),
        "ends": np.bincount(places.after[places.last], minlength=count),
        "ends_won": np.bincount(places.after[places.last & winners], minlength=count),
        "first": first,
    }
    for node, (name, state, task) in enumerate(zip(places.names, places.states, places.tasks, strict=True)):
        data = {key: int(column[node]) for key, column in columns.items()}
        mean = {"mean_return": float(total[node] / visits[node])} if visits[node] else {}
        graph.add_node(name, state=state, label=cut(state), task=task, **data, **mean)


def _add_edges(graph: Any, places: _Places, returns: Floats, winners: Bools, worth: Floats) -> None:
    codes, texts = places.actions()
    edge = compact(places.before, places.after, codes)
    count = groups_of(edge)
    first = np.unique(edge, return_index=True)[1]
    times = np.bincount(edge, minlength=count)
    invalid = np.bincount(edge[places.steps.invalid[places.rows]], minlength=count)
    members = _distinct_members(edge, places.trajectory, count)
    lucky = _distinct_members(edge[winners], places.trajectory[winners], count)
    means = {name: group_sums(edge, of, count) / times for name, of in (("mean_return", returns), ("advantage", worth))}
    for number, row in enumerate(first.tolist()):
        action = texts[int(codes[row])]
        start, end = places.names[places.before[row]], places.names[places.after[row]]
        key = action
        while graph.has_edge(start, end, key):  # two actions that print alike stay two edges
            key += "'"
        graph.add_edge(
            start, end, key, action=action, label=cut(action), count=int(times[number]),
            trajectories=int(members[number]), won=int(lucky[number]), invalid=int(invalid[number]),
            **{name: float(column[number]) for name, column in means.items()},
        )  # fmt: skip


def _judge(graph: Any) -> None:
    """Set `alive` and `settled` of nodes, and `kind` of edges."""
    alive = _reaching(graph, [node for node, data in graph.nodes(data=True) if data["ends_won"]])
    risky = _reaching(graph, [node for node, data in graph.nodes(data=True) if data["ends"] > data["ends_won"]])
    for node, data in graph.nodes(data=True):
        data["alive"], data["settled"] = node in alive, node in alive and node not in risky
    for start, end, data in graph.edges(data=True):
        before = _fate(graph.nodes[start])
        if before == _fate(graph.nodes[end]):
            shared = "shared" if data["trajectories"] > 1 else "detour"
            data["kind"] = {"open": shared, "lost": "dead end", "won": "winning"}[before]
        else:
            data["kind"] = "decisive"


def _fate(node: dict[str, Any]) -> str:
    if node["settled"]:
        return "won"
    return "open" if node["alive"] else "lost"


def _reaching(graph: Any, goals: Iterable[str]) -> set[str]:
    """The nodes from which a goal can be reached, including the goals."""
    seen = set(goals)
    queue = list(seen)
    while queue:
        for previous in graph.predecessors(queue.pop()):
            if previous not in seen:
                seen.add(previous)
                queue.append(previous)
    return seen


def _worth(steps: Steps, advantages: Advantages | npt.ArrayLike) -> Floats:
    values = advantages.values if isinstance(advantages, Advantages) else np.asarray(advantages, dtype=np.float64)
    if values.shape != (len(steps),):
        raise BadTable(f"the table has {len(steps)} rows, but the advantages have shape {values.shape}")
    return values


def _winners(steps: Steps, won: npt.ArrayLike | None) -> Bools:
    if won is None:
        scores, _, member = trajectory_scores(steps)
        return scores[member] > 0.0
    winners: Bools = np.asarray(won, dtype=np.bool_)
    if winners.shape != (len(steps),):
        raise BadTable(f"the table has {len(steps)} rows, but 'won' has shape {winners.shape}")
    return winners


def _tasks(steps: Steps, rows: Ints) -> Sequence[object]:
    known = steps.names.get("task", ())
    return [known[code] if code < len(known) else int(code) for code in np.unique(steps.task[rows])]


def _title(tasks: Sequence[object]) -> str:
    return str(tasks[0]) if len(tasks) == 1 else f"{len(tasks)} tasks"


def _of_task(steps: Steps, task: object) -> Ints:
    rows = steps.time_order
    codes = np.unique(steps.task[rows])
    names = _tasks(steps, rows)
    wanted = [code for code, name in zip(codes, names, strict=True) if freeze(name) == freeze(task)]
    if not wanted:
        raise BadTable(f"the table has no task {task!r}; choose one of: {', '.join(map(str, names))}")
    chosen: Ints = rows[steps.task[rows] == wanted[0]]
    return chosen


def _turn_numbers(trajectory: Ints) -> Ints:
    """0, 1, 2, ... within each trajectory, for rows in order of time."""
    starts = np.flatnonzero(np.append(True, trajectory[1:] != trajectory[:-1]))
    return np.arange(len(trajectory)) - np.repeat(starts, np.diff(np.append(starts, len(trajectory))))


def _distinct_members(key: Ints, member: Ints, count: int) -> Ints:
    """Number of distinct members of each key, int64 [count]."""
    if not len(key):
        return np.zeros(count, dtype=np.int64)
    pairs = np.unique(np.stack([key, member]), axis=1)
    return np.bincount(pairs[0], minlength=count).astype(np.int64, copy=False)


def _distinct(names: Iterable[str]) -> list[str]:
    """The names, with a number appended to duplicates: 1 and "1" are two states."""
    taken: set[str] = set()
    out = []
    for name in names:
        number, unique = 1, name
        while unique in taken:
            number += 1
            unique = f"{name} #{number}"
        taken.add(unique)
        out.append(unique)
    return out


def cut(text: str, width: int = LABEL) -> str:
    """Return a text on one line of at most `width` characters, shortened with "..."."""
    line = " ".join(text.split())
    return line if len(line) <= width else line[: width - 3].rstrip() + "..."


def _printable(value: object) -> object:
    return _CONTROL.sub("?", value) if isinstance(value, str) else value


def _xml_names(graph: Any) -> dict[str, str]:
    names = list(graph)
    return dict(zip(names, _distinct(str(_printable(name)) for name in names), strict=True))


def _quoted(value: object) -> str:
    text = str(value).replace("\\", "\\\\").replace('"', '\\"').replace("\r", "").replace("\n", "\\n")
    return f'"{_printable(text)}"'


def _attributes(data: dict[str, Any]) -> str:
    return ", ".join(f"{name}={_quoted(value)}" for name, value in data.items())
