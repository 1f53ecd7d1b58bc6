"""What a refusal shows as an action is one: the environment that printed it accepts it, whatever its options are."""

from __future__ import annotations

import itertools
import re
from typing import Any

import pytest

from turncredit.envs import make
from turncredit.envs.android.actions import parse
from turncredit.envs.android.env import AndroidEnv
from turncredit.tools.browser.actions import InvalidAction
from turncredit.tools.browser.actions import parse as parse_in_browser

POINTS = [None, "pixels", "image", "0..999", "0..1000", (100, 100), {"scale": [100, 100], "snap": True}]
SIGHTS = [("text", "compact"), ("text", "m3a"), ("screen", "none"), ("marks", "none")]
JUNK = ("frobnicate the turncredit 0", "", "tap")
SCREENS: tuple[list[str], ...] = ([], ["open Contacts"])


def text_of(observation: Any) -> str:
    return str(observation["text"] if isinstance(observation, dict) else observation)


def examples_in(refusal: str) -> list[str]:
    """The actions that a refusal shows."""
    match = re.search(r"actions look like: (.*), or are JSON objects", refusal)
    assert match is not None, refusal[:200]
    return match[1].split(", ")


@pytest.mark.parametrize("points", POINTS, ids=str)
@pytest.mark.parametrize(("observation", "format"), SIGHTS)
def test_a_phone_shows_actions_that_it_accepts(points: Any, observation: str, format: str) -> None:
    env = AndroidEnv(observation=observation, format=format, points=points)
    task = env.task_ids(1)[0]

    def reach(actions: list[str]) -> None:
        env.reset(seed=0, options={"task": task})
        for action in actions:
            assert env.step(action)[4]["valid"], action

    for screen, junk in itertools.product(SCREENS, JUNK[:2]):
        reach(screen)
        refusal, _, _, _, info = env.step(junk)
        assert not info["valid"]
        shown = examples_in(text_of(refusal))
        assert {"back", "scroll down", "done"} <= set(shown)
        assert any(parse(action).action_type == "click" for action in shown)
        if junk == JUNK[0]:
            for action in shown:
                reach(screen)
                answer, _, _, _, info = env.step(action)
                assert info["valid"], (action, text_of(answer)[:200])
    env.close()


@pytest.mark.parametrize(
    ("name", "options"),
    [("Desk-v0", {}), ("Desk-v0", {"domain": "repair_shop", "level": "tiny"}), ("Search-v0", {})],
    ids=str,
)
def test_a_form_in_a_refusal_is_one_of_the_forms(name: str, options: dict[str, Any]) -> None:
    env = make(f"turncredit/{name}", **options)
    for junk in (JUNK[0], JUNK[2]):
        _, info = env.reset(seed=0)
        refusal, _, _, _, after = env.step(junk)
        assert not after["valid"]
        shown = {match.group() for match in re.finditer(r"<(\w+)>\.\.\.</\1>", str(refusal))}
        assert shown <= set(info["free_actions"]), shown


@pytest.mark.parametrize("junk", ["nothing", "drag[1]", "scroll[east]", "click[here]", "type[e3]", "double_click[]"])
def test_a_refusal_in_a_browser_names_no_element_and_no_point_of_a_page_that_it_does_not_know(junk: str) -> None:
    refused = parse_in_browser(junk)
    assert isinstance(refused, InvalidAction)
    reason = (
        refused.reason.replace(repr(junk), "").partition(", got ")[0] + refused.reason.partition("choose one of")[2]
    )
    assert not re.search(r"\[e\d|\d\d", reason), refused.reason
