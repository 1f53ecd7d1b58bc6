import re
import tomllib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turncredit.credit.registry import get as get_credit_rule
from turncredit.training.config.differences import differences, flat
from turncredit.training.config.renamed import RENAMED, SHORT
from turncredit.training.config.run import Run, reference
from turncredit.training.config.section_tables import (
    DemonstratorSection,
    EnginesSection,
    EntropySection,
    KLSection,
    LoggersSection,
    MicroBatchSection,
    StalenessSection,
    WorkersSection,
)
from turncredit.training.errors import ConfigError
from turncredit.training.preflight.effects import NEEDS, check_effects, effective_keys, ineffective

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"


def test_the_reference_is_up_to_date():
    text = (ROOT / "docs/config.md").read_text(encoding="utf-8")
    assert text == reference(), "`python scripts/readme_tables.py` writes docs/config.md anew"


def test_every_key_has_a_line_of_documentation():
    def walk(model):
        for name, field in model.model_fields.items():
            assert field.description, f"{model.__name__}.{name}"
            assert "\n" not in field.description
            if hasattr(field.annotation, "model_fields"):
                walk(field.annotation)

    walk(Run)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"train": {"iteratons": 3}}, r"unknown key 'train.iteratons'; did you mean 'train.iterations'\?"),
        ({"trian": {"iterations": 3}}, r"unknown key 'trian'; did you mean 'train'\?"),
        ({"xyzzy": 1}, r"unknown key 'xyzzy'; choose one of: name, seed, output"),
        ({"train": {"iterations": "many"}}, r"train.iterations must be an integer, got 'many'"),
        ({"train": {"lr": -1.0}}, r"train.lr must be > 0, got -1.0"),
        ({"credit": {"anchor": "both"}}, r"credit.anchor must be 'state', 'observation' or 'history', got 'both'"),
        ({"agent": {"prompt": 3}}, r"agent.prompt must be a name or a table with a name, got 3$"),
        ({"train": 3}, r"train must be a table, got 3"),
        ({"train": {"setps": 3}, "seeed": 1}, r"setps.*; .*seeed|seeed.*; .*setps"),
    ],
)
def test_what_is_wrong_is_named(table, message):
    with pytest.raises(ConfigError, match=message):
        Run.parse(table)


def test_a_message_lists_the_first_problems_and_counts_the_rest():
    with pytest.raises(ConfigError, match=r"unknown key 'train.a'.*; and 2 more$") as caught:
        Run.parse({"train": dict.fromkeys("abcdefg", 1)})
    assert str(caught.value).count("unknown key") == 5


def test_overrides_are_typed_as_in_toml(tmp_path):
    path = tmp_path / "run.toml"
    path.write_text('name = "a"\n[train]\niterations = 3\n')
    run = Run.load(
        path,
        [
            "train.lr=1e-3",
            "train.iterations = 7",
            "credit.method=grpo",
            'name="b c"',
            "env.kwargs.level=tiny",
            "env.kwargs.sizes=[1, 2]",
            "imitation.won_only=false",
        ],
    )
    assert (run.train.lr, run.train.iterations, run.credit.method, run.name) == (1e-3, 7, "grpo", "b c")
    assert run.env.kwargs == {"level": "tiny", "sizes": [1, 2]}
    assert run.imitation.won_only is False


@pytest.mark.parametrize(
    ("word", "value"),
    [
        ("name=2026", "2026"),
        ("name=true", "true"),
        ("name=a=b", "a=b"),
        ("name=a#b", "a#b"),
        ("name=don't, they said", "don't, they said"),
        ("name=2026-01-31", "2026-01-31"),
        ("env.id=mine:examples/Mine-v0", "mine:examples/Mine-v0"),
        ("agent.chat={date = 2026-01-31, on = True}", {"date": "2026-01-31", "on": True}),
        ("agent.chat.date=2026-01-31", {"date": "2026-01-31"}),
        ("env.kwargs.when=12:30:00", {"when": "12:30:00"}),
        ('env.kwargs={"True" = "say \\"True\\"", x = True}', {"True": 'say "True"', "x": True}),
        ("env.kwargs={True = [1979-05-27T07:32:00]}", {"True": ["1979-05-27T07:32:00"]}),
        ("sampling.groups=dapo", ["dapo"]),
        ('sampling.rewards={name = "prs"}', [{"name": "prs"}]),
        ("sampling.teachers=openai:M@http://127.0.0.1:8000/v1", ["openai:M@http://127.0.0.1:8000/v1"]),
    ],
)
def test_a_mark_in_a_value_belongs_to_the_value(word, value):
    run, keys = Run.parse({}, [word]), word.partition("=")[0].split(".")
    found = run
    for key in keys[:2]:
        found = getattr(found, key)
    assert found == value
    assert Run.parse(tomllib.loads(run.to_toml())) == run


