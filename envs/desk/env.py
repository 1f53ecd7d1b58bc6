"""The service desk: serve a simulated user by tools on a database, under a policy, as in tau-bench.

In a turn the agent calls tools, or says something to the user with the tool `say`; where a chat template describes the
tools (`native`), a text without a call is said to the user. The episode ends when the agent closes the case or the user
leaves. It is won if the database then is as the policy has it, and everything was said that the policy has the agent
say, after a tool had returned it and without a list of other numbers. Nothing else pays.

The agent's tools and the user's change the same database (dual control), but the agent never sees what only the user
sees. The turn limit is Gymnasium's `max_episode_steps`; the class itself never truncates.

Source: tau-bench (Yao et al. 2024, arXiv:2406.12045), tau2-bench (Barres et al. 2025, arXiv:2506.07982).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from turncredit.envs.desk.episode import OWN_TOOLS, DeskEpisode
from turncredit.envs.desk.generator import DOMAINS, SPLITS, generate, task_ids
from turncredit.envs.desk.level import DeskLevel
from turncredit.envs.desk.plan import left_over, plan_calls
from turncredit.envs.desk.task import DeskTask
from turncredit.envs.desk.users import make_user
from turncredit.envs.errors import EnvError, NotReset
from turncredit.envs.info import KNOWLEDGE_IN_STATE, Info
from turncredit.envs.snapshot import Fields
from turncredit.envs.text import SavableEnv
from turncredit.envs.tool_actions import ActionCalls, format_named, read_calls, write_results, written
from turncredit.envs.tool_agent import tool_agent
from turncredit.envs.validation import choice, flag
from turncredit.tools.functions import Call, Tool, Toolbox
from turncredit.tools.functions.calls import visible

__all__ = ["LONGEST_MESSAGE", "DeskEnv"]

LONGEST_MESSAGE: Final = 500
"""Maximum length of a message to the user in characters."""
_DEFAULT_COUNT: Final = 1000
_DRAWN_FROM: Final = 10**6  # random tasks have numbers below this
_CALL_MARKS: Final = ("<tool_call", "[TOOL_CALLS]", '"tool_calls"', '"arguments"', '"parameters"')
"""What a text has that was meant as a call."""


def _agent(form: str | None = None, native: bool = False, **_: object) -> dict[str, object]:
    return tool_agent(format_named(form, native=native), native)


class DeskEnv(SavableEnv):
    """Serve a user of a library or a repair shop.

    An action is one or several tool calls. The reward is 1 at the end of an episode that was won, and 0 otherwise. An
    invalid action changes nothing; its observation says what is wrong. reset() accepts task ids of every domain, split
    and level; its seed draws how the user behaves. A snapshot can be restored where all arguments are equal. If a model
    plays the user and fails, reset() and step() raise EnvError.

    Args:
        domain: "library" or "repair_shop", where the user works on the device.
        split: "train" or "held_out".
        level: size and difficulty: a preset of `DeskLevel`, a text such as "small+requests=2-3", or a `DeskLevel`.
        user: name of the simulated user: a quality of the scripted one ("perfect", "forgetful", "confused",
            "impatient", "adversarial", "mixed"), or another one of `turncredit.envs.desk.users.USERS`.
        user_options: options of the user, such as {"spare": 0}.
        form: format of calls, one of `turncredit.tools.functions.CALL_FORMATS`; None: "hermes" if native, else "tags".
        native: whether the chat template of the model describes the tools (see `ToolEnv`); a text without a call then
            is a message to the user.
        render_mode: None or "ansi".

    Raises:
        EnvError: an argument is invalid.
    """

    metadata = {"render_modes": ["ansi"], "agent": _agent, KNOWLEDGE_IN_STATE: True}  # noqa: RUF012 (Gymnasium's attribute)
    SNAPSHOT_FORMAT = ("Desk", 2)
    EXAMPLE_ACTION = "<say>What is your card number?</say>"
    read_level = DeskLevel.parse

    def __init__(
        self,
        *,
        domain: str = "library",
        split: str = "train",
        level: str | DeskLevel = "small",
        user: str = "perfect",
        user_options: Mapping[str, object] | None = None,
        form: str | None = None,
        native: bool = False,
        render_mode: str | None = None,
    ) -> None:
        super().__init__(render_mode)
        self._domain = choice("domain", domain, DOMAINS)
        self._split = choice("split", split, SPLITS)
        self._level = DeskLevel.of(level)
        self._user_kind = user, dict(user_options or {})
        self._user = make_user(*self._user_kind)
        self._native = flag("native", native)
        self._form = format_named(form, native=native)
        self._desks = {name: desk() for name, desk in DOMAINS.items()}
        self._boxes: dict[tuple[str, tuple[str, ...]], Toolbox] = {}
        self._forms: dict[tuple[str, tuple[str, ...]], list[str]] = {}
        self._episode: DeskEpisode | None = None
        self._answers: list[str] = []
        self._failure: EnvError | None = None

    def __getstate__(self) -> dict[str, object]:
        """Return the state without the tools, which are made again."""
        return {**self.__dict__, "_boxes": {}}

    @property
    def episode(self) -> DeskEpisode:
        """The current episode, with its task and what was said and done.

        Raises:
            NotReset: reset() was not called.
        """
        if self._episode is None:
            raise NotReset
        return self._episode

    def plan(self) -> list[str]:
        """Return actions that solve the task from the current state; [] if it is solved.

        The expert asks for what the user has not told, looks up what it has not looked up, and does what is left.

        Raises:
            NotReset: reset() was not called.
            EnvError: the user has left too early, or the database cannot be put right.
        """
        episode = self.episode
        if episode.won:
            return []
        actions = None if episode.ended or (episode.lists and episode.task.told) else left_over(episode)
        if actions is None:
            raise EnvError(f"no plan: task {episode.task.id!r} can no longer be solved")
        box = list(self._box(episode.task))
        return [self._form.write([call], box) for call in plan_calls(episode, actions)]

    def list_tasks(self, count: int | None) -> list[str]:
        return task_ids(self._domain, self._split, self._level, _DEFAULT_COUNT if count is None else count)

    def draw_task(self) -> str:
        return task_ids(self._domain, self._split, self._level, 1, int(self.np_random.integers(_DRAWN_FROM)))[0]

    def start_task(self, task: str, options: Mapping[str, object]) -> str:
        """Return the policy, the tools and the first message of the user."""
        generated = generate(task)
        desk = self._desks[generated.domain]
        self._answers = []
        self._episode = DeskEpisode(generated, desk, self._user, int(self.np_random.integers(2**31)))
        opening = self._episode.start()
        policy = f"{desk.about}\n\nPolicy:\n{desk.policy(generated.families)}"
        tools = "" if self._native else f"\n\n{self._form.describe(list(self._box(generated)))}"
        return written(f"{policy}{tools}\n\nUser: {opening}")

    def _box(self, task: DeskTask) -> Toolbox:
        """Return the tools of the agent for a task, which are made once."""
        key = task.domain, task.families
        if key not in self._boxes:
            say = Tool.of(self._say, name="say", seconds=None)
            end = Tool.of(self._close_case, name="close", seconds=None)
            self._boxes[key] = Toolbox([*self._desks[task.domain].tools_for(task.families), say, end], seconds=None)
        return self._boxes[key]

    def _examples(self, task: DeskTask) -> list[str]:
        """Return the forms of calls."""
        box = self._box(task)
        key = task.domain, task.families
        if key not in self._forms:
            self._forms[key] = list(dict.fromkeys(map(self._form.example, box)))
        return list(self._forms[key])

    # The agent reads the docstrings of these two as descriptions of tools.

    def _say(self, text: str) -> str:
        """Say something to the user, and get the answer.

        Args:
            text: at most 500 characters
        """
        try:
            reply = self.episode.say(text)
        except EnvError as error:
            self._failure = error  # a toolbox reports exceptions to the agent, who is not to blame for this one
            raise
        listed = " (Too many dates, amounts and ids were said: none of them counts.)" if self.episode.lists else ""
        return f"User: {reply.text}" + (" (The user has left.)" if reply.leaves else "") + listed

    def _close_case(self) -> str:
        """Close the case, which ends the conversation."""
        episode = self.episode
        episode.ended = "closed"
        verdict = "as the policy has it" if episode.right else "not as the policy has it"
        return f"The case is closed. The database is {verdict}; said {sum(episode.told)} of {len(episode.told)}."

    def take_action(self, action: str) -> tuple[str, float, bool]:
        episode, box = self.episode, self._box(self.episode.task)
        read = self._read(action, box)
        self._answers = list(read.answers)
        observation = written(read.problem or self._called(read.calls, box))
        return observation, float(episode.won), not read.problem

    def _read(self, action: str, box: Toolbox) -> ActionCalls:
        """Return the calls in an action; where a chat template describes the tools, a text without one is said."""
        text = visible(action).strip()
        calls = any(mark in text for mark in _CALL_MARKS) or bool(self._form.parse(text, list(box)).calls)
        if self._native and text and not calls:
            read = ActionCalls((Call("say", {"text": text}),))
        else:
            read = read_calls(action, self._form, box, native=self._native)
        messages = [str(call.arguments["text"]) for call in read.calls if call.name == "say" and not read.problem]
        for message in messages:
            if not 0 < len(message.strip()) <= LONGEST_MESSAGE:
                number = f"this one had {len(message):,}"
                return ActionCalls((), f"Nothing was done: a message has 1 to {LONGEST_MESSAGE} characters, {number}.")
        return read

    def _called(self, calls: Sequence[Call], box: Toolbox) -> str:
        """Make calls, up to one that ends the episode; return the observation."""
        results = []
        for call in calls:
            results.append(box.call(call))
            if self._failure is not None:
                failure, self._failure = self._failure, None
                raise failure
            if call.name not in OWN_TOOLS:
                self.episode.called(call, results[-1].text)
            if self.episode.ended:
                break
        self._answers = [written(result.text) for result in results]
        return write_results(results, self._form, native=self._native)

    def is_over(self) -> bool:
        return bool(self.episode.ended)

    def snapshot_arguments(self) -> dict[str, object]:
        user, options = self._user_kind
        arguments = {"domain": self._domain, "split": self._split, "level": self._level.text}
        return {**arguments, "user": user, "user_options": options, "form": self._form.name, "native": self._native}

    def save_episode(self) -> dict[str, object]:
        return {**self.episode.save(), "answers": self._answers}

    def load_episode(self, task: str, saved: Fields) -> None:
        generated, seed, answers = generate(task), saved.get("seed", int), saved.texts("answers")
        desk, box = self._desks[generated.domain], self._box(generated)
        DeskEpisode(generated, type(desk)(), make_user(*self._user_kind), seed).load(saved, box)  # raises, if any does
        self._episode = DeskEpisode(generated, desk, self._user, seed)
        self._episode.load(saved, box)
        self._answers = answers

    def get_info(self, valid: bool) -> Info:
        episode = self.episode
        won = episode.won
        info: Info = {
            "task": episode.task.id,
            "state": episode.key(),
            "valid": valid,
            "score": float(won),
            "won": won,
            "free_actions": [] if episode.ended else self._examples(episode.task),
            "task_type": episode.task.family,
        }
        if self._native and not self.last_exchange[0]:
            info["tools"] = [tool.schema for tool in self._box(episode.task)]
        if self._answers:
            info["results"] = list(self._answers)
        if episode.ended:
            told = sum(episode.told) / len(episode.told) if episode.told else 1.0
            info["reward_parts"] = {"database": float(episode.right), "told": told, "left": episode.ended == "left"}
        return info
