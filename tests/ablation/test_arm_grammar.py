"""The grammar of arms: what is written is read back, and one character never means two things."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turncredit.ablation.arm_grammar import ArmText, format_arm, parse_arm, parse_axis
from turncredit.ablation.axes import Arm, axis, is_axis, with_own_folders
from turncredit.ablation.plan import WARM_START, plan
from turncredit.training import Run
from turncredit.training.config.run import parse_value
from turncredit.training.errors import ConfigError

TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=12) | st.text(
    "a1.,:;=@#/'\"[]{}\\ _-TrueFals", max_size=12
)
NUMBERS = st.integers(-(10**18), 10**18) | st.floats(allow_nan=False)
VALUES = st.recursive(
    TEXTS | NUMBERS | st.booleans(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)
NAMES = st.from_regex(r"[a-z_][a-z0-9_]{0,5}(\.[a-z_][a-z0-9_-]{0,5})?", fullmatch=True)
ARMS = st.tuples(VALUES, st.lists(st.tuples(NAMES, VALUES), max_size=3))


@given(st.lists(ARMS, min_size=1, max_size=4))
def test_what_is_written_is_read_back(arms: list[tuple[object, list[tuple[str, object]]]]) -> None:
    text = ",".join(format_arm(value, settings) for value, settings in arms)
    written = [parse_arm(arm) for arm in parse_axis(text)]
    assert [
        (parse_value(arm.value), [(name, parse_value(value)) for name, value in arm.settings]) for arm in written
    ] == arms


@given(st.text(max_size=40))
def test_any_text_is_read_without_loss_or_refused(text: str) -> None:
    try:
        arm = parse_arm(text)
    except ConfigError:
        return
    assert not arm.settings or all(name for name, _ in arm.settings)
    squeezed = "".join([arm.value, *(f":{name}={value}" for name, value in arm.settings)])
    assert "".join(squeezed.split()) == "".join(text.split())


@pytest.mark.parametrize(
    ("text", "value", "settings"),
    [
        ("mine:by_time", "mine:by_time", ()),
        ("a.b.mine:Rules.by_time:gamma=0.9", "a.b.mine:Rules.by_time", (("gamma", "0.9"),)),
        ("gigpo:w=0.5:anchor=observation", "gigpo", (("w", "0.5"), ("anchor", "observation"))),
        ("openai:M@http://127.0.0.1:8000/v1", "openai:M@http://127.0.0.1:8000/v1", ()),
        ("openai:M@http://h:1/v1?a=b:seed=3", "openai:M@http://h:1/v1?a=b", (("seed", "3"),)),
        ("x:judge=openai:M@http://h:80/v1:w=1", "x", (("judge", "openai:M@http://h:80/v1"), ("w", "1"))),
        ("x:path=/a/b:c,d"[:-2], "x", (("path", "/a/b:c"),)),
        ('x:note="a:b=c"', "x", (("note", '"a:b=c"'),)),
        (r'x:note="say \":b=c\""', "x", (("note", r'"say \":b=c\""'),)),
        ("x:note='\\':w=1", "x", (("note", "'\\'"), ("w", "1"))),  # a backslash is no escape in single quotes
        ("x:t={a='}:b=c',l=[1,2]}:w=1", "x", (("t", "{a='}:b=c',l=[1,2]}"), ("w", "1"))),
        ("x:e=a=b", "x", (("e", "a=b"),)),
        ("gigpo: w = 0.5", "gigpo", (("w", " 0.5"),)),
        ("safe:examples/Safe-v0", "safe:examples/Safe-v0", ()),
        ("grpo:w", "grpo:w", ()),
    ],
)
def test_a_colon_begins_a_setting_only_before_a_name_and_an_equals_sign(
    text: str, value: str, settings: tuple[tuple[str, str], ...]
) -> None:
    assert parse_axis(text) == [text]
    assert parse_arm(text) == ArmText(value, settings)


@pytest.mark.parametrize("text", ["a:w=[1,b", "a],b", "{a]", "don't,b", 'x:note="a', "a}"])
def test_what_is_left_open_is_refused_and_says_how_to_quote(text: str) -> None:
    with pytest.raises(ConfigError, match="put quotes around the whole value"):
        parse_axis(text)
    assert not is_axis(f"agent.image_note={text}")  # there it is one value, as in `turncredit train`


@pytest.mark.parametrize(
    ("key", "text", "words"),
    [
        ("credit", "mine:by_time:gamma=0.9", ["credit.method=mine:by_time", "credit.options.gamma=0.9"]),
        ("credit.method", "mine:by_time", ["credit.method=mine:by_time"]),
        ("credit", "salt:base_options.w=1", ["credit.method=salt", "credit.options.base_options.w=1"]),
        ("objective", "mine:l:kl=0.1:c=2", ["objective.name=mine:l", "objective.kl=0.1", "objective.options.c=2"]),
        ("sampling.groups", "dapo", ["sampling.groups=dapo"]),
        ("sampling.rewards", "mine:r:win=0.3", ['sampling.rewards={name = "mine:r", win = 0.3}']),
        ("sampling.tasks", "mine:rule", ["sampling.tasks=mine:rule"]),
        ("sampling.tasks", "mine:rule:share=0.5", ['sampling.tasks={name = "mine:rule", share = 0.5}']),
        (
            "sampling.tasks",
            "vade:gain=even:max_rounds=3",
            ['sampling.tasks={name = "vade", gain = "even"}', "sampling.max_rounds=3"],
        ),
        ("sampling.tasks", "{name='m:r'}:tasks.a=1", ['sampling.tasks={name = "m:r", a = 1}']),
        ("sampling.tasks", "v0:tasks=vade", ['sampling.tasks={name = "v0", tasks = "vade"}']),
        ("agent.prompt", "window:history=2", ['agent.prompt={name = "window", history = 2}']),
        ("agent.template", "react:ask='Now?'", ['agent.template={base = "react", ask = "Now?"}']),
        ("agent.temperature", "ead:scale=300", ['agent.temperature={name = "ead", scale = 300}']),
        ("objective.correction", "icepop:high=3.0", ['objective.correction={name = "icepop", high = 3.0}']),
        ("credit.token_transform", "m:t:by=4", ['credit.token_transform={name = "m:t", by = 4}']),
        ("train.forks", "mine:places:roots=4", ["train.forks=mine:places", "train.forks.roots=4"]),
        ("train.schedule", "cosine:warmup=2", ["train.schedule=cosine", "train.schedule.warmup=2"]),
        ("train.lr", "1e-3:iterations=2", ["train.lr=1e-3", "train.iterations=2"]),
        ("sampling.judge", "openai:M@http://127.0.0.1:8000/v1", ["sampling.judge=openai:M@http://127.0.0.1:8000/v1"]),
        ("credit", "grpo:sampling.judge=openai:M@http://h:1/v1", ["credit.method=grpo", "sampling.judge=openai:M@http://h:1/v1"]),
    ],
)  # fmt: skip
def test_settings_belong_to_the_section_or_to_what_the_axis_names(key: str, text: str, words: list[str]) -> None:
    (arm,) = axis(key, text)
    assert list(arm.words) == words
    Run.parse({}, arm.words)


@pytest.mark.parametrize(
    ("key", "text", "message"),
    [
        ("train.lr", "1e-3:foo=1", "foo is no key of .train.*a value that holds this colon is quoted: train.lr="),
        ("sampling.judge", "openai:a=b@http://h", "a is no key of .sampling.*is quoted: sampling.judge="),
        ("credit", "gigpo:w=1:w=2", "sets w twice"),
        ("credit", "gigpo:method=grpo", "sets credit.method twice"),
        ("sampling.tasks", "{name='vade',gain='hard'}:gain=even", "sampling.tasks.gain is set in"),
        ("env.kwargs.note", "a,b", "for one value with a comma in it, quote it: env.kwargs.note="),
        ("credit", "grpo:env.id=x", "env.id cannot differ between arms"),
    ],
)
def test_what_cannot_be_an_arm_says_why(key: str, text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        list(axis(key, text))


NAMES_BEFORE = {
    "grpo": "grpo",
    "gigpo:anchor=observation": "gigpo-anchor-observation",
    'gigpo:scale="std"': "gigpo-scale-std",
    "hgpo:sampling.groups=[{name='reinforce_ada',keep=4}]:train.iterations=12": (
        "hgpo-sampling.groups-name-reinforce_ada-keep-4-train.iterations-12"
    ),
    "bpo:train.forks={where='entropy',roots=4}": "bpo-train.forks-where-entropy-roots-4",
}
"""Arms of stored ablations, and their folders."""


def test_arms_of_stored_ablations_keep_their_names_and_folders() -> None:
    arms = with_own_folders([arm for name in NAMES_BEFORE for arm in axis("credit", name)], WARM_START)
    assert {arm.name: arm.folder for arm in arms} == NAMES_BEFORE


@given(st.lists(st.text(min_size=1, max_size=300), min_size=1, max_size=6, unique=True))
def test_every_arm_has_a_safe_folder_of_its_own(names: list[str]) -> None:
    arms = with_own_folders([Arm(name, ()) for name in names], WARM_START)
    folders = [arm.folder for arm in arms]
    assert len({folder.lower() for folder in [*folders, WARM_START]}) == len(names) + 1
    for folder in folders:
        assert Path(folder).name == folder
        assert folder.isascii()
        assert 0 < len(folder) <= 255
        assert not folder.startswith((".", "-"))
    assert [arm.name for arm in arms] == names


def test_arms_whose_names_differ_in_marks_only_have_distinct_folders(tmp_path: Path) -> None:
    planned = plan(Run.parse({"evaluation": {"episodes": 4}}), ["credit=gigpo:w=1.5,gigpo:w=-1.5"], tmp_path)
    first, second = (arm.folder for arm in planned.arms)
    assert first == "gigpo-w-1.5"
    assert second.startswith("gigpo-w-1.5-")
    assert planned.run(planned.arms[1], 0).folder != planned.run(planned.arms[0], 0).folder
