"""Episodes that other models play: which ones, what credit makes of them, and runs that train on them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.random import default_rng
from test_training_loop import lines, make_run
from toys.corridor import Corridor
from toys.open_groups import after, episode, members
from toys.tokens import Bytes
from toys.training_helpers import trajectory
from toys.training_helpers import turn as made_turn
from toys.wanderer import Wanderer

from turncredit.agents.agent import Agent
from turncredit.agents.errors import AgentError
from turncredit.agents.files.trajectory_files import from_json, read_trajectories, to_json
from turncredit.agents.rollouts.group_rounds import EpisodeOrder, GroupSpec
from turncredit.agents.rollouts.rollout import RolloutReport, rollout
from turncredit.agents.steps import steps_of
from turncredit.agents.trajectory import Group, Trajectory, Turn
from turncredit.credit import BadOption, MissingColumn, Steps, taught
from turncredit.curriculum import BranchPoint, GroupRule, Growth, MoreEpisodes, OpenGroup
from turncredit.curriculum.errors import CurriculumError
from turncredit.curriculum.group_rules.catalogue import get_group_rule
from turncredit.engines.base import Sampler
from turncredit.engines.expert import Expert
from turncredit.training import ConfigError, train
from turncredit.training.assign.teacher_ranks import answer_gains, with_best_teachers
from turncredit.training.assign.token_scores import TokenScores
from turncredit.training.audit import audit
from turncredit.training.batch.batch import Batch, pack, turn_divergence
from turncredit.training.batch.scores import Scores
from turncredit.training.objectives.sources import POLICY, TEACHER
from turncredit.training.parts import prepare
from turncredit.training.play.played import Played
from turncredit.training.run_folder.metrics import play_metrics, sampled_entropy
from turncredit.training.sampling.grown_groups import PlayedGroup
from turncredit.training.sampling.run_teachers import in_tokens_of
from turncredit.training.tasks.group_draws import DrawnGroup

TWO = ("expert", "random")


def scores(*rows: tuple[float, int]) -> Steps:
    """Episodes of one turn: (reward, source)."""
    return Steps.from_columns(
        task=["q"] * len(rows),
        trajectory=range(len(rows)),
        turn=[0] * len(rows),
        reward=[reward for reward, _ in rows],
        source=[source for _, source in rows],
    )


def test_a_lost_group_gains_what_its_teachers_won() -> None:
    """AMPO: six losers and two winners of teachers: mean and spread of the policy's own are 0 and count as 0 and 1."""
    values = taught(scores(*[(0.0, POLICY)] * 6, (1.0, TEACHER), (1.0, TEACHER))).values
    assert values.tolist() == [0.0] * 6 + [1.0, 1.0]


def test_teachers_do_not_move_the_baseline() -> None:
    """RL-PLUS: three of the policy with mean 1/3, and one that won: 2/3. With a spread of .5774: 1.1547."""
    table = scores((1.0, POLICY), (0.0, POLICY), (0.0, POLICY), (1.0, TEACHER))
    assert taught(table, scale="none").values.tolist() == pytest.approx([2 / 3, -1 / 3, -1 / 3, 2 / 3])
    assert taught(table, eps=0.0).values.tolist() == pytest.approx([1.1547, -0.5774, -0.5774, 1.1547], abs=1e-4)
    assert taught(scores((1.0, TEACHER), (0.0, TEACHER))).values.tolist() == [0.0, 0.0]  # nobody to compare with
    with pytest.raises(MissingColumn, match="'source'"):
        taught(Steps.from_columns(task=["q"], trajectory=["a"], turn=[0], reward=[1.0]))


def lesson(number: int, won: bool) -> Trajectory:
    return episode(number, won, teacher=TWO[number % 2], round=1)


def test_ampo_asks_teachers_where_everybody_lost() -> None:
    rule = get_group_rule("ampo", teachers=1, rank="random")
    assert rule(OpenGroup("t", 4, teachers=TWO)) == Growth()
    assert rule(after("0100", teachers=TWO)) == Growth()
    assert rule(after("0000")) == Growth()  # nobody could be asked
    (request,) = rule(after("0000", teachers=TWO)).more
    assert request.episodes == 1
    assert request.teacher in TWO
    both = get_group_rule("ampo")(after("0000", teachers=TWO)).more
    assert [more.teacher for more in both] == list(TWO)


