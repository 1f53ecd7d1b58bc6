"""Ablations: how arms are read, what they share, how processes end, and numbers by hand. No model is trained here."""

import json
import os
import signal
import sys
import threading
import time
from pathlib import Path

import pytest
import toys.corridor
from toys.training_helpers import trajectory, turn

import turncredit.ablation.process_pool as crew_module
from turncredit.ablation.arm_grammar import split
from turncredit.ablation.axes import Arm, is_axis
from turncredit.ablation.credit_agreement import credit_agreement
from turncredit.ablation.plan import check, open_folder, plan, read_plan
from turncredit.ablation.process_pool import PooledRun, train_all
from turncredit.ablation.process_worker import TimeLimit
from turncredit.ablation.results import ablation_results
from turncredit.ablation.summary import summary
from turncredit.agents.files.json_files import write_text
from turncredit.agents.files.trajectory_files import TrajectoryWriter
from turncredit.credit import CreditError, UnknownRule
from turncredit.credit.student_t import student_quantile
from turncredit.evaluation.panels import Panel
from turncredit.evaluation.results import EpisodeRow, EvaluationResult
from turncredit.training import Run
from turncredit.training.config.differences import differences
from turncredit.training.config.section_tables import StalenessSection
from turncredit.training.errors import ConfigError, RunExists, TrainingError

ENV = f"toys.corridor:{toys.corridor.ID}"
TABLE = {
    "name": "corridor",
    "threads": 1,
    "env": {"id": ENV, "kwargs": {"lengths": [3, 4]}},
    "agent": {"max_turns": 6, "max_tokens": 8},
    "policy": {"new": {"vocab": 280, "hidden": 32, "layers": 1, "heads": 1}, "context": 400},
    "imitation": {"episodes": 10, "epochs": 3, "lr": 5e-3},
    "credit": {"options": {"invalid_penalty": 0.1, "w": 0.5}},
    "objective": {"options": {"clip_low": 0.1}},
    "train": {"iterations": 5, "groups": 2, "group_size": 3},
    "evaluation": {"episodes": 4},
}


def ablation(tmp_path, *words, table=TABLE):
    plain = [word for word in words if not is_axis(word)]
    return plan(Run.parse(table, plain), [word for word in words if is_axis(word)], tmp_path / "abl")


# ---- reading arms ----


def test_an_axis_has_several_values_outside_of_brackets_and_quotes():
    assert split("a,[1,2],{b = 'c,d'},\"e,f\"", ",") == ["a", "[1,2]", "{b = 'c,d'}", '"e,f"']
    axes = ["credit=grpo", "seeds=3", "train.lr=1e-3,1e-4"]
    assert [is_axis(word) for word in [*axes, "train.lr=1e-3", "env.kwargs.lengths=[3,4]", 'name="a,b"']] == [
        *[True] * 3,
        *[False] * 3,
    ]


def test_arms_bring_keys_of_their_own(tmp_path):
    planned = ablation(tmp_path, "credit=grpo,gigpo:w=1.0:anchor=observation,gigpo:train.lr=0.01", "seeds=2", "seed=3")
    assert planned.seeds == (3, 4)
    assert [arm.folder for arm in planned.arms] == ["grpo", "gigpo-w-1.0-anchor-observation", "gigpo-train.lr-0.01"]
    grpo, other, fast = (planned.run(arm, 4) for arm in planned.arms)
    assert (grpo.credit.method, grpo.credit.options) == ("grpo", {"invalid_penalty": 0.1})  # grpo has no w
    assert planned.arms[0].left_out == ("w",)
    assert any("grpo" in text and "no option w" in text for text in planned.remarks())
    assert (other.credit.anchor, other.credit.options) == ("observation", {"invalid_penalty": 0.1, "w": 1.0})
    assert (fast.train.lr, fast.credit.anchor, fast.credit.options["w"]) == (0.01, "state", 0.5)
    assert {run.seed for run in (grpo, other, fast)} == {4}
    assert grpo.objective.options == {"clip_low": 0.1}
    check(planned)


