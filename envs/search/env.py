"""The search environment: answer questions by searching passages, in Search-R1's protocol.

In each turn the agent may think and then searches or answers; an answer ends the episode. Search-R1 allows four turns
with a search and a last one in which only an answer counts, so `max_episode_steps` is five by default. The class itself
never truncates. Lengths are in characters, about four per token. Masking the retrieved text in the loss is up to the
agent loop.

Source: Search-R1 (Jin et al. 2025, arXiv:2503.09516).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Final

from turncredit.envs.errors import EnvError, NotReset, UnknownOption
from turncredit.envs.info import EXTRAS, Demonstrator, Info
from turncredit.envs.search.protocol import (
    FORMS,
    ActionFormat,
    BracketFormat,
    SearchAction,
    TagFormat,
    asked,
    instructions_of,
)
from turncredit.envs.search.questions import Question
from turncredit.envs.search.reader_demonstrator import ReaderDemonstrator
from turncredit.envs.search.reward_rules import EpisodeRecord, make_rule
from turncredit.envs.search.rewards import contains
from turncredit.envs.search.search_engine import SearchEngine, SearchFailed
from turncredit.envs.search.snapshots import record_from_json, record_to_json, titles_of
from turncredit.envs.search.sources import SOURCES, GeneratedQuestions, QuestionFiles
from turncredit.envs.search.task_sources import SearchTask, SearchTaskSource
from turncredit.envs.snapshot import Fields
from turncredit.envs.text import SavableEnv
from turncredit.envs.validation import choice, integer
from turncredit.tools.retrieval import Passage

__all__ = ["LONGEST_QUERY", "SearchEnv", "from_keys"]

LONGEST_QUERY: Final = 1000
"""Maximum length of a query in characters; a longer one is invalid."""

_ON_FAILURE: Final = ("tell", "raise")
_TAGS: Final = ("first", "single")
_THOUGHT: Final = {"search": "<think>I have to look this up.</think> ", "answer": "<think>I know it.</think> "}
_EXAMPLES: Final = {
    "tags": "<think>I have to find out who wrote The Red Lamp.</think>\n<search> author of The Red Lamp </search>",
    "brackets": "search[author of The Red Lamp]",
}
_NO_QUESTION: Final = Question("", "", ())


def _agent(form: str = "tags", **_: object) -> dict[str, object]:
    """Return how a model is asked: the first observation says all of it, and the environment reads the thoughts."""
    example = (
        "This is what one turn looks like:\n\nQuestion: In which town was the author of The Red Lamp born?\n"
        f"{_EXAMPLES.get(form, '')}\n\nNow another question follows.\n\n"
    )
    stop = ["</search>", "</answer>"] if form == "tags" else ["\n"]
    return {
        "prompt": "conversation",
        "template": {"saw": "{observation}", "ask": "", "example": example},
        "parser": "with-thoughts",
        "without_chat_template": {"stop": stop, "example": True},
    }


class SearchEnv(SavableEnv):
    """Answer a question by searching passages.

    An action is the complete output of the model: a search or an answer in the environment's format, optionally after a
    thought. An answer ends the episode with an empty observation. An invalid action changes nothing. The first
    observation ends with the question. A snapshot can be restored where questions, passages, format and reward are
    equal; the retry options may differ. With on_failure="raise", step() raises SearchFailed.

    Every turn reports in `info["extras"]` which share of the question's `entities` its thoughts have named; its
    `coverage`, the share of the gold passages that have been read, so that a right answer without them is known to be
    a guess; and as `process` 1 if it read a gold passage for the first time, or answered when all were read, else 0.

    Args:
        source: questions, passages and retriever: `GeneratedQuestions(...)` or `QuestionFiles(...)`; None for generated
            questions. In run files, on the command line and for `gymnasium.make`, its fields are plain keys.
        paths: deprecated: write `QuestionFiles(...)`.
        topk: passages per search.
        form: action format: "tags", Search-R1's; or "brackets", the shorter `search[...]`, `answer[...]`.
        tags: "first": the first complete pair of tags counts; "single": more than one pair is invalid (verl-agent).
        instructions: True for default instructions before the question, False for none, or a text that contains
            {question}.
        reward: reward rule: "em", "subem", "f1", "format", "e-grpo", "otc", "caf" or "graphrag" (see `reward_rules`).
        reward_options: constants of the rule, such as {"structure": 0.2}.
        max_searches: searches per episode, after which only an answer is valid; None for no limit.
        observation_limit: maximum length of search results in characters; Search-R1's 500 tokens are about 2,000.
        on_failure: after the last failed attempt, "tell" reports the failure in the observation and "raise" raises
            SearchFailed.
        render_mode: None or "ansi".
        keys: deprecated: the fields of the source.

    Raises:
        EnvError: a file is missing or invalid, or an argument is invalid.
    """

    metadata = {"render_modes": ["ansi"], "agent": _agent}  # noqa: RUF012 (Gymnasium's attribute)
    SNAPSHOT_FORMAT = ("Search", 2)
    EXAMPLE_ACTION = "<search> red lamp </search>"
    demonstrators: ClassVar[Mapping[str, Callable[[], Demonstrator]]] = {"reader": ReaderDemonstrator}
    read_level = GeneratedQuestions.read_level

    def __init__(
        self,
        source: GeneratedQuestions | QuestionFiles | None = None,
        *paths: object,
        topk: int = 3,
        form: str = "tags",
        tags: str = "first",
        instructions: bool | str = True,
        reward: str = "em",
        reward_options: Mapping[str, object] | None = None,
        max_searches: int | None = None,
        observation_limit: int = 2000,
        on_failure: str = "tell",
        render_mode: str | None = None,
        **keys: object,
    ) -> None:
        super().__init__(render_mode)
        choice("form", form, FORMS)
        self._tags = choice("tags", tags, _TAGS)
        self._tell = choice("on_failure", on_failure, _ON_FAILURE) == "tell"
        self._format: ActionFormat = TagFormat(single=tags == "single") if form == "tags" else BracketFormat()
        self._paid_by = reward, dict(reward_options or {})
        self._rule = make_rule(*self._paid_by)
        if self._rule.thinks and form != "tags":
            raise UnknownOption(f"the reward {reward!r} requires form='tags', got {form!r}")
        self._instructions = instructions_of(instructions, form)
        self._topk = integer("topk", topk, 1)
        self._limit = integer("observation_limit", observation_limit, 1)
        self._budget = None if max_searches is None else integer("max_searches", max_searches)
        opened = SOURCES.of_arguments(type(self), source, paths, keys)
        self._patience = opened.retries, opened.backoff, opened.timeout
        self._source: SearchTaskSource = opened.open()
        self._task: SearchTask | None = None
        self._engine: SearchEngine | None = None
        self._record = EpisodeRecord(_NO_QUESTION)
        self._seen: dict[str, str] = {}  # passage id -> title
        self._process = 0.0

    def __getstate__(self) -> dict[str, object]:
        """Return the state without what can be derived from it: the reward rule and the search engine."""
        state = self.__dict__.copy()
        state["_task"] = None if self._task is None else self._task.question.id
        del state["_rule"], state["_engine"]
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore the state and derive the rest."""
        task = state.pop("_task")
        self.__dict__.update(state)
        self._rule = make_rule(*self._paid_by)
        self._task = None if task is None else self._source.get(task)
        self._engine = None if self._task is None else self._patient(self._task.find)

    @property
    def task(self) -> SearchTask:
        """The current task: its `question`, and `find(query, k)`.

        Raises:
            NotReset: reset() was not called.
        """
        if self._task is None:
            raise NotReset
        return self._task

    def plan(self) -> list[str]:
        """Return actions that lead from the current state to the right answer; [] if it was given.

        Raises:
            NotReset: reset() was not called.
            EnvError: the episode ended with a wrong answer.
        """
        from turncredit.envs.search.expert import plan_queries

        task, record = self.task, self._record
        if record.answer is not None:
            if self._rule.right(record):
                return []
            raise EnvError("no plan: the episode ended with a wrong answer")
        assert self._engine is not None
        queries = plan_queries(task, self._engine, self._topk, self._seen, self._left())
        return [
            *(self._write("search", query) for query in queries),
            self._write("answer", task.question.answers[0]),
        ]

    def list_tasks(self, count: int | None) -> list[str]:
        return self._source.ids(count)

    def draw_task(self) -> str:
        return self._source.draw(self.np_random)

    def start_task(self, task: str, options: Mapping[str, object]) -> str:
        self._task = self._source.get(task)
        self._engine = self._patient(self._task.find)
        observation = self._opening(self._task.question)
        self._record = EpisodeRecord(self._task.question, start=observation)
        self._seen = {}
        self._process = 0.0
        return observation

    def _opening(self, question: Question) -> str:
        return self._instructions.replace("{question}", asked(question.text))

    def take_action(self, action: str) -> tuple[str, float, bool]:
        record = self._record
        move = self._format.read(action)
        text = action if move is None else move.output
        covered = self._coverage()
        observation, reward, valid = self._move(move, text)
        forward = self._coverage() > covered if record.answer is None else covered == 1.0
        self._process = float(valid and forward)
        record.formed = record.formed and valid
        record.texts += [text, observation]
        if record.answer is not None:
            reward = self._rule.answer(record)
        return observation, reward, valid

    def is_over(self) -> bool:
        return self._record.answer is not None

    def _coverage(self) -> float:
        """Return the share of the question's gold passages that the agent has read; 1 for a question without any."""
        gold = set(self.task.question.gold)
        return len(gold & self._seen.keys()) / len(gold) if gold else 1.0

    def snapshot_arguments(self) -> dict[str, object]:
        reward, options = self._paid_by
        return {
            **self._source.made(),
            "form": self._format.name,
            "tags": self._tags,
            "instructions": self._instructions,
            "reward": reward,
            "reward_options": options,
            "topk": self._topk,
            "max_searches": self._budget,
            "observation_limit": self._limit,
        }

    def save_episode(self) -> dict[str, object]:
        return {"played": record_to_json(self._record), "seen": self._seen, "process": self._process}

    def load_episode(self, task: str, saved: Fields) -> None:
        loaded = self._source.get(task)
        record = record_from_json(saved.part("played"), loaded.question, self._opening(loaded.question))
        seen, engine = titles_of(saved, "seen"), self._patient(loaded.find)
        self._process = saved.get("process", float)
        self._task, self._engine, self._record, self._seen = loaded, engine, record, seen

    def _patient(self, find: Callable[[str, int], Sequence[Passage]]) -> SearchEngine:
        retries, backoff, timeout = self._patience
        return SearchEngine(find, retries=retries, backoff=backoff, timeout=timeout)

    def _move(self, move: SearchAction | None, text: str) -> tuple[str, float, bool]:
        """Return the observation of an action, the reward of a search, and whether the action was valid."""
        if move is None:
            self._record.thoughts.append(text)
            return self._format.refuse(), 0.0, False
        if move.kind == "answer" and move.words:
            self._record.thoughts.append(text)
            self._record.answer = move.words
            return "", 0.0, True
        problem = self._problem(move)
        if problem:
            self._record.thoughts.append(text)
            return self._format.tell(problem), 0.0, False
        return self._search(move.words, text)

    def _problem(self, move: SearchAction) -> str:
        """Return an observation about why an action is impossible; "" if it is possible."""
        if not move.words:
            return f"The {'query' if move.kind == 'search' else 'answer'} was empty."
        if self._left() == 0:
            return "No searches are left: give the answer."
        if len(move.words) > LONGEST_QUERY:
            return f"The query has {len(move.words):,} characters; at most {LONGEST_QUERY:,} are searched."
        return ""

    def _search(self, query: str, text: str) -> tuple[str, float, bool]:
        record = self._record
        assert self._engine is not None
        try:
            passages = self._engine.find(query.encode(errors="replace").decode(), self._topk)
        except SearchFailed as error:
            if not self._tell:
                raise
            record.thoughts.append(text)
            return self._format.tell(f"The search failed: {error.told}."), 0.0, True
        record.thoughts.append(text)
        record.searches += 1
        self._seen.update((passage.id, passage.title) for passage in passages)
        record.retrieved = record.retrieved or any(
            contains(passage.contents, record.question.answers) for passage in passages
        )
        observation = self._format.show(passages, self._limit) if passages else self._format.tell("No results.")
        return observation, self._rule.search(record), True

    def _write(self, kind: str, words: str) -> str:
        """Return the text of an action, with a thought before it if the reward requires one."""
        return (_THOUGHT[kind] if self._rule.thinks else "") + self._format.write(kind, words)

    def _forms(self) -> list[str]:
        """Return the action forms that contain arbitrary text."""
        kinds = zip(("search", "answer"), self._format.free, strict=True)
        forms = [(kind, form) for kind, form in kinds if kind == "answer" or self._left() != 0]
        thought = [_THOUGHT[kind] + form for kind, form in forms] if self._rule.thinks else []
        return [form for _, form in forms] + thought

    def _left(self) -> int | None:
        return None if self._budget is None else max(self._budget - self._record.searches, 0)

    def get_info(self, valid: bool) -> Info:
        record = self._record
        over = record.answer is not None
        info: Info = {
            "task": record.question.id,
            "state": self._state(),
            "admissible_actions": [] if over else self._examples(),
            "free_actions": [] if over else self._forms(),
            "valid": valid,
            "score": self._rule.score(record) if over else 0.0,
            "won": over and self._rule.right(record),
            "task_type": record.question.kind,
            EXTRAS: {"entities": record.entity_share, "coverage": self._coverage(), "process": self._process},
        }
        if over:
            info["reward_parts"] = record.parts()
        return info

    def _state(self) -> str:
        """Return the state key: the passages that the agent has seen, and everything else that affects what can follow.

        The order and number of their appearances have no effect. The number of searches is included if it is limited or
        affects the reward, and so is everything else in the past that the reward rule uses.
        """
        parts = ["read=" + ",".join(sorted(self._seen))]
        if self._budget is not None:
            parts.append(f"left={self._left()}")
        past = self._rule.past(self._record)
        return " ".join([*parts, past] if past else parts)

    def _examples(self) -> list[str]:
        """Return examples of actions: a search for the question, and a search and an answer for each title seen."""
        titles = dict.fromkeys(self._seen[id].strip('" ')[:LONGEST_QUERY] for id in sorted(self._seen))
        words = [(kind, title) for title in titles if title for kind in ("search", "answer")]
        words = [("search", asked(self.task.question.text)[:LONGEST_QUERY]), *words]
        if self._left() == 0:
            words = [("answer", title) for kind, title in words if kind == "search"]
        # A title that contains a tag or bracket would not be parsed correctly.
        written = dict.fromkeys(self._write(kind, text) for kind, text in words)
        return [action for action in written if (move := self._format.read(action)) is not None and move.words]


from_keys = SOURCES.constructor(SearchEnv)
"""The constructor in Gymnasium's registry."""
