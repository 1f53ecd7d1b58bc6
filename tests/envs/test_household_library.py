"""Games on the disk: folders and packed files, the cache, packing; and what is torn, empty or misnamed."""

import json
import lzma
import os
import shutil
import time
from functools import partial

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from turncredit.envs.errors import EnvError, GameFileError, NoGames, SkippedGames, UnknownOption, UnknownTask
from turncredit.envs.household import HouseholdEnv, game_files
from turncredit.envs.household import library as module
from turncredit.envs.household.engine import World
from turncredit.envs.household.game_files import playable, task_type_of, without_task
from turncredit.envs.household.generator import grammar_text, write
from turncredit.envs.household.library import GameLibrary, pack
from turncredit.envs.household.record_file import open_records, write_records
from turncredit.tools.readers import read_records


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("TURNCREDIT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(module, "_open", {})
    return tmp_path / "cache"


@pytest.fixture
def folder(tmp_path):
    base = tmp_path / "json_2.1.1"
    write(base, "train", 4, "tiny")
    write(base, "held_out", 2, "tiny")
    return base


def texts(library):
    return [World(library.get(id)).reset() for id in library.ids()]


def test_folder_its_parent_packed_file_and_cache_hold_the_same_games(folder, tmp_path, own_cache):
    cold = GameLibrary.open(folder)
    assert cold.splits == ("train", "held_out")
    assert len(cold.ids("train")) == 4
    module._open.clear()
    assert list(own_cache.iterdir())
    warm, parent = GameLibrary.open(folder), GameLibrary.open(tmp_path)
    out = tmp_path / "packed" / "games.jsonl.xz"
    assert pack(folder, out) == 6
    packed = GameLibrary.open(out)
    assert GameLibrary.open(out.parent).ids() == packed.ids()
    for other in (warm, parent, packed, GameLibrary.open(folder, cache=False)):
        assert other.ids() == cold.ids()
        assert texts(other) == texts(cold)
        assert [other.task_type(id) for id in other.ids()] == [cold.task_type(id) for id in cold.ids()]
        assert [other.humans(id) for id in other.ids()] == [cold.humans(id) for id in cold.ids()]


def test_alfworld_data_may_name_a_tree_its_parent_a_packed_file_or_its_folder(folder, tmp_path, monkeypatch):
    out = tmp_path / "packed" / "games.jsonl.xz"
    pack(folder, out)
    found = []
    for place in (folder, tmp_path, out, out.parent):
        monkeypatch.setenv("ALFWORLD_DATA", str(place))
        env = HouseholdEnv("alfworld", split="train")
        found.append((env.task_ids(), env.reset(options={"task": env.task_ids()[1]})[0]))
    assert len(found[0][0]) == 4
    assert all(one == found[0] for one in found)


def test_without_traj_data_the_folder_names_the_task_type(folder):
    kinds = [GameLibrary.open(folder).task_type(id) for id in GameLibrary.open(folder).ids()]
    for file in folder.rglob("traj_data.json"):
        file.unlink()
    module._open.clear()
    bare = GameLibrary.open(folder)
    assert [bare.task_type(id) for id in bare.ids()] == kinds
    with pytest.raises(UnknownTask, match="has no annotations"):
        bare.get(bare.ids()[0], human=0)


def test_unsolvable_movable_and_sliced_games_are_left_out(folder):
    ids = GameLibrary.open(folder).ids("train")
    path = folder / ids[0] / "game.tw-pddl"
    path.write_text(json.dumps({**json.loads(path.read_text()), "solvable": False}))
    shutil.move(folder / ids[1], folder / "train" / "look_at_obj_in_light-AppleSliced-None-DeskLamp-1")
    shutil.move(folder / ids[2], folder / "train" / "pick_and_place_with_movable_recep-Pen-Mug-Desk-1")
    module._open.clear()
    assert GameLibrary.open(folder).ids("train") == [ids[3]]


def test_a_changed_file_is_read_again(folder):
    before = GameLibrary.open(folder)
    id = before.ids()[0]
    path = folder / id / "game.tw-pddl"
    data = json.loads(path.read_text())
    path.write_text(json.dumps({**data, "walkthrough": ["look"]}))
    os.utime(path, (time.time() + 5, time.time() + 5))
    module._open.clear()
    assert GameLibrary.open(folder).get(id).walkthrough == ("look",)


def test_a_torn_or_foreign_cache_is_made_anew(folder, own_cache):
    expected = GameLibrary.open(folder).ids()
    (file,) = own_cache.iterdir()
    whole = file.read_bytes()
    for content in (whole[: len(whole) // 2], whole[:-1], b"", b"something else", whole[:-30] + b"x" * 30):
        file.write_bytes(content)
        module._open.clear()
        assert GameLibrary.open(folder).ids() == expected
        assert file.read_bytes() == whole


def test_without_a_writable_cache_games_stay_in_memory(folder, tmp_path, monkeypatch):
    expected = texts(GameLibrary.open(folder))
    (tmp_path / "blocked").write_text("a file where a folder should be")
    monkeypatch.setenv("TURNCREDIT_CACHE", str(tmp_path / "blocked"))
    assert texts(GameLibrary.open(folder)) == expected


def test_store_gives_back_what_was_written_and_only_for_its_key(tmp_path):
    records = [([f"id{number}", None], os.urandom(number * 7)) for number in range(5)]
    written = write_records(tmp_path / "s", "key", iter(records), {"a": 1})
    found = open_records(tmp_path / "s", "key")
    assert found is not None
    assert [found.read(number) for number in range(5)] == [content for _, content in records]
    assert (found.head, [meta for meta, _, _ in found.entries]) == (written.head, [meta for meta, _ in records])
    assert open_records(tmp_path / "s", "other") is None


def test_task_sentence_is_taken_out_of_a_grammar():
    grammar = grammar_text()
    for sentence in ("put a mug in shelf.", 'say "hi"\\ now.'):
        assert without_task(grammar.replace("UNKNOWN GOAL.", json.dumps(sentence)[1:-1])) == (grammar, sentence)
    assert without_task(grammar) == (grammar, None)
    assert task_type_of("valid_seen/pick_two_obj_and_place-Pen-None-Desk-3/trial") == "pick_two_obj_and_place"
    assert task_type_of("train/pick_two") is None
    assert not playable("train/pick_and_place_simple-AppleSliced-None-Desk-1/trial")


@pytest.mark.parametrize(
    ("content", "match"),
    [
        (b"", "damaged file"),
        (b'{"pddl_domain": "(define', "damaged file"),
        (b"[]", "list"),
        (b'{"solvable": true}', "grammar"),
        (b"\xff\xfe", "damaged file"),
    ],
)
def test_a_torn_game_file_is_one_clear_error(folder, content, match):
    path = next(folder.rglob("game.tw-pddl"))
    path.write_bytes(content)
    with pytest.raises(GameFileError, match=match) as caught:
        GameLibrary.open(folder)
    assert str(path) in str(caught.value)


def test_places_without_games(tmp_path):
    empty = tmp_path / "empty"
    empty.mkdir()
    for place in (empty, tmp_path / "missing"):
        with pytest.raises(NoGames, match="no games"):
            GameLibrary.open(place)
    lonely = tmp_path / "games.jsonl"
    lonely.write_text("{}")
    with pytest.raises(NoGames, match=r"domain\.pddl"):
        GameLibrary.open(lonely)


def test_unknown_ids_splits_and_types_come_with_the_near_name(folder):
    library = GameLibrary.open(folder)
    id = library.ids()[0]
    with pytest.raises(UnknownTask, match="did you mean"):
        library.get(id + "x")
    with pytest.raises(UnknownOption, match="train"):
        library.ids("trian")
    with pytest.raises(UnknownOption, match="pick_two_obj_and_place"):
        library.ids("train", ["pick_two_obj"])


def test_packing_refuses_what_it_cannot_do(folder, tmp_path):
    with pytest.raises(UnknownOption, match="jsonl"):
        pack(folder, tmp_path / "games.zip")
    pack(folder, tmp_path / "p" / "games.jsonl")
    with pytest.raises(UnknownOption, match="already packed"):
        pack(tmp_path / "p" / "games.jsonl", tmp_path / "q" / "games.jsonl")
    assert sorted(path.name for path in (tmp_path / "p").iterdir()) == [
        "annotations.jsonl.xz",
        "domain.pddl",
        "games.jsonl",
        "grammar.twl2",
    ]


@pytest.mark.filterwarnings("ignore::turncredit.envs.errors.SkippedGames")
@pytest.mark.filterwarnings("ignore::turncredit.envs.errors.UndeclaredType")  # damage may hit the name of a type
@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(st.data())
def test_a_damaged_packed_file_gives_games_or_the_one_error(folder, tmp_path, data):
    out = tmp_path / "packed" / "games.jsonl"
    if not out.exists():
        pack(folder, out)
        out.with_suffix(".whole").write_bytes(out.read_bytes())
    whole = out.with_suffix(".whole").read_bytes()
    position = data.draw(st.integers(0, len(whole)))
    out.write_bytes(
        whole[:position] + data.draw(st.binary(max_size=3)) + whole[position + data.draw(st.integers(0, 3)) :]
    )
    module._open.clear()
    try:
        library = GameLibrary.open(out, cache=False)
        for id in library.ids():
            World(library.get(id)).reset()
    except EnvError:
        return
    assert len(library) > 0


def test_original_games_open_from_raw_files_and_packed_file_alike(data_dir):
    raw = GameLibrary.open(data_dir / "alfworld" / "raw_samples")
    packed = GameLibrary.open(data_dir / "alfworld" / "games.jsonl.xz")
    assert len(packed) == 3827
    assert [len(packed.ids(split)) for split in packed.splits] == [3553, 140, 134]
    assert len(packed.ids("train", ["pick_and_place_simple"])) == 790
    for id in raw.ids():
        one, other = World(raw.get(id)), World(packed.get(id))
        assert one.reset() == other.reset()
        assert one.admissible() == other.admissible()
        assert packed.humans(id)


def test_a_torn_xz_file_is_one_clear_error(tmp_path, folder):
    out = tmp_path / "packed" / "games.jsonl.xz"
    pack(folder, out)
    out.write_bytes(out.read_bytes()[:-40])
    with pytest.raises(GameFileError, match="damaged file"):
        GameLibrary.open(out)
    out.write_bytes(lzma.compress(b"\n"))
    with pytest.raises(NoGames):
        GameLibrary.open(out)


def test_games_without_the_key_solvable_are_counted_and_told(folder):
    ids = GameLibrary.open(folder).ids("train")
    files = [folder / id / "game.tw-pddl" for id in ids]
    for file, change in ((files[0], {}), (files[1], {}), (files[2], {"solvable": False})):
        data = {key: value for key, value in json.loads(file.read_text()).items() if key != "solvable"}
        file.write_text(json.dumps({**data, **change}))
    shutil.move(files[3].parent, folder / "train" / "look_at_obj_in_light-AppleSliced-None-DeskLamp-1")
    for _ in ("read", "from the cache"):
        module._open.clear()
        with pytest.warns(SkippedGames, match=r"4 of 6 games are left out \(1 marked as not solvable, 1 with movable"):
            library = GameLibrary.open(folder)
        assert library.skipped == {
            "without the key 'solvable'": 2,
            "marked as not solvable": 1,
            "with movable receptacles or sliced objects": 1,
        }
    with pytest.raises(NoGames, match=r"no playable games in .*: 4 of 4 games are left out .* 2 without the key 'solv"):
        GameLibrary.open(folder / "train")


def test_without_games_of_unknown_kind_nothing_is_told(folder, recwarn):
    assert GameLibrary.open(folder).skipped == {}
    assert not [warning for warning in recwarn if issubclass(warning.category, SkippedGames)]


@pytest.mark.parametrize("depth", [1, 2, 3, 4], ids=["split", "task", "trial", "file"])
def test_a_part_of_the_folder_holds_its_games_under_the_same_ids(folder, depth):
    whole = GameLibrary.open(folder)
    id = whole.ids("held_out")[0]
    part = folder.joinpath(*[*id.split("/"), "game.tw-pddl"][:depth])
    library = GameLibrary.open(part)
    assert set(library.ids()) <= set(whole.ids("held_out"))
    assert World(library.get(id)).reset() == World(whole.get(id)).reset()
    env = HouseholdEnv(part)
    assert env.reset(options={"task": id})[1]["task"] == id
    with pytest.raises(UnknownOption, match="held_out"):
        HouseholdEnv(part, split="train")


def test_a_game_file_alone_is_played_under_any_name(folder, tmp_path):
    id = GameLibrary.open(folder).ids()[0]
    (tmp_path / "alone").mkdir()
    file = tmp_path / "alone" / "mine.tw-pddl"
    shutil.copy(folder / id / "game.tw-pddl", file)
    env = HouseholdEnv(file)
    assert env.task_ids() == ["alone/mine"]
    assert env.reset()[1]["task"] == "alone/mine"


def test_compiled_games_are_one_sentence(tmp_path):
    (tmp_path / "games").mkdir()
    (file := tmp_path / "games" / "tw-cooking.z8").write_bytes(b"\x08\x00")
    for place in (file, file.parent):
        with pytest.raises(
            NoGames, match=r"tw-cooking\.z8 is compiled for TextWorld's interpreter; turncredit plays the PDDL"
        ):
            GameLibrary.open(place)


def test_a_line_of_a_packed_file_has_a_limit(folder, tmp_path, monkeypatch):
    out = tmp_path / "packed" / "games.jsonl.xz"
    pack(folder, out)
    monkeypatch.setattr(game_files, "read_records", partial(read_records, max_line=100))
    with pytest.raises(GameFileError, match="line 1: more than 100 bytes"):
        GameLibrary.open(out)
