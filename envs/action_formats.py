"""How models that act on screens are asked: prompts that name the action format of a family of models.

    words          <think>...</think><action>tap 512 305</action>                      any model
    ui-tars        Thought: ... Action: click(start_box='(512,305)')                   UI-TARS 1.0 and 1.5
    qwen           <tool_call>{"name": "mobile_use", "arguments": {...}}</tool_call>   Qwen2.5-VL, Qwen3-VL
    androidworld   Reason: ... Action: {"action_type": "click", "index": 5}            AndroidWorld's agents

The parsers of these formats, in `turncredit.agents.prompts.screen_formats`, turn an answer into the words of the
environment. A prompt says the same as those that the models were trained with, and is not the same text.
"""

from __future__ import annotations

import json
from typing import Final

__all__ = ["ACTION_FORMATS", "BROWSER_FORMATS", "asked_in"]

ACTION_FORMATS: Final = ("words", "ui-tars", "qwen", "androidworld")
"""What the option `actions` of an environment takes."""

BROWSER_FORMATS: Final = ("words", "ui-tars", "qwen")
"""What it takes in a browser."""

_HISTORY: Final = {"name": "window", "history": 8, "answers": True}


def asked_in(actions: str, role: str, scale: str, *, phone: bool) -> dict[str, object]:
    """Return the options of an agent whose model writes its actions in a format of a family of models.

    Args:
        actions: one of `ACTION_FORMATS` except "words".
        role: a sentence about the task.
        scale: a sentence about the points, such as that of `turncredit.envs.points.scale_words`.
        phone: whether it is a phone, and not a browser.
    """
    device = "phone" if phone else "browser"
    system = {"ui-tars": _ui_tars, "qwen": _qwen, "androidworld": _android_world}[actions](phone)
    return {
        "prompt": _HISTORY,
        "template": {
            "system": f"{role}\n\n{system}\n\n{scale}\n\n",
            "opening": "{start}",
            "saw": "\n\n{observation}",
            "did": "\n\nYour answer:\n{action}",
            "gap": "\n\n({skipped} earlier turns are left out.)",
            "ask": "\n\nThe image shows the screen as it is now. Your next answer:\n",
        },
        "parser": "androidworld" if actions == "androidworld" else f"{actions}-{device}",
    }


def _ui_tars(phone: bool) -> str:
    spaces = (
        ("long_press(start_box='(X,Y)')", "open_app(app_name='NAME')", "press_home()", "press_back()")
        if phone
        else ("left_double(start_box='(X,Y)')", "hotkey(key='ctrl a')  # keys in lower case, with spaces between them")
    )
    actions = (
        "click(start_box='(X,Y)')",
        "type(content='TEXT')  # into the focus; end it with \\n to press Enter",
        "scroll(start_box='(X,Y)', direction='down')  # or up, left, right",
        "drag(start_box='(X,Y)', end_box='(X,Y)')",
        *spaces,
        "wait()",
        "finished(content='TEXT')  # the task is done; the content is the answer to a question, else empty",
        "call_user()  # the task cannot be done",
    )
    listed = "\n".join(actions)
    return f"Answer with one action, in this form:\nThought: ...\nAction: ...\n\nThe actions:\n{listed}"


_POINT: Final = {"type": "array", "items": {"type": "integer"}, "minItems": 2, "maxItems": 2}


def _qwen(phone: bool) -> str:
    names = _MOBILE if phone else _COMPUTER
    properties: dict[str, object] = {
        "action": {
            "type": "string",
            "enum": list(names),
            "description": "; ".join(f"{k}: {v}" for k, v in names.items()),
        },
        "coordinate": {**_POINT, "description": "[X, Y]"},
        "text": {"type": "string"},
        "time": {"type": "number", "description": "seconds"},
        "status": {"type": "string", "enum": ["success", "failure"]},
    }
    if phone:
        properties["coordinate2"] = {**_POINT, "description": "[X, Y] where a swipe ends"}
        properties["button"] = {"type": "string", "enum": ["Back", "Home", "Enter"]}
    else:
        properties["keys"] = {"type": "array", "items": {"type": "string"}}
        properties["pixels"] = {"type": "number", "description": "how far to scroll; above 0 is up"}
    function = {
        "name": "mobile_use" if phone else "computer_use",
        "description": f"Operates the {'phone by its touchscreen' if phone else 'browser by mouse and keyboard'}.",
        "parameters": {"type": "object", "properties": properties, "required": ["action"]},
    }
    schema = json.dumps({"type": "function", "function": function})
    call = json.dumps({"name": function["name"], "arguments": {"action": "..."}})
    return (
        f"You have this function:\n<tools>\n{schema}\n</tools>\n\nAnswer with one call, which reasoning may precede, "
        f"in this form:\n<tool_call>\n{call}\n</tool_call>"
    )


_MOBILE: Final = {
    "click": "touch coordinate",
    "long_press": "hold coordinate",
    "swipe": "move a finger from coordinate to coordinate2",
    "type": "put text into the focus",
    "system_button": "press button",
    "open": "open the app that text names",
    "wait": "wait for some time",
    "answer": "answer the question with text, before terminate",
    "terminate": "end the task with status, which is failure where the task cannot be done",
}
_COMPUTER: Final = {
    "left_click": "click at coordinate",
    "double_click": "click twice at coordinate",
    "mouse_move": "move the mouse to coordinate",
    "left_click_drag": "drag from where the mouse is to coordinate",
    "type": "put text into the focus",
    "key": "press keys together",
    "scroll": "turn the wheel by pixels",
    "wait": "wait for some time",
    "terminate": "end the task with status",
}


def _android_world(phone: bool) -> str:
    actions = (
        '{"action_type": "click", "x": X, "y": Y}  # or "index": N, the number of an element',
        '{"action_type": "long_press", "x": X, "y": Y}  # so does double_tap',
        '{"action_type": "input_text", "text": "TEXT", "x": X, "y": Y}  # Enter follows the text',
        '{"action_type": "scroll", "direction": "down"}  # or up, left, right; swipe is the way of the finger',
        '{"action_type": "open_app", "app_name": "NAME"}',
        '{"action_type": "navigate_back"}  # so do navigate_home, keyboard_enter and wait',
        '{"action_type": "answer", "text": "TEXT"}  # for questions, before status',
        '{"action_type": "status", "goal_status": "complete"}  # "infeasible": the task cannot be done',
    )
    listed = "\n".join(actions)
    return f"Answer with one action, in this form:\nReason: ...\nAction: {{...}}\n\nThe actions:\n{listed}"
