"""`turncredit credit` and its pictures, on trajectories made by hand; `turncredit list credit` at every width."""

from __future__ import annotations

import itertools
import json
import re
import xml.etree.ElementTree as ET
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from toys.commands import one_sentence

from turncredit.agents.files.trajectory_files import TrajectoryWriter
from turncredit.agents.trajectory import Trajectory, Turn
from turncredit.credit import rules
from turncredit.report.credit_picture import most_instructive, texts_of
from turncredit.report.graphs.diagram import diagram_of
from turncredit.report.graphs.layout import HEIGHT, WIDTH, layout_of
from turncredit.report.graphs.style import colour
from turncredit.report.graphs.svg import draw

Call = Any
WIN = [("hall", "You are in <the> hall.", "on"), ("door", "A door.", "open")]
LOSS = [("hall", "You are in <the> hall.", "on"), ("door", "A door.", "jump"), ("pit", "A pit.", "cry")]


def episode(
    task: str, member: int, path: list[tuple[str, str, str]], *, won: bool, stop: str = "terminated"
) -> Trajectory:
    turns = tuple(
        Turn((1,), (2, 3), (-0.5, -0.5), 0, text, action, action, state, float(won and n == len(path)), action != "cry")
        for n, (state, text, action) in enumerate(path, start=1)
    )
    end = ("garden", "A garden.") if won else ("pit", "Nothing happens.")
    return Trajectory(f"{task}#{member}", task, None, 0, turns, stop, won, float(won), *end, None, 0.1)