def test_a_rule_that_stands_on_another_hands_it_the_options_of_the_file(tmp_path):
    table = {**TABLE, "credit": {"options": {"invalid_penalty": 0.2, "scale": "none", "w": 0.5}}}
    published = 'salt:base_options={scale="std"}:endings="marked"'
    planned = ablation(tmp_path, f"credit=gigpo,salt,{published}", table=table)
    _, plain, told = (planned.run(arm, 0).credit.options for arm in planned.arms)
    assert plain == {"base_options": {"scale": "none", "invalid_penalty": 0.2}}
    assert told == {"base_options": {"scale": "std", "invalid_penalty": 0.2}, "endings": "marked"}
    assert [arm.left_out for arm in planned.arms] == [(), ("w",), ("scale", "w")]
    assert any("salt: invalid_penalty, scale of the file are passed to" in text for text in planned.remarks())
    check(planned)
    open_folder(planned)
    assert read_plan(planned.folder).arms == planned.arms


def test_what_is_wrong_with_an_arm_names_it(tmp_path):
    with pytest.raises(CreditError, match=r"arm 'gigpo:gama=1': gigpo has no option 'gama'"):
        check(ablation(tmp_path, "credit=grpo,gigpo:gama=1"))


def test_any_key_can_be_an_axis_and_axes_are_crossed(tmp_path):
    planned = ablation(tmp_path, "credit=gigpo", "credit.anchor=state,observation", "train.lr=1e-3,1e-4")
    assert [arm.name for arm in planned.arms] == [
        "anchor=state, lr=1e-3",
        "anchor=state, lr=1e-4",
        "anchor=observation, lr=1e-3",
        "anchor=observation, lr=1e-4",
    ]
    runs = [planned.run(arm, 0) for arm in planned.arms]
    assert [(run.credit.anchor, run.train.lr) for run in runs] == [
        ("state", 1e-3),
        ("state", 1e-4),
        ("observation", 1e-3),
        ("observation", 1e-4),
    ]
    assert len({arm.folder for arm in planned.arms}) == 4
    assert planned.remarks() == []
    assert "different budgets" in ablation(tmp_path, "train.group_size=2,3").remarks()[0]


def test_an_arm_may_use_the_old_name_of_a_key(tmp_path):
    with pytest.warns(FutureWarning, match=r"objective\.old is now objective\.old_logprobs"):
        result = ablation(tmp_path, "objective=decoupled:old=recomputed,decoupled:old_logprobs=recomputed:kl=0.1")
    with pytest.warns(FutureWarning):
        assert [result.run(arm, 0).objective.old_logprobs for arm in result.arms] == ["recomputed", "recomputed"]


def test_objectives_are_arms_like_credit_rules(tmp_path):
    planned = ablation(tmp_path, "objective=ppo_clip,ppo_clip:clip_low=0.3:kl=0.1")
    assert [arm.name for arm in planned.arms] == ["ppo_clip", "ppo_clip:clip_low=0.3:kl=0.1"]
    other = planned.run(planned.arms[1], 0)
    assert (other.objective.options["clip_low"], other.objective.kl.coefficient, other.credit.method) == (
        0.3,
        0.1,
        "gigpo",
    )
    check(planned)


def test_asynchronous_arms_start_from_a_warm_start_without_staleness(tmp_path):
    table = {
        **TABLE,
        "objective": {"name": "decoupled", "old_logprobs": "recomputed"},
        "train": {**TABLE["train"], "staleness": {"updates": 4, "spare_groups": 1}},
    }
    planned = ablation(tmp_path, "train.lr=1e-4,2e-4", table=table)
    check(planned)
    warm = planned.warm_start(0)
    assert (warm.train.staleness, warm.train.groups) == (StalenessSection(), 2)
    assert {planned.run(arm, 0).train.staleness.updates for arm in planned.arms} == {4}


