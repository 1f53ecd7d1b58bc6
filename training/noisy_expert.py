"""Mistakes of a demonstrator, so that it shows how to come back from them.

A policy that saw right actions only is lost after its first wrong one. So a demonstrator makes some: a random action;
a slip, which is an action that cannot be done; a typo, which is its own action with one word wrong, where the
environment cannot list what may be said (an edit, a query). Each is played and stays as context; none is imitated.

Left out on purpose: mistakes of a kind that only one environment knows.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, Final

from turnwise.agents.errors import look_up
from turnwise.agents.parsing import PARSERS
from turnwise.agents.samplers.base import Completion, Planner, Request, Tokenizer, UsesPlanner
from turnwise.agents.samplers.expert import Expert
from turnwise.agents.samplers.scripted import PlayerSampler

__all__ = ["Noisy", "WithNoise", "slip", "typo"]

Noisy = set[tuple[str, int]]
"""Episode and number of the turns that were mistakes."""

_PIECE: Final = re.compile(r"(?P<number>\d+)|(?P<word>[^\W\d]\w*)|(?P<sign>[^\w\s]+)|(?P<space>\s+)")


class WithNoise:
    """A sampler that now and then makes a mistake in the place of another sampler's action.

    The other one is asked at every turn and so sees the whole episode. Which turns were mistakes is in `noisy`.
    """

    def __init__(
        self, inner: Expert | PlayerSampler, noise: float, slips: float, typos: float, parser_name: str
    ) -> None:
        """Wrap a sampler.

        Args:
            inner: the sampler.
            noise: probability [0, 1] that a turn is random: a uniform admissible action or a slip.
            slips: share [0, 1] of random turns that play an action which is not admissible (see `slip`).
            typos: probability [0, 1], where a turn is not random and its action is none of those listed as admissible,
                that one word of it is another one (see `typo`).
            parser_name: name of the form that the agent reads.
        """
        self._inner, self._noise, self._slips, self._typos = inner, noise, slips, typos
        self._parser = look_up(PARSERS, parser_name)
        self._earlier: dict[str, dict[str, None]] = {}
        self._seen: dict[str, list[str]] = {}
        self.noisy: Noisy = set()
        self.tokenizer: Tokenizer | None = None
        self.context: int | None = None
        self.images = True

    @property
    def version(self) -> int:
        """Version of the inner sampler."""
        return self._inner.version

    async def sample(self, request: Request) -> Completion:
        """Give the inner sampler's answer, or a mistake; the draw depends on episode and turn alone."""
        completion = await self._inner.sample(request)
        if isinstance(self._inner, Expert) and (request.episode, request.turn) in self._inner.guesses:
            self.noisy.add((request.episode, request.turn))  # there was no plan: nothing to learn from
        action = self._mistake(request, completion.text)
        if action is None:
            return completion
        if isinstance(self._inner, Expert):
            self._inner.replan(request.episode)  # the next plan starts where the mistake leads
        self.noisy.add((request.episode, request.turn))
        return replace(completion, text=self._parser.write(action))

    def _mistake(self, request: Request, said: str) -> str | None:
        """Return what is played in the place of what was said; None: that."""
        dice = random.Random(f"noise/{request.seed}/{request.turn}")
        admissible = request.view.admissible or ()
        if admissible:
            earlier = self._earlier.setdefault(request.episode, {})
            earlier.update(dict.fromkeys(admissible))
            if dice.random() < self._noise:
                wrong = dice.random() < self._slips
                return slip(admissible, list(earlier), dice) if wrong else dice.choice(admissible)
        if not self._typos:
            return None
        seen = self._seen.setdefault(request.episode, [])
        seen.append(request.view.observation)
        action = self._parser.read(said).action
        if action is None or action in admissible or dice.random() >= self._typos:
            return None
        return typo(action, seen, dice)

    def attach(self, episode: str, planner: Planner) -> None:
        """Pass the environment's planner on to an expert."""
        if isinstance(self._inner, UsesPlanner):
            self._inner.attach(episode, planner)

    def forget(self, episode: str) -> None:
        """Drop what is kept for an episode."""
        self._earlier.pop(episode, None)
        self._seen.pop(episode, None)
        self._inner.forget(episode)

    def load(self, model: Any, version: int) -> None:
        """There are no weights."""
        self._inner.load(model, version)

    def close(self) -> None:
        """Nothing is held."""
        self._inner.close()


def slip(admissible: Sequence[str], earlier: Sequence[str], dice: random.Random) -> str:
    """Return an action such as a learner gets wrong: of another moment, or the head of one with the tail of another.

    Args:
        admissible: what can be done now; at least one action.
        earlier: what could be done at some turn of the episode so far, now included.
        dice: what is drawn from.

    Returns:
        An action that is not admissible, unless there is no earlier one and ten draws put none together.
    """
    known = set(admissible)
    past = [action for action in earlier if action not in known]
    action = ""
    for _ in range(10):
        if past and dice.random() < 0.5:
            return dice.choice(past)
        head, tail = (dice.choice(earlier).split() for _ in range(2))
        action = " ".join([*head[: dice.randint(0, len(head))], *tail[dice.randint(0, len(tail)) :]])
        if action not in known:
            return action
    return dice.choice(past) if past else action


def typo(action: str, seen: Iterable[str], dice: random.Random) -> str | None:
    """Return an action with one of its pieces changed for another of the same kind: a number, a word or a sign.

    Args:
        action: what was to be done; its first piece, which says what kind of action it is, stays.
        seen: texts that the other pieces are taken from, beside the action itself.
        dice: what is drawn from.

    Returns:
        An action that differs from the one given; None where no piece has another of its kind.

    >>> typo("replace 3: return a", ["3 return a"], random.Random(1))
    'replace 3: a a'
    """
    known: dict[str, dict[str, None]] = {"number": {}, "word": {}, "sign": {}, "space": {}}
    for text in (*seen, action):
        for found in _PIECE.finditer(text):
            known[str(found.lastgroup)][found.group()] = None
    pieces = [(str(found.lastgroup), found.group()) for found in _PIECE.finditer(action)]
    places = [at for at, (kind, _) in enumerate(pieces) if at and kind != "space" and len(known[kind]) > 1]
    if not places:
        return None
    at = dice.choice(places)
    kind, old = pieces[at]
    new = dice.choice([piece for piece in known[kind] if piece != old])
    return "".join(new if here == at else piece for here, (_, piece) in enumerate(pieces))
