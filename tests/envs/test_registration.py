"""Environments by name, ours and other people's."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import types
import warnings
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import gymnasium
import pytest
from toys.corridor import ID, Corridor
from toys.registrations import TESTS, forgotten

import turncredit.envs
from turncredit.envs import (
    EnvError,
    UnknownEnv,
    UnknownOption,
    demonstrators,
    env_ids,
    load_plugins,
    make,
    register,
    takes,
)
from turncredit.envs import registration as registration


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a test registers is forgotten after it."""
    monkeypatch.setattr(registration, "_listed", set(registration._listed))
    monkeypatch.setattr(registration, "_loaded", set(registration._loaded))
    before = dict(gymnasium.registry)
    yield
    gymnasium.registry.clear()
    gymnasium.registry.update(before)


def plugin(monkeypatch: pytest.MonkeyPatch, name: str, function: Any) -> None:
    """Make a package appear to be installed that announces `function` under `name`."""
    package = types.ModuleType("pretend_package")
    package.announce = function  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "pretend_package", package)
    point = EntryPoint(name, "pretend_package:announce", registration.GROUP)
    monkeypatch.setattr(registration, "entry_points", lambda group: [point] if group == registration.GROUP else [])


def test_importing_the_package_registers_our_environments_with_gymnasium():
    spec = gymnasium.spec("turncredit/Household-v0")
    assert spec.max_episode_steps == 50
    assert "turncredit/Household-v0" in env_ids()


def test_gymnasium_finds_ours_by_module_without_an_import():
    code = "import gymnasium; print(gymnasium.make('toys.corridor:toys/Corridor-v0'))"
    folder = next(path for path in sys.path if path.endswith("tests"))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=folder, timeout=300)
    assert done.stdout.strip().endswith("<Corridor<toys/Corridor-v0>>>>"), done.stderr


def test_our_own_entry_point_is_the_one_that_packages_are_told_to_write():
    from importlib.metadata import entry_points

    values = {point.value: point for point in entry_points(group=registration.GROUP)}
    assert values["turncredit.envs:register_envs"].load() is turncredit.envs.register_envs


def test_making_one_gives_the_limit_and_the_guard():
    env = make(ID, lengths=(3,))
    assert [type(layer).__name__ for layer in layers(env)] == ["EndGuard", "TimeLimit", "Corridor"]
    assert env.get_wrapper_attr("task_ids")() == Corridor(lengths=(3,)).task_ids()
    assert make(ID, max_episode_steps=-1).spec.max_episode_steps is None  # type: ignore[union-attr]


def layers(env: Any) -> list[Any]:
    found = [env]
    while isinstance(found[-1], gymnasium.Wrapper):
        found.append(found[-1].env)
    return found


def test_gymnasiums_own_checker_has_nothing_to_say_about_texts():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        env = gymnasium.make(ID, disable_env_checker=False)
        env.reset(seed=0)
        env.step("look")


@pytest.mark.parametrize("name", ["toys/Corridor", "toys/Corridor-v0", "toys.corridor:toys/Corridor-v0"])
def test_a_name_may_lack_its_version_or_carry_its_module(name: str):
    assert isinstance(make(name).unwrapped, Corridor)


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("toys/Coridor-v0", "toys/Corridor-v0"),
        ("turncredit/Houshold-v0", "turncredit/Household-v0"),
        ("Household-v0", "turncredit/Household-v0"),
        ("household-v0", "turncredit/Household-v0"),
        ("turncredit/Household-v7", "turncredit/Household-v0"),
        ("CartPol-v1", "CartPole-v1"),
    ],
)
def test_an_unknown_id_names_the_near_one(name: str, near: str):
    with pytest.raises(UnknownEnv) as caught:
        make(name)
    assert repr(name) in str(caught.value)
    assert repr(near) in str(caught.value)


def test_an_id_like_no_other_lists_the_choices():
    with pytest.raises(UnknownEnv, match=r"choose one of: .*turncredit/Household-v0"):
        make("zzz")
    for odd in ("", "a b", ":", "no.such.module:x/Y-v0"):
        with pytest.raises(UnknownEnv):
            make(odd)


def test_an_unknown_keyword_names_the_near_one_before_anything_is_made():
    with pytest.raises(UnknownOption, match=r"has no argument 'random_strat'; did you mean 'random_start'\?"):
        make(ID, random_strat=True)
    with pytest.raises(UnknownOption, match=r"did you mean 'max_episode_steps'\?"):
        make(ID, max_episode_step=3)


def test_registering_twice_is_once_and_another_under_the_same_name_is_refused(registry: None):
    register("toys/Twice-v0", "toys.corridor:Corridor")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        register("toys/Twice-v0", "toys.corridor:Corridor")
        turncredit.envs.register_envs()
    with pytest.raises(EnvError, match="already registered"):
        register("toys/Twice-v0", "toys.broken:Dice")
    with pytest.raises(EnvError, match="cannot be registered"):
        register("no name at all", "toys.corridor:Corridor")