def test_arms_share_all_but_what_they_name(tmp_path):
    planned = ablation(tmp_path, "credit=grpo,gigpo", "seeds=2")
    first, other = (planned.run(arm, 0) for arm in planned.arms)
    assert set(differences(first, other)) == {"credit.method", "credit.options.w", "name", "output"}
    assert (
        first.policy.model
        == other.policy.model
        == str(planned.folder_of("warm-start", 0).resolve() / "checkpoints/000000")
    )
    assert first.imitation.episodes == 0
    assert first.policy.model != planned.run(planned.arms[0], 1).policy.model
    warm = planned.warm_start(0)
    assert (warm.train.iterations, warm.imitation.episodes, warm.policy.new.hidden) == (0, 10, 32)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["credit=grpo,grpo"], "same name"),
        (["credit=gigpo,gigpo:w=0.5"], "the same run"),  # w is 0.5 in the file already
        (["credit=grpo,"], "empty value"),
        (["train.lr=1e-3:w=1,1e-4"], "w is no key of .train."),
        (["imitation.demonstrator.noise=0.1,0.2"], "imitation.demonstrator.noise cannot be an axis"),
        (["credit=grpo:policy.new.hidden=8"], "policy.new.hidden cannot differ"),
        (["nonsense=1,2"], "nonsense cannot be an axis"),
        (["credit=grpo", "seeds=0"], "seeds must be .* got 0"),
        (["credit=grpo", "seeds=[1,1]"], "seeds="),
        (["credit=grpo", "seeds=many"], "seeds must be .* got many"),
        (
            ["credit=grpo,rloo", "credit.options.gama=1"],
            "no arm's credit rule has the option credit.options.gama; did you mean 'gamma'",
        ),
        (["train.lr=1,x"], "train.lr"),
    ],
)
def test_what_cannot_be_is_said_in_one_sentence(tmp_path, words, message):
    with pytest.raises(ConfigError, match=message) as caught:
        ablation(tmp_path, *words)
    assert "\n" not in str(caught.value)


def test_unknown_rules_and_options_show_before_any_work(tmp_path):
    with pytest.raises(UnknownRule, match="gigpo"):
        ablation(tmp_path, "credit=gigppo,grpo")
    with pytest.raises(UnknownRule, match=r"arm 'grpo:w': .* 'grpo' is one, but 'w' .* has the form key=value"):
        ablation(tmp_path, "credit=grpo:w")
    with pytest.raises(Exception, match="gamma"):
        check(ablation(tmp_path, "credit=grpo,gigpo:gama=0.5"))
    with pytest.raises(ConfigError, match=r"evaluation\.episodes must be > 0"):
        check(ablation(tmp_path, "credit=grpo,gigpo", "evaluation.episodes=0"))


# ---- the folder ----


def test_a_folder_belongs_to_one_ablation(tmp_path):
    first = ablation(tmp_path, "credit=grpo,gigpo", "seeds=2")
    open_folder(first)
    open_folder(ablation(tmp_path, "credit=grpo,gigpo", "seeds=2", "threads=2"))
    open_folder(first)
    there = read_plan(first.folder)
    assert (there.arms, there.seeds, there.base) == (first.arms, first.seeds, first.base)
    with pytest.raises(ConfigError, match=r"train\.iterations, train\.lr changed since"):
        open_folder(ablation(tmp_path, "credit=grpo,gigpo", "seeds=2", "train.lr=0.5", "train.iterations=6"))
    with pytest.raises(ConfigError, match="has gigpo, which is missing here"):
        open_folder(ablation(tmp_path, "credit=grpo,gigpo:w=1.0", "seeds=2"))
    with pytest.raises(ConfigError, match="has seed 1, which"):
        open_folder(ablation(tmp_path, "credit=grpo,gigpo", "seeds=1"))
    with pytest.raises(ConfigError, match=r"reference .*is grpo"):
        open_folder(ablation(tmp_path, "credit=gigpo,grpo", "seeds=2"))
    open_folder(ablation(tmp_path, "credit=grpo,gigpo,rloo", "seeds=3"))  # arms and seeds may join
    assert len(read_plan(first.folder).arms) == 3


def test_a_folder_with_something_else_is_left_alone(tmp_path):
    write_text(tmp_path / "abl/run.toml", "")
    with pytest.raises(RunExists, match="choose another output"):
        open_folder(ablation(tmp_path, "credit=grpo,gigpo"))
    (tmp_path / "abl/plan.json").write_text("{}")
    with pytest.raises(TrainingError, match="not the plan of an ablation"):
        open_folder(ablation(tmp_path, "credit=grpo,gigpo"))


# ---- processes ----

