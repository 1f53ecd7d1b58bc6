"""WebShop as a Gymnasium environment: the original's files or our own catalogue, in the original's words.

Observation and action are texts. An episode ends at "Buy Now", with the reward of the purchase; the turn limit of 15 is
Gymnasium's (`max_episode_steps`), so the class itself never truncates.

Left out on purpose: the original's image features, and its action "start".

Source: WebShop (Yao et al. 2022, arXiv:2207.01206), its text environment.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Final

from turnwise.envs.errors import BadSnapshot, EnvError, NotReset, UnknownOption
from turnwise.envs.info import Demonstrator
from turnwise.envs.shop import pages
from turnwise.envs.shop.actions import FREE, admissible
from turnwise.envs.shop.arguments import digest_of, files_only, goal_of, ours_only, prices_of, reading, session_name
from turnwise.envs.shop.generator import ShopLevel
from turnwise.envs.shop.goal import Goal
from turnwise.envs.shop.goal_sources import (
    GOALS,
    FileGoalSource,
    FileSourceKey,
    GeneratedGoalSource,
    GeneratedSourceKey,
    GoalSource,
    MultiCatalogueGoalSource,
    located,
    stamps,
)
from turnwise.envs.shop.goals import SHUFFLE
from turnwise.envs.shop.scripted_shoppers import CarefulShopper, Shopper
from turnwise.envs.shop.session import Shop, ShopSession
from turnwise.envs.shop.session_snapshots import GIVEN, saved_session, session_of
from turnwise.envs.shop.tagger import Tagger
from turnwise.envs.snapshot import Fields
from turnwise.envs.spaces import LONGEST, Text
from turnwise.envs.text import SavableEnv
from turnwise.envs.validation import choice, flag, integer

__all__ = ["OBSERVATIONS", "PAYOFFS", "WebShopEnv"]

OBSERVATIONS: Final = ("text", "text_rich", "html", "url")
PAYOFFS: Final = ("score", "sparse")
_JACKPOT: Final = 10.0  # reward of a full score with payoff="sparse", as in verl-agent


class WebShopEnv(SavableEnv):
    """Buy in a web shop what a sentence asks for.

    An action is "search[words]" or "click[text]"; what is not possible changes nothing. A purchase ends the episode,
    and is what is paid. A snapshot goes on where shop, goals, observation and reward are the same.

    Options of reset() are {"task": id}, or in its place a goal given whole: {"goal": Goal or mapping with the
    original's keys}. Either may come with "prices" (dollars by id that hold in this episode) and "session" (the name in
    addresses; else the id, or of a goal given whole the number that it has, or a digest).

    Args:
        products: path of the original's products; None for our own catalogue.
        attributes: path of the products' attributes and sentences (files only).
        human: path of what people wrote (files only).
        observation: "text" or "text_rich" (see `pages`), "html" (the page of our site) or "url".
        split: "train", "eval" or "test" for files; "train" or "held_out" for our own catalogue.
        splits: the rule that divides the goals of files: "original", "verl-agent", "ragen" or "all" (see `splits`).
        goals: "human", "synthetic", or "auto": those of people where there are more than 1,500 (files only).
        num_products: only so many records of the file (files only).
        strict: stop at a record that is broken; else leave it out and count it.
        reward: "original", or "fixed" (see `reward`).
        payoff: what a purchase pays: "score" (the reward itself) or "sparse" (10 for a full score, else 0).
        tagger: see `tagger`; where rewards must not depend on what is installed, name one.
        num_prev_obs, num_prev_actions: how many earlier observations and actions stand before each observation.
        catalogue_seed: seed of the prices and price bounds of files; which of our own catalogues.
        catalogues: so many of our own, from that one on; their goals come by turns.
        level: size and difficulty of our own catalogue: a preset of `ShopLevel`, its text, or a level.
        show_attributes: show the attributes of products on a sub-page, as the original can.
        cache: see `Catalogue.open`.
        keep, limit: see `goals.make_goals` (files only); the original's filter_goals and limit_goals.
        render_mode: None or "ansi".

    Raises:
        EnvError: a file is missing or broken, or a value is not one of the choices.
    """

    SNAPSHOT_FORMAT = ("WebShop", 1)
    RESET_OPTIONS = ("task", "goal", "prices", "session")
    EXAMPLE_ACTION = "click[buy now]"
    demonstrators: ClassVar[Mapping[str, Callable[[], Demonstrator]]] = {"shopper": Shopper, "careful": CarefulShopper}

    def __init__(
        self,
        products: str | os.PathLike[str] | None = None,
        attributes: str | os.PathLike[str] | None = None,
        human: str | os.PathLike[str] | None = None,
        *,
        observation: str = "text",
        split: str = "train",
        splits: str = "original",
        goals: str = "auto",
        num_products: int | None = None,
        strict: bool = True,
        reward: str = "original",
        payoff: str = "score",
        tagger: str | Tagger = "auto",
        num_prev_obs: int = 0,
        num_prev_actions: int = 0,
        catalogue_seed: int = 0,
        catalogues: int = 1,
        level: str | ShopLevel = "small",
        show_attributes: bool = False,
        cache: str | os.PathLike[str] | bool = True,
        keep: Callable[[int, Goal], bool] | None = None,
        limit: int | None = None,
        render_mode: str | None = None,
    ) -> None:
        super().__init__(render_mode)
        self._observation = choice("observation", observation, OBSERVATIONS)
        self._page = _PAGES[observation]
        self._sparse = choice("payoff", payoff, PAYOFFS) == "sparse"
        choice("goals", goals, GOALS)
        flag("strict", strict)
        flag("show_attributes", show_attributes)
        self._before = integer("num_prev_obs", num_prev_obs), integer("num_prev_actions", num_prev_actions)
        seed = integer("catalogue_seed", catalogue_seed)
        if products is None:
            files_only(
                {
                    "attributes": (attributes, None),
                    "human": (human, None),
                    "num_products": (num_products, None),
                    "keep": (keep, None),
                    "limit": (limit, None),
                    "splits": (splits, "original"),
                    "goals": (goals, "auto"),
                    "strict": (strict, True),
                }
            )
            key = GeneratedSourceKey(ShopLevel.of(level), seed, reward, tagger, show_attributes)
            many = integer("catalogues", catalogues, 1)
            self._source: GoalSource = (
                GeneratedGoalSource(key, split) if many == 1 else MultiCatalogueGoalSource(key, split, many)
            )
        else:
            ours_only({"catalogues": (catalogues, 1), "level": (level, "small")})
            reading(cache, keep, limit)
            paths = located(products, attributes, human)
            self._source = FileGoalSource(
                FileSourceKey(
                    paths=paths,
                    stamps=stamps(*paths),
                    num_products=num_products,
                    strict=strict,
                    cache=cache if isinstance(cache, bool) else os.fspath(cache),
                    goals=goals,
                    seed=seed,
                    rule=reward,
                    tagger=tagger,
                    sub_page=show_attributes,
                    keep=keep,
                    limit=limit,
                    shuffle=seed if splits == "verl-agent" else SHUFFLE,
                ),
                split,
                splits,
            )
        # Addresses repeat the query, which small letters can lengthen; what went before stands in front.
        self.observation_space = Text(4 * LONGEST * (1 + num_prev_obs + num_prev_actions))
        self._session: ShopSession | None = None
        self._seen: list[str] = []
        self._done: list[str] = []

    @property
    def shop(self) -> Shop:
        """The shop that is played in (before a reset, the first): `catalogue`, `prices`, `judge`, `search()`."""
        return self._source.shop if self._session is None else self._session.shop

    @property
    def source(self) -> GoalSource:
        """Where the goals of the split come from."""
        return self._source

    @property
    def session(self) -> ShopSession:
        """The session that is played.

        Raises:
            NotReset: before the first reset.
        """
        if self._session is None:
            raise NotReset
        return self._session

    def plan(self) -> list[str]:
        """Return actions from the present state to the purchase of what the goal was made of; [] when it is won.

        Raises:
            NotReset: before the first reset.
            EnvError: something else was bought, or there is no way.
        """
        from turnwise.envs.shop.expert import plan

        session = self.session
        if session.done:
            if self._won():
                return []
            raise EnvError("something was bought and the episode is over: no way leads from here to a full score")
        return plan(session)

    def list_tasks(self, count: int | None) -> list[str]:
        return self._source.ids(count)

    def draw_task(self) -> str:
        return self._source.draw(self.np_random)

    def choose_task(self, options: Mapping[str, Any]) -> str:
        """Return the id of a goal of the split, or a name for one that is given whole."""
        if options.get("goal") is None:
            return super().choose_task(options)
        if options.get("task") is not None:
            raise UnknownOption("options hold a task and a goal; one of them says what to buy")
        return f"{GIVEN}{digest_of(goal_of(options['goal'], self._source))}"

    def start_task(self, task: str, options: Mapping[str, Any]) -> str:
        name = options.get("session")
        if options.get("goal") is None:
            goal, usual = self._source.get(task), task.replace("/", "-")
        else:
            goal = goal_of(options["goal"], self._source)
            usual = self._source.find(goal) or digest_of(goal)
        shop = self._source.shop_of(task)
        prices = prices_of(options.get("prices"), shop)
        self._session = ShopSession(shop, goal, usual if name is None else session_name(name), prices=prices)
        observation = self._page(self._session)
        self._seen, self._done = [observation], []
        return observation

    def take_action(self, action: str) -> tuple[str, float, bool]:
        session = self.session
        valid = session.act(action)
        observation = self._page(session)
        if any(self._before):
            observation = self._remembered(action, observation)
        return observation, self._payoff(), valid

    def is_over(self) -> bool:
        return self.session.done

    def snapshot_arguments(self) -> dict[str, Any]:
        shop = self._source.shop
        return {
            **self._source.made(),
            "reward": shop.reward_function.rule,
            "tagger": shop.reward_function.tagger_name,
            "show_attributes": shop.attributes,
            "observation": self._observation,
            "payoff": "sparse" if self._sparse else "score",
            "num_prev_obs": self._before[0],
            "num_prev_actions": self._before[1],
        }

    def save_episode(self) -> dict[str, Any]:
        return {
            "session": saved_session(self.session),
            "page": self._page(self.session),
            "seen": self._seen,
            "done": self._done,
        }

    def load_episode(self, task: str, saved: Fields) -> None:
        session = session_of(saved.part("session"), self._source, task)
        if self._page(session) != saved.get("page", str):
            raise BadSnapshot(
                "the page that the snapshot shows reads otherwise in this shop: its products are not the same"
            )
        seen, done = saved.texts("seen"), saved.texts("done")
        self._session, self._seen, self._done = session, seen, done

    def _remembered(self, action: str, observation: str) -> str:
        """Return an observation with what went before it, the oldest first, as the original joins them."""
        observations, actions = self._before
        # What cannot be written, or is too long to be an action, would be neither in an observation.
        self._done.append(action[:LONGEST].encode(errors="replace").decode())
        parts = [observation]
        for back in range(1, 1 + max(observations, actions)):
            if back <= min(actions, len(self._done)):
                parts.append(self._done[-back])
            if back <= min(observations, len(self._seen)):
                parts.append(self._seen[-back])
        self._seen.append(observation)
        del self._done[: -actions or None], self._seen[: -observations or None]
        return pages.SEPARATOR.join(reversed(parts))

    def _won(self) -> bool:
        return self.session.reward is not None and self.session.reward.total == 1.0

    def _payoff(self) -> float:
        reward = self.session.reward
        if reward is None:
            return 0.0
        return _JACKPOT * self._won() if self._sparse else reward.total

    def get_info(self, valid: bool) -> dict[str, Any]:
        session = self.session
        reward = session.reward
        info: dict[str, Any] = {
            "task": self.task_id,
            "state": self._state(),
            "admissible_actions": admissible(session),
            "free_actions": [] if reward else [FREE],
            "valid": valid,
            "score": reward.total if reward else 0.0,
            "won": self._won(),
            "task_type": session.goal.category,
        }
        if reward is not None:
            info["reward_parts"] = reward.as_dict()
        return info

    def _state(self) -> str:
        """Return the state key: where the customer is, and beyond that only what later observations show.

        Which products were visited decides nothing in the shop, but `text_rich` marks links to them; and only
        addresses, which `url` and `html` show, tell in which order options were chosen.
        """
        session = self.session
        key = session.state_key()
        if self._observation in ("text_rich", "html") and session.visited:
            key += f" visited={sorted(session.visited)}"
        if self._observation in ("url", "html") and len(session.page.options) > 1:
            key += f" order={[name for name, _ in session.page.options]}"
        return key


def _html(session: ShopSession) -> str:
    """Return the page of our site."""
    try:
        from turnwise.envs.shop.site.render import html

        return html(session)
    except ImportError as missing:
        raise EnvError(f"observation='html': {missing}") from missing


_PAGES: Final[dict[str, Callable[[ShopSession], str]]] = {
    "text": pages.text,
    "text_rich": pages.rich,
    "html": _html,
    "url": ShopSession.url,
}
