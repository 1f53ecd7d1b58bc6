"""What a trainer makes of an export with a chat template is what was sampled, whatever the kind of the template."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from toys.trainer_templates import (
    HERMES_CALL,
    HERMES_TWO,
    KINDS,
    LLAMA_CALL,
    THOUGHT,
    TYPED_CALL,
    TYPED_TWO,
    Kind,
    rendered,
    transcript,
)

from turncredit.agents.interchange.conversations import ANSWERS
from turncredit.agents.interchange.formats import FORMATS
from turncredit.agents.interchange.records import Exported, Origin
from turncredit.agents.trajectory import Trajectory, Turn
from turncredit.tools.readers import read_records

TRAINERS = [name for name, entry in FORMATS.items() if entry.trains]
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": name,
            "description": f"{name} it",
            "parameters": {"type": "object", "properties": properties},
        },
    }
    for name, properties in (("find", {"shelf": {"type": "integer"}, "what": {"type": "string"}}), ("look", {}))
]
ORIGIN = Origin("run", tools={"": TOOLS})
QUESTION = "Find the red key."
RESULTS = ("nothing\nhere", "the key")


def turn(observation: str, text: str, **fields: Any) -> Turn:
    return Turn((), (), (), 0, observation, text, text, "s", 0.0, True, **fields)


def played(answers: Sequence[tuple[str, Sequence[str]]]) -> Trajectory:
    """An episode of answers with their results."""
    turns, seen, results = [], QUESTION, ()
    for text, following in answers:
        turns.append(turn(seen, text, results=tuple(results)))
        seen, results = "\n".join(following), tuple(following)
    return Trajectory("t#0@0", "t", None, 0, tuple(turns), "terminated", True, 1.0, "", seen, None, 0.0)


def loaded(name: str, trajectory: Trajectory, path: Path, **fields: Any) -> tuple[list[dict[str, Any]], list[Any]]:
    """The messages and the tools of an export, as the package that reads them returns them."""
    entry = FORMATS[name]
    if name == "hf":
        pytest.importorskip("polars")
    target = path / f"out{entry.suffix}"
    entry.write([Exported(trajectory)], target, replace(ORIGIN, **fields))
    if name == "hf":
        features = features_of(target)
        (file,) = (target / "data").iterdir()
        row = next(iter(read_records(file))).fields
        return decoded(row["messages"], features["messages"]), decoded(row["tools"], features["tools"])
    record = json.loads(target.read_text())
    return record["messages"], record.get("tools", [])


def features_of(folder: Path) -> dict[str, Any]:
    """What the card of a data set says of its columns to the package `datasets`."""
    (line,) = (line for line in (folder / "README.md").read_text().splitlines() if line.startswith("  features: "))
    return {feature["name"]: feature for feature in json.loads(line.removeprefix("  features: "))}


def decoded(value: Any, feature: Any) -> Any:
    """What `datasets` makes of a value."""
    if value is None or isinstance(feature, str):
        return json.loads(value) if value is not None and feature == "json" else value
    if isinstance(feature, list):
        return {inner["name"]: decoded(value[inner["name"]], inner) for inner in feature}
    if "list" in feature:
        return [decoded(item, feature["list"]) for item in value]
    return decoded(value, feature.get("dtype", feature.get("struct")))


@pytest.mark.parametrize("name", TRAINERS)
@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_an_answer_that_stays_a_text_is_rendered_as_it_was_sampled(name: str, kind: Kind, tmp_path: Path) -> None:
    answers = [(f"{THOUGHT}{kind.two}", RESULTS), (f"{THOUGHT}{kind.call}", ["the red key"]), (f"{THOUGHT}Done.", [])]
    messages, tools = loaded(name, played(answers), tmp_path, answers="text")
    assert tools == TOOLS
    assert rendered(kind, messages, tools) == transcript(kind, QUESTION, answers, TOOLS)


@pytest.mark.parametrize("name", TRAINERS)
@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_parts_are_rendered_as_they_were_sampled(name: str, kind: Kind, tmp_path: Path) -> None:
    """Reasoning apart: a template without a place for it drops it, as the command says."""
    thought = THOUGHT if kind is KINDS["qwen35"] else ""
    answers = [(f"{thought}{kind.two}", RESULTS), (f"{thought}{kind.call}", ["the red key"]), (f"{thought}Done.", [])]
    messages, tools = loaded(name, played(answers), tmp_path)
    assert rendered(kind, messages, tools) == transcript(kind, QUESTION, answers, TOOLS)


@pytest.mark.parametrize("name", TRAINERS)
def test_calls_of_another_kind_are_rendered_once_in_the_form_of_the_template(name: str, tmp_path: Path) -> None:
    single = played([(HERMES_CALL, ["the red key"]), ("Done.", [])])
    double = played([(HERMES_TWO, RESULTS), ("Done.", [])])
    messages, _ = loaded(name, single, tmp_path)
    assert f"\n\n{LLAMA_CALL}<|eot|>" in rendered(KINDS["llama31"], messages, [])
    assert f"{TYPED_CALL}<|im_end|>" in rendered(KINDS["qwen35"], messages, [])
    (tmp_path / "two").mkdir()
    messages, _ = loaded(name, double, tmp_path / "two")
    assert f"{TYPED_TWO}<|im_end|>" in rendered(KINDS["qwen35"], messages, [])
    assert f"assistant\n{HERMES_TWO}<|im_end|>" in rendered(KINDS["qwen25"], messages, [])


@pytest.mark.parametrize("name", TRAINERS)
@pytest.mark.parametrize("answers", ANSWERS)
def test_the_arguments_of_a_call_have_the_asked_form(name: str, answers: str, tmp_path: Path) -> None:
    trajectory = played([(f"{THOUGHT}{HERMES_CALL}", ["the red key"]), ("Done.", [])])
    (_, answer, result, _), _ = loaded(name, trajectory, tmp_path, answers=answers)
    if answers == "text":
        assert (answer["content"], answer.get("tool_calls")) == (f"{THOUGHT}{HERMES_CALL}", None)
        assert (result["role"], result["content"]) == ("tool", "the red key")
        return
    (call,) = answer["tool_calls"]
    arguments = call["function"]["arguments"]
    wanted = {"shelf": 9, "what": "the red key"}
    assert arguments == wanted if answers == "parts" else json.loads(arguments) == wanted
    assert isinstance(arguments, dict if answers == "parts" else str)
    assert (answer["reasoning_content"], answer["content"]) == ("It is on a shelf.", "")
    assert (result["role"], result["tool_call_id"]) == ("tool", call["id"])


def test_an_answer_that_is_not_imitated_has_no_weight(tmp_path: Path) -> None:
    mistake = replace(turn("a", "no"), extras={"imitated": 0})
    trajectory = replace(played([("yes", [])]), turns=(mistake, turn("b", "yes")))
    messages, _ = loaded("openai", trajectory, tmp_path)
    assert [message.get("weight") for message in messages] == [None, 0, None, None]


def test_images_are_in_a_column_that_datasets_decodes(tmp_path: Path) -> None:
    pytest.importorskip("polars")
    import numpy as np

    from turncredit.agents.content import ImagePart

    image = ImagePart(np.arange(12, dtype=np.uint8).reshape(2, 2, 3))
    trajectory = replace(played([("tap", [])]), turns=(turn("look", "tap", images=(image,), shown=(image,)),))
    FORMATS["hf"].write([Exported(trajectory)], tmp_path / "out", ORIGIN)
    (file,) = (tmp_path / "out" / "data").iterdir()
    assert features_of(tmp_path / "out")["images"] == {"name": "images", "list": "image"}
    (entry,) = next(iter(read_records(file))).fields["images"]
    assert base64.b64decode(entry["bytes"].partition(",")[2]) == image.png