WORKER = """
import json, os, signal, sys, time
from pathlib import Path
job = json.loads(sys.stdin.readline())
run = job["run"]
folder, name = Path(run["output"]), run["name"]
def send(**event): print(json.dumps(event), flush=True)
(folder / "began").open("a").write("x")
(folder / "seconds").write_text(json.dumps(job["seconds"]))
running = folder.parent.parent / "running"
running.mkdir(exist_ok=True)
(running / name).touch()
if "waits" in name:
    try:
        send(phase="train", iteration=1, success=len(list(running.iterdir())))
        time.sleep(600)
    except KeyboardInterrupt:
        send(phase="ended", finished=False)
        sys.exit()
send(phase="train", iteration=1, success=len(list(running.iterdir())))
if "fails" in name and not (folder / "mended").exists():
    send(phase="failed", text="it failed")
    sys.exit(1)
if "dies" in name:
    os.kill(os.getpid(), signal.SIGKILL)
time.sleep(0.1)
(running / name).unlink()
(folder / "after.json").write_text("{}")
send(phase="ended", finished=True)
"""


@pytest.fixture
def crew(tmp_path, monkeypatch):
    """Jobs by name, each after the one whose name stands behind the colon, carried out by a worker of this file."""
    monkeypatch.setattr(crew_module, "command", lambda: [sys.executable, "-S", "-c", WORKER])

    def make(*names):
        jobs = {}
        for name in names:
            mine, _, other = name.partition(":")
            run = Run.parse({"name": mine, "output": str(tmp_path / mine / "seed-0")})
            jobs[mine] = PooledRun(mine, 0, run, jobs.get(other))
        return list(jobs.values())

    return make


def test_one_that_fails_or_dies_takes_only_those_along_that_wait_for_it(crew):
    jobs, told = crew("warm", "fails:warm", "dies:warm", "good:warm", "late:fails"), []
    assert train_all(jobs, 1, lambda job, event: told.append((job.name, event)))
    assert [job.state for job in jobs] == ["finished", "failed", "failed", "finished", "failed"]
    assert jobs[1].text == "it failed"
    assert "was killed (SIGKILL)" in jobs[2].text
    assert jobs[4].text == "the fails of seed 0 failed"
    assert [event["phase"] for name, event in told if name == "good"] == ["begun", "train", "ended"]
    assert not (jobs[4].run.folder / "began").exists()


def test_what_is_finished_is_not_begun_again(crew):
    names = ("warm", "fails:warm", "good:warm")
    train_all(crew(*names), 2, lambda job, event: None)
    jobs = crew(*names)
    (jobs[1].run.folder / "mended").touch()
    assert train_all(jobs, 2, lambda job, event: None)
    assert [job.state for job in jobs] == ["finished"] * 3
    assert [len((job.run.folder / "began").read_text()) for job in jobs] == [1, 2, 1]


@pytest.mark.parametrize("workers", [1, 3])
def test_as_many_run_at_a_time_as_are_wanted(crew, workers):
    seen = []
    train_all(crew(*"abcdef"), workers, lambda job, event: seen.append(event.get("success", 0)))
    assert max(seen) <= workers
    assert sum(value > 0 for value in seen) == 6


def test_a_process_is_told_how_much_of_the_time_is_left(crew):
    jobs = crew("first", "second:first")
    train_all(jobs, 1, lambda job, event: None, seconds=1000.0)
    first, second = (json.loads((job.run.folder / "seconds").read_text()) for job in jobs)
    assert 0 <= second < first <= 1000
    jobs = crew("too-late")
    train_all(jobs, 1, lambda job, event: None, seconds=0.0)
    assert jobs[0].state == "waiting"
    (late,) = crew("late")
    train_all([late], 1, lambda job, event: None)
    assert json.loads((late.run.folder / "seconds").read_text()) is None


def test_ctrl_c_stops_all_in_good_order(crew):
    jobs, trained = crew("waits-1", "waits-2", "later"), []

    def listen(job, event):
        if event["phase"] == "train":
            trained.append(job.name)
            if len(trained) == 2:
                threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()

    start = time.monotonic()
    assert not train_all(jobs, 2, listen)
    assert [job.state for job in jobs] == ["stopped", "stopped", "waiting"]
    assert all(job.process is None or job.process.poll() is not None for job in jobs)
    assert time.monotonic() - start < 300


