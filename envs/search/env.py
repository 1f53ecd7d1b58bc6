"""Questions answered by searching, as a Gymnasium environment with Search-R1's protocol.

The agent says what it thinks and then searches or answers; an answer ends the episode. Search-R1 gives four turns with
search and a last one in which only an answer counts: five turns, Gymnasium's `max_episode_steps`, after which nobody
sees any more what a search found. The class itself never truncates.

Left out on purpose: tokens (lengths are in characters; four of them are about a token), and the mask of what was found,
which is the agent loop's.

Source: Search-R1 (Jin et al. 2025, arXiv:2503.09516).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Final

from turnwise.envs.errors import EnvError, NotReset, UnknownOption
from turnwise.envs.info import Demonstrator
from turnwise.envs.search.generator import SearchLevel
from turnwise.envs.search.protocol import FORMS, ActionFormat, BracketFormat, SearchAction, TagFormat, asked
from turnwise.envs.search.questions import Question
from turnwise.envs.search.reader_demonstrator import ReaderDemonstrator
from turnwise.envs.search.reward_rules import EpisodeRecord, make_rule
from turnwise.envs.search.rewards import contains
from turnwise.envs.search.search_engine import SearchEngine, SearchFailed
from turnwise.envs.search.snapshots import played_of, saved_played, titles_of
from turnwise.envs.search.task_sources import SearchTask, SearchTaskSource
from turnwise.envs.search.validation import instructions_of, means_of, source_of
from turnwise.envs.snapshot import Fields
from turnwise.envs.text import SavableEnv
from turnwise.envs.validation import choice, flag, integer
from turnwise.tools.retrieval import Passage

__all__ = ["LONGEST_QUERY", "SearchEnv"]

LONGEST_QUERY: Final = 1000
"""Most characters of a query; a longer one is not searched."""

_ON_FAILURE: Final = ("tell", "raise")
_TAGS: Final = ("first", "single")
_THOUGHT: Final = {"search": "<think>I have to look this up.</think> ", "answer": "<think>I know it.</think> "}
_NO_QUESTION: Final = Question("", "", ())


class SearchEnv(SavableEnv):
    """Answer a question by searching passages.

    An action is what the model said, whole: a search or an answer in the environment's form, perhaps after a thought.
    An answer ends the episode, and nothing is observed after it; what is neither changes nothing. The first observation
    ends with the question. A snapshot goes on where questions, passages, forms and reward are the same; how often a
    search is tried need not be. With on_failure="raise", step() raises SearchFailed.

    Args:
        questions: path of questions in FlashRAG's form; None for generated ones.
        corpus: path of the passages that belong to them; None where the retriever has its own.
        split: "train" or "held_out"; of files also "all", the default: one question in five is held out.
        retriever: "bm25", "dense", "hybrid"; the address of a service such as `turnwise serve search`; an object with
            `find(query, k)` or `search(query, k)` (see `engine`); or a function that makes one of a corpus. Generated
            worlds, of which there are many, take a name or a function.
        model: folder of the sentence encoder of "dense" and "hybrid"; None: that of the extra `dense`.
        keep: folder in which the indexes of "bm25", "dense" and "hybrid" are kept for other processes; None: nowhere.
        topk: passages that a search shows.
        form: "tags", Search-R1's; or "brackets", which is shorter: `search[...]`, `answer[...]`.
        tags: "first": the first whole pair of tags counts; "single": a text with any more is no action (verl-agent).
        instructions: True puts our own before the question, False nothing; or a text with {question} in it.
        reward: a rule (see `rules`): "em", "subem", "f1", "format", "e-grpo", "otc", "caf" or "graphrag".
        reward_options: constants of the rule, such as {"structure": 0.2}.
        max_searches: searches in an episode after which only an answer is admissible; None for no limit.
        observation_limit: most characters of the results of a search; Search-R1's 500 tokens are about 2,000.
        retries, backoff, timeout: how a retriever that fails is asked again (see `Engine`), in times and seconds; with
            timeout=None, a service has 30 seconds and all others for ever, as services with math.inf.
        on_failure: when it has failed for good: "tell" says so in the place of results and the episode goes on, "raise"
            raises SearchFailed, and the agent loop counts an error.
        strict: stop at a record of a file that is broken; else leave it out.
        level: size and difficulty of generated worlds: a preset of `Level`, its text, or a level.
        render_mode: None or "ansi".

    Raises:
        EnvError: a file is missing or broken, or a value is not one of the choices.
    """

    SNAPSHOT_FORMAT = ("Search", 1)
    EXAMPLE_ACTION = "<search> red lamp </search>"
    demonstrators: ClassVar[Mapping[str, Callable[[], Demonstrator]]] = {"reader": ReaderDemonstrator}

    def __init__(
        self,
        questions: str | os.PathLike[str] | None = None,
        corpus: str | os.PathLike[str] | None = None,
        *,
        split: str | None = None,
        retriever: object = "bm25",
        model: str | os.PathLike[str] | None = None,
        keep: str | os.PathLike[str] | None = None,
        topk: int = 3,
        form: str = "tags",
        tags: str = "first",
        instructions: bool | str = True,
        reward: str = "em",
        reward_options: Mapping[str, Any] | None = None,
        max_searches: int | None = None,
        observation_limit: int = 2000,
        retries: int = 2,
        backoff: float = 0.5,
        timeout: float | None = None,
        on_failure: str = "tell",
        strict: bool = True,
        level: str | SearchLevel = "small",
        render_mode: str | None = None,
    ) -> None:
        super().__init__(render_mode)
        choice("form", form, FORMS)
        self._tags = choice("tags", tags, _TAGS)
        self._tell = choice("on_failure", on_failure, _ON_FAILURE) == "tell"
        flag("strict", strict)
        self._surface: ActionFormat = TagFormat(single=tags == "single") if form == "tags" else BracketFormat()
        self._paid_by = reward, dict(reward_options or {})
        self._rule = make_rule(*self._paid_by)
        if self._rule.thinks and form != "tags":
            raise UnknownOption(f"the reward {reward!r} is about Search-R1's tags: it needs form='tags', not {form!r}")
        self._instructions = instructions_of(instructions, form)
        self._topk = integer("topk", topk, 1)
        self._limit = integer("observation_limit", observation_limit, 1)
        self._budget = None if max_searches is None else integer("max_searches", max_searches)
        self._patience = retries, backoff, timeout
        self._patient(_nothing)  # refuses what makes no sense now, not at the first search
        means = means_of(retriever, model, keep, timeout)
        self._source: SearchTaskSource = source_of(questions, corpus, split, retriever, strict, level, means)
        self._task: SearchTask | None = None
        self._engine: SearchEngine | None = None
        self._played = EpisodeRecord(_NO_QUESTION)
        self._seen: dict[str, str] = {}  # titles by the ids of the passages

    def __getstate__(self) -> dict[str, Any]:
        """Travel without what follows from names: the rule of rewards, and the search of the task."""
        state = self.__dict__.copy()
        state["_task"] = None if self._task is None else self._task.question.id
        del state["_rule"], state["_engine"]
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Make again what was left out."""
        task = state.pop("_task")
        self.__dict__.update(state)
        self._rule = make_rule(*self._paid_by)
        self._task = None if task is None else self._source.get(task)
        self._engine = None if self._task is None else self._patient(self._task.find)

    @property
    def task(self) -> SearchTask:
        """The task that is played: its `question`, and `find(query, k)`.

        Raises:
            NotReset: before the first reset.
        """
        if self._task is None:
            raise NotReset
        return self._task

    def plan(self) -> list[str]:
        """Return actions from the present state to the right answer; [] when it was given.

        Raises:
            NotReset: before the first reset.
            EnvError: another answer was given.
        """
        from turnwise.envs.search.expert import plan_queries

        task, played = self.task, self._played
        if played.answer is not None:
            if self._rule.right(played):
                return []
            raise EnvError("another answer was given and the episode is over: no way leads from here to the right one")
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

    def start_task(self, task: str, options: Mapping[str, Any]) -> str:
        self._task = self._source.get(task)
        self._engine = self._patient(self._task.find)
        observation = self._opening(self._task.question)
        self._played = EpisodeRecord(self._task.question, start=observation)
        self._seen = {}
        return observation

    def _opening(self, question: Question) -> str:
        return self._instructions.replace("{question}", asked(question.text))

    def take_action(self, action: str) -> tuple[str, float, bool]:
        played = self._played
        move = self._surface.read(action)
        said = action if move is None else move.said
        observation, reward, valid = self._move(move, said)
        played.formed = played.formed and valid
        played.said += [said, observation]
        if played.answer is not None:
            reward = self._rule.answer(played)
        return observation, reward, valid

    def is_over(self) -> bool:
        return self._played.answer is not None

    def snapshot_arguments(self) -> dict[str, Any]:
        reward, options = self._paid_by
        return {
            **self._source.made(),
            "form": self._surface.name,
            "tags": self._tags,
            "instructions": self._instructions,
            "reward": reward,
            "reward_options": options,
            "topk": self._topk,
            "max_searches": self._budget,
            "observation_limit": self._limit,
        }

    def save_episode(self) -> dict[str, Any]:
        return {"played": saved_played(self._played), "seen": self._seen}

    def load_episode(self, task: str, saved: Fields) -> None:
        known = self._source.get(task)
        played = played_of(saved.part("played"), known.question, self._opening(known.question))
        seen, engine = titles_of(saved, "seen"), self._patient(known.find)
        self._task, self._engine, self._played, self._seen = known, engine, played, seen

    def _patient(self, find: Callable[[str, int], Sequence[Passage]]) -> SearchEngine:
        retries, backoff, timeout = self._patience
        return SearchEngine(find, retries=retries, backoff=backoff, timeout=timeout)

    def _move(self, move: SearchAction | None, said: str) -> tuple[str, float, bool]:
        """Do a move; return the observation, what a search earned, and whether the move was admissible."""
        if move is None:
            self._played.thoughts.append(said)
            return self._surface.refuse(), 0.0, False
        if move.kind == "answer" and move.words:
            self._played.thoughts.append(said)
            self._played.answer = move.words
            return "", 0.0, True
        problem = self._problem(move)
        if problem:
            self._played.thoughts.append(said)
            return self._surface.tell(problem), 0.0, False
        return self._search(move.words, said)

    def _problem(self, move: SearchAction) -> str:
        """Say in a sentence why a move cannot be done; "" where it can."""
        if not move.words:
            return f"The {'query' if move.kind == 'search' else 'answer'} was empty."
        if self._left() == 0:
            return "No searches are left: give the answer."
        if len(move.words) > LONGEST_QUERY:
            return f"The query has {len(move.words):,} characters; at most {LONGEST_QUERY:,} are searched."
        return ""

    def _search(self, query: str, said: str) -> tuple[str, float, bool]:
        played = self._played
        assert self._engine is not None
        try:
            found = self._engine.find(query.encode(errors="replace").decode(), self._topk)
        except SearchFailed as error:
            if not self._tell:
                raise
            played.thoughts.append(said)
            return self._surface.tell(f"The search failed: {error.told}."), 0.0, True
        played.thoughts.append(said)
        played.searches += 1
        self._seen.update((passage.id, passage.title) for passage in found)
        played.found = played.found or any(contains(one.contents, played.question.answers) for one in found)
        observation = self._surface.show(found, self._limit) if found else self._surface.tell("No results.")
        return observation, self._rule.search(played), True

    def _write(self, kind: str, words: str) -> str:
        """Return an action; with a thought before it where the reward wants one."""
        return (_THOUGHT[kind] if self._rule.thinks else "") + self._surface.write(kind, words)

    def _forms(self) -> list[str]:
        """Return the forms of the actions whose words are free."""
        kinds = zip(("search", "answer"), self._surface.free, strict=True)
        forms = [(kind, form) for kind, form in kinds if kind == "answer" or self._left() != 0]
        thought = [_THOUGHT[kind] + form for kind, form in forms] if self._rule.thinks else []
        return [form for _, form in forms] + thought

    def _left(self) -> int | None:
        return None if self._budget is None else max(self._budget - self._played.searches, 0)

    def get_info(self, valid: bool) -> dict[str, Any]:
        played = self._played
        over = played.answer is not None
        info: dict[str, Any] = {
            "task": played.question.id,
            "state": self._state(),
            "admissible_actions": [] if over else self._examples(),
            "free_actions": [] if over else self._forms(),
            "valid": valid,
            "score": self._rule.score(played) if over else 0.0,
            "won": over and self._rule.right(played),
            "task_type": played.question.kind,
        }
        if over:
            info["reward_parts"] = played.parts()
        return info

    def _state(self) -> str:
        """Return the state key: which passages the agent has been shown, and what else decides what can follow.

        In which order, and how often, they were shown decides nothing. The searches so far belong to it where there is
        a limit or where the reward counts them, as does whatever else of the past the rule of rewards looks at.
        """
        parts = ["read=" + ",".join(sorted(self._seen))]
        if self._budget is not None:
            parts.append(f"left={self._left()}")
        past = self._rule.past(self._played)
        return " ".join([*parts, past] if past else parts)

    def _examples(self) -> list[str]:
        """Return examples of actions: a search for the question, and of each title read a search and an answer."""
        titles = dict.fromkeys(self._seen[id].strip('" ')[:LONGEST_QUERY] for id in sorted(self._seen))
        words = [(kind, title) for title in titles if title for kind in ("search", "answer")]
        words = [("search", asked(self.task.question.text)[:LONGEST_QUERY]), *words]
        if self._left() == 0:
            words = [("answer", one) for kind, one in words if kind == "search"]
        # What a title holds may be a tag or a bracket of the surface: then it is no example.
        written = dict.fromkeys(self._write(kind, one) for kind, one in words)
        return [one for one in written if (move := self._surface.read(one)) is not None and move.words]


def _nothing(query: str, k: int) -> Sequence[Passage]:
    return ()
