"""What a run remembers, in runs: stored episodes are trained on again, judges are asked once, lessons are kept."""

import json
import shutil

import pytest
from test_training_loop import assert_same_weights, lines, make_run, weights
from toys.commands import run_command

from turncredit.agents.errors import AgentError
from turncredit.agents.files.trajectory_files import TrajectoryWriter, read_trajectories
from turncredit.agents.steps import steps_of
from turncredit.agents.trajectory import grouped
from turncredit.report.stored_groups import read_credited, read_groups
from turncredit.training import ConfigError, train
from turncredit.training.parts import prepare
from turncredit.training.sampling.sampling_files import MissingEpisodes, earlier_episodes

PLAIN = ("evaluation.episodes=0", "train.iterations=4", "checkpoints.every=2", "checkpoints.keep=9")
REMEMBERS = (
    'sampling.experience={keep="all", per_task=6, total=12}',
    'sampling.replay={name="dots_rr", groups=2}',
    'sampling.groups=["r3_ccr"]',
    'sampling.annotators=["answers", "judge", {name="reflect", most=2}]',
    'sampling.judge="toys.judges:make_judge"',
    'sampling.rewards=["majority"]',
)


def trained(folder, *overrides):
    train(make_run(folder, *PLAIN, *overrides))
    return [event for event in lines(folder) if event["phase"] == "train"]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("memory") / "run"
    return folder, trained(folder, *REMEMBERS)


def test_stored_episodes_are_trained_on_again(whole):
    folder, events = whole
    assert [event["stored"] for event in events] == [6, 12, 12, 12]
    assert "replayed" not in events[0], "nothing was stored before"
    assert any(event.get("replayed") for event in events[1:])
    assert all(event["replay_age"] >= 1 for event in events if "replayed" in event)
    assert list((folder / "experience").iterdir())


@pytest.fixture(scope="module")
def joining(tmp_path_factory):
    """Return the folder of a run whose groups are joined by stored episodes, the file of one, and the ids of these."""
    folder = tmp_path_factory.mktemp("joining") / "run"
    rules = ('sampling.experience={keep="all", per_task=4}', 'sampling.groups=["toys.sampling_rules:with_earlier"]')
    trained(folder, "train.distinct_tasks=2", *rules)
    file = folder / "trajectories" / "000003.jsonl"
    entries = json.loads((folder / "sampling" / "000003.json").read_text())["groups"]
    return folder, file, {name for entry in entries for name in entry["replayed"]}


def test_credit_of_a_stored_iteration_sees_the_episodes_that_joined(joining):
    _, file, names = joining
    assert len(names) == 4
    stored, seen = grouped(read_trajectories(file)), read_credited(file)
    assert seen.replayed == names
    assert {one.id for group in seen.groups for one in group.trajectories[2:]} == names
    for group, whole in zip(sorted(seen.groups, key=by_task), sorted(stored, key=by_task), strict=True):
        assert group.trajectories[:2] == whole.trajectories[:2], "the last member is not counted"
        assert {one.task for one in group.trajectories} == {whole.task}
    assert seen.uncounted == {group.trajectories[2].id for group in stored}
    assert seen.masked == {group.trajectories[0].id for group in stored}
    assert names <= {*steps_of(read_groups(file, credited=True)).ids("trajectory")}


def by_task(group):
    return group.task


def test_joined_episodes_come_from_the_experience_or_are_named_as_missing(joining, tmp_path):
    folder = shutil.copytree(joining[0], tmp_path / "run")
    file, names = folder / "trajectories" / joining[1].name, joining[2]
    for number in (1, 2):
        (folder / "trajectories" / f"{number:06d}.jsonl").unlink()
    shutil.rmtree(folder / "experience")
    with pytest.warns(MissingEpisodes, match="4 of the 4 episodes that joined groups of 000003.jsonl") as caught:
        assert not read_credited(file).replayed
    assert str(caught[0].message).endswith("and others")
    (folder / "experience").mkdir()
    with TrajectoryWriter(folder / "experience" / "000001.jsonl") as writer:
        for episode in earlier_episodes(joining[1], names):
            writer.write(episode)
    assert read_credited(file).replayed == names


