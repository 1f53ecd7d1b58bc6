"""The audit: runs of every kind pass, and runs that were corrupted in one way each fail in the check of that way."""

import json
import shutil
import tomllib
from dataclasses import replace

import pytest
import torch
import toys.corridor
from toys.tokens import CHATML

import turncredit.training.audit.checks as checks_module
import turncredit.training.audit.scoring as scoring_module
from turncredit.agents.files.trajectory_files import TrajectoryWriter, read_trajectories, to_json
from turncredit.agents.models.model_folder import load_model, load_tokenizer
from turncredit.agents.rollouts.forks import Fork
from turncredit.training import Run, train
from turncredit.training.audit import AuditOptions, audit
from turncredit.training.audit.checks import EpisodeEnd, wrong_forks
from turncredit.training.audit.gaps import GapMeter
from turncredit.training.audit.report import engine_dtype, ranges
from turncredit.training.config.toml import render
from turncredit.training.errors import TrainingError
from turncredit.training.learner.policy import save_policy
from turncredit.training.preflight import rules
from turncredit.training.run_folder.checkpoint import Checkpoints, manifest
from turncredit.training.run_folder.metrics import missing_iterations

torch.set_num_threads(1)
TABLE = {
    "threads": 1,
    "trajectory_format": ".jsonl",
    "env": {"id": f"toys.corridor:{toys.corridor.ID}", "kwargs": {"lengths": [3]}},
    "agent": {"max_turns": 5, "max_tokens": 8},
    "policy": {"new": {"vocab": 280, "hidden": 32, "layers": 1, "heads": 1}, "context": 1200},
    "imitation": {"episodes": 10, "epochs": 6, "lr": 5e-3, "batch_tokens": 600, "demonstrator": {"noise": 0.2}},
    "train": {"iterations": 2, "groups": 2, "group_size": 3, "lr": 5e-3},
    "checkpoints": {"every": 1, "keep": 9},
    "evaluation": {"episodes": 3},
}
KINDS = {
    "conversation": [],
    "window": ['agent.prompt={name="window",history=2}', "train.iterations=1"],
    "nucleus": [
        "agent.top_p=0.8",
        "agent.temperature=0.7",
        'objective.old_logprobs="recomputed"',
        "train.iterations=1",
    ],
    "stop": ['agent.stop=[" "]', "train.iterations=1"],
    "bfloat16": ['sampler.dtype="bfloat16"', "train.iterations=1"],
    "chat": ["train.iterations=1"],
    "lora": ["policy.lora={rank=4,alpha=8}", "imitation.episodes=4", "imitation.epochs=1"],
    "chat window": ['agent.prompt={name="window",history=1}', 'agent.template="react"', "train.iterations=1"],
}


FROM_MODEL = ("chat", "chat window", "lora")
"""Runs that begin with the model of another run, with a chat template or with an adapter."""


@pytest.fixture(scope="session")
def audited(tmp_path_factory):
    """Return the folder of a run of a kind; each is made once."""
    parent, made = tmp_path_factory.mktemp("audited"), {}

    def policy(kind):
        tokenizer = load_tokenizer(make("conversation") / "checkpoints/000002")
        tokenizer.chat_template = CHATML if "chat" in kind else None
        folder = parent / f"policy of {kind}"
        save_policy(load_model(parent / "conversation/checkpoints/000002"), tokenizer, folder)
        return {"path": str(folder), "context": 1200}

    def make(kind):
        if kind not in made:
            table = {**TABLE, "policy": policy(kind), "imitation": {}} if kind in FROM_MODEL else TABLE
            made[kind] = parent / kind.replace(" ", "-")
            with pytest.MonkeyPatch.context() as patch:
                if kind == "nucleus":  # refused, but older folders hold such runs
                    patch.setattr(rules, "RULES", [rule for rule in rules.RULES if "top_p" not in str(rule.sentence)])
                train(Run.parse(table, [f'output="{made[kind]}"', *KINDS[kind]]))
        return made[kind]

    return make


@pytest.fixture
def copy(audited, tmp_path):
    """Return a copy of a run that may be changed."""
    return shutil.copytree(audited("conversation"), tmp_path / "run")