def test_a_date_in_a_file_is_a_text():
    assert Run.parse(tomllib.loads("agent.chat = {date = 2026-01-31}")).agent.chat == {"date": "2026-01-31"}


def test_a_quoted_key_says_how_to_write_it():
    with pytest.raises(ConfigError, match=r'write the table above it, such as env.kwargs={"a.b" = 1}'):
        Run.parse({}, ['env.kwargs."a.b"=1'])
    assert Run.parse({}, ['env.kwargs={"a.b" = 1}']).env.kwargs == {"a.b": 1}


@pytest.mark.parametrize("text", ["train.lr", "=3", "train..lr=3", "name.x=3"])
def test_bad_overrides(text):
    with pytest.raises(ConfigError):
        Run.parse({"name": "a"}, [text])


def test_files_that_are_none(tmp_path):
    path = tmp_path / "run.toml"
    path.write_bytes(b"\xff\xfe[train")
    with pytest.raises(ConfigError, match="not a TOML file"):
        Run.load(path)
    path.write_text("[train\nsteps=3")
    with pytest.raises(ConfigError, match="not a TOML file"):
        Run.load(path)
    with pytest.raises(OSError, match="No such file"):
        Run.load(tmp_path / "none.toml")


def test_a_key_that_is_set_and_has_no_effect_is_refused_by_name():
    run = Run.parse({"policy": {"model": "model", "new": {"hidden": 8}}, "objective": {"kl": {"target": 0.1}}})
    message = r"policy.new.hidden has no effect: the model of policy.model .*; objective.kl.target .* objective.kl is 0"
    with pytest.raises(ConfigError, match=message):
        check_effects(run)
    check_effects(Run.parse({"policy": {"new": {"hidden": 8}}}))


def test_a_section_that_is_switched_off_is_left_alone():
    check_effects(Run.parse({"imitation": {"demonstrator": {"name": "some.jsonl", "noise": 0.5}}}))


def test_keys_without_effect_are_left_out_of_the_stored_run():
    run = Run.parse({"policy": {"model": "model"}})
    assert set(ineffective(run)) >= {"policy.new.vocab", "policy.new.hidden", "policy.new.layers", "policy.new.heads"}
    stored = effective_keys(run)
    assert "hidden" not in stored["policy"]
    assert Run.parse(stored) == run


def keys(model=Run, prefix="", *, tables=False):
    """The keys of a run; `tables`: one for a table within a section, such as objective.kl, and one for `loggers`."""
    for name, field in model.model_fields.items():
        if hasattr(field.annotation, "model_fields") and not (
            tables and (prefix or hasattr(field.annotation, "abbreviated"))
        ):
            yield from keys(field.annotation, f"{prefix}{name}.", tables=tables)
        else:
            yield f"{prefix}{name}"


def test_the_table_of_effects_names_keys_only():
    assert set(NEEDS) <= set(keys())


def test_a_message_names_a_table_by_its_short_value():
    run = Run.parse({}, ["imitation.demonstrator={name='searcher', noise=0.2}", "train.staleness=2"])
    assert f"{run.imitation.demonstrator}, {run.train.staleness}, {run.env.workers}" == "searcher, 2, 0"


def test_a_run_has_few_keys():
    assert len(list(keys(tables=True))) < 110


def test_old_names_lead_to_keys_and_are_none():
    assert set(RENAMED.values()) <= set(keys(tables=True)) | set(keys())
    assert not set(RENAMED) & set(keys())


OLD = {
    "trajectories": ".jsonl",
    "loggers": ["wandb"], "project": "mine",
    "env": {"kwargs": {"level": "tiny"}, "eval": {"split": "held_out"}, "workers": 1, "in_order": True, "memory": 2.0},
    "policy": {"path": "", "checkpointing": True, "vocab": 300, "hidden": 32, "layers": 1, "heads": 2},
    "sampler": {"memory": 1.5},
    "cluster": {"address": "auto", "engines": 2, "gpus": 0.5, "timeout": 60.0},
    "imitation": {
        "episodes": 5, "observations": 0.25, "batch": 64, "target": 0.5,
        "demonstrator": "searcher", "noise": 0.1, "typos": 0.2,
    },
    "objective": {
        "kl": 0.1, "kl_estimator": "k1", "kl_in": "reward", "kl_corrected": False, "kl_target": 0.2, "kl_horizon": 9.0,
        "entropy": 0.01, "entropy_target": 0.3, "entropy_step": 0.001, "norm": 50.0, "old": "recomputed",
    },
    "train": {
        "steps": 3, "tasks": 2, "group": 4, "pool": 9, "repairs": 0, "updates": 5,
        "staleness": 4, "spare": 3, "in_order": True, "grad_clip": 0.5, "micro_tokens": 512, "packing": True,
        "warmup": 2, "weight_decay": 0.5,
        "checkpoint_every": 1, "keep": 7, "keep_trajectories": 6,
    },
    "evaluation": {"during": 8, "every": 2},
}  # fmt: skip
"""A run in the names of keys that were replaced."""

