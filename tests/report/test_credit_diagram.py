"""The page of a diagram of credit: the colours of the chosen rule, and what is known of what the pointer is at."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from toys.commands import Call
from toys.report_runs import write_run

from turncredit.report.graphs.style import colour

RULES = ("gigpo", "grpo")


@pytest.fixture
def picture(turncredit: Call, tmp_path: Path) -> Path:
    run = write_run(tmp_path / "run", iterations=1)
    file = tmp_path / "graph.html"
    said = turncredit("credit", run, "--credit", ",".join(RULES), "--picture", file)
    assert said.code == 0, said.err
    return file


def levels(text: str) -> list[int]:
    """Red, green and blue of `#rrggbb` or `rgb(r,g,b)`."""
    if text.startswith("#"):
        return list(bytes.fromhex(text[1:]))
    return [int(level) for level in text.removeprefix("rgb(").removesuffix(")").split(",")]


def test_steps_have_the_colours_of_the_chosen_rule(tab: Any, picture: Path) -> None:
    """The page paints as the picture that Python draws, whose formula stands in another language."""
    tab.goto(picture.as_uri())
    data = json.loads(tab.locator("#data").text_content())
    assert any(edge["advantage"]["gigpo"] != edge["advantage"]["grpo"] for edge in data["edges"])
    for rule in (*RULES[::-1], *RULES):
        tab.select_option("#who", rule)
        extent = data["extent"][rule]
        assert tab.locator("#whose").text_content() == f"advantage ({rule})"
        assert tab.locator("#least").text_content() == f"-{extent:.2f}"
        assert tab.locator("#most").text_content() == f"+{extent:.2f}"
        steps = tab.locator(".step").all()
        assert steps
        for step in steps:
            advantage = data["edges"][int(step.get_attribute("data-edge"))]["advantage"][rule]
            painted = levels(step.locator(".ink").first.get_attribute("stroke"))
            expected = levels(colour(advantage, extent))
            assert max(abs(mine - theirs) for mine, theirs in zip(painted, expected, strict=True)) <= 1


def test_the_pointer_shows_what_is_known(tab: Any, picture: Path) -> None:
    tab.goto(picture.as_uri())
    data = json.loads(tab.locator("#data").text_content())
    assert not tab.locator("#tip").is_visible()
    for selector, texts, name in (
        (".node", data["nodes"], "data-node"),
        (".step .ink", [edge["tip"] for edge in data["edges"]], "data-edge"),
    ):
        target = tab.locator(selector).first
        number = target.evaluate(f"element => element.closest('[{name}]').getAttribute('{name}')")
        target.dispatch_event("mousemove", {"bubbles": True, "clientX": 1190, "clientY": 890})
        box = tab.locator("#tip")
        assert box.text_content() == texts[int(number)]
        assert box.is_visible()
        place = box.bounding_box()
        assert place["x"] + place["width"] <= 1200
        assert place["y"] + place["height"] <= 900
    tab.locator("#view").dispatch_event("mouseleave")
    assert not tab.locator("#tip").is_visible()


def test_the_picture_fits_the_window_or_has_its_own_size(tab: Any, picture: Path) -> None:
    tab.goto(picture.as_uri())
    assert tab.locator("#view.fit").count() == 1
    tab.uncheck("#fit")
    assert tab.locator("#view.fit").count() == 0