def failed(report):
    return {check.name for check in report.checks if check.count}


def result(report, name):
    return next(check for check in report.checks if check.name == name)


# -- files of strangers --


def edited(path, change):
    """Change the first line of a file of JSON lines."""
    first, *others = path.read_text(encoding="utf-8").splitlines()
    entry = json.loads(first)
    change(entry)
    path.write_text("\n".join([json.dumps(entry), *others]) + "\n", encoding="utf-8")


@pytest.mark.parametrize("number", [10**9, 2**70, -1, 0])
def test_an_absurd_iteration_is_a_finding(copy, number):
    told = {"phase": "train", "iteration": number, "success": 0.0}
    with (copy / "metrics.jsonl").open("a", encoding="utf-8") as file:
        file.write(json.dumps(told) + "\n")
    shutil.rmtree(copy / "trajectories")
    problems = [str(problem) for problem in result(audit(copy), "metrics file").problems]
    expected = (
        f"lacks {number - 3} of the {number} finished" if number > 1 else f"has iteration {number}, and the first"
    )
    assert any(expected in problem for problem in problems), problems


def test_missing_iterations_are_counted_without_listing_them():
    events = [{"phase": "train", "iteration": number} for number in (1, 2, 4, 7, -3, 10**30, "5")]
    assert missing_iterations(events, 7) == (3, 3)
    assert missing_iterations(events, 2) == (0, 0)
    assert missing_iterations(events, 2**70) == (2**70 - 4, 3)
    assert missing_iterations([], 1) == (1, 1)


@pytest.mark.parametrize(
    ("field", "value"), [("response", 10**30), ("response", -(2**63) - 1), ("logprobs", -(10**400)), ("prompt", 2**63)]
)
def test_a_number_that_no_machine_word_holds_is_a_finding(copy, field, value):
    edited(copy / "trajectories/000001.jsonl", lambda entry: entry["turns"][0][field].__setitem__(0, value))
    report = audit(copy)
    assert any(f"turns[0]: {field} must be a list of" in str(each) for each in result(report, "files").problems)


@pytest.mark.parametrize(
    "name", ["", "x", "open-3-1#", "open-3-1#two@7", "#@", "open-3-1#²@7", f"open-3-1#{'9' * 5000}@7"]
)
def test_an_odd_id_of_an_episode_is_a_finding(copy, name):
    edited(copy / "trajectories/000001.jsonl", lambda entry: entry.update(id=name))
    report = audit(copy)
    assert "groups" in failed(report)
    assert any(str(each.location.trajectory) == name for each in result(report, "groups").problems)


@pytest.mark.parametrize(
    "text", ["{", "[]", "{}", '{"groups": 3}', '{"groups": [{"task": 1}]}', '{"groups": [7]}', "\xff"]
)
def test_a_damaged_file_of_what_was_sampled_is_a_finding(copy, text):
    file = copy / "sampling/000001.json"
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(text.encode("latin-1"))
    problems = [str(problem) for problem in result(audit(copy), "groups").problems]
    assert any(str(file) in problem for problem in problems), problems


