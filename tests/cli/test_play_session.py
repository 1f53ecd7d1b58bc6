"""Playing by hand: what typed text means, and that undo is exactly the way back."""

from __future__ import annotations

import contextlib
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from toys.corridor import Corridor

from turncredit.cli.errors import UserError
from turncredit.cli.play import PlayConsole, completions
from turncredit.cli.play_session import PlaySession, complete, meaning
from turncredit.envs.errors import EnvError

ACTIONS = ["go to cabinet 1", "go to cabinet 10", "go to desk 1", "look", "take mug 2 from desk 1"]


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("3", ["go to desk 1"]),
        ("look", ["look"]),
        ("  go   to desk 1 ", ["go to desk 1"]),
        ("ta", ["take mug 2 from desk 1"]),
        ("g cab 1", ["go to cabinet 1"]),
        ("g c 10", ["go to cabinet 10"]),
        ("go to cabinet 1", ["go to cabinet 1"]),
        ("go to cab", ["go to cabinet 1", "go to cabinet 10"]),
        ("dance", []),
        ("", []),
        ("6", []),
    ],
)
def test_what_typed_text_means(typed: str, meant: list[str]) -> None:
    assert complete(typed, ACTIONS) == meant


def test_an_unclear_text_names_what_it_can_mean() -> None:
    with pytest.raises(UserError, match="go to cabinet 1, go to cabinet 10"):
        meaning("go to cab", ACTIONS)


def test_an_impossible_text_names_the_near_action_and_how_to_insist() -> None:
    with pytest.raises(UserError, match=r"did you mean 'go to desk 1'.*!go to desk 2 sends it"):
        meaning("go to desk 2", ACTIONS)


def test_without_a_list_everything_typed_is_an_action() -> None:
    assert meaning("go to desk 2", []) == "go to desk 2"


def test_an_action_with_a_text_of_ones_own_is_taken_as_it_is() -> None:
    assert meaning("search[red mug]", ["search[mug]", "click[back]"], ["search[...]"]) == "search[red mug]"
    assert meaning("search", ["search[mug]", "click[back]"], ["search[...]"]) == "search[mug]"
    with pytest.raises(UserError, match=r"not possible here.*in your own words: search\[\.\.\.\]"):
        meaning("find[red mug]", ["search[mug]", "click[back]"], ["search[...]"])


@given(st.text(max_size=30))
def test_completion_only_ever_gives_admissible_actions(typed: str) -> None:
    assert set(complete(typed, ACTIONS)) <= set(ACTIONS)


def session(task: str = "fetch-4-2") -> PlaySession:
    return PlaySession(Corridor(), task, seed=3)


def test_a_session_ends_won_and_says_so() -> None:
    play = session()
    for action in play.plan():
        assert play.ended is None
        play.act(action)
    assert (play.ended, play.won, play.reward) == ("terminated", True, 1.0)
    assert play.admissible == []
    assert play.plan() == []
    with pytest.raises(UserError, match=":undo"):
        play.act("look")


@given(st.data())
def test_undo_gives_back_the_very_moment(data: st.DataObject) -> None:
    play = session()
    seen = [(play.observation, play.recorder.last.state, play.admissible)]
    for _ in range(data.draw(st.integers(0, 8))):
        if play.ended:
            break
        play.act(data.draw(st.sampled_from([*play.admissible, "dance"])))
        seen.append((play.observation, play.recorder.last.state, play.admissible))
    back = data.draw(st.integers(1, 10))
    undone = play.undo(back)
    assert undone == min(back, len(seen) - 1)
    assert (play.observation, play.recorder.last.state, play.admissible) == seen[len(seen) - 1 - undone]
    assert play.ended is None or undone == 0


def test_undo_brings_an_ended_episode_back_to_life() -> None:
    play = session()
    for action in play.plan():
        play.act(action)
    play.undo()
    assert play.ended is None
    assert len(play.plan()) == 1


def test_a_task_that_the_seed_drew_stays_the_task() -> None:
    play = PlaySession(Corridor(), None, seed=11)
    task, start = play.task, play.start
    play.act("look")
    play.restart()
    assert (play.task, play.start, play.turns) == (task, start, [])


def test_an_environment_without_expert_gives_no_hints() -> None:
    env = Corridor()
    play = PlaySession(env, "open-3-1")

    def absent(name: str) -> object:
        raise AttributeError(name)

    env.get_wrapper_attr = absent  # type: ignore[method-assign,assignment]
    with pytest.raises(UserError, match="no expert"):
        play.plan()


def test_a_dead_end_is_said_and_the_person_plays_on(capsys: pytest.CaptureFixture[str]) -> None:
    class DeadEnd(Corridor):
        def plan(self) -> list[str]:
            raise EnvError("the mug is stuck")

    console = PlayConsole(PlaySession(DeadEnd(), "open-3-1", seed=3), hints=True)
    console.open()
    assert "The expert has no plan from here: the mug is stuck" in capsys.readouterr().out
    for line in (":hint", ":plan", "look"):
        console.take(line)
        assert "the mug is stuck" in capsys.readouterr().out
    assert len(console.session.turns) == 1


WORDS = [
    ":undo 2",
    ":undo ²",
    ":hint",
    ":plan",
    ":history",
    ":actions",
    ":restart",
    ":ask",
    ":watch",
    ":",
    "!",
    "?",
    "1",
]


@given(st.lists(st.one_of(st.text(max_size=12), st.sampled_from(WORDS)), max_size=8))
def test_whatever_is_typed_is_answered(lines: list[str]) -> None:
    with contextlib.redirect_stdout(io.StringIO()) as shown:
        console = PlayConsole(session())
        for typed in lines:
            before = len(shown.getvalue())
            console.take(typed)
            quiet = not typed.strip() or typed.strip() in (":q", ":quit", ":plan") or console.left
            assert quiet or len(shown.getvalue()) > before


def test_tab_offers_every_action_on_an_empty_line_and_commands_after_a_colon() -> None:
    console = PlayConsole(session())
    assert completions(console, "") == console.session.admissible
    assert len(completions(console, "")) > 1
    first = console.session.admissible[0]
    assert first in completions(console, first[:2])
    assert completions(console, ":h") == [":hint", ":history", ":help"]
    assert completions(console, "no such action") == []
