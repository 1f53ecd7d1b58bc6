"""The service desk: the contract, scores, messages, native calls, snapshots, and actions that a model might write."""

from __future__ import annotations

import functools
import hashlib
import json
import pickle
import time
from datetime import date, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turncredit.envs import BadSnapshot, EnvError, UnknownOption, UnknownTask, check_env, make
from turncredit.envs.check import Effort
from turncredit.envs.desk import DOMAINS, QUALITIES, DeskEnv
from turncredit.envs.desk.env import LONGEST_MESSAGE
from turncredit.envs.desk.generator import SPLITS, generate, split_of, task_ids
from turncredit.envs.desk.level import PRESETS
from turncredit.envs.toolenv import MAX_CALLS
from turncredit.tools.functions import CALL_FORMATS, Call

USERS = [*QUALITIES, "mixed"]


def play_plan(env: Any, **options: Any) -> tuple[list[str], Any]:
    """Follow the expert, asked before every turn; return the observations and the last step."""
    observation, _ = env.reset(**options)
    seen, last = [observation], None
    while last is None or not (last[2] or last[3]):
        last = env.step(env.get_wrapper_attr("plan")()[0])
        seen.append(last[0])
    return seen, last


@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize("domain", DOMAINS)
@pytest.mark.parametrize("level", PRESETS)
def test_the_expert_wins_with_every_user(domain: str, level: str, user: str) -> None:
    env = make("turncredit/Desk-v0", domain=domain, level=level, user=user)
    for seed, task in enumerate(env.get_wrapper_attr("task_ids")(4)):
        _, last = play_plan(env, seed=seed, options={"task": task})
        assert (last[1], last[2], last[4]["won"]) == (1.0, True, True), task
        assert last[4]["reward_parts"]["database"] == last[4]["reward_parts"]["told"] == 1.0


@pytest.mark.parametrize("form", CALL_FORMATS)
@pytest.mark.parametrize("native", [False, True])
def test_the_expert_wins_in_every_form(form: str, native: bool) -> None:
    env = DeskEnv(form=form, native=native, user="forgetful")
    _, last = play_plan(env, seed=1, options={"task": "library/train/small/000001"})
    assert last[4]["won"]


@pytest.mark.parametrize(("domain", "user"), [("library", "mixed"), ("repair_shop", "confused")])
def test_the_desk_keeps_the_contract(domain: str, user: str) -> None:
    effort = Effort.light()
    report = check_env("turncredit/Desk-v0", kwargs={"domain": domain, "user": user}, tasks=2, effort=effort)
    assert report.ok, report
    for rule in ("plan", "snapshot", "forks", "state-equal", "deterministic"):
        assert report[rule].outcome == "ok"


@pytest.mark.parametrize("domain", DOMAINS)
def test_doing_nothing_and_saying_everything_at_once_do_not_pay(domain: str) -> None:
    env = DeskEnv(domain=domain)
    for task in env.task_ids(40):
        env.reset(seed=0, options={"task": task})
        _, reward, over, _, info = env.step("<close/>")
        assert (reward, over, info["won"]) == (0.0, True, False), task
    task = next(task for task in env.task_ids(60) if generate(task).before == generate(task).after)
    (text, *_) = generate(task).told
    lookups = [action for action in _start(env, task) if not action.startswith(("<say>", "<close"))]

    def told(*actions: str) -> float:
        _start(env, task)
        for action in actions:
            observation, _, _, _, info = env.step(action)
            assert info["valid"], observation
        lists = "none of them counts" in observation
        again = BadSnapshot if env.episode.ended else None
        assert again or env.restore(env.snapshot())[1]["state"] == info["state"]
        if lists:
            with pytest.raises(EnvError, match="can no longer be solved"):
                env.plan()
        return env.step("<close/>")[1]

    say = f"<say>It is {text}.</say>"
    assert told(say) == 0.0  # a guess
    assert told(say, *lookups) == 0.0
    assert told(*lookups, say) == 1.0
    assert told(*lookups, "<say>It is 1 or 2 or 3 or 4 or 5 or 6 or 7.</say>", say) == 0.0
    assert told(*lookups, *(f"<say>It is {number}.</say>" for number in range(7)), say) == 0.0
    assert told(*lookups, say, *(f"<say>It is {number}.</say>" for number in range(7))) == 0.0
    known = " ".join(fact.value for fact in generate(task).facts)
    assert told(*lookups, f"<say>1 2 3 {known}</say>", say) == 1.0  # what the user knows may be repeated


