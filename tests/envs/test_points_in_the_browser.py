"""Browsers by points: clicks, typing, drags, marks and refusals on real pages, and the shop's expert without names."""

from __future__ import annotations

import re
from typing import Any

import pytest
from toys.chromium import need_chromium

from turncredit.envs import UnknownOption, make
from turncredit.tools.browser import open_tab, static_site

pytestmark = pytest.mark.waits

PAGE = """<!doctype html><title>Points</title><style>body{margin:0}*{position:absolute}</style>
<button style="left:40px;top:40px;width:80px;height:40px" onclick="this.textContent='pressed'">press</button>
<p style="left:40px;top:100px;width:80px;height:40px" ondblclick="this.textContent='twice'">double</p>
<input aria-label="name" style="left:40px;top:160px;width:200px;height:30px">
<div id="box" style="left:300px;top:40px;width:50px;height:50px;background:#c00">box</div>
<div style="left:300px;top:160px;width:100px;height:60px;overflow:auto"><p style="height:500px">long</p></div>
<script>
let held = false;
const box = document.getElementById('box');
box.onmousedown = event => { held = true; event.preventDefault(); };  // no text is selected, which would scroll
onmousemove = event => {
  if (held) { box.style.left = event.clientX - 25 + 'px'; box.style.top = event.clientY - 25 + 'px'; }
};
onmouseup = () => { held = false; };
</script>"""


@pytest.fixture(scope="module", autouse=True)
def _chromium() -> None:
    need_chromium()


def test_the_mouse_does_what_actions_say(tmp_path: Any) -> None:
    (tmp_path / "page.html").write_text(PAGE, encoding="utf-8")
    tab = open_tab(f"{static_site(str(tmp_path)).origin}/page.html")
    try:
        for action in ("click[80, 60]", "double_click[60, 117]", "click[100, 175]", "write[red, shoes]"):
            assert tab.act(action).done
        tree = tab.look().tree()
        assert '"pressed"' in tree
        assert "twice" in tree
        assert '"red, shoes"' in tree
        assert tab.act("drag[325, 65, 525, 465]").done
        assert tab.script("() => [box.offsetLeft, box.offsetTop]") == [500, 440]
        assert tab.act("scroll[340, 190, down]").done
        assert tab.script("() => document.querySelectorAll('div')[1].scrollTop") == 48
        assert tab.act("click[2, 690]").done  # nothing is there
    finally:
        tab.close()


def test_the_expert_of_the_shop_buys_by_points_alone() -> None:
    pytest.importorskip("fastapi")
    env = make("turncredit/WebShopBrowser-v0", screenshot="only", points="0..1000")
    try:
        observation, info = env.reset(seed=1)
        assert observation["text"].startswith("Instruction: ")
        plan = env.unwrapped.plan()  # type: ignore[attr-defined]
        assert not any(re.search(r"\[e\d", action) for action in plan)
        for action in plan:
            observation, _, _, _, info = env.step(action)
            assert info["valid"], observation["text"]
        assert info["won"]
    finally:
        env.close()


def test_points_and_marks_on_a_small_page() -> None:
    need_chromium(miniwob=True)
    env = make("turncredit/MiniWoB-v0", task="click-button", screenshot="marks", points="0..1000")
    try:
        observation, info = env.reset(seed=1)
        assert "[e1]" not in observation["text"]
        assert all(action.startswith(("click[", "wait")) for action in info["admissible_actions"])
        before = info["state"]
        for action, sentence in (
            ("click[1001, 5]", "x goes from 0 to 1000"),
            ("click[e99]", "unknown element e99"),
        ):
            observation, _, _, _, info = env.step(action)
            assert not info["valid"]
            assert sentence in observation["text"]
            assert info["state"] == before
        _, _, _, _, info = env.step("click[500, 990]")
        assert info["valid"]
        assert info["touch"] == [pytest.approx((0.5, 0.99), abs=0.01)]
        assert info["state"] == before
    finally:
        env.close()


def test_names_are_refused_where_none_are_shown() -> None:
    need_chromium(miniwob=True)
    env = make("turncredit/MiniWoB-v0", task="click-button", screenshot="only")
    try:
        env.reset(seed=1)
        observation, _, _, _, info = env.step("click[e1]")
        assert not info["valid"]
        assert "the elements have no names here" in observation["text"]
    finally:
        env.close()


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"screenshot": "mark"}, "must be True or False, 'only' or 'marks'"),
        ({"points": {"snap": True}}, "points are not snapped"),
        ({"actions": "androidworld"}, "unknown actions 'androidworld'"),
    ],
)
def test_options_that_do_not_fit_are_refused(options: dict[str, Any], sentence: str) -> None:
    need_chromium(miniwob=True)
    with pytest.raises(UnknownOption, match=sentence):
        make("turncredit/MiniWoB-v0", **options)
