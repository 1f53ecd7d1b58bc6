"""The generator: stable, disjoint between splits, solvable, sized as the dials say, written as the original files."""

import hashlib
import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from household_games import compiled
from hypothesis import given, settings
from hypothesis import strategies as st

from turncredit.envs.errors import EnvError, UnknownOption, UnknownTask
from turncredit.envs.household import generator, vocabulary
from turncredit.envs.household.engine import World
from turncredit.envs.household.game import compile_game
from turncredit.envs.household.generator import (
    SPLITS,
    generate,
    source,
    task_ids,
    write,
)
from turncredit.envs.household.layout import HouseLayout, LayoutReceptacle, draw_layout
from turncredit.envs.household.level import PRESETS, SHORT_TYPES, TASK_TYPES, HouseholdLevel
from turncredit.tools.keyed_random import KeyedRandom

# ---- the same everywhere ----


def fingerprint() -> str:
    """Digest of some games of every preset and split."""
    digest = hashlib.blake2b(digest_size=8)
    for preset in PRESETS:
        for split in SPLITS:
            for index in range(3):
                game = generate(split, index, preset)
                digest.update("\n".join([game.id, game.task, game.problem_text, *game.walkthrough]).encode())
    return digest.hexdigest()


def test_generate_is_the_same_in_another_process_with_another_hash_seed():
    code = "import sys; sys.path.insert(0, sys.argv[1]); import test_generator as t; print(t.fingerprint())"
    folder = str(Path(__file__).parent)
    outputs = {
        subprocess.run(
            [sys.executable, "-c", code, folder],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        for seed in ("0", "4242")
    }
    assert outputs == {fingerprint()}


def test_the_draws_are_the_published_ones():
    # The sequence that every Python gives; if this fails, all task ids would mean other games.
    draw = KeyedRandom("train/small/000000")
    assert [draw.between(0, 999) for _ in range(4)] == DRAWN


DRAWN = [418, 317, 710, 132]


def test_an_id_alone_is_the_game():
    for task_id in ("train/small/000123", "held_out/tiny/000007", "train/small+closed=0.5+types=put.two/000001"):
        game = source(task_id)
        assert game.id == task_id
        split, level, index = task_id.split("/")
        assert game == generate(split, int(index), level)
        assert game == generate(split, int(index), HouseholdLevel.parse(level))
    assert task_ids("held_out", "tiny", 3, 5) == [f"held_out/tiny/{i:06d}" for i in (5, 6, 7)]


# ---- splits and panels ----


def layouts(split: str, level: str, count: int) -> set[str]:
    return {generate(split, index, level).layout.canonical for index in range(count)}


def test_splits_share_no_game_even_where_games_are_few():
    # Few kinds and places: the same content is met again and again, so that only the rule keeps the splits apart.
    few = "tiny+objects=2-2+receptacles=4-4+types=heat.put"
    train, held_out = layouts("train", few, 250), layouts("held_out", few, 100)
    assert len(train) < 250  # contents do repeat here
    assert not train & held_out


def test_splits_are_told_by_content_whatever_the_dials():
    wide, narrow = "tiny", "tiny+types=put"
    assert not layouts("train", wide, 150) & layouts("held_out", narrow, 50)
    assert not layouts("held_out", wide, 50) & layouts("train", narrow, 150)


@pytest.mark.parametrize(("preset", "count"), [("tiny", 200), ("small", 200), ("large", 40)])
def test_a_held_out_panel_hardly_repeats_a_game(preset: str, count: int):
    assert len(layouts("held_out", preset, count)) >= 0.97 * count


def test_canonical_form_ignores_order_and_nothing_else():
    game = generate("train", 0, "small").layout
    places = tuple(game.places)
    assert HouseLayout(game.goal, places[::-1]).canonical == game.canonical
    first = next(place for place in places if place.holds)
    emptied = tuple(LayoutReceptacle(p.kind, p.opened, p.spot, [] if p is first else p.holds) for p in places)
    assert HouseLayout(game.goal, emptied).canonical != game.canonical
    opened = tuple(
        LayoutReceptacle(p.kind, None if p.opened is None else not p.opened, p.spot, p.holds) for p in places
    )
    assert HouseLayout(game.goal, opened).canonical != game.canonical


# ---- what is generated ----


@pytest.mark.parametrize("preset", list(PRESETS))
def test_games_are_as_big_as_the_preset_says_and_of_all_types(preset: str):
    level = PRESETS[preset]
    types: Counter[str] = Counter()
    for index in range(60):
        game = generate("train", index, preset)
        types[game.task_type] += 1
        assert level.receptacles[0] <= len(game.layout.places) <= level.receptacles[1]
        assert level.objects[0] <= sum(len(place.holds) for place in game.layout.places) <= level.objects[1]
        assert all(vocabulary.RECEPTACLES[place.kind].level <= level.words for place in game.layout.places)
    assert set(types) == set(TASK_TYPES)
    assert max(types.values()) <= 30


def test_the_vocabulary_of_the_small_presets_is_small():
    def words(preset: str) -> set[str]:
        return {
            kind for i in range(150) for p in generate("train", i, preset).layout.places for kind in (p.kind, *p.holds)
        }

    assert words("tiny") <= {
        "counter",
        "cabinet",
        "fridge",
        "microwave",
        "sink",
        "mug",
        "apple",
        "plate",
        "lamp",
        "potato",
    }
    assert len(words("small")) <= 26


def test_things_lie_where_they_are_usually_found():
    found: Counter[str] = Counter()
    for index in range(300):
        for place in generate("train", index, "small+rooms=kitchen+types=heat").layout.places:
            found[place.kind] += place.holds.count("egg")
    assert found["fridge"] > 2 * max(count for kind, count in found.items() if kind != "fridge")


def test_hidden_puts_the_goal_behind_doors():
    def behind_doors(hidden: float) -> int:
        count = 0
        for index in range(80):
            layout = generate("train", index, f"small+closed=1.0+hidden={hidden}+types=heat").layout
            count += any(p.opened is False and layout.goal.thing in p.holds for p in layout.places)
        return count

    assert behind_doors(1.0) > behind_doors(0.0) + 15


@pytest.mark.parametrize("preset", list(PRESETS))
def test_walkthroughs_win_in_the_engine(preset: str):
    for index in range(20):
        game = generate("held_out" if index % 2 else "train", index, preset)
        world = World(compiled(game))
        intro = world.reset()
        assert f"Your task is to: {game.task}" in intro
        assert not world.won
        for command in game.walkthrough:
            assert not world.won
            assert command in world.admissible()
            world.step(command)
        assert world.won


@st.composite
def any_level(draw: st.DrawFn) -> HouseholdLevel:
    def span(low: int, high: int) -> st.SearchStrategy[tuple[int, int]]:
        return st.tuples(st.integers(low, high), st.integers(low, high)).map(lambda pair: (min(pair), max(pair)))

    share = st.floats(0, 1).map(lambda x: round(x, 3))
    return HouseholdLevel(
        words=draw(st.integers(0, 2)),
        rooms=tuple(draw(st.lists(st.sampled_from(sorted(vocabulary.ROOMS)), min_size=1, max_size=3, unique=True))),
        types=tuple(draw(st.lists(st.sampled_from(TASK_TYPES), min_size=1, unique=True))),
        receptacles=draw(span(3, 30)),
        objects=draw(span(2, 30)),
        openable=draw(st.floats(0, 5).map(lambda x: round(x, 3))),
        closed=draw(share),
        hidden=draw(share),
        strays=draw(share),
        copies=draw(share),
        shared=draw(share),
    )


@settings(max_examples=60, deadline=None)
@given(any_level(), st.integers(0, 10**12 - 1), st.sampled_from(SPLITS))
def test_any_dials_give_winnable_games_or_say_why_not(level: HouseholdLevel, index: int, split: str):
    assert HouseholdLevel.parse(level.text) == level
    try:
        game = generate(split, index, level)
    except UnknownOption:
        return  # the rooms cannot hold the tasks, or there are too few games
    assert source(game.id) == game
    assert game.task_type in level.types
    world = World(compiled(game))
    world.reset()
    assert not world.won
    for command in game.walkthrough:
        assert world.apply(command)
    assert world.won


# ---- the catalogue ----


def test_every_home_exists_and_every_kind_has_one_in_some_room():
    in_rooms = {kind for room in vocabulary.ROOMS.values() for kind, *_ in room.receptacles}
    assert in_rooms == set(vocabulary.RECEPTACLES)
    for thing in vocabulary.OBJECTS.values():
        assert thing.homes
        for home, weight in thing.homes:
            assert home in vocabulary.RECEPTACLES
            assert weight > 0
            assert thing.name in vocabulary.accepts(home)
    for name in (*vocabulary.RECEPTACLES, *vocabulary.OBJECTS):
        assert name.isalpha()
        assert name.islower()
        assert len(name) <= 12
    assert not set(vocabulary.RECEPTACLES) & set(vocabulary.OBJECTS)


def test_lamps_stand_in_the_open():
    lamps = [thing for thing in vocabulary.OBJECTS.values() if "light" in thing.can]
    assert lamps
    for lamp in lamps:
        assert not any(vocabulary.RECEPTACLES[home].openable for home, _ in lamp.homes)


# ---- files ----


def test_written_games_are_the_generated_ones(tmp_path):
    paths = write(tmp_path, "train", 5, "tiny")
    assert len(set(paths)) == 5
    for index, path in enumerate(paths):
        game = generate("train", index, "tiny")
        data = json.loads(path.read_text(encoding="utf-8"))
        assert data["pddl_problem"] == game.problem_text
        assert data["walkthrough"] == list(game.walkthrough)
        assert data["solvable"] is True
        assert f"Your task is to: {game.task}" in data["grammar"]
        trial = json.loads((path.parent / "traj_data.json").read_text(encoding="utf-8"))
        assert trial["task_type"] == game.task_type
        assert path.relative_to(tmp_path).parts[0] == "train"
        assert "movable" not in str(path)  # the original loader skips those
        assert "Sliced" not in str(path)
        world = World(compile_game(data["pddl_domain"], data["grammar"], data["pddl_problem"]))
        assert game.task in world.reset()
        assert all(world.apply(command) for command in game.walkthrough)
        assert world.won


# ---- wrong arguments ----


@pytest.mark.parametrize(
    ("call", "error", "says"),
    [
        (lambda: generate("trian", 0), UnknownTask, "did you mean 'train'"),
        (lambda: generate("train", -1), UnknownTask, "-1"),
        (lambda: source("train/small/1"), UnknownTask, "train/small/000123"),
        (lambda: source("train/small/0000001"), UnknownTask, "train/small/000001"),
        (lambda: source("train/smal/000001"), UnknownOption, "did you mean 'small'"),
        (lambda: HouseholdLevel.parse("small+closd=1"), UnknownOption, "did you mean 'closed'"),
        (lambda: HouseholdLevel.parse("small+closed=x"), UnknownOption, "closed"),
        (lambda: HouseholdLevel.parse("small+closed=2"), UnknownOption, "from 0 to 1"),
        (lambda: HouseholdLevel.parse("small+closed=nan"), UnknownOption, "from 0 to 1"),
        (lambda: HouseholdLevel.parse("small+types=putt"), UnknownOption, "putt"),
        (lambda: HouseholdLevel.parse("small+rooms=kitchn"), UnknownOption, "did you mean 'kitchen'"),
        (lambda: HouseholdLevel.parse("small+objects=5-2"), UnknownOption, "least <= most"),
        (lambda: HouseholdLevel(words=3), UnknownOption, "words"),
        (lambda: generate("train", 0, "small+rooms=bedroom+types=heat"), UnknownOption, "bedroom"),
    ],
)
def test_wrong_arguments_are_named(call, error, says):
    with pytest.raises(error, match=says) as caught:
        call()
    assert isinstance(caught.value, EnvError)


def test_dials_that_leave_too_few_games_are_named(monkeypatch):
    needs_more = next(i for i in range(100) if not _first_layout_is_held_out(i))
    monkeypatch.setattr(generator, "MAX_DRAWS", 1)
    with pytest.raises(UnknownOption, match="too few different games"):
        generate("held_out", needs_more, "small")


def _first_layout_is_held_out(index: int) -> bool:
    return draw_layout(KeyedRandom(f"held_out/small/{index:06d}"), PRESETS["small"]).digest % 4 == 0


def test_short_names_of_types_cover_all():
    assert set(SHORT_TYPES.values()) == set(TASK_TYPES)
    assert HouseholdLevel.parse("small+types=put.look.clean.heat.cool.two") == PRESETS["small"]