def _start(env: DeskEnv, task: str) -> list[str]:
    """Reset to a task, and return the plan."""
    env.reset(seed=0, options={"task": task})
    return env.plan()


def test_all_possible_answers_without_a_lookup_win_nothing() -> None:
    env, played = DeskEnv(domain="repair_shop"), 0
    first = date(2026, 1, 5) - timedelta(days=400)
    days = [(first + timedelta(days=day)).isoformat() for day in range(1101)]
    for task in (task for task in env.task_ids(60) if generate(task).family == "repair_shop warranty"):
        assert generate(task).told[0] in days
        env.reset(seed=0, options={"task": task})
        for day in days:  # one at a time
            env.step(f"<say>{day}</say>")
        assert env.step("<close/>")[1] == 0.0, task
        played += 1
    assert played >= 3


@pytest.mark.parametrize("tool", ["find_customer", "find_device", "list_slots", "cancel_booking", "find_part"])
def test_what_a_tool_repeats_of_its_arguments_was_not_returned(tool: str) -> None:
    env = DeskEnv(domain="repair_shop")
    task = next(task for task in env.task_ids(60) if generate(task).family == "repair_shop warranty")
    env.reset(seed=0, options={"task": task})
    day = generate(task).told[0]
    observation, _, _, _, info = env.step(f"<{tool}>{day}</{tool}>")
    assert info["valid"]
    assert day in observation or tool == "list_slots"
    env.step(f"<say>It lasts until {day}.</say>")
    assert env.episode.told == [False]


def test_a_wrong_change_loses_and_is_undone_where_that_is_possible() -> None:
    env = DeskEnv()
    task = next(task for task in env.task_ids(60) if generate(task).family == "library branch")
    env.reset(seed=0, options={"task": task})
    change = env.plan()[1]
    card, branch = generate(task).facts[0].value, generate(task).facts[2].value
    wrong = next(name for name in ("Harbour", "Hill") if name != branch)
    env.step(f"<change_branch><card>{card}</card><branch>{wrong}</branch></change_branch>")
    assert change in env.plan()  # the right change after the wrong one puts the database right
    assert env.step("<close/>")[1] == 0.0
    with pytest.raises(EnvError, match="can no longer be solved"):
        env.plan()
    env.reset(seed=0, options={"task": task})
    env.step(f"<waive_fees>{card}</waive_fees>")
    env.step("<renew>C-1</renew>")  # no such copy: nothing changes
    if generate(task).before != env.episode.database:
        with pytest.raises(EnvError, match="can no longer be solved"):
            env.plan()


@pytest.mark.parametrize("domain", DOMAINS)
@pytest.mark.parametrize("level", PRESETS)
def test_the_splits_are_disjoint(domain: str, level: str) -> None:
    contents = {}
    for split in SPLITS:
        tasks = [generate(id) for id in task_ids(domain, split, PRESETS[level], 25)]
        assert all(split_of(task) == split for task in tasks)
        contents[split] = {(task.before, task.opening) for task in tasks}
        assert len(contents[split]) == 25
    assert not contents["train"] & contents["held_out"]


def test_the_same_seed_gives_the_same_user_and_others_differ() -> None:
    env = DeskEnv(user="mixed")
    options = {"task": "library/train/small/000007"}
    starts = [env.reset(seed=seed, options=options)[0] for seed in (0, 1, 2, 3, 4, 5, 6, 7, 0)]
    assert starts[0] == starts[-1]
    assert len(set(starts)) >= 3


def test_the_policy_and_the_tools_are_those_of_the_level() -> None:
    tiny, _ = DeskEnv(level="tiny").reset(seed=0)
    small, _ = DeskEnv().reset(seed=0)
    assert "Renew a loan" not in tiny
    assert "<mark_lost>" not in tiny
    assert "Renew a loan" in small
    assert "<mark_lost>" in small


def test_a_chat_template_gets_the_tools_and_a_text_without_a_call_is_said() -> None:
    env = DeskEnv(form="hermes", native=True, user="forgetful", user_options={"searches": 0.0})
    observation, info = env.reset(seed=0)
    assert "<tool_call>" not in observation
    names = [tool["function"]["name"] for tool in info["tools"]]
    assert {"find_member", "say", "close"} <= set(names)
    observation, _, _, _, info = env.step("<think>Who is it?</think>What is your card number?")
    assert observation.startswith("User: My card number is L-")
    assert info["valid"]
    assert "tools" not in info
    refused = env.step('<tool_call>{"name": "find_member", "arguments": {"crd": "L-1"}}</tool_call>')
    assert not refused[4]["valid"]
    assert "crd" in refused[0]
    assert not env.step("<tool_call>{}")[4]["valid"]  # meant as a call, and not said to the user
    assert not env.step(" ")[4]["valid"]