# ---- numbers ----

PANEL = Panel(ENV, ("a", "b", "c", "d"))


def fabricate(folder: Path, won: str, *, train=(), before: str | None = None):
    """Write what a finished run leaves: outcomes, one letter an episode, and events of training."""
    write_text(folder / "run.toml", "")
    for name, letters in (("after", won), ("before", before)):
        if letters is not None:
            rows = tuple(
                EpisodeRow(t, None, x == "1", float(x), 3, "terminated", 0, 0)
                for t, x in zip(PANEL.tasks, letters, strict=True)
            )
            EvaluationResult(PANEL, rows).save(folder / f"{name}.json")
    events = [
        {
            "phase": "train",
            "iteration": k + 1,
            "success": value,
            "step_signal": value,
            "seconds": 2.0,
            "unparsable": None,
        }
        for k, value in enumerate(train)
    ]
    write_text(folder / "metrics.jsonl", "".join(json.dumps(event) + "\n" for event in events))


@pytest.fixture
def done(tmp_path):
    planned = ablation(tmp_path, "credit=grpo,gigpo,rloo", "seeds=3")
    for seed, (warm, grpo, gigpo) in enumerate(
        [("1000", "1100", "1111"), ("0000", "1000", "1110"), ("1000",) * 2 + ("1001",)]
    ):
        fabricate(planned.folder_of("warm-start", seed), warm, before=warm)
        fabricate(planned.folder_of("grpo", seed), grpo, before=warm, train=(0.0, 0.5))
        fabricate(planned.folder_of("gigpo", seed), gigpo, before="1111" if seed == 2 else warm, train=(0.25, 0.75))
    fabricate(planned.folder_of("rloo", 0), "1100", before="1000")
    (planned.folder_of("rloo", 1)).mkdir(parents=True)
    write_text(planned.folder_of("rloo", 1) / "run.toml", "")
    return planned


def test_the_table_by_hand(done):
    results = json.loads(json.dumps(ablation_results(done, {("rloo", 1): "failed (so)"})))
    grpo, gigpo, rloo = (results["arms"][name] for name in ("grpo", "gigpo", "rloo"))
    # gigpo: 1, 3/4, 1/2; mean 3/4, variance (1/16 + 0 + 1/16) / 2 = 1/16, error 1/4 / sqrt(3)
    error = 0.25 / 3**0.5
    assert gigpo["success"]["value"] == pytest.approx(0.75)
    assert gigpo["success"]["error"] == pytest.approx(error)
    assert gigpo["success"]["low"] == pytest.approx(0.75 - student_quantile(0.95, 2) * error)
    assert (gigpo["pooled"]["k"], gigpo["pooled"]["n"]) == (9, 12)
    assert (grpo["pooled"]["k"], results["warm_start"]["pooled"]["k"]) == (4, 2)
    # gains over the warm start: 3/4, 3/4, 1/4
    assert gigpo["gain"]["value"] == pytest.approx((3 / 4 + 3 / 4 + 1 / 4) / 3)
    first, other = results["comparisons"]
    assert [(s["only_first"], s["only_second"], s["p"]) for s in first["seeds"]] == [
        (0, 2, 0.5),
        (0, 2, 0.5),
        (0, 1, 1.0),
    ]
    assert first["difference"]["value"] == pytest.approx((2 / 4 + 2 / 4 + 1 / 4) / 3)
    # by task: b 0+1+0, c 1+1+0, d 1+0+1: three positive, two of the eight patterns of signs
    assert first["p_tasks"] == 2 / 8
    assert first["p_tasks_holm"] == 2 * 2 / 8
    assert first["p_flips"] == first["smallest"] == 0.25
    # differences 1/2, 1/2, 1/4: mean 5/12, error sqrt(1/24 / 2 / 3) = 1/12, t = 5; p = 1 - t / sqrt(t^2 + 2)
    assert first["p_seeds"] == pytest.approx(1 - 5 / 27**0.5)
    assert first["p_seeds_holm"] == pytest.approx(2 * first["p_seeds"])
    assert first["verdict"] == "within the noise"
    assert (other["arm"], len(other["seeds"]), other["p_seeds"]) == ("rloo", 1, 1.0)
    assert [entry["state"] for entry in rloo["seeds"].values()] == ["finished", "failed (so)", "waiting"]
    assert grpo["diagnostics"]["step_signal"] == pytest.approx(0.25)
    assert (grpo["diagnostics"]["unparsable"], rloo["success"]["n"]) == (None, 1)
    assert results["seconds"] == 2.0 * 2 * 6
    assert [entry["begins_as_the_warm_start"] for entry in gigpo["seeds"].values()] == [True, True, False]
    assert gigpo["seeds"]["1"]["rows"]["won"] == [True, True, True, False]
    assert gigpo["seeds"]["1"]["training"]["success"] == [0.25, 0.75]
    assert results["panel"]["tasks"] == list("abcd")