def write(path: Path, trajectories: list[Trajectory]) -> Path:
    with TrajectoryWriter(path) as writer:
        for trajectory in trajectories:
            writer.write(trajectory)
    return path


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Two tasks: one that all won, one with two wins and two losses."""
    plain = [episode("all-won", k, WIN, won=True) for k in range(3)]
    mixed = [episode("mixed", k, WIN if k < 2 else LOSS, won=k < 2) for k in range(4)]
    return write(tmp_path / "played.jsonl", [*plain, *mixed])


def test_the_numbers_side_by_side(turncredit: Call, file: Path) -> None:
    said = turncredit("credit", file, "--credit", "gigpo,salt,grpo")
    assert said.code == 0, said.err
    assert "7 trajectories in 2 groups, 5 won, 16 turns" in said.out
    assert "zero-variance groups: 1" in said.out
    assert re.search(r"^ +gigpo +salt +grpo", said.out, re.MULTILINE)
    assert re.search(r"^turns with an advantage +\d+\.\d % +\d+\.\d % +62\.5 %", said.out, re.MULTILINE)
    assert re.search(r"^  with step-level signal .* 0\.0 % *$", said.out, re.MULTILINE)
    assert re.search(r"^grpo +\S+ +\S+ +\+1\.000", said.out, re.MULTILINE)
    assert "--picture" in said.out


def test_json_has_the_same_numbers(turncredit: Call, file: Path) -> None:
    data = json.loads(turncredit("credit", file, "--credit", "grpo,gigpo", "--json").out)
    assert data["facts"]["groups"] == 2
    assert data["facts"]["groups_with_equal_rewards"] == 1
    assert data["facts"]["ambiguous_texts"] == 0
    assert data["rules"]["grpo"]["signal"] == 0.625
    assert data["rules"]["grpo"]["step_signal"] == 0.0
    assert data["rules"]["gigpo"]["step_signal"] > 0.0
    assert data["correlation"]["grpo"]["grpo"] == pytest.approx(1.0)
    assert data["correlation"]["grpo"]["gigpo"] == data["correlation"]["gigpo"]["grpo"]


def test_states_and_texts_are_told_apart(turncredit: Call, tmp_path: Path) -> None:
    path = [("a", "Nothing happens.", "x"), ("b", "Nothing happens.", "x"), ("a", "A room.", "x")]
    data = write(tmp_path / "two.jsonl", [episode("t", k, path, won=False) for k in range(2)])
    facts = json.loads(turncredit("credit", data, "--credit", "grpo", "--json").out)["facts"]
    assert (facts["ambiguous_texts"], facts["ambiguous_turns"]) == (1, 4)
    assert (facts["varying_states"], facts["varying_turns"]) == (1, 4)
    assert facts["states"] == 2
    by_text = json.loads(turncredit("credit", data, "--credit", "grpo", "--anchor", "observation", "--json").out)
    assert by_text["facts"]["states"] == 2
    assert by_text["facts"]["shared_states"] == 2


def test_an_estimator_without_its_column_is_left_out_and_said(turncredit: Call, file: Path) -> None:
    said = turncredit("credit", file, "--credit", "tree_grpo,grpo")
    assert said.code == 0
    assert "left out: tree_grpo needs the column 'tree'" in said.err
    one_sentence_at_the_end = turncredit("credit", file, "--credit", "tree_grpo")
    assert one_sentence_at_the_end.code == 2
    assert (
        "no credit rule can be applied to these trajectories: tree_grpo needs the column 'tree'"
        in one_sentence_at_the_end.err
    )


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (("--credit", "gigpoo"), ("'gigpoo'", "'gigpo'")),
        (("--credit", ","), ("at least one name",)),
        (("--task", "mixd"), ("no task 'mixd'", "did you mean 'mixed'?")),
        (("--anchor", "stat"), ("unknown anchor 'stat'", "'state'")),
        (("--picture", "x.png"), ("x.png must end in", ".svg")),
        (("gama=1",), ("no option 'gama'", "did you mean 'gamma'?")),
        (("gamma=7",), ("gamma must be",)),
    ],
)
def test_bad_input_is_one_sentence(
    turncredit: Call, file: Path, words: tuple[str, ...], parts: tuple[str, ...]
) -> None:
    one_sentence(turncredit("credit", file, *words), *parts)


def test_files_without_anything_to_compare(turncredit: Call, tmp_path: Path) -> None:
    one_sentence(turncredit("credit", tmp_path / "no.jsonl"), "no.jsonl does not exist")
    one_sentence(turncredit("credit", write(tmp_path / "none.jsonl", [])), "holds no trajectory")
    failed = write(tmp_path / "failed.jsonl", [episode("t", 0, WIN, won=False, stop="error")])
    one_sentence(turncredit("credit", failed), "no turn of a finished trajectory")


@pytest.fixture
def run_folder(tmp_path: Path) -> Path:
    """A run without penalty or scale, in whose iterations one trajectory of task "dull" took an invalid action."""
    folder = tmp_path / "run"
    text = '[credit]\nmethod = "grpo"\nanchor = "observation"\noptions = { scale = "none", invalid_penalty = 0.0 }\n'
    (folder / "trajectories").mkdir(parents=True)
    (folder / "run.toml").write_text(text, encoding="utf-8")
    dull = [episode("dull", 0, WIN, won=False), episode("dull", 1, LOSS, won=False)]
    mixed = [episode("mixed", k, WIN if k < 2 else LOSS, won=k < 2) for k in range(4)]
    write(folder / "trajectories/000001.jsonl", dull)
    write(folder / "trajectories/000010.jsonl", [*dull, *mixed])
    return folder


def test_show_and_credit_use_the_options_of_the_run(turncredit: Call, run_folder: Path) -> None:
    credit, show = turncredit("credit", run_folder), turncredit("show", run_folder)
    for said in (credit, show):
        assert said.code == 0, said.err
        assert "000010.jsonl" in said.out
        assert "turns compared by observation; settings of the run run" in said.out
        assert re.search(r"options of grpo.*: scale=none invalid_penalty=0.0", said.out)
    assert "options of salt: base_options={'scale': 'none', 'invalid_penalty': 0.0}" in credit.out
    assert "zero-variance groups: 1" in credit.out
    without_variance = re.search(r"^  zero variance(.*)", credit.out, re.MULTILINE)
    assert without_variance is not None
    assert set(without_variance[1].split()) <= {"1", "-"}  # the same group as above: the run has no penalty
    numbers = json.loads(turncredit("credit", run_folder, "--credit", "grpo", "--json").out)
    assert numbers["rules"]["grpo"]["most"] == 0.5  # not scaled
    assert re.search(r"1 +\+0\.500", turncredit("show", run_folder, "--task", "mixed").out)


def test_one_flag_and_the_same_words_change_both(turncredit: Call, run_folder: Path) -> None:
    for command in ("show", "credit"):
        said = turncredit(command, run_folder, "--credit", "gigpo,rloo", "invalid_penalty=0.5", "--anchor", "state")
        assert said.code == 0, said.err
        assert "turns compared by state" in said.out
        assert "options of gigpo: scale=none invalid_penalty=0.5" in said.out
        assert "options of rloo: invalid_penalty=0.5" in said.out
        assert "000001.jsonl" in turncredit(command, run_folder, "--iteration", "1").out
        one_sentence(turncredit(command, run_folder, "--iteration", "2"), "no trajectories of iteration 2", "1 to 10")
        file = next((run_folder / "trajectories").iterdir())
        one_sentence(turncredit(command, file, "--iteration", "2"), "--iteration needs a run")
        one_sentence(
            turncredit(command, run_folder.parent / "nowhere"), "nowhere does not exist; expected a run folder"
        )
        one_sentence(turncredit(command, run_folder.parent), "holds no trajectories")


# ---- pictures ----


class Page(HTMLParser):
    """Counts elements, and finds what would be fetched."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.outside: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.outside += [value or "" for name, value in attrs if name in ("src", "href") and value]


