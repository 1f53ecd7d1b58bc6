import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnwise.credit.registry import get as get_credit_rule
from turnwise.training.config.differences import differences
from turnwise.training.config.run import Run, reference
from turnwise.training.errors import ConfigError
from turnwise.training.preflight.effects import NEEDS, check_effects, effective_keys, ineffective

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"


def test_the_reference_is_up_to_date():
    text = (ROOT / "docs/config.md").read_text(encoding="utf-8")
    assert text == reference(), "write docs/config.md anew; its third line says how"


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
        ({"train": {"setps": 3}}, r"unknown key 'train.setps'; did you mean 'train.steps'\?"),
        ({"trian": {"steps": 3}}, r"unknown key 'trian'; did you mean 'train'\?"),
        ({"xyzzy": 1}, r"unknown key 'xyzzy'; choose one of: name, seed, output"),
        ({"train": {"steps": "many"}}, r"train.steps must be an integer, got 'many'"),
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
    path.write_text('name = "a"\n[train]\nsteps = 3\n')
    run = Run.load(
        path,
        [
            "train.lr=1e-3",
            "train.steps = 7",
            "credit.method=grpo",
            'name="b c"',
            "env.kwargs.level=tiny",
            "env.kwargs.sizes=[1, 2]",
            "imitation.won_only=false",
        ],
    )
    assert (run.train.lr, run.train.steps, run.credit.method, run.name) == (1e-3, 7, "grpo", "b c")
    assert run.env.kwargs == {"level": "tiny", "sizes": [1, 2]}
    assert run.imitation.won_only is False


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
    run = Run.parse({"policy": {"path": "model", "hidden": 8}, "objective": {"kl_target": 0.1}})
    message = r"policy.hidden has no effect: the model of policy.path .*; objective.kl_target .* objective.kl is 0"
    with pytest.raises(ConfigError, match=message):
        check_effects(run)
    check_effects(Run.parse({"policy": {"hidden": 8}}))


def test_a_section_that_is_switched_off_is_left_alone():
    check_effects(Run.parse({"imitation": {"demonstrator": "some.jsonl", "noise": 0.5}}))


def test_keys_without_effect_are_left_out_of_the_stored_run():
    run = Run.parse({"policy": {"path": "model"}})
    assert set(ineffective(run)) >= {"policy.vocab", "policy.hidden", "policy.layers", "policy.heads"}
    stored = effective_keys(run)
    assert "hidden" not in stored["policy"]
    assert Run.parse(stored) == run


def keys(model=Run, prefix=""):
    for name, field in model.model_fields.items():
        if hasattr(field.annotation, "model_fields"):
            yield from keys(field.annotation, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}"


def test_the_table_of_effects_names_keys_only():
    assert set(NEEDS) <= set(keys())


def test_a_run_has_at_most_105_keys():
    assert len(list(keys())) <= 105


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.toml")), ids=lambda path: path.stem)
def test_every_key_of_the_examples_has_an_effect(path):
    run = Run.load(path)
    check_effects(run)
    get_credit_rule(run.credit.method, **run.credit.options)


def test_a_run_is_the_same_after_writing_and_reading():
    run = Run.parse(
        {
            "name": 'quo"te\n\\',
            "env": {"kwargs": {"a b": [1, 2.5, True, "x"], "t": {"k": 1e-9}}, "eval": {"split": "e"}},
        }
    )
    assert Run.parse(tomllib.loads(run.to_toml())) == run
    assert differences(run, Run.parse({}, ["train.steps=1"])) == [
        "env.eval.split",
        "env.kwargs.a b",
        "env.kwargs.t.k",
        "name",
        "train.steps",
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
    table = {"env": {"kwargs": {"level": "tiny", "split": "train"}, "eval": {"level": "small"}}}
    assert Run.parse(table).evaluation_kwargs() == {"level": "small", "split": "train"}
    assert Run.parse(table, ["env.eval.split=held_out"]).evaluation_kwargs()["split"] == "held_out"


def test_paths_may_begin_with_a_tilde(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    assert Run.parse({"output": "~/runs/a"}).folder == tmp_path / "runs/a"
    (tmp_path / "run.toml").write_text("seed = 3\n")
    assert Run.load("~/run.toml").seed == 3
