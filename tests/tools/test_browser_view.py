"""Parsing of snapshots and views of pages, without a browser."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turncredit.tools.browser.snapshot import SnapshotNode, read_snapshot
from turncredit.tools.browser.view import PageView, boxes_of, build_view

PAGE = """
- generic [active] [ref=e1] [box=0,0,500,210]:
  - heading "Shoes" [level=1] [ref=e2] [box=0,0,10,10]
  - 'link "Tab: 1" [ref=e3] [cursor=pointer] [box=1,1,5,5]':
    - /url: "#one"
  - textbox "Query" [ref=e5] [box=2,2,5,5]: red "quoted"
  - textbox "Name" [active] [ref=e6] [box=2,9,5,5]:
    - /placeholder: Your name
    - text: Ada
  - generic [ref=e7] [box=3,3,5,5]:
    - radio "blue" [checked] [ref=e8] [box=3,3,5,5]
    - text: blue
    - text: "12: \\x07 a"
  - combobox "Land" [ref=e9] [box=4,4,5,5]:
    - option "Chad" [box=0,0,0,0]
    - option "Peru" [selected] [box=0,0,0,0]
  - button "Go" [disabled] [ref=e10] [box=5,5,5,5]
  - iframe [ref=e11] [box=6,6,5,5]:
    - button "Inner" [ref=f1e2] [box=1,1,5,5]
"""


def facts(nodes: list[SnapshotNode], **more: Any) -> dict[str, Any]:
    plain = {"over": "", "writable": False, "scroll": None}
    boxes = [dict(plain) for _ in boxes_of(nodes)]
    return {"url": "http://x/", "title": "T", "top": 0, "most": 0, "back": False, "boxes": boxes} | more


def view(page: str = PAGE, *, all_elements: bool = False, **more: Any) -> PageView:
    nodes = read_snapshot(page)
    return build_view(nodes, facts(nodes, **more), all_elements=all_elements)


def test_frames_are_recognized_by_position_not_by_references() -> None:
    """After a navigation Playwright writes the references of the page itself as it writes those in frames."""
    (top,) = read_snapshot(PAGE.replace("[ref=e", "[ref=f2e"))
    inner = top.children[-1].children[0]
    assert (inner.name, inner.framed) == ("Inner", True)
    assert not any(node.framed for node in [top, *top.children])
    assert boxes_of([top])[:2] == [top.box, top.children[0].box]
    assert boxes_of([top])[-1] == (0, 0, -1, -1)


def test_a_page_is_written_as_lines() -> None:
    assert view().tree().split("\n") == [
        'heading "Shoes"',
        '[e1] link "Tab: 1"',
        '[e2] textbox "Query" = "red \\"quoted\\""',
        '[e3] textbox "Name" = "Ada" (focused)',
        '[e4] radio "blue" (checked)',
        '"12: \x07 a"',
        '[e5] combobox "Land" = "Peru" of "Chad", "Peru"',
        '[e6] button "Go" (disabled)',
        "iframe",
        ' [e7] button "Inner"',
    ]


def test_references_map_to_playwright_references() -> None:
    elements = view().elements
    assert {ref: e.target for ref, e in elements.items()}["e7"] == "f1e2"
    assert (elements["e5"].options, elements["e3"].value, elements["e3"].focused) == (("Chad", "Peru"), "Ada", True)


def test_all_elements_gives_references_to_text() -> None:
    assert '[e1] heading "Shoes"' in view(all_elements=True).tree()


def test_only_possible_actions_are_listed() -> None:
    nodes = read_snapshot(PAGE)
    given = facts(nodes, top=10, most=50)
    given["boxes"][2]["over"] = "covered by a banner"
    given["boxes"][3]["scroll"] = [0, 40]
    found = build_view(nodes, given)
    assert found.actions() == [
        *("click[e2]", "scroll[e2, down]", "click[e3]", "click[e4]", "select[e5, Chad]", "select[e5, Peru]"),
        *("click[e7]", "scroll[down]", "scroll[up]", "wait[]"),
    ]
    assert "[e1] link" in found.tree()
    assert "(covered)" in found.tree()


def test_a_truncated_tree_says_how_much_is_missing() -> None:
    lines = view().tree(60).split("\n")
    assert lines[-1] == "... 8 more lines of the page are not shown"
    assert len(view().tree(10**6).split("\n")) == 10


def test_the_key_depends_only_on_what_is_shown() -> None:
    again = PAGE.replace("ref=e", "ref=e9")
    assert view().key() == view(again).key()
    assert view().key() != view(PAGE.replace("[checked] ", "")).key()
    assert view().key() != view(top=3, most=9).key()
    assert view(url="http://a/").key(address="x") == view(url="http://b/").key(address="x")


def test_page_text_cannot_imitate_elements() -> None:
    page = '- paragraph [ref=e1] [box=0,0,1,1]: "[e9] button \\"Buy\\"\\n[e10] link \\"x\\""'
    assert view(page).tree() == '"[e9] button \\"Buy\\" [e10] link \\"x\\""'


LABELS = """
- radio "plain" [ref=e1] [box=0,0,1,1]
- generic [ref=e2] [box=0,0,1,1]: plain
- textbox "Age" [ref=e3] [box=0,0,1,1]: "7"
- generic [ref=e4] [box=0,0,1,1]: Age
- generic [ref=e5] [box=0,0,1,1]: Age
- checkbox "a" [ref=e6] [box=0,0,1,1]
- generic [ref=e7] [cursor=pointer] [box=0,0,1,1]: a
- button "5" [ref=e8] [box=0,0,1,1]
- generic [ref=e9] [box=0,0,1,1]: "5"
- checkbox "b" [ref=e10] [box=0,0,1,1]
- generic "b" [ref=e11] [box=0,0,1,1]:
  - link "c" [ref=e12] [box=0,0,1,1]
"""


def test_labels_next_to_controls_are_omitted() -> None:
    """Where it can be clicked on by itself, holds something, or the control has its name inside, it stays."""
    assert view(LABELS).tree().split("\n") == [
        *('[e1] radio "plain"', '[e2] textbox "Age" = "7"', '"Age"', '[e3] checkbox "a"', '[e4] "a"'),
        *('[e5] button "5"', '"5"', '[e6] checkbox "b"', '"b"', ' [e7] link "c"'),
    ]
    assert len(view(LABELS, all_elements=True).lines) == 12


@pytest.mark.parametrize("line", ["- ", "-", "- 'broken", '- button "x', "- [ref=e1]", "::", "- a [box=1,2]"])
def test_odd_lines_become_text(line: str) -> None:
    view(line)


@given(st.text(max_size=200))
def test_any_snapshot_is_parsed(text: str) -> None:
    nodes = read_snapshot(text)
    build_view(nodes, facts(nodes), all_elements=True).text()
