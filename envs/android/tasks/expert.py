"""The expert: plays a template's script on a device and returns the actions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from turncredit.envs.android.actions import Action, BadAction, parse
from turncredit.envs.android.elements import ScreenElement, folded, leaves
from turncredit.envs.android.performing import perform
from turncredit.envs.android.tasks.hand import Hand, Lost
from turncredit.envs.android.tasks.template import Params, TaskTemplate
from turncredit.envs.errors import EnvError
from turncredit.tools.android.device import Device

__all__ = ["NoWay", "Writer", "as_read", "by_leaves", "play"]

Written = Iterator[tuple[str, Action]]
"""Actions as the agent writes them, each with what is done, for elements as `folded` numbers them."""
Writer = Callable[[str, Action, Sequence[ScreenElement], Device], Written]
"""How an action is written for the agent, given it as the script wrote it, for elements as `folded` numbers them. Each
action is done before the next one is asked for."""
_STARTS = 4
_MOST = 400


class NoWay(EnvError):
    """The script does not reach the end from here."""


def as_read(text: str, action: Action, elements: Sequence[ScreenElement], device: Device) -> Written:
    """Yield the action as the script wrote it."""
    yield text, action


def by_leaves(text: str, action: Action, elements: Sequence[ScreenElement], device: Device) -> Written:
    """Yield the action for an agent that sees elements as `leaves` numbers them."""
    yield _by_leaf(text, action, elements, device), action


def _by_leaf(text: str, action: Action, elements: Sequence[ScreenElement], device: Device) -> str:
    if action.index is None:
        return text
    node = elements[action.index].node
    listed = leaves(device.dump(), device.size())
    same = next((e for e in listed if (e.node.bounds, e.node.class_name) == (node.bounds, node.class_name)), None)
    head, _, tail = text.partition(str(action.index))
    if same is not None:
        return f"{head}{same.index}{tail}"
    x, y = node.center
    return f"{head}{x} {y}{tail}"


def play(
    template: TaskTemplate,
    params: Params,
    device: Device,
    apps: Mapping[str, str],
    *,
    met: Callable[[], Sequence[bool]] = tuple,
    fresh: bool = True,
    leave: bool = True,
) -> list[str]:
    """Play the script of a template to its end, and return the actions, of which the last ends the episode.

    Args:
        template: whose script.
        params: of the task.
        device: on which it is played.
        apps: what can be opened: name -> package or activity.
        met: which effects are there already; asked before each start of the script.
        fresh: no app has been used yet.
        leave: close an app that may have been used before it is opened, at the first start of the script already.

    Raises:
        NoWay: the script does not find what it needs, four times in a row.
    """
    actions: list[str] = []
    hand = Hand(device.size())
    lost = ""
    for start in range(_STARTS):
        hand.begin(met(), fresh=fresh and start == 0, leave=leave or start > 0)
        try:
            _run(template, params, device, apps, hand, actions)
        except (Lost, BadAction, LookupError) as error:  # the last: a script read what is not there
            lost = str(error)
            continue
        return actions
    raise NoWay(f"the script of {template.name} does not find its way: {lost}")


def _run(
    template: TaskTemplate,
    params: Params,
    device: Device,
    apps: Mapping[str, str],
    hand: Hand,
    actions: list[str],
) -> None:
    _look(hand, device)
    for text in template.solve(hand, params):
        action = parse(text)
        perform(action, device, hand.screen, apps)
        actions.append(text)
        if action.ends:
            return
        _look(hand, device)
        if len(actions) > _MOST:
            raise NoWay(f"the script of {template.name} does not end")
    raise NoWay(f"the script of {template.name} ends without hand.done(), hand.answer() or hand.infeasible()")


def _look(hand: Hand, device: Device) -> None:
    hand.screen = folded(device.dump(), device.size())
    hand.package = device.activity().partition("/")[0]