def test_the_mixed_task_is_drawn(turncredit: Call, file: Path, tmp_path: Path) -> None:
    said = turncredit("credit", file, "--credit", "gigpo,grpo", "--picture", tmp_path / "graph.svg")
    assert "task mixed drawn" in said.out
    text = (tmp_path / "graph.svg").read_text(encoding="utf-8")
    root = ET.fromstring(text)
    steps = [group for group in root.iter("{http://www.w3.org/2000/svg}g") if group.get("class") == "step"]
    nodes = [group for group in root.iter("{http://www.w3.org/2000/svg}g") if group.get("class") == "node"]
    assert (len(steps), len(nodes)) == (4, 4)
    titles = [group[0].text for group in steps]
    assert sum("decisive:" in (title or "") for title in titles) == 2
    assert sum("dead end" in (title or "") for title in titles) == 1
    assert "stroke-dasharray" in text
    assert "&lt;the&gt;" in text
    assert "<the>" not in text


def test_the_page_is_whole_and_fetches_nothing(turncredit: Call, file: Path, tmp_path: Path) -> None:
    assert turncredit("credit", file, "--credit", "gigpo,grpo", "--picture", tmp_path / "g.html").code == 0
    text = (tmp_path / "g.html").read_text(encoding="utf-8")
    page = Page()
    page.feed(text)
    assert page.outside == []
    assert page.tags.count("option") == 2
    assert "svg" in page.tags
    assert '<div id="view" class="fit">' in text  # it opens fitted to the window
    data = json.loads(re.search(r'id="data">(.*?)</script>', text, re.DOTALL)[1])
    assert len(data["edges"]) == 4
    assert set(data["extent"]) == {"gigpo", "grpo"}
    assert any("decisive:" in edge["tip"] for edge in data["edges"])
    assert re.search(r'<tr class="decisive"><td>decisive</td><td>A door\.</td><td>open</td>', text)