LATER = {
    "env": {"workers": 3, "deterministic": True, "memory_gib": 1.5},
    "train": {"staleness": 2, "spare_groups": 1, "deterministic": True},
}
"""Some of these keys under the names that came after those above."""


def test_a_file_with_old_names_is_read_with_one_note():
    assert set(RENAMED) <= {*flat(OLD), *flat(LATER), "env.eval"}  # nothing is forgotten here
    with pytest.warns(
        FutureWarning, match=r"old names of keys were read: trajectories is now trajectory_format, .* and \d+ more$"
    ) as notes:
        run = Run.parse(OLD, source="old.toml")
    assert len(notes) == 1
    assert (run.trajectory_format, run.policy.new.hidden, run.sampler.kv_cache_gib) == (".jsonl", 32, 1.5)
    assert (run.evaluation.env, run.evaluation.episodes_during_training) == ({"split": "held_out"}, 8)
    assert (run.train.iterations, run.train.groups, run.train.group_size, run.train.optimizer_steps) == (3, 2, 4, 5)
    assert (run.checkpoints.every, run.checkpoints.keep, run.checkpoints.keep_trajectories) == (1, 7, 6)
    assert run.objective.kl == KLSection(coefficient=0.1, estimator="k1", where="reward", target=0.2, horizon=9.0)
    assert (run.objective.aggregation.norm, run.train.schedule.warmup, run.train.optimizer.weight_decay) == (50, 2, 0.5)
    assert run.objective.entropy == EntropySection(coefficient=0.01, target=0.3, step=0.001)
    assert run.loggers == LoggersSection(names=["wandb"], project="mine")
    assert run.env.workers == WorkersSection(count=1, deterministic=True, memory_gib=2.0)
    assert run.cluster.engines == EnginesSection(count=2, gpus=0.5, timeout=60.0)
    assert run.imitation.demonstrator == DemonstratorSection(name="searcher", noise=0.1, typos=0.2)
    assert run.train.staleness == StalenessSection(updates=4, spare_groups=3, deterministic=True)
    assert (run.train.optimizer.grad_clip, run.train.micro_batch) == (0.5, MicroBatchSection(tokens=512, packing=True))
    assert Run.parse(tomllib.loads(run.to_toml())) == run


def test_a_file_with_the_names_in_between_is_read_with_one_note():
    with pytest.warns(FutureWarning, match=r"env.deterministic is now env.workers.deterministic, ") as notes:
        run = Run.parse(LATER)
    assert len(notes) == 1
    assert run.env.workers == WorkersSection(count=3, deterministic=True, memory_gib=1.5)
    assert run.train.staleness == StalenessSection(updates=2, spare_groups=1, deterministic=True)


@pytest.mark.parametrize(
    "words",
    [
        ["train.steps=3"],
        ["env.eval.split=e"],
        ["objective.kl_target=0.1"],
        ["cluster.gpus=0.5"],
        ["imitation.noise=0.25"],
        ["train.micro_tokens=64"],
        ["project=mine"],
    ],
)
def test_an_old_name_on_the_command_line_is_todays_key(words):
    with pytest.warns(FutureWarning, match="is now"):
        run = Run.parse({"objective": {"kl": 0.5}}, words)
    assert run.objective.kl.coefficient == 0.5
    key, _, text = words[0].partition("=")
    value = flat(run.model_dump())[key.replace("eval", "evaluation.env", 1).removeprefix("env.") if "eval" in key
                                   else RENAMED[key]]  # fmt: skip
    assert str(value) == text


def test_a_key_under_both_of_its_names_is_refused():
    with pytest.raises(ConfigError, match=r"train\.steps is now train\.iterations, and both are set"):
        Run.parse({"train": {"steps": 3, "iterations": 4}})


def test_tables_that_a_value_abbreviates_are_all_listed():
    def walk(model, prefix=""):
        for name, field in model.model_fields.items():
            if hasattr(field.annotation, "abbreviated"):
                yield f"{prefix}{name}", field.annotation.abbreviated
            elif hasattr(field.annotation, "model_fields"):
                yield from walk(field.annotation, f"{prefix}{name}.")

    assert dict(walk(Run)) == SHORT