def test_ampo_puts_winners_in_the_place_of_losers() -> None:
    rule = get_group_rule("ampo")
    own = members("0000")
    for seed in range(5):
        group = OpenGroup("t", 4, 2, (*own, lesson(4, True), lesson(5, False)), rng=default_rng(seed), teachers=TWO)
        end = rule(group)
        assert end.keep == end.counted
        assert end.keep is not None
        assert len(end.keep) == 4
        assert "t#4@7" in end.keep
        assert "t#5@7" not in end.keep
        assert not end.more
    nobody = rule(OpenGroup("t", 4, 2, (*own, lesson(4, False)), teachers=TWO))
    assert nobody.keep == frozenset(member.id for member in own)


THREE = ("expert", "random", "openai:large")


def test_ampo_lets_all_teachers_play_and_says_how_many_stay() -> None:
    rule = get_group_rule("ampo")
    assert [more.teacher for more in rule(after("0000", teachers=THREE)).more] == list(THREE)
    assert len(get_group_rule("ampo", rank="random")(after("0000", teachers=THREE)).more) == 2
    own = members("00000000")
    lessons = tuple(episode(8 + number, True, teacher=name, round=1) for number, name in enumerate(THREE))
    end = rule(OpenGroup("t", 8, 2, (*own, *lessons), teachers=THREE))
    assert end.best == 2
    assert end.keep is not None
    assert {lesson.id for lesson in lessons} <= end.keep
    assert len(end.keep) == 6 + 3  # two losers leave, since two teachers stay
    with pytest.raises(BadOption, match="rank"):
        get_group_rule("ampo", rank="answers")(OpenGroup("t", 4))


def said(prompt: str, text: str, action: str) -> Turn:
    ids = (*Bytes().ids(text), 256)
    made = made_turn(Bytes().ids(prompt), ids, action=action, logprobs=(0.0,) * len(ids))
    return replace(made, text=text)


def taught_lessons() -> tuple[Trajectory, ...]:
    """Three won episodes whose answer is "go": of two turns, of a thought and an answer, and of the answer alone."""
    turns = (
        (said("Q", "look", "look"), said("Q look door", "go", "go")),
        (said("Q", "go? I think go", "go"),),
        (said("Q", "go", "go"),),
    )
    return tuple(
        replace(episode(8 + number, True, turns), teacher=name, round=1)
        for number, (name, turns) in enumerate(zip(THREE, turns, strict=True))
    )


def decode(ids: Any) -> str:
    return Bytes().decode([token for token in ids if token < 256])


def test_a_trace_is_worth_what_it_adds_to_the_probability_of_its_answer() -> None:
    """The tokens of "go" and the end: .9, .6, .3 after the first episode and .2 each before it; .5 and .4; equal."""
    asked: list[tuple[str, str]] = []
    probabilities = np.array([[0.9, 0.6, 0.3], [0.2] * 3, [0.5] * 3, [0.4] * 3, [0.7] * 3, [0.7] * 3])

    def score(batch: Batch) -> Any:
        for row in range(len(batch)):
            ids = batch.tokens[row, : batch.lengths[row]]
            asked.append(
                (decode(ids[~batch.mask[row, : batch.lengths[row]]]), decode(ids[batch.mask[row, : len(ids)]]))
            )
        logprobs = np.zeros(batch.mask.shape)
        logprobs[batch.mask] = np.log(probabilities).ravel()
        return logprobs

    assert answer_gains(taught_lessons(), score, decode).tolist() == pytest.approx([0.4, 0.1, 0.0])
    assert asked == [
        ("Q look door", "go"),
        ("Q", "go"),
        ("Qgo? I think ", "go"),
        ("Q", "go"),
        ("Q", "go"),
        ("Q", "go"),
    ]