def test_a_stored_episode_joins_one_group_of_an_iteration(tmp_path):
    rules = ('sampling.experience={keep="all", per_task=4}', 'sampling.groups=["toys.sampling_rules:with_earlier"]')
    trained(tmp_path / "run", "train.distinct_tasks=1", "train.iterations=2", *rules)  # both groups play the task
    first, second = json.loads((tmp_path / "run/sampling/000002.json").read_text())["groups"]
    assert (len(first["replayed"]), second["replayed"]) == (2, [])


def test_show_tells_who_was_counted(joining):
    text = run_command("show", joining[0], "--iteration", 3, "--trust").out
    assert "2 episodes were left out by the run's group rules" in text
    assert "2 episodes were counted and are not trained on" in text
    assert "4 episodes joined from experience" in text
    assert text.count("4 trajectories") == 2
    assert all(name in text for name in joining[2])


def test_the_judge_is_asked_once_and_its_price_is_told(whole):
    folder, events = whole
    answers = (folder / "annotations" / "answers.jsonl").read_text().splitlines()
    assert len(answers) == len({json.loads(line)["key"] for line in answers})
    assert sum(event["questions"] for event in events) == len(answers)
    assert sum(event["questions_cost"] for event in events) == 0.5 * len(answers)
    assert events[-1]["lessons"] >= 1


def test_a_resumed_run_remembers_what_it_remembered(whole, tmp_path):
    folder, _ = whole
    cut = tmp_path / "cut"
    train(make_run(cut, *PLAIN, *REMEMBERS, "train.iterations=2"))
    train(make_run(cut, *PLAIN, *REMEMBERS), resume=True)
    assert_same_weights(weights(cut, 4), weights(folder, 4))


def test_replay_changes_the_weights_and_an_empty_memory_does_not(tmp_path, whole):
    plain, empty = tmp_path / "plain", tmp_path / "empty"
    trained(plain)
    trained(empty, 'sampling.experience={keep="success"}', 'sampling.annotators=["answers"]')
    assert_same_weights(weights(plain, 4), weights(empty, 4))
    replayed = tmp_path / "replayed"
    trained(replayed, 'sampling.experience={keep="all"}', 'sampling.replay="dots_rr"')
    with pytest.raises(AssertionError):
        assert_same_weights(weights(plain, 4), weights(replayed, 4))


def test_asynchronous_runs_remember_as_well(tmp_path):
    words = (*REMEMBERS, "train.staleness=1", "train.staleness.deterministic=true")
    events = trained(tmp_path / "one", *words)
    assert events[-1]["stored"] == 12
    trained(tmp_path / "two", *words)
    assert_same_weights(weights(tmp_path / "one", 4), weights(tmp_path / "two", 4))


def test_stored_episodes_are_trained_on_with_a_correction(tmp_path):
    stored = ('sampling.replay="dots_rr"', 'sampling.groups=["ssb"]', 'sampling.experience={keep="all"}')
    for words in ((), ("objective.old_logprobs=recomputed", "objective.correction=tis_token")):
        prepare(make_run(tmp_path / "run", *PLAIN, *stored, *words))


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (['sampling.annotators=["judge"]'], r"the annotator judge asks a model: set sampling\.judge"),
        (['sampling.replay="spear"'], r"trains on stored episodes: set sampling\.experience"),
        (
            ['sampling.replay="spear"', 'sampling.experience={keep="all"}', "objective.old_logprobs=recomputed"],
            r"sampling\.replay trains on samples of older weights, .* does not correct: set objective\.correction",
        ),
        (
            ['sampling.groups=["r3_ccr"]', 'sampling.experience={keep="all"}', "objective.name=reinforce"],
            r"sampling\.groups: 'r3_ccr' trains on samples of older weights, .* does not correct: choose one of",
        ),
        (['sampling.experience={kep="all"}'], r"no option 'kep'.*did you mean 'keep'"),
        (["sampling.lessons={most=0}"], "lessons need most >= 1"),
        (['sampling.annotators=["jugde"]', 'sampling.judge="random"'], "jugde"),
        (['sampling.annotators=["judge"]', 'sampling.judge="opnai:m@http://127.0.0.1:1/v1"'], "opnai"),
    ],
)
def test_what_is_missing_is_said_before_the_run(tmp_path, overrides, message):
    with pytest.raises((ConfigError, AgentError), match=message):
        train(make_run(tmp_path / "run", *PLAIN, *overrides))
    assert not (tmp_path / "run").exists()