@pytest.mark.parametrize("value", ["many", [1], 10**400, True])
def test_a_metric_that_is_no_number_is_a_finding(copy, value):
    lines = [json.loads(line) for line in (copy / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    next(line for line in lines if line["phase"] == "train")["success"] = value
    (copy / "metrics.jsonl").write_text("\n".join(map(json.dumps, lines)) + "\n", encoding="utf-8")
    assert value is True or "metrics" in failed(audit(copy))


@pytest.mark.parametrize("text", ["[]", "{", '{"step": 7}'])
def test_a_damaged_state_of_a_checkpoint_is_a_finding(copy, text):
    folder = copy / "checkpoints/000002"
    (folder / "state.json").write_text(text, encoding="utf-8")
    assert "checkpoints" in failed(audit(copy))
    (folder / "manifest.json").unlink(missing_ok=True)  # as a folder from elsewhere
    assert "checkpoints" in failed(audit(copy))


# -- runs in order --


@pytest.mark.parametrize("kind", KINDS)
def test_runs_of_every_kind_pass(audited, kind):
    report = audit(audited(kind))
    assert report.passed, [str(problem) for check in report.checks for problem in check.problems]
    steps = report.counts["episodes"] // 6
    assert report.counts["episodes"] == 6 * steps
    assert {check.name: check.checked for check in report.checks if check.unit == "turns"} == dict.fromkeys(
        ("numbers", "versions", "prompts", "masks", "texts", "actions", "endings"), report.counts["turns"]
    )
    assert result(report, "groups").checked == result(report, "metrics").checked == steps
    gaps = result(report, "log-probabilities").details
    assert gaps["tokens"] > 0
    assert gaps["max"] < (0.3 if kind == "bfloat16" else 1e-4)


def test_every_kept_version_is_scored(audited):
    report = audit(audited("conversation"))
    gaps = result(report, "log-probabilities")
    assert set(gaps.details["by_version"]) == {"0", "1"}
    assert gaps.not_done == []
    assert gaps.checked == report.counts["tokens"]
    for table in ("by_version", "by_position", "by_turn"):
        assert sum(gap["tokens"] for gap in gaps.details[table].values()) == gaps.checked
        assert max(gap["max"] for gap in gaps.details[table].values()) == gaps.details["max"]


def test_chunks_do_not_change_the_statistics(audited, monkeypatch):
    whole = result(audit(audited("conversation")), "log-probabilities").details
    monkeypatch.setattr(scoring_module, "CHUNK", 50)
    parts = result(audit(audited("conversation")), "log-probabilities").details
    assert parts["tokens"] == whole["tokens"]
    assert parts["mean"] == pytest.approx(whole["mean"], abs=1e-6)


def test_answers_are_counted(copy):
    file = copy / "trajectories/000001.jsonl"
    stored = list(read_trajectories(file))
    turns = [turn for episode in stored for turn in episode.turns]
    counts = audit(copy, AuditOptions(iteration=1, scores=False)).counts
    assert counts["turns"] == len(turns)
    assert counts["unparsable"] == sum(turn.action is None for turn in turns)
    assert counts["truncated"] == sum(len(turn.response) == 8 and turn.finish == "length" for turn in turns)
    assert counts["tokens"] == sum(len(turn.response) for turn in turns)


# -- corrupted trajectories --


def first_turn(changed):
    """Return a corruption of the second turn of the fourth trajectory, which is the first that has one."""

    def corrupt(stored):
        which = next(k for k, episode in enumerate(stored) if k >= 2 and len(episode.turns) > 1)
        turns = list(stored[which].turns)
        turns[1] = changed(turns[1])
        stored[which] = replace(stored[which], turns=tuple(turns))
        return stored, (stored[which].id, 1)

    return corrupt


def swapped(values, at, new):
    return (*values[:at], new, *values[at + 1 :])


CORRUPT_TURNS = {
    "prompts: a token of the turn before": ("prompts", lambda t: replace(t, prompt=swapped(t.prompt, 0, 270))),
    "prompts: a token of the new text": (
        "prompts",
        lambda t: replace(t, prompt=swapped(t.prompt, len(t.prompt) - 3, 270)),
    ),
    "prompts: a token is missing": ("prompts", lambda t: replace(t, prompt=t.prompt[:-1])),
    "prompts: a token too many": ("prompts", lambda t: replace(t, prompt=(*t.prompt, t.prompt[-1]))),
    "prompts: another observation": ("prompts", lambda t: replace(t, observation=t.observation + "!")),
    "texts: another text": ("texts", lambda t: replace(t, text=t.text + "s")),
    "texts: another sampled id": ("texts", lambda t: replace(t, response=swapped(t.response, 0, 270))),
    "versions: newer": ("versions", lambda t: replace(t, version=t.version + 1)),
    "versions: negative": ("versions", lambda t: replace(t, version=-1)),
    "versions: switched": ("versions", lambda t: replace(t, switches=((1, t.version + 1),))),
    "versions: switched behind the end": ("versions", lambda t: replace(t, switches=((99, t.version + 1),))),
    "actions: another action": ("actions", lambda t: replace(t, action="sing")),
    "numbers: a missing log-probability": ("numbers", lambda t: replace(t, logprobs=t.logprobs[:-1])),
    "numbers: NaN": ("numbers", lambda t: replace(t, logprobs=swapped(t.logprobs, 0, float("nan")))),
    "numbers: positive": ("numbers", lambda t: replace(t, logprobs=swapped(t.logprobs, 0, 0.5))),
    "numbers: an id outside the vocabulary": ("numbers", lambda t: replace(t, prompt=swapped(t.prompt, 0, 9999))),
    "numbers: a reward": ("numbers", lambda t: replace(t, reward=float("inf"))),
    "numbers: no response": ("numbers", lambda t: replace(t, response=(), logprobs=())),
    "masks: a token that was not sampled": ("masks", lambda t: replace(t, response=(*t.response, 5))),
    "endings: finish": ("endings", lambda t: replace(t, finish="stop" if t.finish == "length" else "length")),
    "log-probabilities: one token": (
        "log-probabilities",
        lambda t: replace(t, logprobs=swapped(t.logprobs, 0, t.logprobs[0] - 0.1)),
    ),
}


@pytest.mark.parametrize("way", CORRUPT_TURNS)
def test_a_corrupted_turn_is_found(copy, way):
    name, changed = CORRUPT_TURNS[way]
    file = copy / "trajectories/000002.jsonl"
    stored, (trajectory, turn) = first_turn(changed)(list(read_trajectories(file)))
    with TrajectoryWriter(file) as writer:
        for episode in stored:
            writer.write(episode)
    report = audit(copy, AuditOptions(iteration=2))
    assert name in failed(report)
    location = result(report, name).problems[0].location
    assert (location.iteration, location.trajectory) == (2, trajectory)
    assert location.turn in ((turn, None) if name == "masks" else (turn,))
    assert audit(copy, AuditOptions(iteration=1, scores=False)).passed


def rewrite(folder, changed, iteration=2):
    file = folder / f"trajectories/{iteration:06d}.jsonl"
    stored = changed(list(read_trajectories(file)))
    file.write_text("".join(to_json(episode) + "\n" for episode in stored))


CORRUPT_ITERATIONS = {
    "an id twice": ("groups", lambda all_: [*all_[:-1], replace(all_[-1], id=all_[0].id)]),
    "a trajectory is missing": ("groups", lambda all_: all_[:-1]),
    "another seed": ("groups", lambda all_: [replace(one, seed=one.seed + 1) for one in all_]),
    "another task": ("groups", lambda all_: [replace(all_[0], task="open-3-9"), *all_[1:]]),
    "an outcome": ("metrics", lambda all_: [replace(all_[0], won=not all_[0].won), *all_[1:]]),
    "limits": ("endings", lambda all_: [replace(all_[0], stop="turns", turns=all_[0].turns[:1]), *all_[1:]]),
    "an error": ("endings", lambda all_: [replace(all_[0], error="broken"), *all_[1:]]),
}


@pytest.mark.parametrize("way", CORRUPT_ITERATIONS)
def test_a_corrupted_iteration_is_found(copy, way):
    name, changed = CORRUPT_ITERATIONS[way]
    rewrite(copy, changed)
    report = audit(copy, AuditOptions(scores=False))
    assert name in failed(report)
    assert result(report, name).problems[0].location.iteration == 2


def forked(stored, **changes):
    """The iteration with a fork of its first episode, which repeats it, in place of a sibling."""
    parent = next(episode for episode in stored if len(episode.turns) > 1)
    sibling = next(episode for episode in stored if episode.task == parent.task and episode.id != parent.id)
    fork = replace(parent, id=Fork(parent, 1).name(0), fork_of=parent.id, fork_turn=1)
    return [replace(fork, **changes) if episode is sibling else episode for episode in stored]


def test_forks_are_members_like_others(copy):
    rewrite(copy, forked)
    report = audit(copy, AuditOptions(scores=False))
    assert failed(report) <= {"metrics"}  # the sibling had another outcome
    assert result(report, "forks").checked == 2


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"fork_of": "open-3-1#9@9"}, "its parent open-3-1#9@9 is not stored in this iteration"),
        ({"fork_turn": 99}, "it begins at turn 99"),
        ({"fork_tokens": 1}, None),
        ({"fork_tokens": 10**6}, "turn 1 does not begin with the first 1000000 tokens of"),
        ("token", "turn 1 does not begin with the first 2 tokens of"),
        ("turn", "turn 0, before its fork at 1, is not that of"),
    ],
)
def test_a_fork_that_is_none_is_found(copy, changes, text):
    def changed(stored):
        if isinstance(changes, dict):
            return forked(stored, **changes)
        parent = next(episode for episode in stored if len(episode.turns) > 1)
        if changes == "token":
            other = replace(parent.turns[1], response=(parent.turns[1].response[0], 0, *parent.turns[1].response[2:]))
            return forked(stored, turns=(parent.turns[0], other, *parent.turns[2:]), fork_tokens=2)
        turns = (replace(parent.turns[0], logprobs=tuple(2 * x for x in parent.turns[0].logprobs)), *parent.turns[1:])
        return forked(stored, turns=turns)

    stored = changed(list(read_trajectories(copy / "trajectories/000002.jsonl")))
    problems = [problem for _, problem in wrong_forks(None, 2, [EpisodeEnd.of(episode) for episode in stored])]
    assert len(problems) == (text is not None)
    assert all(problem.startswith(text) for problem in problems)


