import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnwise.training.config import Run, reference
from turnwise.training.errors import ConfigError
from turnwise.training.folder import differences

ROOT = Path(__file__).resolve().parents[2]


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
        ({"train": {"setps": 3}}, r"unknown key 'train.setps'; did you mean 'steps'\?"),
        ({"trian": {"steps": 3}}, r"unknown key 'trian'; did you mean 'train'\?"),
        ({"xyzzy": 1}, r"unknown key 'xyzzy'; choices: agent, credit"),
        ({"train": {"steps": "many"}}, r"train.steps: .*valid integer.*'many'"),
        ({"train": {"lr": -1.0}}, r"train.lr: .*greater than 0.*-1.0"),
        ({"agent": {"prompt": "both"}}, r"agent.prompt: .*'conversation' or 'window'.*'both'"),
        ({"train": 3}, r"train: .*\(it is 3\)"),
        ({"train": {"setps": 3}, "seeed": 1}, r"setps.*; .*seeed|seeed.*; .*setps"),
    ],
)
def test_what_is_wrong_is_named(table, message):
    with pytest.raises(ConfigError, match=message):
        Run.parse(table)


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


def test_unread_keys_are_those_that_were_set_and_not_read():
    run = Run.parse({"seed": 1, "train": {"steps": 3, "lr": 0.1}, "policy": {"hidden": 8}})
    assert run.unread() == ["seed", "policy.hidden", "train.steps", "train.lr"]
    assert (run.seed, run.train.lr, run.policy.layers) == (1, 0.1, 4)
    assert run.unread() == ["policy.hidden", "train.steps"]
    with pytest.raises(ConfigError, match=r"policy.hidden, train.steps have no effect"):
        run.check_read()
    assert (run.train.steps, run.policy.hidden) == (3, 8)
    run.check_read()


def test_looking_at_a_run_as_a_whole_does_not_read_its_keys():
    run = Run.parse({"seed": 1, "train": {"steps": 3}})
    run.to_toml(), repr(run), run.model_dump(), run == Run(), differences(run, Run())
    assert run.unread() == ["seed", "train.steps"]


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


def test_evaluation_takes_the_arguments_of_training_then_its_own_then_the_split():
    table = {"env": {"kwargs": {"level": "tiny", "split": "train"}, "eval": {"level": "small"}}}
    assert Run.parse(table).evaluation_kwargs() == {"level": "small", "split": "train"}
    assert Run.parse(table, ["evaluation.split=held_out"]).evaluation_kwargs()["split"] == "held_out"