def test_arms_that_played_more_than_others_are_named(done):
    """Rules such as dynamic sampling play more than the settings say; rloo has no events, and counts nothing."""
    assert ablation_results(done)["remarks"] == done.remarks()
    for arm, episodes in (("grpo", (20, 20)), ("gigpo", (30, 40))):
        for seed in range(3):
            rows = [{"phase": "train", "iteration": k, "episodes": n} for k, n in enumerate(episodes, start=1)]
            write_text(done.folder_of(arm, seed) / "metrics.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    *others, remark = ablation_results(done)["remarks"]
    assert others == done.remarks()
    assert remark == "the arms played different numbers of episodes in training (mean over seeds): grpo 40, gigpo 70"


def test_the_first_iterations_stand_beside_the_gains(done):
    """Reference: seed 0 won 0.0 and 0.5 of its episodes at first; seed 2 has no numbers of that kind."""
    write_text(done.folder_of("grpo", 2) / "metrics.jsonl", "")
    rows = [{"phase": "train", "iteration": k, "turns": 10.0 * k, "shared_turns": 0.5} for k in range(1, 8)]
    write_text(done.folder_of("grpo", 1) / "metrics.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    table = summary({"home": ablation_results(done)}, lambda name, arm, seed: {0: 0.5, 1: 0.25}.get(seed))
    by_seed = {row["seed"]: row for row in table["rows"] if row["arm"] == "gigpo"}
    assert [by_seed[seed]["gain"]["value"] for seed in (0, 1, 2)] == [2 / 4, 2 / 4, 1 / 4]
    assert [by_seed[seed]["success"] for seed in (0, 1, 2)] == [0.25, None, None]
    assert by_seed[1]["turns"] == (10 + 20 + 30 + 40 + 50) / 5  # the first five iterations, not all seven
    # half of 10 turns are shared, the first one among them: 4 of 9; then 9 of 19, 14 of 29, 19 of 39, 24 of 49
    later = (4 / 9 + 9 / 19 + 14 / 29 + 19 / 39 + 24 / 49) / 5
    assert by_seed[1]["shared_later_turns"] == pytest.approx(later)
    mean = by_seed[None]
    assert (mean["n"], mean["success"], mean["shared_turns"]) == (3, 0.25, 0.5)
    assert [row["agreement"] for row in (by_seed[0], by_seed[2], mean)] == [0.5, None, 0.375]
    assert mean["gain"]["value"] == pytest.approx((2 / 4 + 2 / 4 + 1 / 4) / 3)
    assert [(line["arm"], line["n"], line["turns"]["value"]) for line in table["correlations"]] == [
        *(("gigpo", 3, None), ("rloo", 1, None), ("mean of gigpo, rloo", 1, None)),
    ]


def test_correlations_over_two_ablations():
    """Ranks by hand: in each ablation the gain falls with the turns; over both, ranks 1 2 3 4 5 against 3 2 1 5 4."""

    def table(gains, turns):
        pairs = [{"seed": seed, "difference": gain} for seed, gain in enumerate(gains)]
        early = dict.fromkeys(("shared_turns", "shared_later_turns", "no_variance_groups", "success"))
        seeds = {str(seed): {"early": {**early, "turns": value}} for seed, value in enumerate(turns)}
        return {
            "panel": {"env": "Home-v0"},
            "arms": {"grpo": {"seeds": seeds}, "gigpo": {}},
            "comparisons": [{"arm": "gigpo", "seeds": pairs}],
        }

    tables = {"a": table([0.3, 0.2, 0.1], [5, 6, 7]), "b": table([0.5, 0.4], [8, 9])}
    correlations = summary(tables, lambda name, arm, seed: {"a": 0.5, "b": -0.5}[name] + seed / 10)
    alone, other, both = correlations["correlations"]
    assert (alone["ablation"], alone["n"], alone["turns"]["value"]) == ("a", 3, None)
    assert (other["ablation"], other["n"]) == ("b", 2)
    # 1 - 6 * (4 + 0 + 4 + 1 + 1) / (5 * 24)
    assert (both["ablation"], both["n"], both["turns"]["value"]) == ("all", 5, pytest.approx(0.5))
    assert -1.0 <= both["turns"]["low"] <= 0.5 <= both["turns"]["high"] <= 1.0
    # agreements 0.5 0.6 0.7 -0.5 -0.4, ranks 3 4 5 1 2, against 3 2 1 5 4: 1 - 6 * (0 + 4 + 16 + 16 + 4) / (5 * 24)
    assert both["agreement"]["value"] == pytest.approx(-1.0)
    assert both["success"] == {"value": None, "low": None, "high": None, "n": 0}


def played(name, rewards, states):
    turns = [turn((1,), (2,), reward=reward, state=state) for reward, state in zip(rewards, states, strict=True)]
    return trajectory(turns, name=name, won=sum(rewards) > 0)


def test_the_agreement_of_two_rules_by_hand(tmp_path):
    """The turns hall, door (won) and hall, wall (lost): grpo +1/2 +1/2 -1/2 -1/2; gigpo adds +1/4 0 -1/4 0."""
    words = "credit=grpo,gigpo:gamma=0.5:w=1.0,gigpo:w=0.0,ppr_renorm"
    planned = ablation(tmp_path, words, "credit.options={scale='none'}")
    reference, gigpo, same, other = planned.arms
    assert credit_agreement(planned, gigpo, 0, first=5) is None  # nothing is stored
    folder = planned.folder_of(reference.folder, 0) / "trajectories"
    folder.mkdir(parents=True)
    for iteration in (1, 2, 6):  # the sixth is left out, and in the second all advantages are zero
        won = 0.0 if iteration == 2 else 1.0
        with TrajectoryWriter(folder / f"{iteration:06d}.jsonl.gz") as writer:
            writer.write(played("t#0@0", [0.0, won], ["hall", "door" if iteration == 1 else "hall"]))
            writer.write(played("t#1@0", [0.0, 0.0], ["hall", "wall"]))
    products, squares = (3 / 4 + 1 / 2) / 2 * 2, 2 * (9 / 16 + 1 / 4)
    assert credit_agreement(planned, gigpo, 0, first=5) == pytest.approx(products / squares**0.5)
    assert credit_agreement(planned, same, 0, first=5) == pytest.approx(1.0)
    assert credit_agreement(planned, other, 0, first=5) is None  # it needs rewards of steps, which nobody gave
    longest = "sampling.rewards=[{name='truncate', limit=2, unit='turns'}]"
    paid = ablation(tmp_path, words, "credit.options={scale='none'}", longest)
    assert credit_agreement(paid, gigpo, 0, first=5) is None  # all episodes reach the limit, so that none is rewarded


def test_arms_are_slugs_of_their_names():
    assert Arm("gigpo:w=0.5", ()).folder == "gigpo-w-0.5"
    assert Arm("///", ()).folder == "arm"


def test_a_run_leaves_the_time_that_its_evaluation_takes(monkeypatch):
    clock = {"now": 0.0}
    monkeypatch.setattr("turncredit.ablation.process_worker.time.monotonic", lambda: clock["now"])
    limit, events = TimeLimit(100.0), []
    watch = limit.watched(events.append)
    tick = {"phase": "tick", "what": "rollout"}
    watch({"phase": "evaluation", "iteration": 0, "seconds": 30.0})
    watch(tick)
    clock["now"] = 69.0
    watch(tick)
    clock["now"] = 71.0
    watch({"phase": "tick", "what": "evaluation"})
    assert not limit.reached
    with pytest.raises(KeyboardInterrupt):
        watch(tick)
    assert limit.reached
    assert len(events) == 5
