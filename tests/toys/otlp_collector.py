"""A collector of OpenTelemetry spans: an HTTP server on loopback that reads OTLP, and the spans that it was sent."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class SentSpan:
    """A span as it arrived."""

    name: str
    id: bytes
    parent: bytes
    trace: bytes
    attributes: dict[str, Any]
    resource: dict[str, Any]
    events: list[tuple[str, dict[str, Any]]]
    failed: bool


@dataclass
class Collector:
    """What was sent, and where to send it."""

    url: str = ""
    spans: dict[bytes, SentSpan] = field(default_factory=dict)
    paths: set[str] = field(default_factory=set)

    def named(self, prefix: str) -> list[SentSpan]:
        """The spans whose name begins so."""
        return [span for span in self.spans.values() if span.name.startswith(prefix)]

    def parent(self, span: SentSpan) -> str:
        """The name of a span's parent; empty: it has none."""
        return self.spans[span.parent].name if span.parent else ""


def value_of(value: Any) -> Any:
    """A value of OTLP as Python's."""
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [value_of(one) for one in value.array_value.values]
    return getattr(value, kind)


def attributes_of(pairs: Any) -> dict[str, Any]:
    return {pair.key: value_of(pair.value) for pair in pairs}


@contextmanager
def collecting(status: int = 200) -> Iterator[Collector]:
    """Serve a collector that answers everything with a status."""
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    collector = Collector()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            request = ExportTraceServiceRequest.FromString(body)
            collector.paths.add(self.path)
            for resource in request.resource_spans:
                for scope in resource.scope_spans:
                    for span in scope.spans:
                        assert span.span_id not in collector.spans, "two spans have one id"
                        collector.spans[span.span_id] = SentSpan(
                            span.name,
                            span.span_id,
                            span.parent_span_id,
                            span.trace_id,
                            attributes_of(span.attributes),
                            attributes_of(resource.resource.attributes),
                            [(event.name, attributes_of(event.attributes)) for event in span.events],
                            span.status.code == 2,
                        )
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        collector.url = f"http://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield collector
        finally:
            server.shutdown()
            thread.join()
