"""Action formats of models that act on screens: what is read, what is refused, and the way back."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turncredit.agents.errors import AgentError
from turncredit.agents.prompts.parsing import PARSERS
from turncredit.envs.action_formats import ACTION_FORMATS, BROWSER_FORMATS, asked_in
from turncredit.envs.android.actions import Action, parse, to_json, write
from turncredit.envs.points import scale_words
from turncredit.tools.browser.actions import BrowserAction
from turncredit.tools.browser.actions import parse as parse_browser

FORMATS = ["androidworld", "qwen-browser", "qwen-phone", "ui-tars-browser", "ui-tars-phone"]


def tars(call: str) -> str:
    return f"Thought: I see it.\nAction: {call}"


def qwen(function: str = "mobile_use", **arguments: object) -> str:
    return f"Now.\n<tool_call>\n{json.dumps({'name': function, 'arguments': arguments})}\n</tool_call>"


READ = [
    ("ui-tars-phone", tars("click(start_box='(512,305)')"), "tap 512 305"),
    ("ui-tars-phone", tars("click(start_box='<|box_start|>(512, 305)<|box_end|>')"), "tap 512 305"),
    ("ui-tars-phone", tars("click(point='<point>512 305</point>')"), "tap 512 305"),
    ("ui-tars-phone", tars("click(start_box='[100, 200, 300, 400]')"), "tap 200 300"),
    ("ui-tars-phone", tars('long_press(start_box="(1,2)", time="")'), "long press 1 2"),
    ("ui-tars-phone", tars("type(content='hello')"), "type hello"),
    ("ui-tars-phone", tars(r"type(content='it\'s')"), "type it's"),
    ("ui-tars-phone", tars("type(content='it's')"), "type it's"),
    ("ui-tars-phone", tars(r"type(content='milk\n')"), '{"action_type": "input_text", "text": "milk"}'),
    ("ui-tars-phone", tars(r"type(content='\n')"), "enter"),
    ("ui-tars-phone", tars("scroll(start_box='(500,500)', direction='down')"), "scroll 500 500 down"),
    ("ui-tars-phone", tars("scroll(direction='up')"), "scroll up"),
    ("ui-tars-phone", tars("drag(start_point='<point>1 2</point>', end_point='<point>3 4</point>')"), "swipe 1 2 3 4"),
    ("ui-tars-phone", tars("open_app(app_name='Clock')"), "open Clock"),
    ("ui-tars-phone", tars("press_home()"), "home"),
    ("ui-tars-phone", tars("press_back()"), "back"),
    ("ui-tars-phone", tars("finished(content='17:30')"), "done 17:30"),
    ("ui-tars-phone", tars("finished()"), "done"),
    ("ui-tars-phone", tars("finished(content='')"), "done"),
    ("ui-tars-phone", tars("call_user()"), "infeasible"),
    ("ui-tars-browser", tars("left_double(start_box='(5,6)')"), "double_click[5, 6]"),
    ("ui-tars-browser", tars("hotkey(key='ctrl a')"), "press[Control+a]"),
    ("ui-tars-browser", tars("type(content='red shoes')"), "write[red shoes]"),
    ("ui-tars-browser", tars("scroll(point='<point>5 6</point>', direction='up')"), "scroll[5, 6, up]"),
    ("qwen-phone", qwen(action="click", coordinate=[935, 406]), "tap 935 406"),
    (
        "qwen-phone",
        '{"name": "mobile_use", "arguments": {"action": "click", "coordinate": [935.4, 406]}}',
        "tap 935 406",
    ),
    ("qwen-phone", qwen(action="swipe", coordinate=[1, 2], coordinate2=[3, 4]), "swipe 1 2 3 4"),
    ("qwen-phone", qwen(action="system_button", button="Back"), "back"),
    ("qwen-phone", qwen(action="system_button", button="Enter"), "enter"),
    ("qwen-phone", qwen(action="open", text="Clock"), "open Clock"),
    ("qwen-phone", qwen(action="answer", text="17:30"), "answer 17:30"),
    ("qwen-phone", qwen(action="terminate", status="success"), "done"),
    ("qwen-phone", qwen(action="terminate", status="failure"), "infeasible"),
    ("qwen-phone", "<think>click?</think>" + qwen(action="wait", time=2), "wait"),
    ("qwen-browser", qwen("computer_use", action="left_click", coordinate=[9, 8]), "click[9, 8]"),
    ("qwen-browser", qwen("computer_use", action="scroll", pixels=-300), "scroll[down]"),
    ("qwen-browser", qwen("computer_use", action="key", keys=["ctrl", "a"]), "press[Control+a]"),
    (
        "qwen-browser",
        qwen("computer_use", action="left_click_drag", coordinate=[1, 2], coordinate2=[3, 4]),
        "drag[1, 2, 3, 4]",
    ),
    ("androidworld", 'Reason: so.\nAction: {"action_type": "click", "index": 5}', "tap 5"),
    ("androidworld", '{"action_type": "click", "x": 3, "y": 4}', "tap 3 4"),
    ("androidworld", 'Action: ```json\n{"action_type": "navigate_back"}\n```', "back"),
    ("androidworld", 'Action: {"action_type": "status", "goal_status": "complete"}', "done"),
]
REFUSED = [
    ("ui-tars-phone", "click(start_box='(1,2)')", "no 'Action:'"),
    ("ui-tars-phone", tars("click"), "followed by one call"),
    ("ui-tars-phone", tars("click(start_box='(1,2)')\n\nclick(start_box='(3,4)')"), "must be written as"),
    ("ui-tars-phone", tars("click(start_box='(1)')"), "must be a point"),
    ("ui-tars-phone", tars("click(start_box='the button')"), "must be a point"),
    ("ui-tars-phone", tars("click()"), "needs the argument start_box"),
    ("ui-tars-phone", tars("clik(start_box='(1,2)')"), "did you mean 'click'"),
    ("ui-tars-phone", tars("scroll(start_box='(1,2)', direction='in')"), "direction must be one of"),
    ("ui-tars-phone", tars("open_app()"), "needs the argument app_name"),
    ("ui-tars-browser", tars("finished(content='')"), "ends by itself"),
    ("ui-tars-browser", tars("hotkey(key='hyper x')"), "there is no key 'hyper'"),
    ("qwen-phone", "I click.", "no <tool_call>"),
    ("qwen-phone", qwen("computer_use", action="left_click", coordinate=[1, 2]), "the function is mobile_use"),
    ("qwen-phone", qwen(action="click", coordinate=[1]), "list of two numbers"),
    ("qwen-phone", qwen(action="click", coordinate=[1, True]), "list of two numbers"),
    ("qwen-phone", qwen(action="click", coordinate=[1, 1e300]), "not on the screen"),
    ("qwen-phone", qwen(action="clck", coordinate=[1, 2]), "did you mean 'click'"),
    ("qwen-phone", qwen(action="wait") + qwen(action="wait"), "more than one call"),
    ("qwen-phone", qwen(action="terminate", status="perhaps"), "no status 'perhaps'"),
    ("qwen-browser", qwen("computer_use", action="left_click_drag", coordinate=[1, 2]), "coordinate2"),
    ("androidworld", "Reason: none", "no 'Action: {...}'"),
    ("androidworld", "Action: click 5", "followed by a JSON object"),
    ("androidworld", 'Action: {"action_type": "click"}', "needs an index"),
]


@pytest.mark.parametrize(("name", "answer", "action"), READ)
def test_reads_what_the_models_write(name: str, answer: str, action: str) -> None:
    assert PARSERS.get(name).read(answer).action == action


@pytest.mark.parametrize(("name", "answer", "why"), REFUSED)
def test_refuses_other_forms_with_a_reason(name: str, answer: str, why: str) -> None:
    parsed = PARSERS.get(name).read(answer)
    assert parsed.action is None
    assert why in str(parsed.why)


@pytest.mark.parametrize("name", FORMATS)
@given(
    text=st.text()
    | st.sampled_from([answer for _, answer, _ in READ + REFUSED]).flatmap(lambda t: st.text().map(t.__add__))
)
def test_any_text_is_read_or_refused(name: str, text: str) -> None:
    parsed = PARSERS.get(name).read(text)
    assert (parsed.action is None) != (parsed.why is None)


LINE = st.text(st.characters(categories=["L", "N", "P", "S", "Zs"]), min_size=1, max_size=40)
WORDS = LINE.map(str.strip).filter(bool)
SIDE = st.integers(0, 1000)
POINTED = st.one_of(
    st.builds(lambda kind, x, y: Action(kind, x=x, y=y), st.sampled_from(["click", "long_press"]), SIDE, SIDE),
    st.builds(lambda x, y, x2, y2: Action("swipe", x=x, y=y, x2=x2, y2=y2), SIDE, SIDE, SIDE, SIDE),
    st.builds(lambda text: Action("input_text", text=text), LINE),
    st.builds(lambda name: Action("open_app", app_name=name), WORDS),
    st.builds(lambda text: Action("answer", text=text), WORDS),
    st.sampled_from(["navigate_back", "navigate_home", "keyboard_enter", "wait"]).map(Action),
    st.sampled_from(["complete", "infeasible"]).map(lambda status: Action("status", goal_status=status)),
)
"""What the expert does where it acts by points."""


@pytest.mark.parametrize("name", ["androidworld", "qwen-phone", "ui-tars-phone"])
@given(action=POINTED)
def test_what_the_expert_does_is_read_as_the_same_action(name: str, action: Action) -> None:
    parser = PARSERS.get(name)
    if name == "ui-tars-phone" and action.action_type == "answer":  # it answers and ends at once
        expected = Action("status", goal_status="complete", text=action.text)
    else:
        expected = action
    assert parser.read(parser.write(write(action))).action == write(expected)


@pytest.mark.parametrize("name", ["qwen-browser", "ui-tars-browser"])
@given(
    action=st.one_of(
        st.builds(
            lambda kind, x, y: BrowserAction(kind, points=((x, y),)),
            st.sampled_from(["click", "double_click"]),
            SIDE,
            SIDE,
        ),
        st.builds(lambda x, y, x2, y2: BrowserAction("drag", points=((x, y), (x2, y2))), SIDE, SIDE, SIDE, SIDE),
        st.builds(lambda words: BrowserAction("write", "", words), LINE),
        st.sampled_from(["Enter", "Control+a", "Delete", "ArrowDown", "a"]).map(
            lambda k: BrowserAction("press", "", k)
        ),
        st.sampled_from(["up", "down"]).map(lambda way: BrowserAction("scroll", "", way)),
        st.just(BrowserAction("wait")),
    )
)
def test_what_the_expert_of_a_browser_does_is_read_as_the_same_action(name: str, action: BrowserAction) -> None:
    parser = PARSERS.get(name)
    assert parse_browser(str(action)) == action
    assert parser.read(parser.write(str(action))).action == str(action)


@given(action=POINTED, index=st.none() | st.integers(0, 99), clear=st.booleans(), enter=st.booleans())
def test_every_action_is_written_as_text_that_is_read_as_it(
    action: Action, index: int | None, clear: bool, enter: bool
) -> None:
    if action.action_type == "input_text":
        action = replace(action, index=index, clear_text=clear, press_enter=enter)
    for text in (write(action), to_json(action)):
        assert parse(text) == action
        assert text.isprintable()


@pytest.mark.parametrize(
    ("name", "action"), [("qwen-phone", "tap 5"), ("ui-tars-phone", "type 3 x"), ("qwen-browser", "click[e3]")]
)
def test_a_format_without_numbers_refuses_them(name: str, action: str) -> None:
    with pytest.raises(AgentError, match="cannot be written in this format"):
        PARSERS.get(name).write(action)


@pytest.mark.parametrize("phone", [True, False])
def test_every_format_has_a_prompt_and_a_parser(phone: bool) -> None:
    for name in ACTION_FORMATS[1:] if phone else BROWSER_FORMATS[1:]:
        options = asked_in(name, "A task.", scale_words("0..999", (540, 1200)), phone=phone)
        PARSERS.get(str(options["parser"]))
        assert "999" in str(options["template"])
