"""The graph of a task by hand: counts, fates, kinds, and what the three exports keep of it."""

import json
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from toys.tables import rows as random_rows

from turncredit.credit import BadTable, MissingColumn, Steps, gigpo, to_dot, to_graphml, to_json, trajectory_graph
from turncredit.credit.graph import cut

networkx = pytest.importorskip("networkx")

# w wins: hall - door - garden. l loses: hall - door - hall - pit - pit. m loses in the hall, where a win is possible.
TABLE = [
    ("w", 0, "hall", "on", "door", 0.0),
    ("w", 1, "door", "open", "garden", 1.0),
    ("l", 0, "hall", "on", "door", 0.0),
    ("l", 1, "door", "back", "hall", 0.0),
    ("l", 2, "hall", "jump", "pit", 0.0),
    ("l", 3, "pit", "cry", "pit", 0.0),
    ("m", 0, "hall", "wait", "hall", 0.0),
]


def rows(task="t"):
    keys = ("trajectory", "turn", "state", "action", "next_state", "reward")
    return [{"task": task, **dict(zip(keys, row, strict=True)), "valid": row[3] != "cry"} for row in TABLE]


def steps():
    return Steps.from_rows(rows())


def test_counts_members_and_returns():
    graph = trajectory_graph(steps(), gamma=0.5)
    assert sorted(graph) == ["door", "garden", "hall", "pit"]
    assert graph.graph == {"task": "t", "gamma": 0.5, "trajectories": 3, "won": 1}
    hall, on = graph.nodes["hall"], graph.edges["hall", "door", "on"]
    assert (hall["visits"], hall["trajectories"], hall["won"], hall["first"]) == (4, 3, 1, 0)
    assert (hall["ends"], hall["ends_won"], graph.nodes["garden"]["ends_won"]) == (1, 0, 1)
    assert (on["count"], on["trajectories"], on["won"]) == (2, 2, 1)
    assert on["mean_return"] == pytest.approx((0.5 + 0.0) / 2)
    assert hall["mean_return"] == pytest.approx((0.5 + 0.0 + 0.0 + 0.0) / 4)
    assert "mean_return" not in graph.nodes["garden"]
    assert graph.edges["pit", "pit", "cry"]["invalid"] == 1
    assert sum(data["count"] for *_, data in graph.edges(data=True)) == len(TABLE)


def test_kinds_say_what_a_step_did_to_the_outcome():
    graph = trajectory_graph(steps())
    kinds = {(start, action): data["kind"] for start, _, action, data in graph.edges(keys=True, data=True)}
    assert kinds == {
        ("hall", "on"): "shared",  # winner and loser went here
        ("door", "open"): "decisive",  # nothing but the win lies ahead
        ("door", "back"): "detour",  # one trajectory, back to where a win is possible
        ("hall", "jump"): "decisive",
        ("pit", "cry"): "dead end",
        ("hall", "wait"): "detour",
    }
    assert [graph.nodes[name]["alive"] for name in ("hall", "door", "garden", "pit")] == [True, True, True, False]
    assert graph.nodes["garden"]["settled"]
    assert not graph.nodes["door"]["settled"]


def test_who_won_can_be_said():
    won = [row[0] == "l" for row in TABLE]
    graph = trajectory_graph(steps(), won=won)
    assert graph.nodes["pit"]["ends_won"] == 1
    assert graph.edges["pit", "pit", "cry"]["kind"] == "winning"
    assert graph.nodes["garden"]["won"] == 0


def test_advantages_are_means_over_the_step():
    table = steps()
    result = gigpo(table)
    by_result = trajectory_graph(table, result).edges["hall", "door", "on"]["advantage"]
    assert by_result == pytest.approx((result.values[0] + result.values[2]) / 2)
    assert trajectory_graph(table, result.values).edges["hall", "door", "on"]["advantage"] == by_result
    plain = trajectory_graph(table, gigpo(table, scale="none"))
    assert list(trajectory_graph(table).edges(data=True)) == list(plain.edges(data=True))


def test_without_next_state_the_next_turn_says_it():
    bare = [{key: row[key] for key in ("task", "trajectory", "turn", "state", "reward")} for row in rows()]
    graph = trajectory_graph(Steps.from_rows(bare))
    assert graph.nodes["(end)"]["ends"] == 3
    assert graph.edges["hall", "door", ""]["count"] == 2
    assert graph.nodes["hall"]["ends"] == 0