def test_a_coefficient_abbreviates_its_table():
    run = Run.parse({"objective": {"kl": 0.1}}, ["objective.kl.target=0.2", "objective.entropy=0.01"])
    assert run.objective.kl == KLSection(coefficient=0.1, target=0.2)
    assert run.objective.entropy.coefficient == 0.01
    changed = Run.parse({"objective": {"kl": {"coefficient": 0.1, "target": 0.2}}}, ["objective.kl=0.3"])
    assert changed.objective.kl == KLSection(coefficient=0.3, target=0.2)
    listed = Run.parse({"loggers": ["wandb"]}, ["loggers.project=mine", 'loggers=["trackio"]'])
    assert listed.loggers == LoggersSection(names=["trackio"], project="mine")
    with pytest.raises(ConfigError, match=r"objective\.kl must be a table, got True"):
        Run.parse({"objective": {"kl": True}})


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.toml")), ids=lambda path: path.stem)
def test_every_key_of_the_examples_has_an_effect(path):
    run = Run.load(path)
    check_effects(run)
    get_credit_rule(run.credit.method, **run.credit.options)


def test_a_run_is_the_same_after_writing_and_reading():
    run = Run.parse(
        {
            "name": 'quo"te\n\\',
            "env": {"kwargs": {"a b": [1, 2.5, True, "x"], "t": {"k": 1e-9}}},
            "evaluation": {"env": {"split": "e"}},
        }
    )
    assert Run.parse(tomllib.loads(run.to_toml())) == run
    assert differences(run, Run.parse({}, ["train.iterations=1"])) == [
        "env.kwargs.a b",
        "env.kwargs.t.k",
        "evaluation.env.split",
        "name",
        "train.iterations",
    ]


plain = st.one_of(
    st.booleans(),
    st.integers(-(2**60), 2**60),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(st.characters(exclude_categories=["Cs"])),
)
names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1)
tables = st.dictionaries(
    names, st.recursive(plain, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3))
)


@settings(max_examples=40)
@given(tables)
def test_any_options_survive_writing_and_reading(options):
    run = Run.parse({"credit": {"options": options}})
    assert Run.parse(tomllib.loads(run.to_toml())) == run


@given(st.dictionaries(st.sampled_from(["seed", "env", "train", "agent", "nonsense", ""]), plain | tables))
def test_any_table_gives_a_run_or_an_error_of_ours(table):
    try:
        run = Run.parse(table)
    except ConfigError:
        return
    assert Run.parse(tomllib.loads(run.to_toml())) == run


@given(st.text())
def test_any_override_gives_a_run_or_an_error_of_ours(text):
    try:
        assert isinstance(Run.parse({}, [text]), Run)
    except ConfigError:
        return


def test_evaluation_takes_the_arguments_of_training_and_then_its_own():
    table = {"env": {"kwargs": {"level": "tiny", "split": "train"}}, "evaluation": {"env": {"level": "small"}}}
    assert Run.parse(table).evaluation_kwargs() == {"level": "small", "split": "train"}
    assert Run.parse(table, ["evaluation.env.split=held_out"]).evaluation_kwargs()["split"] == "held_out"


def test_paths_may_begin_with_a_tilde(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    assert Run.parse({"output": "~/runs/a"}).folder == tmp_path / "runs/a"
    (tmp_path / "run.toml").write_text("seed = 3\n")
    assert Run.load("~/run.toml").seed == 3


def test_the_pages_name_keys_that_exist():
    sections = "|".join(name for name, field in Run.model_fields.items() if hasattr(field.annotation, "model_fields"))
    existing = {*keys(), *keys(tables=True)}
    words = (
        "sampler.api",
        "sampler.key_variable",
        "sampler.tokenizer",
        "sampler.tokens",
        "sampler.tool_format",
        "sampler.tools",
    )  # of `turncredit eval`
    others = ("env.unwrapped.", "credit.py", *words)  # a Gymnasium environment, a script
    wrong = []
    pages = [*(ROOT / "docs").glob("*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
    for page in sorted(page for page in pages if page.stem != "coming_from"):  # that page names the keys of others, too
        for key in re.findall(rf"`((?:{sections})\.[a-z_.]+)", page.read_text(encoding="utf-8")):
            if not key.startswith(others) and not any(f"{key}.".startswith(f"{name}.") for name in existing):
                wrong.append(f"{page.name}: {key}")
    assert wrong == []
