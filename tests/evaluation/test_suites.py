"""Suites: what a file may say, the digests of panels, and panels that a machine lacks."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from toys import corridor
from toys.benchmarks import SUITE, register_toys

from turncredit.agents.errors import EvaluationError
from turncredit.evaluation.suite import Suite, SuitePanel, Unavailable, digest, pin


@pytest.fixture(autouse=True)
def _toys() -> None:
    corridor.register()
    register_toys()


def load(tmp_path: Path, text: str) -> Suite:
    path = tmp_path / "suite.toml"
    path.write_text(text, encoding="utf-8")
    return Suite.load(path)


def test_a_panel_takes_what_the_suite_and_an_earlier_panel_say(tmp_path: Path) -> None:
    suite = load(tmp_path, SUITE)
    short, long = suite.panels
    assert (suite.name, suite.about) == ("tiny", "corridors")
    assert (short.seed, short.agent) == (3, {"max_turns": 12})
    assert (long.env, long.seed, long.episodes) == (short.env, 3, 6)
    assert long.agent == {"max_turns": 12, "max_tokens": 8}
    assert long.kwargs == {"lengths": [4, 5]}
    assert [panel.name for panel in suite.only(["long"]).panels] == ["long"]
    with pytest.raises(EvaluationError, match="no panel 'lng'; did you mean 'long'"):
        suite.only(["lng"])


PANEL = '[[panels]]\nname = "a"\nenv = "toys/Corridor-v0"\nepisodes = 2\n'


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("name = ", "not valid TOML"),
        ('name = "x"', r"at least one table \[\[panels\]\]"),
        ("panels = [3]", "panel 1: a panel must be a table, got 3"),
        ("sede = 1\n" + PANEL, "unknown key 'sede'; did you mean 'seed'"),
        (PANEL + "episode = 3", "panel 1: unknown key 'episode'; did you mean 'episodes'"),
        (PANEL + PANEL, "two panels with the name 'a'"),
        (PANEL.replace("2", "0"), "episodes must be >= 1, got 0"),
        (PANEL.replace("2", '"2"'), "panel 1: episodes: input should be a valid integer"),
        (PANEL.replace('"a"', '"a/b"'), "the name must consist of letters"),
        (
            PANEL.replace("Corridor", "Coridor"),
            "unknown environment 'toys/Coridor-v0'; did you mean 'toys/Corridor-v0'",
        ),
        (PANEL + "agent = { parser = 'bar' }", "unknown parser 'bar'; did you mean 'bare'"),
        (PANEL + "agent = { turns = 3 }", "an agent has no option 'turns'"),
        (PANEL + "like = 'b'", "there is no earlier panel 'b'"),
        (PANEL.replace('name = "a"\n', ""), "panel 1: name: field required"),
    ],
)
def test_a_mistake_in_a_suite_is_one_sentence(tmp_path: Path, text: str, complaint: str) -> None:
    with pytest.raises(EvaluationError, match=complaint) as caught:
        load(tmp_path, text)
    assert "suite.toml" in str(caught.value)


SPEC = SuitePanel("short", corridor.ID, 3, {"lengths": [3, 4]}, seed=1)


def test_a_digest_is_equal_exactly_for_equal_panels() -> None:
    pinned = pin(SPEC)
    assert len(pinned.panel.tasks) == 3
    assert pinned.digest == pin(SPEC).digest == digest(pinned.panel)
    assert len(pinned.digest) == 16
    # how the tasks are played is not part of the panel
    assert pin(replace(SPEC, name="other", agent={"max_turns": 3}, concurrency=1)).digest == pinned.digest
    others = [replace(SPEC, seed=2), replace(SPEC, episodes=4), replace(SPEC, kwargs={"lengths": [3, 5]})]
    digests = {pinned.digest, *(pin(spec).digest for spec in others)}
    assert len(digests) == 4
    first = pin(replace(SPEC, sample=False)).panel.tasks
    assert first == tuple(corridor.Corridor(lengths=(3, 4)).task_ids(3))


def test_a_path_is_the_first_that_exists_and_no_part_of_the_panel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Reader(corridor.Corridor):
        def __init__(self, games: str) -> None:
            super().__init__()
            self.games = games

    from turncredit.envs import register

    register("toys/Reader-v0", Reader)
    spec = SuitePanel("read", "toys/Reader-v0", 2, files={"games": ("$GAMES_A/x", "$GAMES_B/x")})
    monkeypatch.delenv("GAMES_A", raising=False)
    monkeypatch.delenv("GAMES_B", raising=False)
    with pytest.raises(Unavailable, match=r"games: none of \$GAMES_A/x, \$GAMES_B/x exists"):
        pin(spec)
    (tmp_path / "x").touch()
    monkeypatch.setenv("GAMES_B", str(tmp_path))
    pinned = pin(spec)
    env = pinned.make()
    assert env.unwrapped.games == str(tmp_path / "x")  # type: ignore[attr-defined]
    assert pinned.panel.kwargs == {"games": "$GAMES_A/x"}
    monkeypatch.setenv("GAMES_A", str(tmp_path))
    assert pin(spec).digest == pinned.digest


def test_what_a_machine_lacks_makes_a_panel_unavailable_and_a_wrong_argument_is_an_error() -> None:
    with pytest.raises(Unavailable, match="there is no browser on this machine"):
        pin(SuitePanel("a", "toys/Absent-v0", 2))
    with pytest.raises(Unavailable, match="module 'not_installed' cannot be imported"):
        pin(SuitePanel("a", "not_installed:their/Env-v0", 2))
    with pytest.raises(EvaluationError, match=r"panel 'a'.*lenghts"):
        pin(SuitePanel("a", corridor.ID, 2, {"lenghts": [3]}))
    with pytest.raises(EvaluationError, match="unknown level 'sml'"):
        pin(SuitePanel("a", "turncredit/Household-v0", 2, {"level": "sml"}))


@pytest.mark.parametrize(
    ("listed", "reason"), [(None, "toys/Empty-v0 does not list its tasks"), ([], "lists no tasks")]
)
@pytest.mark.parametrize("sample", [True, False])
def test_an_environment_without_a_list_of_tasks_makes_a_panel_unavailable(
    listed: list[str] | None, reason: str, sample: bool
) -> None:
    class Empty(corridor.Corridor):
        task_ids = None if listed is None else lambda self, count=None: listed  # type: ignore[assignment]

    from turncredit.envs import register

    register("toys/Empty-v0", Empty)
    with pytest.raises(Unavailable, match=reason):
        pin(SuitePanel("a", "toys/Empty-v0", 2, sample=sample))


def test_a_package_that_is_not_installed_is_no_mistake_of_the_file(tmp_path: Path) -> None:
    suite = load(tmp_path, PANEL.replace("toys/Corridor-v0", "not_installed:their/Env-v0"))
    assert suite.panels[0].env == "not_installed:their/Env-v0"