def test_tasks_are_apart_and_one_can_be_chosen():
    both = Steps.from_rows([*rows("t"), *rows("u")])
    graph = trajectory_graph(both)
    assert len(graph) == 8
    assert "t: hall" in graph
    assert networkx.number_weakly_connected_components(graph) == 2
    alone = trajectory_graph(both, task="u")
    assert sorted(alone) == ["door", "garden", "hall", "pit"]
    assert {data["task"] for _, data in alone.nodes(data=True)} == {"u"}
    with pytest.raises(BadTable, match=r"no task 'w'.*t, u"):
        trajectory_graph(both, task="w")


def test_states_that_print_alike_stay_two():
    pairs = [{"task": 0, "trajectory": k, "turn": 0, "reward": 0.0, "state": s, "next_state": "e"}
             for k, s in enumerate([1, "1", np.array([1]), 1.0])]  # fmt: skip
    graph = trajectory_graph(Steps.from_rows(pairs))
    assert len(graph) == 5
    assert all(isinstance(name, str) for name in graph)


def test_copies_count_once():
    table = rows()
    doubled = Steps.from_rows([*table, {**table[0], "duplicate_of_row": 0}])
    assert trajectory_graph(doubled).edges["hall", "door", "on"]["count"] == 2


def test_bad_input_is_named():
    with pytest.raises(MissingColumn, match=r"trajectory_graph.*'state'"):
        trajectory_graph(Steps.from_columns(task=[0], trajectory=[0], turn=[0], reward=[1.0]))
    with pytest.raises(BadTable, match=r"7 rows.*shape"):
        trajectory_graph(steps(), [0.0])
    with pytest.raises(BadTable, match="'won'"):
        trajectory_graph(steps(), won=[True])
    assert len(trajectory_graph(Steps.empty())) == 0


LONG = "a very long text " * 20 + '"quoted" <b>&amp;</b>\n\x1b'


def longer():
    table = rows()
    table[0] = {**table[0], "state": LONG, "action": LONG}
    return trajectory_graph(Steps.from_rows(table), gigpo(Steps.from_rows(table)))


def test_graphml_reads_back_with_whole_texts():
    graph = longer()
    back = networkx.parse_graphml(to_graphml(graph))
    assert (len(back), back.number_of_edges()) == (len(graph), graph.number_of_edges())
    whole = LONG.replace("\x1b", "?")
    states = {data["state"]: data for _, data in back.nodes(data=True)}
    assert whole in states
    assert states[whole]["label"] == cut(LONG)
    assert len(states[whole]["label"]) <= 32
    edge = next(data for *_, data in back.edges(data=True) if data["action"] == whole)
    assert isinstance(edge["advantage"], float)
    assert isinstance(edge["count"], int)


def test_json_is_node_link():
    graph = longer()
    data = json.loads(to_json(graph))
    assert {node["id"] for node in data["nodes"]} == set(graph)
    back = networkx.MultiDiGraph()
    back.add_nodes_from((node.pop("id"), node) for node in data["nodes"])
    for edge in data["edges"]:
        back.add_edge(edge.pop("source"), edge.pop("target"), edge.pop("key"), **edge)
    assert dict(back.nodes(data=True)) == dict(graph.nodes(data=True))
    assert sorted(back.edges(keys=True)) == sorted(graph.edges(keys=True))
    for start, end, key, attributes in graph.edges(keys=True, data=True):
        assert back.edges[start, end, key] == attributes


def test_dot_has_every_node_and_edge_on_a_line_of_its_own():
    graph = longer()
    lines = to_dot(graph).splitlines()
    assert lines[0] == "digraph trajectories {"
    assert lines[-1] == "}"
    assert sum(" -> " in line.split("[")[0] for line in lines) == graph.number_of_edges()
    assert sum(line.startswith('  "') and " -> " not in line.split("[")[0] for line in lines) == len(graph)
    for line in lines[3:-1]:
        assert line.endswith("];")
        assert (line.count('"') - line.count('\\"')) % 2 == 0


@given(random_rows(), st.randoms(use_true_random=False))
def test_the_order_of_rows_means_nothing(table, random):
    shuffled = random.sample(table, len(table))
    one, two = trajectory_graph(Steps.from_rows(table)), trajectory_graph(Steps.from_rows(shuffled))
    assert set(one) == set(two)
    for node in one:
        assert one.nodes[node] == pytest.approx(two.nodes[node])
    for start, end, key, data in one.edges(keys=True, data=True):
        assert data == pytest.approx(two.edges[start, end, key])
    assert sum(data["ends"] for _, data in one.nodes(data=True)) == len({(r["task"], r["trajectory"]) for r in table})


def test_networkx_is_not_imported_with_credit():
    code = "import sys, turncredit.credit; print('networkx' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "False"