@pytest.mark.parametrize("text", ["", "  ", "x" * (LONGEST_MESSAGE + 1)])
def test_a_message_has_a_length(text: str) -> None:
    env = DeskEnv()
    _, before = env.reset(seed=0)
    observation, _, _, _, info = env.step(f"<say><text>{text}</text></say>")
    assert not info["valid"]
    assert "1 to 500 characters" in observation
    assert info["state"] == before["state"]


def test_calls_after_the_end_are_not_made() -> None:
    env = DeskEnv()
    env.reset(seed=0, options={"task": "library/train/small/000002"})
    card = generate("library/train/small/000002").facts[0].value
    _, _, over, _, info = env.step(f"<close/><waive_fees>{card}</waive_fees>")
    assert over
    assert len(info["results"]) == 1
    assert env.episode.database == generate("library/train/small/000002").before


ARGUMENTS = """
card copy hold title_id branch amount phone serial slot to part charge day model words
""".split()  # noqa: SIM905
BITS = st.sampled_from(
    [
        "<say>",
        "</say>",
        "<close/>",
        "<find_member>",
        "</find_member>",
        "L-12345",
        "<renew>",
        "</renew>",
        "C-1",
        "</",
        "&lt;",
    ]
)


@settings(max_examples=40, deadline=None)
@given(actions=st.lists(st.one_of(st.text(max_size=60), st.lists(BITS, max_size=8).map("".join)), max_size=6))
def test_any_text_is_an_action(actions: list[str]) -> None:
    env = DeskEnv()
    observation, info = env.reset(seed=0, options={"task": "library/train/small/000003"})
    for action in actions:
        before = info["state"]
        observation, reward, over, truncated, info = env.step(action)
        assert observation.encode()
        assert reward in (0.0, 1.0)
        assert not truncated
        if not info["valid"]:
            assert info["state"] == before
        if over:
            break
        json.dumps(info)


@settings(max_examples=40, deadline=None)
@given(
    domain=st.sampled_from(sorted(DOMAINS)),
    number=st.integers(0, 40),
    arguments=st.dictionaries(
        st.sampled_from(ARGUMENTS),
        st.one_of(st.text(max_size=12), st.integers(-(10**6), 10**6), st.floats(allow_nan=False, allow_infinity=False)),
        max_size=4,
    ),
    tool=st.integers(0, 12),
)
def test_any_arguments_are_refused_or_used(domain: str, number: int, arguments: dict[str, Any], tool: int) -> None:
    env = shared(domain)
    env.reset(seed=0, options={"task": f"{domain}/train/small/{number:06d}"})
    box = list(env._box(env.episode.task))
    call = Call(box[tool % len(box)].name, arguments)
    observation, _, _, _, info = env.step(CALL_FORMATS["hermes"].write([call], box))
    assert "failed" not in observation  # no tool raises
    if not info["valid"]:
        assert env.episode.database == env.episode.task.before


@functools.cache
def shared(domain: str) -> DeskEnv:
    return DeskEnv(domain=domain, form="hermes")


def test_too_many_calls_are_refused() -> None:
    env = DeskEnv()
    env.reset(seed=0)
    assert not env.step("<find_title>The</find_title>" * (MAX_CALLS + 1))[4]["valid"]