def test_the_best_teachers_stay() -> None:
    """With gains of 0, .5 and .2, two of three stay: in credit, in the loss, and in what is written down."""
    own, lessons = members("00000000"), taught_lessons()
    stay = frozenset(member.id for member in (*own[2:], *lessons))
    growth = Growth(keep=stay, counted=stay, best=2)
    group = PlayedGroup(DrawnGroup(0, "t", 8, 7), Group("t", (*own, *lessons)), growth, 2)
    other = PlayedGroup(DrawnGroup(1, "u", 8, 7), Group("u", (*own, *lessons[:2])), growth, 2)
    played = Played([group.counted, other.counted], RolloutReport(), 3, sampled=[group, other])

    def score(batch: Batch) -> Any:
        assert len(batch) == 6  # nothing is asked of a group with two teachers
        return np.where(batch.mask, np.log([0.3, 0.3, 0.7, 0.2, 0.6, 0.4])[:, None], 0.0)

    names = played.steps("state").ids("trajectory").tolist()
    played = replace(played, columns={"value": np.arange(len(names), dtype=np.float64)})
    ranked = with_best_teachers(played, score, decode)
    (first, second) = ranked.sampled
    begin = names.index(lessons[0].id)  # in the first group, which it leaves
    rows = np.delete(np.arange(len(names)), np.s_[begin : begin + len(lessons[0].turns)])
    assert ranked.steps("state").column("value").tolist() == rows.tolist()
    assert [member.id for member in ranked.groups[0].trajectories if member.teacher] == [
        lesson.id for lesson in lessons[1:]
    ]
    assert first.growth.keep == first.growth.counted == stay - {lessons[0].id}
    assert ranked.metrics["trained_episodes"] == 8 + 8
    assert second is other
    assert with_best_teachers(replace(played, sampled=[other]), score, decode).sampled == [other]


def test_rl_plus_has_a_teacher_in_every_group() -> None:
    rule = get_group_rule("rl_plus")
    more = rule(OpenGroup("t", 8, teachers=TWO[:1])).more
    assert more == (MoreEpisodes(7), MoreEpisodes(1, teacher="expert"))
    assert rule(OpenGroup("t", 8)) == Growth()
    assert rule(OpenGroup("t", 1, teachers=TWO)) == Growth()
    assert not rule(OpenGroup("t", 8, 1, members("0000"), teachers=TWO)).more


def test_only_teachers_of_the_run_are_asked_and_only_from_the_beginning() -> None:
    rule = GroupRule("mine", "", None, "", "", lambda group: Growth((MoreEpisodes(1, teacher="expart"),)))
    with pytest.raises(CurriculumError, match="named the teacher 'expart', which the run lacks"):
        rule(OpenGroup("t", 2, teachers=TWO))
    with pytest.raises(CurriculumError, match="the episodes of a teacher begin with a reset"):
        MoreEpisodes(1, at=BranchPoint("t#0@7", 1), teacher="expert")


class ExpertTeacher:
    """The expert of the corridor."""

    def player(self, name: str) -> tuple[Agent, Sampler]:
        assert name == "expert"
        return Agent(max_turns=12), Expert()

    def told(self, trajectory: Trajectory, agent: Agent, sampler: Sampler) -> Trajectory:
        return in_tokens_of(agent, sampler, trajectory)


def grow(number: int, members: Any) -> tuple[EpisodeOrder, ...]:
    return () if number else (EpisodeOrder(1), EpisodeOrder(1, teacher="expert"))


def test_an_episode_of_a_teacher_is_told_in_tokens_of_the_policy() -> None:
    agent, policy = Agent(max_turns=12), Wanderer(tokenizer=Bytes(), parser="bare")
    policy.version = 4
    spec = GroupSpec("open-3-1", 3, 2, grow=grow)
    (group,) = rollout(agent, policy, [spec], make=Corridor, teachers=ExpertTeacher())
    own, lesson = group.trajectories
    assert (own.teacher, lesson.teacher, lesson.id) == ("", "expert", "open-3-1#1@3")
    assert lesson.won
    assert not lesson.plain
    assert from_json(to_json(lesson)) == lesson
    for turn in lesson.turns:
        assert Bytes().decode(turn.response[:-1]) == turn.text
        assert turn.logprobs == (0.0,) * len(turn.response)
        assert turn.version == 4
    assert lesson.turns[0].prompt == own.turns[0].prompt
    before, following = lesson.turns[:2]
    assert following.prompt[: len(before.prompt) + len(before.response)] == before.prompt + before.response
    steps = steps_of([group])
    sources = dict(zip(steps.ids("trajectory").tolist(), steps.column("source").tolist(), strict=True))
    assert sources == {own.id: POLICY, lesson.id: TEACHER}
    assert "source" not in steps_of([replace(group, trajectories=(own,))])


