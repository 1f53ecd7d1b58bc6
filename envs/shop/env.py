"""WebShop as a Gymnasium environment, over WebShop's files or a generated catalogue.

Observations and actions are texts. An episode ends with "Buy Now" and the reward of the purchase. The limit of 15 turns
is Gymnasium's (`max_episode_steps`); the class itself never truncates. Not included: WebShop's image features and its
action "start".

Source: WebShop (Yao et al. 2022, arXiv:2207.01206), its text environment.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import ClassVar, Final

from turncredit.envs.errors import BadSnapshot, EnvError, NotReset, UnknownOption
from turncredit.envs.info import Demonstrator, Info
from turncredit.envs.shop import pages
from turncredit.envs.shop.actions import FREE, admissible
from turncredit.envs.shop.arguments import digest_of, goal_of, prices_of, session_name
from turncredit.envs.shop.goal_sources import GoalSource
from turncredit.envs.shop.scripted_shoppers import CarefulShopper, Shopper
from turncredit.envs.shop.session import Shop, ShopSession
from turncredit.envs.shop.session_snapshots import GIVEN, saved_session, session_of
from turncredit.envs.shop.sources import SOURCES, GeneratedProducts, ProductFiles
from turncredit.envs.shop.tagger import Tagger
from turncredit.envs.snapshot import Fields
from turncredit.envs.spaces import LONGEST, Text
from turncredit.envs.text import SavableEnv
from turncredit.envs.validation import choice, flag, integer

__all__ = ["LINKS", "OBSERVATIONS", "PAYOFFS", "WebShopEnv", "from_keys"]

OBSERVATIONS: Final = ("text", "text_rich", "html", "url")
LINKS: Final = ("ids", "numbers")
PAYOFFS: Final = ("score", "sparse")
_AGENT: Final = {
    "prompt": {"name": "window", "history": 4},  # pages are long
    "template": {
        "base": "react",
        "system": "You buy in a web shop what an instruction asks for, with the options that it names. On the first "
        "page you search with search[words]; on the others you click on one thing of the page with click[text], for "
        "example click[b01] or click[buy now], which ends the episode. You get one page at a time and answer with one "
        "action at a time.\n\n",
        "example": "This is what one turn looks like:\n\nWebShop [SEP] Instruction: [SEP] Find me a blue mug, and "
        "price lower than 20.00 dollars [SEP] Search{ask}<think>I search for the thing and leave out the price.</think>"
        "<action>search[blue mug]</action>\n\nNow another task begins.\n\n",
    },
    "parser": "think-action",
}
"""How a model is asked."""
_SPARSE_REWARD: Final = 10.0  # of a full score with payoff="sparse", as in verl-agent


class WebShopEnv(SavableEnv):
    """Buy in a web shop what an instruction asks for.

    Actions are "search[words]" and "click[text]"; an invalid action changes nothing. A purchase ends the episode and
    gives the reward. A snapshot can be restored where shop, goals, observation and reward are the same.

    Options of reset() are {"task": id}, or a complete goal instead: {"goal": Goal or mapping with WebShop's keys}.
    Further options are "prices" (dollars by product id for this episode) and "session" (the name in addresses; by
    default the task id, or for a complete goal its number among the goals, or a digest).

    Args:
        source: products and goals: `GeneratedProducts(...)` or `ProductFiles(...)`; None for a generated catalogue. In
            run files, on the command line and for `gymnasium.make`, its fields are plain keys.
        paths: deprecated: write `ProductFiles(...)`.
        observation: "text" or "text_rich" (see `pages`), "html" (the page of `site`) or "url".
        links: what products on a page of results are shown as and clicked by: "ids", or "numbers" from 1 to 10, with
            which "click[3]" opens the third (observations text and text_rich only).
        reward: "original" or "fixed" (see `reward`).
        payoff: reward of a purchase: "score" (the score itself) or "sparse" (10 for a full score, else 0).
        tagger: see `tagger`; name one if rewards must not depend on what is installed.
        num_prev_obs, num_prev_actions: number of earlier observations and actions to prepend to each observation.
        show_attributes: whether products have a sub-page with their attributes.
        render_mode: None or "ansi".
        keys: deprecated: the fields of the source.

    Raises:
        EnvError: a file is missing or broken, or an argument is invalid.
    """

    metadata = {"render_modes": ["ansi"], "agent": _AGENT}  # noqa: RUF012 (Gymnasium's attribute)
    SNAPSHOT_FORMAT = ("WebShop", 1)
    RESET_OPTIONS = ("task", "goal", "prices", "session")
    EXAMPLE_ACTION = "click[buy now]"
    demonstrators: ClassVar[Mapping[str, Callable[[], Demonstrator]]] = {"shopper": Shopper, "careful": CarefulShopper}
    read_level = GeneratedProducts.read_level

    def __init__(
        self,
        source: GeneratedProducts | ProductFiles | None = None,
        *paths: object,
        observation: str = "text",
        links: str = "ids",
        reward: str = "original",
        payoff: str = "score",
        tagger: str | Tagger = "auto",
        num_prev_obs: int = 0,
        num_prev_actions: int = 0,
        show_attributes: bool = False,
        render_mode: str | None = None,
        **keys: object,
    ) -> None:
        super().__init__(render_mode)
        self._observation = choice("observation", observation, OBSERVATIONS)
        self._page = _PAGES[observation]
        self._numbered = choice("links", links, LINKS) == "numbers"
        if self._numbered and observation not in ("text", "text_rich"):
            raise UnknownOption(f"links='numbers' needs observation='text' or 'text_rich', got {observation!r}")
        self._sparse = choice("payoff", payoff, PAYOFFS) == "sparse"
        flag("show_attributes", show_attributes)
        self._before = integer("num_prev_obs", num_prev_obs), integer("num_prev_actions", num_prev_actions)
        opened = SOURCES.of_arguments(type(self), source, paths, keys)
        self._source: GoalSource = opened.open(reward, tagger, show_attributes)
        # addresses repeat the query, which lower case can lengthen; earlier texts are prepended
        self.observation_space = Text(4 * LONGEST * (1 + num_prev_obs + num_prev_actions))
        self._session: ShopSession | None = None
        self._seen: list[str] = []
        self._done: list[str] = []

    @property
    def shop(self) -> Shop:
        """The shop of the episode, or before the first reset the first shop."""
        return self._source.shop if self._session is None else self._session.shop

    @property
    def source(self) -> GoalSource:
        """The source of the goals."""
        return self._source

    @property
    def session(self) -> ShopSession:
        """The session of the episode.

        Raises:
            NotReset: before the first reset.
        """
        if self._session is None:
            raise NotReset
        return self._session

    def plan(self) -> list[str]:
        """Return the expert's actions from the current page to the best purchase; [] if the episode is won.

        Raises:
            NotReset: before the first reset.
            EnvError: something else has been bought, or no search finds a suitable product.
        """
        from turncredit.envs.shop.expert import plan

        session = self.session
        if session.done:
            if self._won():
                return []
            raise EnvError("something else has been bought and the episode is over, so there is no plan")
        return plan(session)

    def list_tasks(self, count: int | None) -> list[str]:
        return self._source.ids(count)

    def draw_task(self) -> str:
        return self._source.draw(self.np_random)

    def choose_task(self, options: Mapping[str, object]) -> str:
        """Return the id of a goal of the split, or a name for a complete goal."""
        if options.get("goal") is None:
            return super().choose_task(options)
        if options.get("task") is not None:
            raise UnknownOption("options contain both a task and a goal; give one of them")
        return f"{GIVEN}{digest_of(goal_of(options['goal'], self._source))}"

    def start_task(self, task: str, options: Mapping[str, object]) -> str:
        name = options.get("session")
        if options.get("goal") is None:
            goal, usual = self._source.get(task), task.replace("/", "-")
        else:
            goal = goal_of(options["goal"], self._source)
            usual = self._source.find(goal) or digest_of(goal)
        shop = self._source.shop_of(task)
        prices = prices_of(options.get("prices"), shop)
        named = usual if name is None else session_name(name)
        self._session = ShopSession(shop, goal, named, prices=prices, numbered=self._numbered)
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

    def snapshot_arguments(self) -> dict[str, object]:
        shop = self._source.shop
        return {
            **self._source.made(),
            "reward": shop.reward_function.rule,
            "tagger": shop.reward_function.tagger_name,
            "show_attributes": shop.attributes,
            "observation": self._observation,
            **({"links": "numbers"} if self._numbered else {}),  # older snapshots, with ids, do not say
            "payoff": "sparse" if self._sparse else "score",
            "num_prev_obs": self._before[0],
            "num_prev_actions": self._before[1],
        }

    def save_episode(self) -> dict[str, object]:
        return {
            "session": saved_session(self.session),
            "page": self._page(self.session),
            "seen": self._seen,
            "done": self._done,
        }

    def load_episode(self, task: str, saved: Fields) -> None:
        session = session_of(saved.part("session"), self._source, task, numbered=self._numbered)
        if self._page(session) != saved.get("page", str):
            raise BadSnapshot("the page of the snapshot differs in this shop: its products are not the same")
        seen, done = saved.texts("seen"), saved.texts("done")
        self._session, self._seen, self._done = session, seen, done

    def _remembered(self, action: str, observation: str) -> str:
        """Return an observation after earlier observations and actions, the oldest first, joined as by WebShop."""
        observations, actions = self._before
        # an observation contains neither lone surrogates nor more than the longest action
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
        return _SPARSE_REWARD * self._won() if self._sparse else reward.total

    def get_info(self, valid: bool) -> Info:
        session = self.session
        reward = session.reward
        info: Info = {
            "task": str(self.task_id),
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
        """Return the state key: the page, and of its history only what later observations show.

        Visited products are marked in `text_rich` and `html`; the order in which options were selected is visible in
        addresses, which `url` and `html` show.
        """
        session = self.session
        key = session.state_key()
        if self._observation in ("text_rich", "html") and session.visited:
            key += f" visited={sorted(session.visited)}"
        if self._observation in ("url", "html") and len(session.page.options) > 1:
            key += f" order={[name for name, _ in session.page.options]}"
        return key


def _html(session: ShopSession) -> str:
    """Return the page of the site."""
    try:
        from turncredit.envs.shop.site.render import html

        return html(session)
    except ImportError as missing:
        raise EnvError(f"observation='html': {missing}") from missing


_PAGES: Final[dict[str, Callable[[ShopSession], str]]] = {
    "text": pages.text,
    "text_rich": pages.rich,
    "html": _html,
    "url": ShopSession.url,
}
from_keys = SOURCES.constructor(WebShopEnv)
"""The constructor in Gymnasium's registry."""
