"""OpenTelemetry spans of runs and evaluations, as a collector receives them over HTTP."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("opentelemetry.exporter.otlp.proto.http")

from test_training_loop import assert_same_weights, make_run, weights  # noqa: E402
from toys.commands import run_command  # noqa: E402
from toys.corridor import Corridor  # noqa: E402
from toys.otlp_collector import Collector, SentSpan, collecting  # noqa: E402

from turncredit.agents import Agent, rollout  # noqa: E402
from turncredit.agents.files.trajectory_files import read_trajectories  # noqa: E402
from turncredit.agents.rollouts.spans import call_of_tool  # noqa: E402
from turncredit.agents.trajectory import Trajectory  # noqa: E402
from turncredit.engines import Scripted  # noqa: E402
from turncredit.processes import tracing  # noqa: E402
from turncredit.training import Run, train  # noqa: E402

pytestmark = pytest.mark.waits
torch.set_num_threads(1)
SHORT = ("train.iterations=2", "checkpoints.every=2", "imitation.episodes=4", "evaluation.episodes=2")


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    with collecting() as started:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", started.url)
        yield started


def trained(run: Run) -> list[Trajectory]:
    train(run)
    files = sorted((run.folder / "trajectories").glob("*.jsonl"))
    return [episode for file in files for episode in read_trajectories(file)]


def usage(span: SentSpan) -> tuple[int, int]:
    return span.attributes["gen_ai.usage.input_tokens"], span.attributes["gen_ai.usage.output_tokens"]


def assert_episodes(collector: Collector, played: list[Trajectory], places: set[str]) -> None:
    """Every episode is a span in one of these places, with its turns, their calls, and the tokens of its file."""
    assert played
    within: dict[bytes, list[SentSpan]] = {}
    for span in collector.spans.values():
        within.setdefault(span.parent, []).append(span)
    sent = {span.attributes["gen_ai.conversation.id"]: span for span in collector.named("invoke_agent run")}
    for episode in played:
        span = sent[episode.id]
        assert collector.parent(span) in places
        assert span.attributes["gen_ai.operation.name"] == "invoke_agent"
        assert span.attributes["gen_ai.request.model"] == span.attributes["gen_ai.agent.name"] == "run"
        assert span.attributes["gen_ai.provider.name"] == "transformers"
        assert usage(span) == (episode.prompt_tokens, episode.response_tokens)
        assert span.attributes["turncredit.won"] == episode.won
        turns = sorted(within[span.id], key=lambda one: one.attributes["turncredit.turn"])
        assert [one.name for one in turns] == [f"turn {k}" for k in range(len(episode.turns))]
        for turn, recorded in zip(turns, episode.turns, strict=True):
            assert turn.attributes["turncredit.reward"] == recorded.reward
            calls = {one.attributes["gen_ai.operation.name"]: one for one in within[turn.id]}
            assert set(calls) == ({"chat", "execute_tool"} if recorded.action is not None else {"chat"})
            chat = calls["chat"]
            assert chat.name == "chat run"
            assert usage(chat) == (len(recorded.prompt), len(recorded.response))
            assert chat.attributes["gen_ai.response.finish_reasons"] == [recorded.finish]
            assert chat.attributes["turncredit.version"] == recorded.version


def assert_run(collector: Collector) -> None:
    """The spans above the episodes, each under the run."""
    (root,) = (span for span in collector.spans.values() if not span.parent)
    assert root.name == "train run"
    assert root.resource["service.name"] == "turncredit"
    assert root.resource["turncredit.run"].startswith("run-")
    assert {span.trace for span in collector.spans.values()} == {root.trace}
    counts = Counter((span.name, collector.parent(span)) for span in collector.spans.values())
    assert counts["iteration", "train run"] == counts["update", "iteration"] == counts["evaluate", "train run"] == 2
    assert counts["load_weights", "train run"] == 3
    assert not [span.name for span in collector.spans.values() if span.failed]


def events(folder: Path, phase: str) -> list[dict[str, Any]]:
    lines = (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    return [event for event in map(json.loads, lines) if event["phase"] == phase]


def test_the_spans_of_a_run(tmp_path: Path, collector: Collector) -> None:
    run = make_run(tmp_path / "run", *SHORT, 'loggers=["otel"]')
    assert_episodes(collector, trained(run), {"iteration"})
    assert_run(collector)
    assert not tracing.active()
    iterations = sorted(collector.named("iteration"), key=lambda one: one.attributes["turncredit.iteration"])
    for span, event in zip(iterations, events(run.folder, "train"), strict=True):
        ((name, values),) = span.events
        assert name == "metrics"
        assert values["turncredit.train.success"] == event["success"]
        episodes = [one for one in collector.named("invoke_agent run") if one.parent == span.id]
        assert len(episodes) == event["episodes"]
        assert sum(usage(one)[1] for one in episodes) == event["tokens"]
    for span, event in zip(
        sorted(collector.named("update"), key=lambda one: one.attributes["turncredit.iteration"]),
        events(run.folder, "train"),
        strict=True,
    ):
        assert span.attributes["turncredit.loss"] == event["loss"]
        assert span.attributes["turncredit.tokens"] == event["update_tokens"]
    plain = make_run(tmp_path / "plain", *SHORT)
    train(plain)
    assert_same_weights(weights(run.folder, 2), weights(plain.folder, 2))


@pytest.mark.parametrize("words", [("train.staleness=1",), ("threads=1", "processes=2")], ids=["ahead", "forks"])
def test_the_spans_of_episodes_that_are_played_elsewhere(
    tmp_path: Path, collector: Collector, words: tuple[str, ...]
) -> None:
    """On a thread that plays for several iterations, episodes are below the run; in forks, below their iteration."""
    played = trained(make_run(tmp_path / "run", *SHORT, 'loggers=["otel"]', *words))
    assert_episodes(collector, played, {"iteration"} if "processes=2" in words else {"train run"})
    assert_run(collector)


@pytest.mark.parametrize("status", [503, None])
def test_a_run_outlives_its_collector(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: int | None) -> None:
    """One that answers errors, and one that is not there."""
    monkeypatch.setattr(tracing, "PATIENCE", 0.5)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")
    with collecting(status or 200) as collector:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url if status else "http://127.0.0.1:9")
        with pytest.warns(UserWarning, match="some OpenTelemetry spans were not sent"):
            result = train(make_run(tmp_path / "run", *SHORT, 'loggers=["otel"]', "evaluation.episodes=0"))
    assert result.finished


class Breaking(Corridor):
    """A corridor that breaks in its second step."""

    def step(self, action: str) -> Any:
        self.steps = getattr(self, "steps", 0) + 1
        if self.steps == 2:
            raise OSError("the door fell off")
        return super().step(action)


def test_an_environment_that_breaks_is_an_error_of_its_call_its_turn_and_its_episode(collector: Collector) -> None:
    with tracing.sending():
        rollout(Agent(max_turns=3), Scripted(["look"] * 3), ["open-3-1"], make=Breaking)
    assert {span.name for span in collector.spans.values() if span.failed} == {
        "invoke_agent scripted",
        "turn 1",
        "execute_tool step",
    }
    (failed,) = (span for span in collector.named("execute_tool") if span.failed)
    assert "the door fell off" in str(failed.events)


def test_the_spans_of_an_evaluation(collector: Collector, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    played = tmp_path / "played.jsonl"
    words = ["expert", "turncredit/Household-v0", "level=tiny", "--episodes", 2, "--trajectories", played]
    assert run_command("eval", *words).code == 0
    assert not collector.spans
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "otlp")
    assert run_command("eval", *words).code == 0
    (root,) = (span for span in collector.spans.values() if not span.parent)
    assert (root.name, root.attributes["turncredit.player"]) == ("evaluate", "expert")
    episodes = collector.named("invoke_agent expert")
    assert {span.attributes["gen_ai.conversation.id"] for span in episodes} == {
        episode.id for episode in read_trajectories(played)
    }
    assert not [span for span in collector.spans.values() if "gen_ai.usage.input_tokens" in span.attributes]


@pytest.mark.parametrize(
    ("action", "name"),
    [
        ("go to desk 1", "step"),
        ("click[Buy Now]", "click"),
        ("find(name='a')", "find"),
        ('<tool_call>{"name": "find_order", "arguments": {"name": "b"}}</tool_call>', "find_order"),
        ('{"tool_name": "open", "arguments": {}}', "open"),
        ('{"action_type": "click", "index": 3}', "click"),
    ],
)
def test_the_name_of_a_tool(collector: Collector, action: str, name: str) -> None:
    with tracing.sending(), call_of_tool("t#0@0", action):
        pass
    (span,) = collector.spans.values()
    assert (span.name, span.attributes["gen_ai.tool.name"]) == (f"execute_tool {name}", name)
    assert span.attributes["gen_ai.conversation.id"] == "t#0@0"


def test_the_names_of_attributes_are_those_of_the_conventions(tmp_path: Path, collector: Collector) -> None:
    from opentelemetry.semconv._incubating.attributes import error_attributes, gen_ai_attributes

    known = {getattr(module, name) for module in (error_attributes, gen_ai_attributes) for name in dir(module)
             if name.isupper()}  # fmt: skip
    train(make_run(tmp_path / "run", *SHORT, 'loggers=["otel"]'))
    used = {name for span in collector.spans.values() for name in span.attributes}
    assert len(used) > 20
    assert {name for name in used if not name.startswith("turncredit.")} <= known
