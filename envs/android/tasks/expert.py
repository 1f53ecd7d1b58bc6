"""The expert: plays a template's script on a device and returns the actions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from turnwise.envs.android.actions import BadAction, parse, perform
from turnwise.envs.android.elements import Element, folded
from turnwise.envs.android.tasks.hand import Hand, Lost
from turnwise.envs.android.tasks.template import Params, Template
from turnwise.envs.errors import EnvError
from turnwise.tools.android.device import Device

__all__ = ["NoWay", "play"]

Reader = Callable[[Device], Sequence[Element]]
_STARTS = 4
_MOST = 400


class NoWay(EnvError):
    """The script does not reach the end from here."""


def read_folded(device: Device) -> Sequence[Element]:
    """Return the elements of the screen, each row as one."""
    return folded(device.dump(), device.size())


def play(
    template: Template,
    params: Params,
    device: Device,
    apps: Mapping[str, str],
    *,
    met: Callable[[], Sequence[bool]] = tuple,
    fresh: bool = True,
    read: Reader = read_folded,
) -> list[str]:
    """Play the script of a template to its end, and return the actions, of which the last ends the episode.

    Args:
        template: whose script.
        params: of the task.
        device: on which it is played.
        apps: what can be opened: name -> package or activity.
        met: which effects are there already; asked before each start of the script.
        fresh: no app has been used yet.
        read: the elements that the action's numbers refer to.

    Raises:
        NoWay: the script does not find what it needs, four times in a row.
    """
    actions: list[str] = []
    hand = Hand((), device.size())
    lost = ""
    for start in range(_STARTS):
        hand.begin(met(), fresh and start == 0)
        try:
            _run(template, params, device, apps, hand, read, actions)
        except (Lost, BadAction) as error:
            lost = str(error)
            continue
        return actions
    raise NoWay(f"the script of {template.name} does not find its way: {lost}")


def _run(
    template: Template,
    params: Params,
    device: Device,
    apps: Mapping[str, str],
    hand: Hand,
    read: Reader,
    actions: list[str],
) -> None:
    _look(hand, device, read)
    if not hand.fresh:
        actions.append("home")
        device.key(3)
        _look(hand, device, read)
    for text in template.solve(hand, params):
        action = parse(text)
        perform(action, device, hand.screen, apps)
        actions.append(text)
        if action.ends:
            return
        _look(hand, device, read)
        if len(actions) > _MOST:
            raise NoWay(f"the script of {template.name} does not end")
    raise NoWay(f"the script of {template.name} ends without hand.done(), hand.answer() or hand.infeasible()")


def _look(hand: Hand, device: Device, read: Reader) -> None:
    hand.screen = read(device)
    hand.package = device.activity().partition("/")[0]
