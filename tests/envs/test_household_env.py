"""HouseholdEnv: Gymnasium's contract, options, rewards, generated games and original ones."""

import json
import pickle
import random

import gymnasium
import pytest

import turncredit.envs
from turncredit.envs.errors import EnvError, NoGames, NotReset, StepAfterEnd, UnknownOption, UnknownTask
from turncredit.envs.household import library as module
from turncredit.envs.household.env import HouseholdEnv
from turncredit.envs.household.generator import write

KEYS = {"task", "state", "admissible_actions", "valid", "score", "won", "task_type"}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("TURNCREDIT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(module, "_open", {})
    write(tmp_path / "games", "train", 6, "small")
    return tmp_path / "games"


def test_an_episode_is_won_by_the_plan_with_reward_one_at_its_end():
    env = HouseholdEnv(level="tiny")
    observation, info = env.reset(options={"task": env.task_ids(3)[2]})
    assert "Your task is to: " in observation
    assert set(info) == KEYS
    assert info["admissible_actions"] == sorted(info["admissible_actions"])
    rewards = []
    for action in env.plan():
        assert action in info["admissible_actions"]
        observation, reward, terminated, truncated, info = env.step(action)
        rewards.append(reward)
        assert observation in env.observation_space
        assert not truncated
    assert rewards == [0.0] * (len(rewards) - 1) + [1.0]
    assert terminated
    assert info["won"]
    assert info["score"] == 1.0
    assert env.plan() == []
    with pytest.raises(StepAfterEnd):
        env.step("look")


def test_gymnasium_cuts_after_fifty_turns():
    env = gymnasium.make("turncredit/Household-v0")
    env.reset(seed=0)
    ends = [env.step("look")[2:4] for _ in range(50)]
    assert ends == [(False, False)] * 49 + [(False, True)]


def test_what_is_not_admissible_changes_nothing_and_is_said():
    env = HouseholdEnv()
    _, before = env.reset(seed=3)
    for action in ("", "dance", "Look", "go to", "x" * 100_000, "\x00\ud7ff☃"):
        observation, reward, terminated, _, info = env.step(action)
        assert (observation, reward, terminated, info["valid"]) == ("Nothing happens.", 0.0, False, False)
        assert info["state"] == before["state"]
    assert env.step("  look ")[4]["valid"]
    with pytest.raises(UnknownOption, match="int"):
        env.step(3)


def test_same_seed_and_task_same_episode_and_group_members_start_alike():
    one, other = HouseholdEnv(), HouseholdEnv()
    rng = random.Random(0)
    a, b = one.reset(seed=5), other.reset(seed=5)
    for _ in range(40):
        assert a == b
        action = rng.choice(a[-1]["admissible_actions"])
        a, b = one.step(action), other.step(action)
    third = HouseholdEnv().reset(seed=9, options={"task": a[-1]["task"]})
    assert third[1]["state"] == other.reset(seed=1, options={"task": a[-1]["task"]})[1]["state"]


def test_tasks_are_drawn_from_the_split():
    env = HouseholdEnv(split="held_out", level="tiny", task_types=["look_at_obj_in_light"])
    drawn = {env.reset(seed=seed)[1]["task"] for seed in range(5)}
    assert len(drawn) == 5
    assert all(task.startswith("held_out/tiny") for task in drawn)
    assert env.reset()[1]["task_type"] == "look_at_obj_in_light"
    assert len(env.task_ids()) == 1000
    assert env.task_ids(3) == env.task_ids()[:3]


def test_files_give_their_own_tasks_and_human_words(folder):
    env = HouseholdEnv(folder, render_mode="ansi")
    tasks = env.task_ids()
    assert len(tasks) == 6
    assert env.task_ids(2) == tasks[:2]
    observation, info = env.reset(options={"task": tasks[1]})
    assert info["task"] == tasks[1]
    assert env.render() == observation + "\n"
    env.step("look")
    assert env.render().startswith("> look\n")
    trial = folder / tasks[1] / "traj_data.json"
    data = json.loads(trial.read_text())
    data["turk_annotations"] = {"anns": [{"task_desc": 'Put it {o.name} "there" #task#'}]}
    trial.write_text(json.dumps(data))
    module._open.clear()
    people = HouseholdEnv(folder, goals="human")
    spoken, _ = people.reset(seed=1, options={"task": tasks[1]})
    assert spoken.endswith('Your task is to: Put it {o.name} "there" #task#.')
    assert spoken.split("Your task")[0] == observation.split("Your task")[0]


def test_domain_randomization_deals_the_numbers_anew_in_training_only(folder):
    env = HouseholdEnv(folder, domain_randomization=True)
    task = max(env.task_ids(), key=lambda id: len(env.reset(options={"task": id})[0]))
    texts = {env.reset(seed=seed, options={"task": task})[0] for seed in range(12)}
    assert len(texts) > 1
    assert env.reset(seed=4, options={"task": task}) == env.reset(seed=4, options={"task": task})
    plain = HouseholdEnv(folder)
    assert plain.reset(seed=1, options={"task": task}) == plain.reset(seed=2, options={"task": task})
    for action in env.plan():
        reward = env.step(action)[1]
    assert reward == 1.0


def test_env_can_be_pickled_in_the_middle_of_an_episode():
    env = HouseholdEnv()
    env.reset(seed=2)
    env.step(env.plan()[0])
    other = pickle.loads(pickle.dumps(env))
    for action in env.plan():
        assert env.step(action) == other.step(action)


@pytest.mark.parametrize(
    ("kwargs", "match"),
    [
        ({"split": "trian"}, "train"),
        ({"goals": "humans"}, "human"),
        ({"goals": "human"}, "generated games do not have"),
        ({"level": "smal"}, "small"),
        ({"task_types": ["pick_two"]}, "pick_two_obj_and_place"),
        ({"render_mode": "human"}, "ansi"),
        ({"split": 3}, "train"),
        ({"level": 3}, "level must be one of 'tiny', 'small'.*got 3"),
        ({"level": None}, "level must be one of"),
        ({"task_types": "pick_two_obj"}, "unknown task type 'pick_two_obj'; did you mean 'pick_two_obj_and_place'"),
        ({"task_types": "foo"}, "unknown task type 'foo'; choose one of:"),
        ({"task_types": []}, "one or more different"),
        ({"task_types": 7}, "task_types must be .*got 7"),
        ({"task_types": [7]}, "unknown task type 7"),
        ({"domain_randomization": "maybe"}, "must be True or False, got 'maybe'"),
        ({"games": 3}, "games must be None"),
    ],
)
def test_wrong_options_name_the_choices(kwargs, match):
    with pytest.raises(UnknownOption, match=match):
        HouseholdEnv(**kwargs)


def test_one_task_type_may_stand_alone():
    alone = HouseholdEnv(level="tiny", task_types="pick_two_obj_and_place")
    listed = HouseholdEnv(level="tiny", task_types=["pick_two_obj_and_place"])
    assert alone.task_ids(3) == listed.task_ids(3)
    assert alone.reset(seed=1)[1]["task_type"] == "pick_two_obj_and_place"


def test_wrong_options_of_files_name_the_choices(folder):
    with pytest.raises(UnknownOption, match="unknown split 'trian'; did you mean 'train'"):
        HouseholdEnv(folder, split="trian")
    with pytest.raises(UnknownOption, match="unknown split 3"):
        HouseholdEnv(folder, split=3)
    with pytest.raises(UnknownOption, match="unknown task type 'foo'"):
        HouseholdEnv(folder, task_types="foo")
    kinds = {HouseholdEnv(folder).reset(seed=seed)[1]["task_type"] for seed in range(20)}
    kind = sorted(kinds)[0]
    assert HouseholdEnv(folder, task_types=kind).reset(seed=0)[1]["task_type"] == kind


def test_wrong_calls(folder, tmp_path, monkeypatch):
    env = HouseholdEnv(folder)
    for call in (lambda: env.step("look"), env.plan):
        with pytest.raises(NotReset):
            call()
    with pytest.raises(UnknownTask, match="did you mean"):
        env.reset(options={"task": env.task_ids()[0] + "9"})
    with pytest.raises(UnknownTask):
        HouseholdEnv().reset(options={"task": "train/small/12"})
    with pytest.raises(UnknownTask):
        env.reset(options={"task": 5})
    with pytest.raises(UnknownOption, match="task"):
        env.reset(options={"tsak": "x"})
    with pytest.raises(UnknownOption):
        env.task_ids(-1)
    monkeypatch.setenv("ALFWORLD_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(NoGames, match="ALFWORLD_DATA"):
        HouseholdEnv("alfworld")
    with pytest.raises(EnvError):
        HouseholdEnv(folder, split="valid_seen")
    monkeypatch.setenv("ALFWORLD_DATA", str(folder))
    assert HouseholdEnv("alfworld").task_ids() == env.task_ids()
    assert turncredit.envs.make("turncredit/Household-v0", games=folder).unwrapped.task_ids(1) == env.task_ids(1)
