"""The expert of service desks: it knows the solution, and still asks the user, looks things up and keeps the policy."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import combinations

from turncredit.envs.desk.domain import as_json
from turncredit.envs.desk.episode import DeskEpisode
from turncredit.envs.desk.task import DeskAction, says
from turncredit.tools.functions import Call

__all__ = ["left_over", "plan_calls"]


def plan_calls(episode: DeskEpisode, actions: Sequence[DeskAction]) -> Iterator[Call]:
    """Yield the calls that solve the task.

    Args:
        episode: the current state.
        actions: what is left to do (see `left_over`).
    """
    task = episode.task
    for question in episode.user.questions():
        yield _say(question)
    for number, lookup in enumerate(task.lookups):
        if number not in episode.done or (not actions and _shows_more(episode, lookup)):
            yield Call(lookup.name, lookup.arguments)
    for action in actions:
        yield _say(action.ask) if action.ask else Call(action.name, action.arguments)
    missing = [text for text, told in zip(task.told, episode.told, strict=True) if not told]
    if missing:
        yield _say(" ".join(reply for reply in task.replies if any(says(reply, missing))))
    yield Call("close", {})


def _shows_more(episode: DeskEpisode, lookup: DeskAction) -> bool:
    """Return whether a lookup returns what must be said and was not returned yet, since its data have changed."""
    if all(episode.returned):
        return False
    returned = says(as_json(episode.desk.run(lookup)), episode.task.told)
    return any(text and not shown for text, shown in zip(returned, episode.returned, strict=True))


def left_over(episode: DeskEpisode) -> tuple[DeskAction, ...] | None:
    """Return the actions of the solution that are left to do; None if none of them put the database right.

    These are the ones that were not done yet or, if other changes were made as well, the fewest that help.
    """
    task = episode.task
    numbered = list(enumerate(task.actions, start=len(task.lookups)))
    pending = tuple(action for number, action in numbered if number not in episode.done)
    if _leads_to_the_end(episode, pending):
        return pending
    choices = (chosen for size in range(len(task.actions) + 1) for chosen in combinations(task.actions, size))
    return next((chosen for chosen in choices if _leads_to_the_end(episode, chosen)), None)


def _leads_to_the_end(episode: DeskEpisode, actions: Sequence[DeskAction]) -> bool:
    """Return whether actions put the database right, tried on a copy."""
    desk = type(episode.desk)()
    desk.data = json.loads(episode.database)
    for action in actions:
        desk.run(action)
    return as_json(desk.data) == episode.task.after


def _say(text: str) -> Call:
    return Call("say", {"text": text})