def test_versions_that_decrease_are_found(copy):
    def changed(stored):
        turns = [replace(turn, version=1 - min(k, 1)) for k, turn in enumerate(stored[0].turns)]
        return [replace(stored[0], turns=tuple(turns)), *stored[1:]]

    rewrite(copy, changed)
    problem = result(audit(copy, AuditOptions(scores=False)), "versions").problems[0]
    assert problem.location.turn == 1
    assert problem.text == "sampled by version 0 after a turn by version 1"


def shifted(batch):
    mask = batch.mask.copy()
    mask[:, 1:] = batch.mask[:, :-1]
    return replace(batch, mask=mask)


def widened(batch):
    mask = batch.mask.copy()
    mask[0, 1] = True
    return replace(batch, mask=mask)


def narrowed(batch):
    mask = batch.mask.copy()
    mask[0, mask[0].nonzero()[0][-1]] = False
    return replace(batch, mask=mask)


def reordered(batch):
    return replace(batch, old=batch.old[:, ::-1].copy())


@pytest.mark.parametrize("kind", ["conversation", "window"])
@pytest.mark.parametrize("broken", [shifted, widened, narrowed, reordered], ids=lambda one: one.__name__)
def test_a_wrong_mask_is_found(audited, monkeypatch, kind, broken):
    whole = checks_module.pack
    monkeypatch.setattr(checks_module, "pack", lambda *args, **options: broken(whole(*args, **options)))
    assert failed(audit(audited(kind), AuditOptions(scores=False))) == {"masks"}