def test_a_picture_fits_the_column_of_a_paper(turncredit: Call, file: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    words = ("credit", file, "--credit", "gigpo", "--format", "column", "--picture")
    assert turncredit(*words, tmp_path / "g.svg").code == 0
    root = ET.parse(tmp_path / "g.svg").getroot()
    assert root.get("width") == "237.6pt"  # 3.3 inches
    texts = "".join(root.itertext())
    assert all(part in texts for part in ("start", "1: open ×2", "2: jump ×2", "advantage (gigpo)", "★2", "✕2"))
    assert turncredit(*words, tmp_path / "g.pdf").code == 0
    assert (tmp_path / "g.pdf").read_bytes().startswith(b"%PDF")
    one_sentence(turncredit(*words, tmp_path / "g.html"), "must end in one of .svg, .pdf")
    one_sentence(turncredit("credit", file, "--picture", tmp_path / "h.pdf"), "a .pdf needs --format column")
    one_sentence(turncredit(*words, tmp_path / "no" / "g.svg"), "does not exist")


def test_the_graph_itself_can_be_written(turncredit: Call, file: Path, tmp_path: Path) -> None:
    for suffix, start in ((".graphml", "<graphml"), (".dot", "digraph"), (".json", "{")):
        target = tmp_path / f"graph{suffix}"
        assert turncredit("credit", file, "--credit", "gigpo", "--picture", target).code == 0
        assert target.read_text(encoding="utf-8").lstrip().startswith(start)
        assert "advantage gigpo" in target.read_text(encoding="utf-8")


def test_the_most_instructive_group_has_both_ends_and_most_shared_states() -> None:
    from turncredit.agents.trajectory import Group

    won = Group("a", tuple(episode("a", k, [*WIN, *WIN, *WIN], won=True) for k in range(5)))
    both = Group("b", (episode("b", 0, WIN, won=True), episode("b", 1, LOSS, won=False)))
    alone = Group("c", (episode("c", 0, [("x", "X", "x")], won=True), episode("c", 1, LOSS, won=False)))
    assert most_instructive([won, alone, both]) == 2
    assert most_instructive([won]) == 0


def test_a_state_is_called_by_what_was_seen_on_arrival() -> None:
    from turncredit.agents.trajectory import Group

    stuck = [("a", "A room.", "x"), ("a", "Nothing happens.", "x"), ("a", "Nothing happens.", "x")]
    group = Group("t", (episode("t", 0, stuck, won=False),))
    assert texts_of(group, "state") == {"a": "A room.", "pit": "Nothing happens."}


def big_graph() -> Any:
    """A binary tree of eight layers, with steps back: more than anybody's task."""
    from turncredit.credit import Steps, trajectory_graph

    rows = []
    for k in range(64):
        path = [format(k, "06b")[:d] or "root" for d in range(7)]
        for turn, state in enumerate(path[:-1]):
            after, reward = path[turn + 1], float(turn == 5 and k % 3 == 0)
            row = {"task": "t", "trajectory": k, "turn": turn, "reward": reward, "state": state, "next_state": after}
            rows.append({**row, "action": after[-1]})
    table = Steps.from_rows(rows)
    graph = trajectory_graph(table, table.reward)
    for *_, data in graph.edges(data=True):
        data["advantage it"] = data["advantage"]
    return graph


def test_no_place_lies_on_another_and_layers_go_right() -> None:
    diagram = diagram_of(big_graph(), title="", subtitle="", texts={}, rules=["it"], fold=False)
    layout = layout_of(diagram)
    boxes = list(layout.centres)
    for number, (x, y) in enumerate(boxes):
        for a, b in boxes[:number]:
            assert abs(x - a) >= WIDTH or abs(y - b) >= HEIGHT
    assert all(layout.layers[edge.end] == layout.layers[edge.start] + 1 for edge in diagram.edges)
    assert all(0 < x < layout.width and 0 < y < layout.height for x, y in boxes)
    ET.fromstring(draw(diagram))


def test_what_one_trajectory_saw_is_folded_up() -> None:
    from turncredit.credit import Steps, trajectory_graph

    paths = ["abW", "abW", "abcdefL"]  # c, d, e, f and the end belong to one trajectory that lost
    rows = [
        {"task": "t", "trajectory": k, "turn": turn, "reward": float(after == "W"), "state": state, "next_state": after}
        for k, path in enumerate(paths)
        for turn, (state, after) in enumerate(itertools.pairwise(path))
    ]
    graph = trajectory_graph(Steps.from_rows(rows))
    diagram = diagram_of(graph, title="", subtitle="", texts={"c": "A cellar."}, rules=[])
    assert sorted(node.states for node in diagram.nodes) == [1, 1, 1, 5]
    heap = next(node for node in diagram.nodes if node.states == 5)
    assert (heap.visits, heap.trajectories, heap.ends, heap.ends_won, heap.fate) == (4, 1, 1, 0, "lost")
    assert "A cellar." in heap.text
    assert [(edge.kind, edge.count) for edge in diagram.edges if diagram.nodes[edge.end] is heap] == [("decisive", 1)]
    assert len(diagram.edges) == 3
    assert len(diagram_of(graph, title="", subtitle="", texts={}, rules=[], fold=False).nodes) == len(graph) == 8


def test_colours_are_symmetric_and_grey_at_zero() -> None:
    assert colour(0.0, 1.0) == colour(3.0, 0.0) == "#969696"
    assert colour(1.0, 1.0) == colour(9.0, 1.0) == "#2166ac"
    assert colour(-1.0, 1.0) == "#d95f02"


# ---- turncredit list credit ----


def test_piped_it_is_one_line_per_rule(turncredit: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    lines = turncredit("list", "credit").out.splitlines()
    assert lines[0].split()[:4] == ["name", "arXiv", "evidence", "needs"]
    assert [line.split()[0] for line in lines[1:]] == list(rules())


@pytest.mark.parametrize("width", [60, 80, 140])
def test_on_a_terminal_it_fits_and_says_what_rules_need(
    turncredit: Call, monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    said = turncredit("list", "credit").out
    assert max(map(len, said.splitlines())) <= width
    explained = said[said.index("evidence: what the formula") :].replace("\n", " ")
    for name, rule in rules().items():
        assert re.search(rf"^ *{name} ", said, re.MULTILINE)
        assert rule.arxiv is None or rule.arxiv in said
        assert rule.use.split()[0] in said
        assert all(column in explained for column in rule.needs)
    assert "role (which agent acted)" in explained.replace("  ", " ")
