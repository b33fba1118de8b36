"""HTTP endpoint of the metrics of a database."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from prometheus_client import CollectorRegistry, generate_latest, start_http_server
from prometheus_client.registry import Collector

from pgsluice.errors import ConfigurationError


@contextmanager
def serving(collector: Collector, host: str, port: int, option: str) -> Iterator[int]:
    """Serve the metrics in threads; yield the bound port, also if 0 was requested.

    Args:
        collector: Reads the database.
        host: Address.
        port: Port; 0: any free one.
        option: Option that the error names.

    Raises:
        ConfigurationError: The port is not available.
    """
    registry = CollectorRegistry()
    registry.register(collector)
    try:
        server, thread = start_http_server(port, host, registry)
    except OSError as error:
        raise ConfigurationError(
            f"cannot listen on {host}:{port} for {option} ({error.strerror}); choose another port"
        ) from error
    try:
        yield int(server.server_port)
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def text_of(collector: Collector) -> str:
    """Return the metrics in the text format of Prometheus."""
    registry = CollectorRegistry()
    registry.register(collector)
    return generate_latest(registry).decode()
