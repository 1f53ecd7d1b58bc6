"""A demonstrator that makes mistakes, so that its demonstrations show how to recover from them.

A policy that has only seen correct actions is lost after its first wrong one. A demonstrator therefore makes three
kinds of mistakes: a random admissible action; a slip, which is an inadmissible action; and a typo, which is its own
action with one wrong word, where the environment cannot list what may be said (an edit, a query). Mistakes are played
and stay as context; they are never imitated.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from turncredit.agents.errors import look_up
from turncredit.agents.prompts.parsing import PARSERS, Parser
from turncredit.engines.base import Completion, Request
from turncredit.engines.scripted import ActionSampler
from turncredit.engines.wrappers import SamplerWrapper

__all__ = ["NoisyDemonstrator", "slip", "typo"]

_PIECE: Final = re.compile(r"(?P<number>\d+)|(?P<word>[^\W\d]\w*)|(?P<sign>[^\w\s]+)|(?P<space>\s+)")


class NoisyDemonstrator(SamplerWrapper):
    """A sampler that sometimes replaces another sampler's action by a mistake.

    The other sampler is asked at every turn and so sees the whole episode.

    Args:
        inner: the demonstrator.
        noise: probability in [0, 1] that an action is replaced by a random admissible action or a slip.
        slips: share in [0, 1] of these that are slips (see `slip`).
        typos: probability in [0, 1] that an action which is not listed as admissible gets a typo (see `typo`).
        parser_name: the parser whose form the agent reads.

    Attributes:
        mistakes: (episode, turn) of the mistakes made so far.
    """

    def __init__(
        self,
        inner: ActionSampler,
        *,
        noise: float = 0.0,
        slips: float = 0.5,
        typos: float = 0.0,
        parser_name: str = "bare",
    ) -> None:
        super().__init__(inner)
        self._player, self._noise, self._slips, self._typos = inner, noise, slips, typos
        self._parser = look_up(PARSERS, parser_name)
        self._earlier: dict[str, dict[str, None]] = {}
        self._seen: dict[str, list[str]] = {}
        self.mistakes: set[tuple[str, int]] = set()
        self._turns: dict[str, list[int]] = {}  # the same by episode, until they are asked for

    async def sample(self, request: Request) -> Completion:
        """Return the inner sampler's answer, or a mistake; the draw depends on episode and turn alone."""
        completion = await self._player.sample(request)
        if self._player.guessed(request):
            self._note(request)  # it had no plan, so this is not worth imitating
        action = self._mistake(request, completion.text)
        if action is None:
            return completion
        self._player.replan(request.episode)  # from where the mistake leads
        self._note(request)
        return replace(completion, text=self._parser_of(request).write(action))

    def _note(self, request: Request) -> None:
        self.mistakes.add((request.episode, request.turn))
        self._turns.setdefault(request.episode, []).append(request.turn)

    def _parser_of(self, request: Request) -> Parser:
        return look_up(PARSERS, request.parser) if request.parser else self._parser

    def _mistake(self, request: Request, answer: str) -> str | None:
        """Return the mistake that replaces the given answer; None for no mistake."""
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
        action = self._parser_of(request).read(answer).action
        if action is None or action in admissible or dice.random() >= self._typos:
            return None
        return typo(action, seen, dice)

    def notes(self) -> set[tuple[str, int]]:
        """Return the mistakes, for the process that this one was forked from."""
        return self.mistakes

    def notes_of(self, episode: str) -> set[tuple[str, int]]:
        """Return the mistakes of an episode that is over."""
        return {(episode, turn) for turn in self._turns.pop(episode, ())}

    def add_notes(self, notes: set[tuple[str, int]]) -> None:
        """Add the mistakes of a copy."""
        self.mistakes |= notes

    def forget(self, episode: str) -> None:
        """Drop what is kept for an episode."""
        self._earlier.pop(episode, None)
        self._seen.pop(episode, None)
        super().forget(episode)


def slip(admissible: Sequence[str], earlier: Sequence[str], dice: random.Random) -> str:
    """Return a mistake typical of a learner: an action of an earlier turn, or the start of one with the end of another.

    Args:
        admissible: the actions that are possible now; at least one.
        earlier: the actions that were possible at any turn of the episode so far.
        dice: random generator.

    Returns:
        An inadmissible action; an admissible one only if ten draws find no other.
    """
    possible = set(admissible)
    past = [action for action in earlier if action not in possible]
    action = ""
    for _ in range(10):
        if past and dice.random() < 0.5:
            return dice.choice(past)
        head, tail = (dice.choice(earlier).split() for _ in range(2))
        action = " ".join([*head[: dice.randint(0, len(head))], *tail[dice.randint(0, len(tail)) :]])
        if action not in possible:
            return action
    return dice.choice(past) if past else action


def typo(action: str, seen: Iterable[str], dice: random.Random) -> str | None:
    """Return an action in which one number, word or sign is replaced by another of its kind.

    Args:
        action: the intended action; its first piece, the kind of action, is kept.
        seen: texts from which replacements are taken, in addition to the action itself.
        dice: random generator.

    Returns:
        Another action; None if there is no replacement.

    >>> typo("replace 3: return a", ["3 return a"], random.Random(1))
    'replace 3: a a'
    """
    candidates: dict[str, dict[str, None]] = {"number": {}, "word": {}, "sign": {}, "space": {}}
    for text in (*seen, action):
        for match in _PIECE.finditer(text):
            candidates[str(match.lastgroup)][match.group()] = None
    pieces = [(str(match.lastgroup), match.group()) for match in _PIECE.finditer(action)]
    places = [at for at, (kind, _) in enumerate(pieces) if at and kind != "space" and len(candidates[kind]) > 1]
    if not places:
        return None
    at = dice.choice(places)
    kind, old = pieces[at]
    new = dice.choice([piece for piece in candidates[kind] if piece != old])
    return "".join(new if here == at else piece for here, (_, piece) in enumerate(pieces))
