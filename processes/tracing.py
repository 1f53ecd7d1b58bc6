"""Spans of what this process does, sent to an OpenTelemetry collector while `sending` or `start` has switched them on.

    with tracing.span("chat qwen", {"gen_ai.operation.name": "chat"}) as span:
        ...
        span.set({"gen_ai.usage.output_tokens": 7})

Without a collector a span is a shared object that does nothing. Spans are sent by a thread: a collector that is slow or
gone costs spans, never time, and one warning says so. Where and how they are sent is configured by OpenTelemetry's own
variables, such as OTEL_EXPORTER_OTLP_ENDPOINT. Forks of this process send their own spans, below the span in which they
were forked.

Not included: spans of processes that are not forks (workers of environments, engines on a cluster), texts of prompts,
answers and actions, OTLP over gRPC, and passing the trace on to servers.
"""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

from turncredit.installation import needs

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SpanExporter
    from opentelemetry.trace import Span as TelemetrySpan

__all__ = [
    "Parent",
    "Span",
    "TracingError",
    "Value",
    "active",
    "current",
    "event",
    "flush",
    "sending",
    "sending_if_asked",
    "span",
    "start",
    "stop",
]

Value: TypeAlias = str | bool | int | float | Sequence[str]
"""What an attribute may be."""
Parent: TypeAlias = "Context | None"
"""Where a span was in progress; see `current`."""
MakeExporter: TypeAlias = "Callable[[], SpanExporter | None]"
"""Makes what sends spans, once in every process; None sends nothing."""
QUEUE: Final = 16_384
"""Finished spans that wait to be sent, unless OTEL_BSP_MAX_QUEUE_SIZE says otherwise; later ones are dropped."""
PATIENCE: Final = 5.0
"""Seconds that the last spans of a process may take; a collector that has just failed gets none."""
EXPORTERS: Final = ("otlp", "console", "none")
PROTOCOL: Final = "http/protobuf"


class TracingError(Exception):
    """Spans cannot be sent as the variables say."""


class Span(Protocol):
    """A piece of work in progress."""

    def set(self, attributes: Mapping[str, Value]) -> None:
        """Add attributes."""

    def fail(self, error: BaseException) -> None:
        """Record an error; one that leaves the span is recorded without this."""


class _Nothing:
    """The span where nothing is sent."""

    __slots__ = ()

    def __enter__(self) -> _Nothing:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def set(self, attributes: Mapping[str, Value]) -> None:
        pass

    def fail(self, error: BaseException) -> None:
        pass


_NOTHING: Final = _Nothing()
_sender: _Sender | None = None


def active() -> bool:
    """Return whether spans are sent, for callers whose attributes cost something."""
    return _sender is not None


def span(
    name: str,
    attributes: Mapping[str, Value] | None = None,
    *,
    parent: Parent = None,
    client: bool = False,
) -> AbstractContextManager[Span]:
    """Return a span that lasts as long as its `with` block; an exception that leaves it is recorded.

    Args:
        name: name of the work.
        attributes: as OpenTelemetry's conventions name them.
        parent: place of the span; None: below the one in progress here, in this thread or task.
        client: whether the work is done by another process.
    """
    return _NOTHING if _sender is None else _sender.span(name, attributes or {}, parent, client)


def current() -> Parent:
    """Return the place of spans that begin here, for work that will be done elsewhere."""
    return None if _sender is None else _sender.current()


def event(name: str, attributes: Mapping[str, Value]) -> None:
    """Add an event to the span in progress."""
    if _sender is not None:
        _sender.event(name, attributes)


def start(attributes: Mapping[str, Value] | None = None, *, make_exporter: MakeExporter | None = None) -> None:
    """Send spans from now on, until `stop`; calls of both may be nested.

    Args:
        attributes: facts of all spans, as attributes of their resource.
        make_exporter: makes what sends them; None: what OTEL_TRACES_EXPORTER names, by default OTLP over HTTP.

    Raises:
        ModuleNotFoundError: the packages of the extra `otel` are not installed.
        TracingError: a variable asks for an exporter or a protocol that is not offered.
    """
    global _sender
    if _sender is None:
        _sender = _Sender(attributes or {}, make_exporter or _exporter)
    else:
        _sender.users += 1


def stop() -> None:
    """Send what is left, and nothing from now on."""
    global _sender
    if _sender is None:
        return
    _sender.users -= 1
    if not _sender.users:
        sender, _sender = _sender, None
        sender.close()


@contextmanager
def sending(
    attributes: Mapping[str, Value] | None = None, *, make_exporter: MakeExporter | None = None
) -> Iterator[None]:
    """Send spans within the `with` block; see `start`."""
    start(attributes, make_exporter=make_exporter)
    try:
        yield
    finally:
        stop()


@contextmanager
def sending_if_asked() -> Iterator[None]:
    """Send spans within the `with` block if OTEL_TRACES_EXPORTER names an exporter; without the packages, warn."""
    if os.environ.get("OTEL_TRACES_EXPORTER", "none") == "none":
        yield
        return
    try:
        start()
    except ModuleNotFoundError:
        warnings.warn(needs("OTEL_TRACES_EXPORTER is set, but spans need OpenTelemetry", "otel"), stacklevel=3)
        yield
        return
    try:
        yield
    finally:
        stop()


def flush() -> None:
    """Send what is left, in a fork that is about to end."""
    if _sender is not None:
        _sender.flush()


class _Recorded:
    """A span of OpenTelemetry."""

    def __init__(self, inner: TelemetrySpan) -> None:
        self._inner = inner

    def set(self, attributes: Mapping[str, Value]) -> None:
        self._inner.set_attributes(attributes)

    def fail(self, error: BaseException) -> None:
        from opentelemetry.trace import StatusCode

        self._inner.record_exception(error)
        self._inner.set_attribute("error.type", type(error).__qualname__)
        self._inner.set_status(StatusCode.ERROR, f"{type(error).__name__}: {error}"[:1000])


