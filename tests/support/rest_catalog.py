"""An Iceberg REST catalogue for tests: the routes that pyiceberg uses, over pyiceberg's SqlCatalog, in a thread.

It is no product: it has no access control, views or vended credentials.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from flask import Flask, Response, request
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import (
    CommitFailedException,
    NamespaceAlreadyExistsError,
    NoSuchNamespaceError,
    NoSuchTableError,
    TableAlreadyExistsError,
)
from pyiceberg.table import CommitTableRequest
from werkzeug.serving import make_server

_STATUS = {
    NoSuchTableError: 404,
    NoSuchNamespaceError: 404,
    NamespaceAlreadyExistsError: 409,
    TableAlreadyExistsError: 409,
    CommitFailedException: 409,
}


class RestCatalogServer:
    """A running catalogue.

    Attributes:
        url: Its address.
        commits: Number of commits that it has made.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self.commits = 0
        self._faults: list[int] = []

    def lose_answers(self, count: int) -> None:
        """Make the next commits, and answer them with an error of a gateway."""
        self._faults += [504] * count

    def faults_left(self) -> int:
        return len(self._faults)

    def answer(self) -> int:
        """Count a commit; return the status to answer it with."""
        self.commits += 1
        return self._faults.pop() if self._faults else 200


@contextmanager
def running_rest_catalog(port: int, **properties: str) -> Iterator[RestCatalogServer]:
    """Run a catalogue on a port of this machine, with the properties of a SqlCatalog."""
    running = RestCatalogServer(f"http://127.0.0.1:{port}")
    catalog = SqlCatalog("rest", **properties)
    server = make_server("127.0.0.1", port, _application(catalog, running), threaded=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield running
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
        catalog.close()


class _Named:
    """Table of a commit, with all that SqlCatalog needs."""

    def __init__(self, identifier: tuple[str, ...]) -> None:
        self.name: Callable[[], tuple[str, ...]] = lambda: identifier


def _application(catalog: SqlCatalog, running: RestCatalogServer) -> Flask:
    application = Flask(__name__)

    def table(found: Any) -> dict[str, Any]:
        metadata = json.loads(found.metadata.model_dump_json())
        return {"metadata-location": found.metadata_location, "metadata": metadata, "config": {}}

    @application.errorhandler(Exception)
    def failed(error: Exception) -> Response:
        code = _STATUS.get(type(error), 400)
        body = {"error": {"message": str(error), "type": type(error).__name__, "code": code}}
        return Response(json.dumps(body), code, content_type="application/json")

    @application.get("/v1/config")
    def config() -> dict[str, Any]:
        return {"defaults": {}, "overrides": {}}

    @application.post("/v1/namespaces")
    def create_namespace() -> dict[str, Any]:
        body = request.get_json()
        catalog.create_namespace(tuple(body["namespace"]), body.get("properties") or {})
        return body

    @application.get("/v1/namespaces/<name>")
    def namespace(name: str) -> dict[str, Any]:
        properties = catalog.load_namespace_properties(name)
        return {"namespace": [name], "properties": properties}

    @application.get("/v1/namespaces/<name>/tables")
    def tables(name: str) -> dict[str, Any]:
        found = catalog.list_tables(name)
        return {"identifiers": [{"namespace": [*one[:-1]], "name": one[-1]} for one in found]}

    @application.post("/v1/namespaces/<name>/tables")
    def create_table(name: str) -> dict[str, Any]:
        from pyiceberg.catalog.rest import CreateTableRequest

        asked = CreateTableRequest.model_validate_json(request.get_data())
        act = catalog._create_staged_table if asked.stage_create else catalog.create_table
        made = act(
            (name, asked.name),
            asked.table_schema,
            asked.location,
            **({"partition_spec": asked.partition_spec} if asked.partition_spec else {}),
            properties=asked.properties,
        )
        return table(made)

    @application.get("/v1/namespaces/<name>/tables/<of>")
    def load_table(name: str, of: str) -> dict[str, Any]:
        return table(catalog.load_table((name, of)))

    @application.delete("/v1/namespaces/<name>/tables/<of>")
    def drop_table(name: str, of: str) -> Response:
        catalog.drop_table((name, of))
        return Response(status=204)

    @application.post("/v1/namespaces/<name>/tables/<of>")
    def commit(name: str, of: str) -> tuple[dict[str, Any], int]:
        asked = CommitTableRequest.model_validate_json(request.get_data())
        done = catalog.commit_table(
            _Named((name, of)),  # type: ignore[arg-type]
            asked.requirements,
            asked.updates,
        )
        status = running.answer()
        if status != 200:
            return {"error": {"message": "lost", "type": "GatewayTimeout", "code": status}}, status
        return table(done), 200

    return application
