"""Scripted users: what each quality tells, when it leaves, and what it insists on."""

from __future__ import annotations

from typing import Any

import pytest

from turncredit.envs.desk import QUALITIES, DeskEnv, DeskUser, UserReply, UserScene
from turncredit.envs.desk.domain import as_json
from turncredit.envs.desk.generator import generate
from turncredit.envs.desk.task import DeskTask
from turncredit.envs.desk.users import make_user
from turncredit.envs.errors import EnvError
from turncredit.envs.snapshot import Fields

TASK = "library/train/small/000003"


def served(name: str, seed: int = 0, task: str = TASK, **options: object) -> tuple[DeskUser, str, DeskTask]:
    user = make_user(name, options)
    scene = UserScene(generate(task), {}, seed)
    return user, user.start(scene), scene.task


def test_a_perfect_user_tells_everything_at_once_and_again() -> None:
    user, opening, task = served("perfect")
    assert all(fact.said() in opening for fact in task.facts)
    assert user.questions() == []
    fact = task.facts[0]
    assert user.reply("What is your card number?") == UserReply(f"As I said: {fact.said()}")
    assert user.reply("One moment.") == UserReply("All right.")
    assert user.reply("Is there anything else?") == UserReply("That is all. Goodbye.", leaves=True)


def test_a_forgetful_user_tells_only_what_is_asked_for() -> None:
    user, opening, task = served("forgetful", searches=0.0)
    assert not any(fact.value in opening for fact in task.facts)
    answer = user.reply("Hello! Your postcode, please.").text
    assert answer == task.facts[1].said()
    assert user.questions() == ["Please tell me the card number and the title of the lost book."]
    user.reply(user.questions()[0])
    assert user.questions() == []


def test_a_forgetful_user_looks_for_what_it_does_not_remember() -> None:
    user, _, task = served("forgetful", searches=1.0)
    first, second = (user.reply("Your postcode, please.").text for _ in range(2))
    assert first == "I have to look for the postcode. Ask me again."
    assert second == task.facts[1].said()


def test_a_confused_user_corrects_one_thing_when_it_is_asked() -> None:
    wrong_names = set()
    for seed in range(12):
        user, opening, task = served("confused", seed)
        (wrong,) = [fact for fact in task.facts if fact.said() not in opening]
        wrong_names.add(wrong.name)
        assert wrong.said(wrong=True) in opening
        assert user.reply("One moment.").text == "All right."
        assert user.reply(f"You wrote {wrong.wrong}?").text == f"Sorry, I was wrong. {wrong.said()}"
        assert user.reply(f"Your {wrong.name}, please.").text.endswith(f"As I said: {wrong.said()}")
    assert len(wrong_names) == 3


@pytest.mark.parametrize("spare", [0, 3])
def test_an_impatient_user_leaves_after_some_messages(spare: int) -> None:
    counts = set()
    for seed in range(20):
        user, _, task = served("impatient", seed, spare=spare)
        needed = max(1, sum(bool(action.ask) for action in task.actions) + bool(task.replies))
        count = 1
        while not user.reply("One moment.").leaves:
            count += 1
        counts.add(count - needed)
    assert counts == set(range(spare + 1))


def test_an_adversarial_user_insists_and_then_gives_in() -> None:
    user, opening, task = served("adversarial", insists=1)
    assert opening.endswith(task.demand.sentence)
    assert user.reply("I cannot do that. Anything else?") == UserReply(f"I insist: {task.demand.sentence}")
    assert user.reply("I cannot do that. Anything else?").leaves


def test_what_is_demanded_changes_the_database() -> None:
    for domain in ("library", "repair_shop"):
        for number in range(10):
            env = DeskEnv(domain=domain, level="tiny")
            env.reset(seed=0, options={"task": f"{domain}/train/tiny/{number:06d}"})
            demand = env.episode.task.demand.action
            env.episode.desk.run(demand)
            assert as_json(env.episode.desk.data) != env.episode.task.before


def test_the_user_of_the_repair_shop_works_on_the_device() -> None:
    env = DeskEnv(domain="repair_shop")
    task = next(id for id in env.task_ids(80) if [a.name for a in generate(id).actions] == ["restart", "reset"])
    env.reset(seed=0, options={"task": task})
    assert env.step("<say>Which colour has the light?</say>")[0] == "User: The light is amber."
    assert env.step("<say>Please restart it. And the light?</say>")[0] == (
        "User: I have restarted it. The light is amber."
    )
    before = env.step("<find_customer>555-0</find_customer>")[4]["state"]
    assert env.step("<say>Please reset the settings.</say>")[4]["state"] != before
    assert env.step("<close/>")[1] == 1.0


def test_mixed_users_are_of_every_quality() -> None:
    openings = {served("mixed", seed)[1] for seed in range(40)}
    assert {served(name, 0)[1] for name in QUALITIES if name != "confused"} <= openings


class Parrot:
    """A user of somebody else's."""

    def __init__(self, options: Any) -> None:
        self.options, self.heard = dict(options), ""

    def start(self, scene: UserScene) -> str:
        self.heard = ""
        return f"{scene.task.opening} {self.options.get('word', '')}"

    def reply(self, message: str) -> UserReply:
        if message == "fail":
            raise EnvError("the parrot is ill")
        self.heard = message
        return UserReply(f"{message}!", leaves=message == "bye")

    def questions(self) -> list[str]:
        return []

    def save(self) -> dict[str, object]:
        return {"heard": self.heard}

    def load(self, scene: UserScene, saved: Fields) -> None:
        self.heard = saved.get("heard", str)


def test_a_user_of_ones_own_is_named_by_module_and_attribute() -> None:
    env = DeskEnv(user=f"{__name__}:Parrot", user_options={"word": "Hey."})
    assert env.reset(seed=0)[0].endswith(" Hey.")
    assert env.step("<say>hello</say>")[0] == "User: hello!"
    data = env.snapshot()
    other = DeskEnv(user=f"{__name__}:Parrot", user_options={"word": "Hey."})
    other.restore(data)
    assert other.episode.user.save() == {"heard": "hello"}
    assert other.step("<say>bye</say>")[:3] == ("User: bye! (The user has left.)", 0.0, True)
    with pytest.raises(EnvError, match="the parrot is ill"):  # not an answer to the agent, which is not to blame
        env.step("<say>fail</say>")