@settings(max_examples=15, deadline=None)
@given(
    domain=st.sampled_from(sorted(DOMAINS)),
    user=st.sampled_from(USERS),
    seed=st.integers(0, 10**6),
    turn=st.integers(0, 5),
)
def test_an_episode_goes_on_from_a_snapshot(domain: str, user: str, seed: int, turn: int) -> None:
    env, other = DeskEnv(domain=domain, user=user), DeskEnv(domain=domain, user=user)
    observation, info = env.reset(seed=seed)
    for _ in range(turn):
        if env.is_over():
            break
        observation, _, _, _, info = env.step(env.plan()[0])
    data = env.snapshot()
    assert other.restore(data) == (observation, info | {"valid": True})
    assert other.snapshot() == data
    assert pickle.loads(pickle.dumps(other)).snapshot() == data
    while not env.is_over():
        assert env.plan() == other.plan()
        action = env.plan()[0]
        assert env.step(action) == other.step(action)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("told", [1]),
        ("told", [True] * 9),
        ("returned", [1]),
        ("said", [7]),
        ("done", [-1]),
        ("done", [True]),
        ("ended", "won"),
        ("changes", [["no_tool", {}, False]]),
        ("changes", [["say", {"text": "x"}, False]]),
        ("changes", [["restart", {}, True]]),
        ("changes", [["renew", {"copies": 3}, False]]),
        ("changes", [7]),
        ("seed", "x"),
        ("user", {"told": ["nothing"], "sought": [], "wrong": "", "waits": None, "insists": 0}),
        ("user", {"told": [], "sought": [], "wrong": "", "waits": -1, "insists": 0}),
        ("user", {}),
        ("answers", [3]),
    ],
)
def test_a_forged_snapshot_is_refused_and_changes_nothing(name: str, value: object) -> None:
    env = DeskEnv()
    env.reset(seed=0, options={"task": "library/train/small/000003"})
    env.step(env.plan()[0])
    before = env.snapshot()
    saved = env.save_episode()
    from turncredit.envs.snapshot import pack, random_state

    episode = {"task": env.task_id, **saved, name: value, "shown": ["", ""], "random": random_state(env)}
    with pytest.raises(BadSnapshot):
        env.restore(pack(*env.SNAPSHOT_FORMAT, env.snapshot_arguments(), episode))
    assert env.snapshot() == before


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"domain": "bank"}, "unknown domain 'bank'"),
        ({"user": "forgetfull"}, "did you mean 'forgetful'"),
        ({"user": 3}, "user must be a name"),
        ({"user": "os.path:sep"}, "must be a function that makes a user"),
        ({"user_options": {"patience": 3}}, "unknown option of a user 'patience'"),
        ({"user_options": {"searches": 3}}, "searches must be a number from 0 to 1"),
        ({"form": "tag"}, "did you mean 'tags'"),
        ({"native": 1}, "native must be"),
    ],
)
def test_a_wrong_argument_is_one_sentence(options: dict[str, Any], words: str) -> None:
    with pytest.raises(UnknownOption, match=words):
        DeskEnv(**options)


def test_an_unknown_task_is_one_sentence() -> None:
    env = DeskEnv()
    for id in (
        "bank/train/small/000001",
        "library/test/small/000001",
        "library/train/huge/000001",
        "library/train/small/1",
    ):
        with pytest.raises(UnknownTask, match="of service desks"):
            env.reset(options={"task": id})


def test_steps_are_fast() -> None:
    env = DeskEnv(level="medium")
    plans = []
    for task in env.task_ids(30):
        env.reset(seed=0, options={"task": task})
        plans.append((task, env.plan()))
    steps, seconds = 0, 0.0
    for task, plan in plans:
        env.reset(seed=0, options={"task": task})
        began = time.process_time()
        for action in plan:
            env.step(action)
        seconds += time.process_time() - began
        steps += len(plan)
    assert steps / seconds > 1000  # about 10,000 on an idle machine


DIGESTS = {
    "library/train/tiny": "708f4a7cd457d04b",
    "library/train/small": "45cf7bd00e3122f6",
    "library/train/medium": "5ec3036365d110f0",
    "library/train/large": "a309265338417cb2",
    "library/held_out/tiny": "ab18eae0afa86db8",
    "library/held_out/small": "8605b702cf276561",
    "library/held_out/medium": "57b94b0afb2d58cf",
    "library/held_out/large": "b1364fb57b3ff08a",
    "repair_shop/train/tiny": "c991e6d2f5288314",
    "repair_shop/train/small": "7c5591832b4646f2",
    "repair_shop/train/medium": "c3d66797f35564d9",
    "repair_shop/train/large": "1e8488370140b109",
    "repair_shop/held_out/tiny": "1cc2432c4509a95e",
    "repair_shop/held_out/small": "7690e2d1bcefa15d",
    "repair_shop/held_out/medium": "61dd22fe01a66b24",
    "repair_shop/held_out/large": "2fbad5b2a2975b42",
}


@pytest.mark.parametrize(
    "place", [f"{domain}/{split}/{level}" for domain in DOMAINS for split in SPLITS for level in PRESETS]
)
def test_generated_tasks_never_change(place: str) -> None:
    """Digests of ten tasks, with their databases and solutions."""
    domain, split, level = place.split("/")
    tasks = [repr(generate(id)) for id in task_ids(domain, split, PRESETS[level], 10)]
    assert hashlib.sha256("\n".join(tasks).encode()).hexdigest()[:16] == DIGESTS[place]
