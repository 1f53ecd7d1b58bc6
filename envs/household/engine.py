"""A game in play: a mutable world with the original engine's texts and admissible commands.

Changing facts are stored in groups (all facts of a predicate that share some arguments), as conditions look them up.
Commands, texts and the goal are computed from the PDDL domain and the grammar when they are first needed, and cached by
the facts that they depend on (see dependency_cache.py), in tables shared by all worlds of a game. So the engine is fast
without any knowledge of households.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

from turncredit.envs.household.dependency_cache import DependencyCache, Missing, Slot
from turncredit.envs.household.game import Game
from turncredit.envs.household.game_rules import ActionRule, PreconditionCase, changes_nothing
from turncredit.envs.household.game_tables import (
    KEPT_ANSWERS,
    AdmissibleActions,
    GroundAction,
    Offer,
    game_tables,
    keys_of,
)
from turncredit.envs.household.grammar import Insert, Symbol
from turncredit.envs.household.joins import Row

__all__ = ["NOTHING_HAPPENS", "GroundAction", "World"]

NOTHING_HAPPENS = "Nothing happens."
T = TypeVar("T")


class World:
    """The mutable state of a game. Cloning takes microseconds, so that planners can search on copies.

    Args:
        game: the game, which starts from its initial state.

    Example: ``world = World(game); text = world.reset(); text = world.step("go to cabinet 1"); world.won``
    """

    __slots__ = ("_facts", "_groups", "_key", "_menu", "_tables", "_trace", "_version", "_won", "game")

    def __init__(self, game: Game) -> None:
        self.game = game
        self._tables = game_tables(game)
        self._restart()

    def _restart(self) -> None:
        tables = self._tables
        self._facts = {name: set(self.game.init.get(name, ())) for name in tables.live}
        self._groups = dict(tables.start())
        self._version = tables.rules.version
        self._key = int(self.game.digest, 16)
        self._menu: AdmissibleActions | None = None
        self._won: bool | None = None
        self._trace: dict[Slot, tuple[Row, ...]] | None = None

    def reset(self) -> str:
        """Return to the initial state, and return the intro text."""
        self._restart()
        return self._remembered_text(self._tables.intro, (Insert("intro", None, None),), {})

    def step(self, command: str) -> str:
        """Apply a command and return the feedback: "Nothing happens." if the command is not admissible."""
        action = self.actions().get(command.strip())
        if action is None:
            return NOTHING_HAPPENS
        self._do(action)
        return self._feedback(action)

    def apply(self, command: str) -> bool:
        """Apply a command without computing the feedback; return whether it was admissible."""
        action = self.actions().get(command.strip())
        if action is None:
            return False
        self._do(action)
        return True

    def admissible(self) -> tuple[str, ...]:
        """Return all admissible commands, sorted."""
        return self._now().commands

    def actions(self) -> Mapping[str, GroundAction]:
        """Return the admissible commands and their ground actions."""
        return self._now().actions

    @property
    def won(self) -> bool:
        """Whether the goal holds."""
        if self._won is None:
            tables = self._tables
            self._refresh()
            answer = tables.wins.find(self._groups)
            if isinstance(answer, bool):
                self._won = answer
            else:
                self._trace = {}
                self._won = tables.goal(self, tables.everything)
                self._keep(tables.wins, self._won)
        return self._won

    def state_key(self) -> str:
        """Return 32 hex digits, equal exactly when all future behaviour is equal; the same in every process."""
        return f"{self._key:032x}"

    def clone(self) -> World:
        """Return an independent copy in the same state."""
        other = World.__new__(World)
        other.game = self.game
        other._tables = self._tables
        other._facts = {name: set(rows) for name, rows in self._facts.items()}
        other._groups = dict(self._groups)
        other._version = self._version
        other._key = self._key
        other._menu = self._menu
        other._won = self._won
        other._trace = None
        return other

    def changes(self) -> list[tuple[str, Row, bool]]:
        """Return the facts that differ from the initial state: (predicate, arguments, is true now), sorted."""
        start = self.game.init
        differ = {name: rows ^ start.get(name, frozenset()) for name, rows in self._facts.items()}
        return sorted((name, row, row in self._facts[name]) for name, rows in differ.items() for row in rows)

    def change(self, predicate: str, arguments: Row, true: bool) -> None:
        """Set a fact. Applying all `changes` of a world to a new one gives the same state.

        Raises:
            ValueError: there is no such changing fact.
        """
        widths = self.game.domain.predicates
        width = widths.get(predicate, widths.get(predicate.removeprefix("not_")))  # some predicates have a negated twin
        if predicate not in self._facts or len(arguments) != width:
            raise ValueError(f"there is no changing predicate {predicate!r} with {len(arguments)} arguments")
        if not all(0 <= number < len(self.game.objects) for number in arguments):
            raise ValueError(f"arguments {arguments} of {predicate!r} must be objects of the game")
        self._refresh()
        self._set(predicate, arguments, true)

    def facts(self, predicate: str) -> frozenset[tuple[int, ...]]:
        """Return the argument tuples (object numbers) for which a predicate (lower case) is true now.

        Changing predicates that never make a difference to the player, such as `checked`, keep their initial facts.
        """
        rows = self._facts.get(predicate)
        return frozenset(rows) if rows is not None else self.game.init.get(predicate, frozenset())

    # Interface joins.FactView

    def match(self, predicate: str, mask: int, key: Row) -> tuple[Row, ...]:
        """Return the true facts whose arguments at the positions of `mask` equal `key`, sorted."""
        tables = self._tables
        if predicate not in tables.dynamic:
            return tables.match(predicate, mask, key)
        slot = (predicate, mask, key)
        facts = self._groups.get(slot)
        if facts is None:
            if mask not in tables.rules.masks.get(predicate, ()):
                tables.rules.watch(predicate, mask)
                self._refresh()
            facts = self._groups.get(slot, ())
        if self._trace is not None:
            self._trace[slot] = facts
        return facts

    def members(self, types: tuple[str, ...]) -> frozenset[int]:
        """Return the objects of any of the types."""
        return self._tables.members(types)

    # Inside

    def __reduce__(self) -> tuple[object, ...]:
        return _restored, (self.game, self._facts, self._key)

    def _refresh(self) -> None:
        """Rebuild the groups if new kinds of lookups have been added."""
        if self._version != self._tables.rules.version:
            self._groups = self._tables.grouped(self._facts)
            self._version = self._tables.rules.version

    def _keep(self, memo: DependencyCache[T], answer: T) -> None:
        """Stop recording lookups, and cache the result under them."""
        trace, self._trace = self._trace, None
        tables = self._tables
        tables.cached_answers += 1
        if tables.cached_answers > KEPT_ANSWERS:
            tables.forget()
        else:
            memo.keep(trace or {}, answer)

    def _now(self) -> AdmissibleActions:
        menu = self._menu
        if menu is None:
            self._refresh()
            tables, groups = self._tables, self._groups
            offers: list[Offer] = []
            for index, memo in enumerate(tables.offers):
                offer = memo.find(groups)
                offers.append(self._offer(index) if isinstance(offer, Missing) else offer)
            serial = tuple(map(id, offers))
            menu = tables.menus.get(serial)
            if menu is None:
                actions: Offer = {}
                for offer in reversed(offers):  # of equal commands the first one wins
                    actions.update(offer)
                menu = AdmissibleActions(tuple(sorted(actions)), actions)
                tables.menus[serial] = menu
            self._menu = menu
        return menu

    def _offer(self, index: int) -> Offer:
        """Compute the possible actions of one case of an action's precondition."""
        tables = self._tables
        rule, way = tables.ways[index]
        memo = tables.offers[index]
        same = tables.same
        self._trace = {}
        rows = way.plan.rows(self, tables.constants)
        matches = [tuple([row[column] for column in way.arguments]) for row in rows]
        # in reverse, so that the first of equal commands wins
        matches = sorted(matches if way.unique else set(matches), reverse=True)
        offer = {action.command: action for row in matches if (action := self._ground(rule, way, row)) is not None}
        if rule.named_by is not None:
            offer = same.setdefault((index, tuple([action.arguments for action in offer.values()])), offer)
        self._keep(memo, offer)
        return offer

    def _ground(self, rule: ActionRule, way: PreconditionCase, arguments: Row) -> GroundAction | None:
        """Return the action of a schema with these arguments, or None if it changes nothing."""
        ground = self._tables.ground
        key = (rule.index, arguments)
        action = ground.get(key)
        if action is None or rule.named_by is None:
            if way.idle is not None and changes_nothing(way.idle, self._tables.constants + arguments):
                return None
            action = ground[key] = GroundAction(rule.name, arguments, self._command(rule, arguments), rule.index)
        return action

    def _command(self, rule: ActionRule, arguments: Row) -> str:
        if rule.named_by is None:
            return self._render(rule.command.template, rule, arguments)
        commands = self._tables.commands
        key = (rule.index, tuple([arguments[position] for position in rule.named_by]))
        text = commands.get(key)
        if text is None:
            text = commands[key] = self._render(rule.command.template, rule, arguments)
        return text

    def _render(self, symbols: Sequence[Symbol], rule: ActionRule, arguments: Row) -> str:
        mapping = dict(zip(rule.parameters, arguments, strict=True))
        return self._tables.renderer.text(self, symbols, mapping)

    def _feedback(self, action: GroundAction) -> str:
        texts = self._tables.texts
        key = (action.rule, action.arguments)
        rule = self._tables.rules.rules[action.rule]
        memo = texts.get(key)
        if memo is None:
            memo = texts[key] = DependencyCache()
        return self._remembered_text(
            memo, rule.command.feedback, dict(zip(rule.parameters, action.arguments, strict=True))
        )

    def _remembered_text(
        self, memo: DependencyCache[str], symbols: Sequence[Symbol], mapping: dict[tuple[str, str], int]
    ) -> str:
        self._refresh()
        text = memo.find(self._groups)
        if not isinstance(text, str):
            self._trace = {}
            text = self._tables.renderer.text(self, symbols, mapping)
            self._keep(memo, text)
        return text

    def _do(self, action: GroundAction) -> None:
        """Apply the effects. Their conditions see the facts before; a fact that is both removed and added is true."""
        self._refresh()
        row = self._tables.constants + action.arguments
        rule = self._tables.rules.rules[action.rule]
        removed: list[tuple[str, Row]] = []
        added: list[tuple[str, Row]] = []
        for change in rule.changes:
            fact = (change.predicate, tuple([row[column] for column in change.columns]))
            if change.positive:
                added.append(fact)
            else:
                removed.append(fact)
        for conditional in rule.conditionals:
            change = conditional.change
            for extended in conditional.plan.rows(self, row):
                fact = (change.predicate, tuple([extended[column] for column in change.columns]))
                if change.positive:
                    added.append(fact)
                elif conditional.always or fact[1] in self._facts.get(fact[0], ()):
                    removed.append(fact)
        for predicate, arguments in removed:
            if (predicate, arguments) not in added:
                self._set(predicate, arguments, False)
                self._set("not_" + predicate, arguments, True)
        for predicate, arguments in added:
            self._set(predicate, arguments, True)
            self._set("not_" + predicate, arguments, False)

    def _set(self, predicate: str, row: Row, true: bool) -> None:
        rows = self._facts.get(predicate)
        if rows is None or (row in rows) == true:
            return
        if true:
            rows.add(row)
        else:
            rows.discard(row)
        groups = self._groups
        for mask in self._tables.rules.masks.get(predicate, ()):
            slot = (predicate, mask, keys_of(mask)(row))
            before = groups.get(slot, ())
            after = tuple(sorted((*before, row))) if true else tuple([other for other in before if other != row])
            groups[slot] = after
        self._key ^= self._tables.hash(predicate, row)
        self._menu = None
        self._won = None


def _restored(game: Game, facts: dict[str, set[Row]], key: int) -> World:
    """Return an unpickled world."""
    world = World(game)
    world._facts = {name: set(rows) for name, rows in facts.items()}
    world._groups = world._tables.grouped(world._facts)
    world._key = key
    return world