def test_a_prompt_is_shown_decoded(copy):
    def changed(stored):
        turns = list(stored[0].turns)
        turns[0] = replace(turns[0], prompt=swapped(turns[0].prompt, 4, turns[0].prompt[0]))
        return [replace(stored[0], turns=tuple(turns)), *stored[1:]]

    before = next(iter(read_trajectories(copy / "trajectories/000002.jsonl"))).turns[0].prompt
    rewrite(copy, changed)
    tokenizer = load_tokenizer(copy / "checkpoints/000002")
    text = result(audit(copy, AuditOptions(scores=False)), "prompts").problems[0].text
    assert f"token 4 of {len(before)} is {before[0]} ({tokenizer.decode([before[0]])!r})" in text
    assert f"expected {before[4]} ({tokenizer.decode([before[4]])!r})" in text
    assert repr(tokenizer.decode(list(before[:4]))) in text


@pytest.mark.parametrize("kind", ["window", "chat", "chat window"])
def test_prompts_of_every_kind_are_compared(audited, tmp_path, kind):
    folder = shutil.copytree(audited(kind), tmp_path / "run")

    def changed(stored):
        which = next(k for k, episode in enumerate(stored) if len(episode.turns) > 2)
        turns = list(stored[which].turns)
        turns[2] = replace(turns[2], prompt=swapped(turns[2].prompt, len(turns[2].prompt) // 2, 270))
        stored[which] = replace(stored[which], turns=tuple(turns))
        return stored

    rewrite(folder, changed, iteration=1)
    report = audit(folder, AuditOptions(scores=False))
    assert failed(report) == {"prompts"}
    assert result(report, "prompts").problems[0].location.turn == 2


# -- log-probabilities --


def put_weights(folder, version, model):
    """Replace the weights of a checkpoint, whose manifest then matches."""
    path = Checkpoints(folder / "checkpoints").path(version)
    model.save_pretrained(path)
    (path / "manifest.json").write_text(json.dumps(manifest(path)))


def test_another_checkpoint_is_found(copy):
    put_weights(copy, 1, load_model(copy / "checkpoints/000000"))  # stale weights: one iteration older
    report = audit(copy)
    assert failed(report) == {"log-probabilities"}
    gaps = result(report, "log-probabilities")
    assert gaps.details["by_version"]["0"]["mean"] < 1e-6 < 1e-3 < gaps.details["by_version"]["1"]["mean"]
    assert "version 1 differ by" in gaps.problems[0].text
    assert audit(copy, AuditOptions(bound=10.0)).passed


def test_the_bound_follows_the_type_of_the_engine(copy):
    def moved(stored):
        def noisy(turn):
            return replace(turn, logprobs=tuple(value - 0.02 for value in turn.logprobs))

        return [replace(episode, turns=tuple(map(noisy, episode.turns))) for episode in stored]

    rewrite(copy, moved)
    report = audit(copy)
    assert failed(report) == {"log-probabilities"}
    assert result(report, "log-probabilities").details["by_version"]["1"]["mean"] == pytest.approx(0.02, abs=1e-4)
    table = tomllib.loads((copy / "run.toml").read_text())
    table["sampler"]["dtype"] = "bfloat16"
    (copy / "run.toml").write_text("".join(render(table)))
    assert engine_dtype(Run.load(copy / "run.toml")) == "bfloat16"
    assert audit(copy).passed


def test_nucleus_sampling_moves_log_probabilities_by_a_known_amount(audited):
    folder = audited("nucleus")
    assert result(audit(folder), "log-probabilities").details["mean"] < 1e-6
    wrong = GapMeter(1e-4, top_p=1.0)
    stored = list(read_trajectories(folder / "trajectories/000001.jsonl"))
    from turncredit.training.learner.logprobs import TokenScorer

    scorer = TokenScorer(load_model(folder / "checkpoints/000000"))
    list(wrong.measure(1, stored[0].turns[0].version, stored, lambda batch: scorer.score(batch, temperature=0.7)))
    assert 1e-3 < wrong.whole.mean < -torch.log(torch.tensor(0.8))


# -- files --


def test_damaged_files_are_found(copy):
    weights = copy / "checkpoints/000001/model.safetensors"
    data = bytearray(weights.read_bytes())
    data[-1] ^= 1
    weights.write_bytes(bytes(data))
    with (copy / "trajectories/000001.jsonl").open("a") as file:
        file.write("{}\n{}\n")
    report = audit(copy)
    assert failed(report) == {"checkpoints", "files"}
    assert "000001 is damaged: model.safetensors has changed" in result(report, "checkpoints").problems[0].text
    assert "line 7" in result(report, "files").problems[0].text
    assert result(report, "log-probabilities").not_done == ["no checkpoint is kept of version 1"]


@pytest.mark.parametrize("name", ["before.json", "evaluations/000002.json"])
def test_changed_evaluations_are_found(copy, name):
    table = json.loads((copy / name).read_text())
    table["rows"][0]["won"] = not table["rows"][0]["won"]
    (copy / name).write_text(json.dumps(table))
    assert failed(audit(copy, AuditOptions(scores=False))) == {"evaluations"}


def test_a_checkpoint_of_another_vocabulary_is_found(copy):
    state = copy / "checkpoints/000002/state.json"
    state.write_text(json.dumps({**json.loads(state.read_text()), "vocabulary": "0" * 16}))
    path = state.parent
    (path / "manifest.json").write_text(json.dumps(manifest(path)))
    assert "another vocabulary" in result(audit(copy), "checkpoints").problems[0].text


# -- what cannot be checked is said, and is no failure --


def test_missing_checkpoints_are_no_failure(copy, audited):
    shutil.rmtree(copy / "checkpoints/000000")
    report = audit(copy)
    assert report.passed
    assert result(report, "log-probabilities").not_done == ["no checkpoint is kept of version 0"]
    further = AuditOptions(checkpoints=(audited("conversation") / "checkpoints/000000",))
    assert result(audit(copy, further), "log-probabilities").not_done == []
    shutil.rmtree(copy / "checkpoints")
    report = audit(copy)
    assert report.passed
    assert [check.name for check in report.checks if check.state == "not done"] == [
        "prompts", "texts", "endings", "checkpoints", "log-probabilities",
    ]  # fmt: skip


def test_runs_without_trajectories_are_no_failure(copy):
    shutil.rmtree(copy / "trajectories")
    report = audit(copy)
    assert report.passed
    (missing,) = result(report, "files").not_done
    assert missing.startswith("trajectories that metrics.jsonl has are not stored: iteration")


def test_a_run_of_an_earlier_version_did_not_store_how_answers_ended(copy):
    table = tomllib.loads((copy / "run.toml").read_text())
    del table["sampler"]
    (copy / "run.toml").write_text("".join(render(table)))
    assert result(audit(copy, AuditOptions(scores=False)), "endings").state == "not done"


def test_an_iteration_in_progress_is_no_failure(copy):
    lines = (copy / "metrics.jsonl").read_text().splitlines(keepends=True)
    (copy / "metrics.jsonl").write_text(
        "".join(lines[: next(k for k, line in enumerate(lines) if '"train"' in line) + 1])
    )
    file = copy / "trajectories/000002.jsonl"
    file.write_bytes(file.read_bytes()[:-100])
    shutil.rmtree(copy / "checkpoints/000002")
    for name in ("evaluations/000002.json", "after.json"):
        (copy / name).unlink()
    report = audit(copy)
    assert report.passed, report
    assert any("incomplete" in note for note in report.notes)
    assert "iteration 2 is not finished: its groups are not checked" in report.notes


@pytest.mark.parametrize(
    ("harm", "said"),
    [
        (lambda file: file.unlink(), ["metrics.jsonl is missing", "iteration 1: metrics.jsonl lacks 2 of the 2"]),
        (lambda file: file.write_bytes(file.read_bytes()[:-30]), ["is no event: it is damaged or incomplete"]),
        (lambda file: file.write_bytes(b"".join(file.read_bytes().splitlines(keepends=True)[:2])), ["lacks 2 of the"]),
        (lambda file: file.write_bytes(2 * file.read_bytes()), ["has iteration 1 2 times"]),
        (lambda file: file.write_text("[" * 100_000 + "\n" + file.read_text()), ["line 1 is no event"]),
    ],
    ids=["missing", "torn", "cut", "twice", "deep"],
)
def test_metrics_that_are_not_whole_are_found(copy, harm, said):
    harm(copy / "metrics.jsonl")
    checked = result(audit(copy, AuditOptions(scores=False)), "metrics file")
    for words in said:
        assert any(words in str(problem) for problem in checked.problems), checked.problems


def test_a_limit_is_said(copy):
    report = audit(copy, AuditOptions(limit=2))
    assert report.passed
    assert report.counts["episodes"] == 4
    assert result(report, "groups").state == "not done"
    assert "at most 2 trajectories of each iteration were read" in report.notes


def test_folders_that_cannot_be_audited_are_refused(copy, tmp_path):
    with pytest.raises(TrainingError, match="it has no run"):
        audit(tmp_path / "elsewhere")
    with pytest.raises(TrainingError, match="no trajectories of iteration 7; it has 1 to 2"):
        audit(copy, AuditOptions(iteration=7))
    with pytest.raises(TrainingError, match="holds no checkpoint"):
        audit(copy, AuditOptions(checkpoints=(tmp_path,)))


def test_ranges_of_numbers():
    assert ranges([]) == ""
    assert ranges([4]) == "4"
    assert ranges([0, 1, 2, 5, 7, 8]) == "0 to 2, 5, 7 to 8"