def test_an_episode_that_the_policy_cannot_read_has_failed() -> None:
    policy = Wanderer(tokenizer=Bytes(), parser="bare")
    policy.context = 100
    spec = GroupSpec("open-3-1", 3, 2, grow=grow)
    (group,) = rollout(Agent(max_turns=12), policy, [spec], make=Corridor, teachers=ExpertTeacher())
    lesson = group.trajectories[1]
    assert lesson.stop == "error"
    assert "expert played" in str(lesson.error)
    assert "do not fit into the policy's 100" in str(lesson.error)


def test_an_episode_that_the_policys_template_cannot_write_fails_alone() -> None:
    """The policy's template lists the admissible actions, and the teacher played without them."""
    policy = Wanderer(tokenizer=Bytes(), parser="think-action")
    agent = Agent.from_options(template="react", parser="think-action", max_turns=12)
    spec = GroupSpec("open-3-1", 3, 2, grow=grow)
    (group,) = rollout(agent, policy, [spec], make=Corridor, teachers=ExpertTeacher())
    own, lesson = group.trajectories
    assert own.stop != "error"
    assert (lesson.stop, lesson.won) == ("error", False)
    assert str(lesson.error).startswith("expert: the template lists the admissible actions")
    assert [turn.response for turn in lesson.turns] == [()] * len(lesson.turns)
    assert from_json(to_json(lesson)) == lesson
    assert group.finished == (own,)


def test_a_rollout_without_teachers_says_so() -> None:
    policy = Wanderer(tokenizer=Bytes(), parser="bare")
    with pytest.raises(AgentError, match="to be played by expert, and the rollout has no teachers"):
        rollout(Agent(), policy, [GroupSpec("open-3-1", 3, 2, grow=grow)], make=Corridor)


def test_records_are_those_of_the_policy() -> None:
    group = Group("t", (*members("0000"), lesson(4, True)))
    assert PlayedGroup(DrawnGroup(0, "t", 4, 7), group).visit.rewards == (0.0,) * 4


AMPO = (
    'sampling.groups=["ampo"]',
    'sampling.teachers=["expert"]',
    "credit.method=taught",
    "objective.name=ampo",
    "imitation.epochs=0",
)
RANKED = (
    *AMPO,
    'sampling.groups=[{name="ampo", teachers=1}]',
    'sampling.teachers=["expert", "toys.open_groups:second_expert"]',
)
RL_PLUS = (
    'sampling.groups=["rl_plus"]',
    'sampling.teachers=["expert"]',
    "credit.method=taught",
    'credit.options.scale="none"',
    "objective.name=rl_plus",
    "objective.old_logprobs=recomputed",
)


@pytest.mark.parametrize(
    "words",
    [AMPO, RANKED, RL_PLUS, (*RL_PLUS, "train.staleness=1", "objective.correction=tis_token")],
    ids=["ampo", "ranked", "rl_plus", "rl_plus-beside"],
)
def test_runs_learn_from_teachers(tmp_path: Path, words: tuple[str, ...]) -> None:
    plain = ("evaluation.episodes=0", "train.iterations=2", "train.group_size=4", "checkpoints.every=1")
    train(make_run(tmp_path, *plain, "sampling.experience={keep='all'}", *words))
    lessons = []
    for number, event in enumerate([event for event in lines(tmp_path) if event["phase"] == "train"], start=1):
        stored = list(read_trajectories(tmp_path / "trajectories" / f"{number:06d}.jsonl"))
        lessons += [member for member in stored if member.teacher]
        own = [member for member in stored if not member.teacher]
        assert event["success"] == pytest.approx(np.mean([member.won for member in own]))
        assert np.isfinite(event["loss"])
    assert lessons
    names = {"expert", "toys.open_groups:second_expert"} if words is RANKED else {"expert"}
    assert {member.teacher for member in lessons} == names
    if words is RANKED:  # both won, and one was trained on
        written = [json.loads(path.read_text()) for path in sorted((tmp_path / "sampling").glob("*.json"))]
        teachers, winners = {member.id for member in lessons}, {member.id for member in lessons if member.won}
        asked = [entry for file in written for entry in file["groups"] if teachers & set(entry["members"])]
        assert [len(teachers & set(entry["members"])) for entry in asked] == [2] * len(asked)
        both = [entry for entry in asked if len(winners & set(entry["members"])) == 2]
        assert both
        assert [len(winners & set(entry["kept"])) for entry in both] == [1] * len(both)
    checks = audit(tmp_path).checks
    assert not [check.problems for check in checks if check.count]
    entries = [json.loads(line) for file in (tmp_path / "experience").glob("*.jsonl") for line in file.open()]
    assert entries
    assert not [member for member in entries if member.get("teacher")]


