"""Spans: nothing without a sender, a tree with one, and a collector that fails costs one warning."""

from __future__ import annotations

import asyncio
import os
import random
import subprocess
import sys
import threading
import warnings

import pytest

from turncredit.processes import tracing
from turncredit.processes.forks import ForkedProcess, ForkPipe

pytest.importorskip("opentelemetry.sdk")

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter


def spans_of(memory: InMemorySpanExporter) -> dict[str, ReadableSpan]:
    return {span.name: span for span in memory.get_finished_spans()}


def parents(memory: InMemorySpanExporter) -> dict[str, str | None]:
    names = {span.context.span_id: span.name for span in memory.get_finished_spans()}
    return {span.name: names[span.parent.span_id] if span.parent else None for span in memory.get_finished_spans()}


def test_without_a_sender_a_span_is_one_shared_object_and_nothing_is_imported() -> None:
    assert tracing.span("a") is tracing.span("b", {"x": 1})
    assert (tracing.active(), tracing.current()) == (False, None)
    with tracing.span("a") as span:
        span.set({"x": 1})
        span.fail(ValueError())
    tracing.event("e", {})
    tracing.flush()
    tracing.stop()
    code = "from turncredit.agents.rollouts import rollout; import sys; print('opentelemetry' in sys.modules)"
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_spans_are_a_tree_across_tasks_and_threads() -> None:
    memory = InMemorySpanExporter()

    async def child(name: str, parent: tracing.Parent = None) -> None:
        with tracing.span(name, parent=parent):
            await asyncio.sleep(0)
            with tracing.span(f"{name} inner"):
                await asyncio.sleep(0)

    async def several(parent: tracing.Parent) -> None:
        with tracing.span("together"):
            await asyncio.gather(child("a"), child("b"), child("c", parent))

    def elsewhere(parent: tracing.Parent) -> None:
        with tracing.span("own tree"):
            pass
        with tracing.span("of the root", parent=parent):
            pass

    sending = tracing.sending({"turncredit.run": "r"}, make_exporter=lambda: memory)
    with sending, tracing.span("root", {"x": 1}) as root:
        root.set({"y": "z"})
        place = tracing.current()
        asyncio.run(several(place))
        thread = threading.Thread(target=elsewhere, args=(place,))
        thread.start()
        thread.join()
        tracing.event("metrics", {"loss": 0.5})
    assert parents(memory) == {
        **{"root": None, "together": "root", "a": "together", "b": "together", "c": "root"},
        **{f"{name} inner": name for name in "abc"},
        **{"own tree": None, "of the root": "root"},
    }
    span = spans_of(memory)["root"]
    assert dict(span.attributes or {}) == {"x": 1, "y": "z"}
    assert [(event.name, dict(event.attributes or {})) for event in span.events] == [("metrics", {"loss": 0.5})]
    assert (span.resource.attributes["service.name"], span.resource.attributes["turncredit.run"]) == ("turncredit", "r")
    assert not tracing.active()


def test_an_error_is_recorded_where_it_passed_and_a_cancelled_task_is_no_error() -> None:
    memory = InMemorySpanExporter()

    async def cancelled() -> None:
        with tracing.span("cancelled"):
            await asyncio.sleep(60)

    async def cancel() -> None:
        task = asyncio.create_task(cancelled())
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    with tracing.sending(make_exporter=lambda: memory):
        with tracing.span("outer"), pytest.raises(KeyError), tracing.span("inner"):
            raise KeyError("k")
        asyncio.run(cancel())
    spans = spans_of(memory)
    assert (spans["inner"].status.is_ok, spans["outer"].status.is_ok) == (False, True)
    assert spans["inner"].attributes is not None
    assert spans["inner"].attributes["error.type"] == "KeyError"
    assert spans["inner"].events[0].name == "exception"
    assert dict(spans["cancelled"].attributes or {}) == {"turncredit.cancelled": True}
    assert spans["cancelled"].status.is_ok


