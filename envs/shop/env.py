"""WebShop as a Gymnasium environment: the original's files or our own catalogue, in the original's words.

Observation and action are texts. An episode ends at "Buy Now", with the reward of the purchase; the turn limit of 15 is
Gymnasium's (`max_episode_steps`), so the class itself never truncates.

Left out on purpose: the original's image features, and its action "start".

Source: WebShop (Yao et al. 2022, arXiv:2207.01206), its text environment.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from hashlib import blake2b
from typing import Any, ClassVar, Final

import gymnasium

from turnwise.envs.errors import BadSnapshot, EnvError, NotReset, StepAfterEnd, UnknownOption
from turnwise.envs.info import Demonstrator
from turnwise.envs.shop import pages
from turnwise.envs.shop.generator import Level
from turnwise.envs.shop.given import choice, files_only, level_of, ours_only, prices_of, reading, session_name, whole
from turnwise.envs.shop.goal import Goal
from turnwise.envs.shop.goals import SHUFFLE
from turnwise.envs.shop.product import Product
from turnwise.envs.shop.saved import saved_session, session_of
from turnwise.envs.shop.session import Session, Shop, item_targets, parse
from turnwise.envs.shop.shopper import Careful, Shopper
from turnwise.envs.shop.sources import GOALS, Files, FilesKey, Generated, GeneratedKey, Several, Source, located, stamps
from turnwise.envs.shop.tagger import Tagger
from turnwise.envs.snapshot import pack, random_from, random_state, unpack
from turnwise.envs.spaces import LONGEST, Text

__all__ = ["OBSERVATIONS", "PAYOFFS", "WebShopEnv"]

OBSERVATIONS: Final = ("text", "text_rich", "html", "url")
PAYOFFS: Final = ("score", "sparse")
_JACKPOT: Final = 10.0  # reward of a full score with payoff="sparse", as in verl-agent
_FREE: Final = "search[...]"
_SAVED: Final = ("WebShop", 1)  # what snapshots are called, and the version of what is in them
_OPTIONS: Final = ("task", "goal", "prices", "session")
_BOUND: Final = re.compile(r",(?: and)? price [^,]* dollars\s*$")


class WebShopEnv(gymnasium.Env[str, str]):
    """Buy in a web shop what a sentence asks for.

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
        level: size and difficulty of our own catalogue: a preset of `Level`, its text, or a level.
        show_attributes: show the attributes of products on a sub-page, as the original can.
        cache: see `Catalogue.open`.
        keep, limit: see `goals.make_goals` (files only); the original's filter_goals and limit_goals.
        render_mode: None or "ansi".

    Raises:
        EnvError: a file is missing or broken, or a value is not one of the choices.
    """

    metadata: dict[str, Any] = {"render_modes": ["ansi"]}  # noqa: RUF012 (Gymnasium's attribute)
    demonstrators: ClassVar[Mapping[str, Callable[[], Demonstrator]]] = {"shopper": Shopper, "careful": Careful}

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
        level: str | Level = "small",
        show_attributes: bool = False,
        cache: str | os.PathLike[str] | bool = True,
        keep: Callable[[int, Goal], bool] | None = None,
        limit: int | None = None,
        render_mode: str | None = None,
    ) -> None:
        choice("observation", observation, OBSERVATIONS)
        choice("payoff", payoff, PAYOFFS)
        choice("goals", goals, GOALS)
        if render_mode is not None:
            choice("render_mode", render_mode, self.metadata["render_modes"])
        for name, flag in (("strict", strict), ("show_attributes", show_attributes)):
            if not isinstance(flag, bool):
                raise UnknownOption(f"{name} is {flag!r}; it is True or False")
        for name, count in (("num_prev_obs", num_prev_obs), ("num_prev_actions", num_prev_actions)):
            whole(name, count)
        seed = whole("catalogue_seed", catalogue_seed)
        self._page = _PAGES[observation]
        self._observation = observation
        self._sparse = payoff == "sparse"
        self._before = num_prev_obs, num_prev_actions
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
            key = GeneratedKey(level_of(level), seed, reward, tagger, show_attributes)
            many = whole("catalogues", catalogues, 1)
            self._source: Source = Generated(key, split) if many == 1 else Several(key, split, many)
        else:
            ours_only({"catalogues": (catalogues, 1), "level": (level, "small")})
            reading(cache, keep, limit)
            paths = located(products, attributes, human)
            self._source = Files(
                FilesKey(
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
        self.action_space = Text()
        self.render_mode = render_mode
        self._task = ""
        self._session: Session | None = None
        self._seen: list[str] = []
        self._done: list[str] = []
        self._shown: tuple[str, str] = ("", "")

    @property
    def shop(self) -> Shop:
        """The shop that is played in (before a reset, the first): `catalogue`, `prices`, `judge`, `search()`."""
        return self._source.shop if self._session is None else self._session.shop

    @property
    def source(self) -> Source:
        """Where the goals of the split come from."""
        return self._source

    @property
    def session(self) -> Session:
        """The session that is played.

        Raises:
            NotReset: before the first reset.
        """
        if self._session is None:
            raise NotReset
        return self._session

    def task_ids(self, count: int | None = None) -> list[str]:
        """Return the ids of the goals of the split, in a fixed order.

        Args:
            count: how many, from the first on; None: all, or of our own catalogue the first 1,000.
        """
        if count is not None and count < 0:
            raise UnknownOption(f"count is {count}; it must be 0 or more")
        return self._source.ids(count)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """Start an episode.

        Args:
            seed: seeds the choice of the goal where none is asked for.
            options: {"task": id} to play that goal. Or a goal given whole: {"goal": Goal or mapping with the original's
                keys}. Either may come with "prices" (dollars by id that hold in this episode) and "session" (the name
                in addresses; else the id, or of a goal given whole the number that it has, or a digest).

        Returns:
            The first observation, and `info` (see `turnwise.envs.info`).

        Raises:
            UnknownTask: the split has no such goal.
            UnknownOption: options hold anything else.
        """
        super().reset(seed=seed)
        if options is not None and not isinstance(options, Mapping):
            raise UnknownOption(f"options of reset() are a mapping, such as {{'task': id}}; got {options!r}")
        given = dict(options or {})
        for key in given:
            choice("reset option", str(key), _OPTIONS)
        if given.get("goal") is not None:
            task, goal, name = self._given(given)
        else:
            task, goal, name = self._known(given.get("task"), given.get("session"))
        shop = self._source.shop_of(task)
        self._session = Session(shop, goal, name, prices=prices_of(given.get("prices"), shop))
        self._task = task
        observation = self._page(self._session)
        self._seen, self._done = [observation], []
        self._shown = ("", observation)
        return observation, self._info(valid=True)

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Do one action, "search[words]" or "click[text]"; what is not possible changes nothing.

        Returns:
            observation, reward (of the purchase; 0 before it), terminated (something was bought), truncated (always
            False), info.

        Raises:
            NotReset: before the first reset.
            StepAfterEnd: the episode has ended.
        """
        session = self.session
        if session.done:
            raise StepAfterEnd
        if not isinstance(action, str):
            raise UnknownOption(f"an action is a str such as 'click[buy now]'; got {type(action).__name__}")
        valid = session.act(action)
        observation = self._page(session)
        if any(self._before):
            observation = self._remembered(action, observation)
        self._shown = (action, observation)
        return observation, self._payoff(), session.done, False, self._info(valid=valid)

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

    def snapshot(self) -> bytes:
        """Return the episode at this moment, for `restore` (see `turnwise.envs.info.HasSnapshot`).

        Raises:
            NotReset: before the first reset.
        """
        episode = {
            "task": self._task,
            "session": saved_session(self.session),
            "page": self._page(self.session),
            "seen": self._seen,
            "done": self._done,
            "shown": list(self._shown),
            "random": random_state(self),
        }
        return pack(*_SAVED, self._made(), episode)

    def restore(self, data: bytes, /) -> tuple[str, dict[str, Any]]:
        """Go on from a snapshot of an environment with the same shop, goals, observation and reward.

        Returns:
            Observation and `info` of that moment; `valid` is True.

        Raises:
            BadSnapshot: the bytes are none, or torn, or of something else, a shop with other goods or prices, say; the
                present episode goes on.
        """
        saved = unpack(data, *_SAVED, self._made())
        task = saved.get("task", str)
        session = session_of(saved.part("session"), self._source, task)
        if self._page(session) != saved.get("page", str):
            raise BadSnapshot(
                "the page that the snapshot shows reads otherwise in this shop: its products are not the same"
            )
        seen, done, shown = saved.texts("seen"), saved.texts("done"), saved.pair("shown")
        self._np_random, self._np_random_seed = random_from(saved)
        self._task, self._session, self._seen, self._done, self._shown = task, session, seen, done, shown
        return self._shown[1], self._info(valid=True)

    def _made(self) -> dict[str, Any]:
        """Return what has to be the same where a snapshot is restored."""
        shop = self._source.shop
        judge = shop.judge
        return {
            **self._source.made(),
            "reward": judge.rule,
            "tagger": judge.tagger_name,
            "show_attributes": shop.attributes,
            "observation": self._observation,
            "payoff": "sparse" if self._sparse else "score",
            "num_prev_obs": self._before[0],
            "num_prev_actions": self._before[1],
        }

    def render(self) -> str | None:
        """Return the last action and its answer as the player saw them, for render_mode "ansi"; else None."""
        if self.render_mode != "ansi":
            return None
        action, observation = self._shown
        return f"> {action}\n{observation}\n" if action else f"{observation}\n"

    def _known(self, task: object, session: object) -> tuple[str, Goal, str]:
        """Return id, goal and session name of a goal of the split."""
        if task is None:
            task = self._source.draw(self.np_random)
        if not isinstance(task, str):
            raise UnknownOption(f"a task is named by its id, a str; got {task!r}")
        goal = self._source.get(task)
        return task, goal, task.replace("/", "-") if session is None else session_name(session)

    def _given(self, options: Mapping[str, Any]) -> tuple[str, Goal, str]:
        """Return id, goal and session name of a goal that is given whole."""
        if options.get("task") is not None:
            raise UnknownOption("options hold a task and a goal; one of them says what to buy")
        given = options["goal"]
        goal = given if isinstance(given, Goal) else Goal.of(given)
        if self._source.shop.catalogue.get(goal.asin) is None:
            several = ", the first of several" if getattr(self._source, "count", 1) > 1 else ""
            raise UnknownOption(f"the goal's product {goal.asin!r} is not in the catalogue{several}")
        digest = blake2b(repr(sorted(goal.as_dict().items())).encode(errors="surrogatepass"), digest_size=8).hexdigest()
        name = options.get("session")
        known = self._source.find(goal) or digest
        return f"goal:{digest}", goal, known if name is None else session_name(name)

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

    def _info(self, *, valid: bool) -> dict[str, Any]:
        session = self.session
        reward = session.reward
        info: dict[str, Any] = {
            "task": self._task,
            "state": self._state(),
            "admissible_actions": _admissible(session),
            "free_actions": [] if reward else [_FREE],
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


def _admissible(session: Session) -> list[str]:
    """Return an action for everything that can be clicked, and where the search bar is, one example of a search."""
    page = session.page
    if page.kind == "index":
        return [_example(session.goal.instruction)]
    if page.kind == "item":
        return list(session.shop.once(_clicks_of, page.asin, session.shop.attributes))
    return _clicks(session.clickables())


def _clicks_of(product: Product, attributes: bool) -> list[str]:
    return _clicks(item_targets(product, attributes))


def _clicks(texts: Iterable[str]) -> list[str]:
    """Return the clicks on texts that an action can name: not those with brackets or line breaks in the wrong place."""
    return [action for text in texts if parse(action := f"click[{text}]") == ("click", text) and text != "search"]


def _example(instruction: str) -> str:
    """Return the search for an instruction, without the price, which no product's text holds."""
    words = re.sub(r"[\[\]\s]+", " ", _BOUND.sub("", instruction)).strip().lower()
    return f"search[{words or 'anything'}]"


def _html(session: Session) -> str:
    """Return the page of our site."""
    try:
        from turnwise.envs.shop.site.render import html

        return html(session)
    except ImportError as missing:
        raise EnvError(f"observation='html': {missing}") from missing


_PAGES: Final[dict[str, Callable[[Session], str]]] = {
    "text": pages.text,
    "text_rich": pages.rich,
    "html": _html,
    "url": Session.url,
}