def test_a_correction_leaves_teachers_alone() -> None:
    """What the engine sampled is compared with the learner; a teacher's tokens were never sampled from the policy."""
    own, lesson = (trajectory([made_turn((1,), (2, 3))], name=f"t#{number}@0") for number in range(2))
    groups = [Group("t", (own, replace(lesson, teacher="expert")))]
    learner = SimpleNamespace(
        has_reference=False, score=lambda batch, **_: Scores(np.full(batch.mask.shape, -0.5), None)
    )
    scores = TokenScores(learner=learner, agent=Agent(), micro_tokens=99, recompute=True, transform=None)  # type: ignore[arg-type]
    batch, _ = scores.complete(pack(groups, sources={lesson.id: TEACHER}), groups)
    assert batch.rollout is not None
    assert batch.rollout[0, 1:].tolist() == list(own.turns[0].logprobs)
    assert batch.rollout[1].tolist() == [-0.5] * 3


def test_teachers_are_in_no_statistic_of_the_policy() -> None:
    """Their tokens have log-probabilities of 0, and stored episodes an age that no limit refuses."""
    own = trajectory([made_turn((1,), (2, 3), logprobs=(-1.0, -2.0))], name="t#0@0")
    taught = trajectory([made_turn((1,), (2, 3), logprobs=(0.0, 0.0))], name="t#1@0", stop="tokens")
    stored = trajectory([made_turn((1,), (2, 3), logprobs=(-1.0, -1.0))], name="t#2@0")
    group = Group("t", (own, replace(taught, teacher="expert")))
    metrics = play_metrics([group])
    assert [metrics[key] for key in ("episodes", "tokens", "outgrown")] == [2, 2, 0]
    assert sampled_entropy([group]) == 1.5
    report = RolloutReport()
    for member in group.trajectories:
        report.count(member)
    assert (report.episodes, report.prompt_tokens, report.response_tokens) == (2, 1, 2)
    sampled = (PlayedGroup(DrawnGroup(0, "t", 2, 7), group, replayed=(stored,)),)
    played = Played([sampled[0].counted], RolloutReport(), version=4, oldest=1, sampled=sampled)
    played = replace(played, groups=[replace(group, trajectories=(*_of_version(3, *group.trajectories), stored))])
    batch = pack(played.groups, sources=played.sources)
    ages = played.age_metrics(replace(batch, rollout=batch.old - batch.mask))
    assert [ages[key] for key in ("age", "age_max", "stale")] == [1.0, 1.0, 0.0]
    assert {key for key in ages if key.startswith("ratio")} == {"ratio_1"}


def _of_version(version: int, *members: Trajectory) -> tuple[Trajectory, ...]:
    return tuple(
        replace(member, turns=tuple(replace(turn, version=version) for turn in member.turns)) for member in members
    )


def test_teachers_pay_for_no_divergence() -> None:
    """The penalty is for what the policy samples; of a teacher's tokens nobody knows the probability."""
    own = trajectory([made_turn((1,), (2, 3), logprobs=(-1.0, -2.0))], name="t#0@0")
    lesson = replace(trajectory([made_turn((1,), (2, 3), logprobs=(0.0, 0.0))], name="t#1@0"), teacher="expert")
    groups = [Group("t", (own, lesson))]
    batch = pack(groups)
    reference = np.where(batch.mask, -2.5, 0.0)
    assert turn_divergence(batch, reference, "k1", steps_of(groups)).tolist() == [2.0, 0.0]


def test_a_run_without_its_teachers_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"the group rule ampo lets other models play: set sampling\.teachers"):
        prepare(make_run(tmp_path, 'sampling.groups=["ampo"]'))
    with pytest.raises(AgentError, match="expart"):
        prepare(make_run(tmp_path, 'sampling.groups=["ampo"]', 'sampling.teachers=["expart"]'))
    with pytest.raises(ConfigError, match="'taught' needs 'source'"):
        prepare(make_run(tmp_path, "credit.method=taught"))