class _Sender:
    """Makes spans, and hands them to the thread that sends them."""

    def __init__(self, attributes: Mapping[str, Value], make_exporter: MakeExporter) -> None:
        self.users = 1
        self._attempts = _Attempts()
        self._provider = _provider(attributes, make_exporter, self._attempts)
        self._tracer = self._provider.get_tracer("turncredit")
        self._attempts.listen()

    @contextmanager
    def span(self, name: str, attributes: Mapping[str, Value], parent: Parent, client: bool) -> Iterator[Span]:
        from opentelemetry.trace import SpanKind

        with self._tracer.start_as_current_span(
            name,
            parent,
            SpanKind.CLIENT if client else SpanKind.INTERNAL,
            attributes,
            record_exception=False,
            set_status_on_exception=False,
        ) as inner:
            recorded = _Recorded(inner)
            try:
                yield recorded
            except asyncio.CancelledError:
                recorded.set({"turncredit.cancelled": True})
                raise
            except BaseException as error:
                recorded.fail(error)
                raise

    def current(self) -> Parent:
        from opentelemetry.context import get_current

        return get_current()

    def event(self, name: str, attributes: Mapping[str, Value]) -> None:
        from opentelemetry.trace import get_current_span

        get_current_span().add_event(name, attributes)
        self._attempts.warn()

    def flush(self) -> None:
        self._finish(self._provider.force_flush)

    def close(self) -> None:
        self._finish(self._provider.shutdown)
        self._attempts.unlisten()
        self._attempts.warn()

    def _finish(self, work: Callable[[], object]) -> None:
        """Let the last spans be sent for some seconds, on a thread that does not keep the process from ending."""
        thread = threading.Thread(target=work, name="turncredit-spans", daemon=True)
        thread.start()
        thread.join(0.0 if self._attempts.failing else PATIENCE)
        if thread.is_alive() and not self._attempts.reason:
            self._attempts.reason = "the collector takes too long"


class _Attempts(logging.Handler):
    """What became of the spans that were sent; receives what OpenTelemetry would print."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.failing = False
        self.reason = ""
        self._warned = False
        self._logger = logging.getLogger("opentelemetry")
        self._before = self._logger.propagate

    def listen(self) -> None:
        """Receive what OpenTelemetry would print, and keep it from being printed."""
        self._logger.addHandler(self)
        self._logger.propagate = False

    def unlisten(self) -> None:
        """Let OpenTelemetry print again."""
        self._logger.removeHandler(self)
        self._logger.propagate = self._before

    def emit(self, record: logging.LogRecord) -> None:
        """Keep the first message."""
        self.reason = self.reason or " ".join(record.getMessage().split())[:200]

    def warn(self) -> None:
        """Say once that spans were lost."""
        if self.reason and not self._warned:
            self._warned = True
            warnings.warn(f"some OpenTelemetry spans were not sent: {self.reason}", stacklevel=2)


def _provider(attributes: Mapping[str, Value], make_exporter: MakeExporter, attempts: _Attempts) -> TracerProvider:
    """Return a provider of its own, so that one that the user has set up stays as it is."""
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor
    from opentelemetry.sdk.trace.id_generator import RandomIdGenerator

    class Ids(RandomIdGenerator):
        """Random numbers of the system: those of `random` belong to the run, whose seed would repeat its ids."""

        def generate_span_id(self) -> int:
            return secrets.randbits(64) or 1

        def generate_trace_id(self) -> int:
            return secrets.randbits(128) or 1

    named = os.environ.get("OTEL_SERVICE_NAME") or "service.name=" in os.environ.get("OTEL_RESOURCE_ATTRIBUTES", "")
    resource = Resource.create({**({} if named else {"service.name": "turncredit"}), **attributes})
    provider = TracerProvider(resource=resource, id_generator=Ids(), shutdown_on_exit=False)
    exporter = make_exporter()
    if exporter is not None:
        size = int(os.environ.get("OTEL_BSP_MAX_QUEUE_SIZE", QUEUE))
        watched = _watched(exporter, make_exporter, attempts)
        provider.add_span_processor(BatchSpanProcessor(watched, max_queue_size=size))
    return provider


def _watched(exporter: SpanExporter, make_exporter: MakeExporter, attempts: _Attempts) -> SpanExporter:
    """Return an exporter that notes what became of its spans, and has connections of its own in every fork."""
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

    class Watched(SpanExporter):
        def __init__(self) -> None:
            self._inner, self._process = exporter, os.getpid()

        def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
            if self._process != os.getpid():  # the connections are those of the process that was forked
                self._inner, self._process = make_exporter() or exporter, os.getpid()
            result = self._inner.export(spans)
            attempts.failing = result is not SpanExportResult.SUCCESS
            return result

        def shutdown(self) -> None:
            self._inner.shutdown()

    return Watched()


def _exporter() -> SpanExporter | None:
    """Return the exporter that the variables name."""
    name = os.environ.get("OTEL_TRACES_EXPORTER") or "otlp"
    if name not in EXPORTERS:
        raise TracingError(f"OTEL_TRACES_EXPORTER must be one of {', '.join(EXPORTERS)}, got {name!r}")
    if name == "console":
        from opentelemetry.sdk.trace.export import ConsoleSpanExporter

        return ConsoleSpanExporter()
    if name == "none":
        return None
    for variable in ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"):
        if os.environ.get(variable, PROTOCOL) != PROTOCOL:
            raise TracingError(f"{variable} must be {PROTOCOL}, got {os.environ[variable]!r}")
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    return OTLPSpanExporter()