def test_a_definition_loaded_again_replaces_the_first(registry: None, tmp_path: Path):
    """As a notebook's cell that runs twice, and as a file that is imported under two names."""
    source = "import toys.corridor\ndef entry(**options): return toys.corridor.Corridor(lengths=({},), **options)\n"
    for length in (3, 4):
        cell: dict[str, Any] = {"__name__": "__main__"}
        exec(source.format(length), cell)
        register("toys/Cell-v0", cell["entry"])
    assert {task.split("-")[1] for task in make("toys/Cell-v0").unwrapped.task_ids()} == {"4"}  # type: ignore[attr-defined]

    path = tmp_path / "loaded_twice.py"
    path.write_text(source.format(5))
    for name in ("loaded_twice", "package.loaded_twice"):
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        register("toys/File-v0", module.entry)

    other: dict[str, Any] = {"__name__": "other"}
    exec(source.format(6), other)
    with pytest.raises(EnvError, match="already registered"):
        register("toys/File-v0", other["entry"])


def test_the_newest_version_is_taken_where_none_is_given(registry: None):
    register("toys/Aged-v1", "toys.corridor:Corridor", kwargs={"lengths": (3,)})
    register("toys/Aged-v10", "toys.corridor:Corridor", kwargs={"lengths": (4,)})
    register("toys/Aged-v2", "toys.corridor:Corridor", kwargs={"lengths": (5,)})
    assert make("toys/Aged").spec.id == "toys/Aged-v10"  # type: ignore[union-attr]


def test_a_missing_module_is_a_sentence(registry: None):
    register("toys/Gone-v0", "toys.gone:Gone")
    with pytest.raises(EnvError, match=r"toys/Gone-v0 cannot be made: .*toys.gone"):
        make("toys/Gone-v0")


@pytest.mark.parametrize(("name", "id"), [("__root__", "theirs/Maze-v0"), ("theirs", "theirs/Maze-v0")])
def test_other_packages_register_by_an_entry_point(registry: None, monkeypatch: pytest.MonkeyPatch, name: str, id: str):
    """With the key __root__ the ids are as given; another key is their namespace."""
    given = id if name == "__root__" else "Maze-v0"
    plugin(monkeypatch, name, lambda: register(given, "toys.corridor:Corridor"))
    assert isinstance(make(id).unwrapped, Corridor)
    assert id in env_ids()


def test_a_plugin_that_fails_is_warned_about_and_takes_nobody_down(registry: None, monkeypatch: pytest.MonkeyPatch):
    def fails() -> None:
        raise RuntimeError("no licence")

    plugin(monkeypatch, "broken", fails)
    with pytest.warns(RuntimeWarning, match="broken = pretend_package:announce.*no licence"):
        load_plugins()
    assert ID in env_ids()
    register("toys/After-v0", "toys.corridor:Corridor")
    assert "toys/After-v0" in gymnasium.registry


def test_whether_an_environment_takes_an_option_is_known_before_it_is_made():
    assert takes("turncredit/Household-v0", "split")
    assert not takes("turncredit/Household-v0", "splits")


def test_an_environment_names_its_demonstrators_before_it_is_made():
    known = demonstrators("turncredit/Household")
    player = known["searcher"]()
    assert player is not known["searcher"]()
    player.start("You are in the middle of a room. Looking quickly around you, you see a desk 1.\n\n"
                 "Your task is to: put a pen in desk.")  # fmt: skip
    assert player.act("Nothing happens.", ["go to desk 1", "look"]) == "go to desk 1"
    assert demonstrators(ID) == {}
    with pytest.raises(UnknownEnv, match="Household"):
        demonstrators("turncredit/Houshold-v0")


def test_what_a_test_registers_is_forgotten_after_it():
    """And what a module of the toys registers on its import, or a package, is not."""
    with forgotten():
        for number in range(30):  # more than a list of choices names
            register(f"toys/Many{number}-v0", "toys.corridor:Corridor")
            register(f"toys/Own{number}-v0", lambda **options: Corridor(**options))
        gymnasium.register("theirs/Kept-v0", "gymnasium.envs.toy_text.taxi:TaxiEnv")
        module = types.ModuleType("late_toys")
        module.__file__ = str(TESTS / "toys" / "late_toys.py")
        sys.modules["late_toys"] = module
        register("toys/Late-v0", "late_toys:Late")
    try:
        assert {"theirs/Kept-v0", "toys/Late-v0", ID} <= set(gymnasium.registry)
        assert not [name for name in env_ids() if name.startswith(("toys/Many", "toys/Own"))]
    finally:
        del sys.modules["late_toys"], gymnasium.registry["theirs/Kept-v0"], gymnasium.registry["toys/Late-v0"]