def test_ids_are_new_in_every_process_and_leave_the_random_numbers_of_a_run_alone() -> None:
    sent = InMemorySpanExporter(), InMemorySpanExporter()
    random.seed(3)
    expected = [random.random() for _ in range(2)]
    for memory in sent:
        random.seed(3)
        with tracing.sending(make_exporter=lambda memory=memory: memory), tracing.span("a"):
            pass
        assert [random.random() for _ in range(2)] == expected
    first, other = (spans_of(memory)["a"] for memory in sent)
    assert first.context.trace_id != other.context.trace_id
    assert first.context.span_id != other.context.span_id


def test_senders_may_be_nested() -> None:
    first, other = InMemorySpanExporter(), InMemorySpanExporter()
    with tracing.sending(make_exporter=lambda: first):
        with tracing.sending(make_exporter=lambda: other), tracing.span("inner"):
            pass
        with tracing.span("outer"):
            pass
    assert set(spans_of(first)) == {"inner", "outer"}
    assert not spans_of(other)


class Failing(InMemorySpanExporter):
    """An exporter whose collector is gone."""

    def export(self, spans: object) -> SpanExportResult:
        import logging

        logging.getLogger("opentelemetry.exporter").warning("connection refused")
        return SpanExportResult.FAILURE


def test_a_collector_that_is_gone_costs_one_warning() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with tracing.sending(make_exporter=Failing):
            for _ in range(3):
                with tracing.span("a"):
                    pass
                tracing.flush()
                tracing.event("metrics", {})
    assert [str(one.message) for one in caught] == ["some OpenTelemetry spans were not sent: connection refused"]


class Hanging(InMemorySpanExporter):
    """An exporter whose collector accepts connections and never answers."""

    over = threading.Event()

    def export(self, spans: object) -> SpanExportResult:
        self.over.wait()
        return SpanExportResult.FAILURE


def test_a_collector_that_hangs_holds_nothing_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracing, "PATIENCE", 0.1)
    monkeypatch.setenv("OTEL_BSP_MAX_QUEUE_SIZE", "512")

    def send() -> None:
        with tracing.sending(make_exporter=Hanging):
            for _ in range(2000):  # more than wait
                with tracing.span("a"):
                    pass

    try:
        with pytest.warns(UserWarning, match="spans were not sent"):
            send()
    finally:
        Hanging.over.set()


def test_variables_that_ask_for_what_is_not_offered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "zipkin")
    with pytest.raises(tracing.TracingError, match="must be one of otlp, console, none, got 'zipkin'"):
        tracing.start()
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "otlp")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
    with pytest.raises(tracing.TracingError, match="OTEL_EXPORTER_OTLP_PROTOCOL must be http/protobuf, got 'grpc'"):
        tracing.start()
    assert not tracing.active()
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "none")
    with tracing.sending(), tracing.span("nowhere"):
        assert tracing.active()


@pytest.mark.waits
def test_a_fork_sends_its_own_spans_below_those_of_its_parent(monkeypatch: pytest.MonkeyPatch) -> None:
    from toys.otlp_collector import collecting

    def work(pipe: ForkPipe) -> int:
        with tracing.span("in the fork", {"pid": os.getpid()}):
            return os.getpid()

    with collecting() as collector:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
        with tracing.sending():
            with tracing.span("before"):
                pass
            tracing.flush()  # the parent has a connection by now
            with tracing.span("parent"):
                pids = []
                for _ in range(2):
                    with ForkedProcess(work) as fork:
                        pids.append(fork.result())
    assert [collector.parent(span) for span in collector.named("in the fork")] == ["parent", "parent"]
    assert {span.attributes["pid"] for span in collector.named("in the fork")} == set(pids)
    assert len({span.trace for span in collector.named("in the fork")}) == 1
    assert len(collector.spans) == 4
    assert collector.paths == {"/v1/traces"}
