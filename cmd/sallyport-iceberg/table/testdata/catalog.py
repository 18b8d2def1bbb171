"""An Iceberg REST catalog for tests: PyIceberg's own models and its catalog in SQLite, behind HTTP. Usage: catalog.py DATABASE WAREHOUSE [KEY=VALUE…]

It prints the port that it listens on, at 127.0.0.1. What a commit requires and what it changes is judged by PyIceberg.
"""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urlsplit

from pyiceberg.catalog.rest import CreateTableRequest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import (
    CommitFailedException,
    NamespaceAlreadyExistsError,
    NoSuchNamespaceError,
    NoSuchTableError,
    TableAlreadyExistsError,
)
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.table import CommitTableRequest
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER

STATUS = {NoSuchNamespaceError: 404, NoSuchTableError: 404, NamespaceAlreadyExistsError: 409, TableAlreadyExistsError: 409, CommitFailedException: 409}
properties = dict(p.split("=", 1) for p in sys.argv[3:])
catalog = SqlCatalog("tests", uri=f"sqlite:///{sys.argv[1]}", warehouse=sys.argv[2], **properties)


def answer(table):
    # What a table is made of, as PyIceberg serialises it.
    return {"metadata-location": table.metadata_location, "metadata": json.loads(table.metadata.model_dump_json()), "config": properties}


def route(method, path, body):
    parts = [unquote(p) for p in path.strip("/").split("/")][1:]  # without v1
    if parts == ["config"]:
        return {"defaults": {}, "overrides": {}}
    namespace = tuple(parts[1].split("\x1f")) if len(parts) > 1 else ()
    match (method, *parts):
        case ("POST", "namespaces"):
            catalog.create_namespace(tuple(body["namespace"]))
            return {"namespace": body["namespace"], "properties": {}}
        case ("GET" | "HEAD", "namespaces", _):
            return {"namespace": list(namespace), "properties": catalog.load_namespace_properties(namespace)}
        case ("POST", "namespaces", _, "tables"):
            asked = CreateTableRequest.model_validate(body)
            return answer(catalog.create_table(
                (*namespace, asked.name), asked.table_schema, location=asked.location, partition_spec=asked.partition_spec or UNPARTITIONED_PARTITION_SPEC,
                sort_order=asked.write_order or UNSORTED_SORT_ORDER, properties=asked.properties,
            ))
        case ("GET" | "HEAD", "namespaces", _, "tables", name):
            return answer(catalog.load_table((*namespace, name)))
        case ("POST", "namespaces", _, "tables", name):
            body.setdefault("identifier", {"namespace": list(namespace), "name": name})
            asked = CommitTableRequest.model_validate(body)
            done = catalog.commit_table(catalog.load_table((*namespace, name)), asked.requirements, asked.updates)
            return {"metadata-location": done.metadata_location, "metadata": json.loads(done.metadata.model_dump_json())}
    raise NotImplementedError(f"{method} {path}")


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def serve(self):
        length = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(length)) if length else None
        try:
            status, out = 200, route(self.command, urlsplit(self.path).path, body)
        except Exception as e:  # noqa: BLE001: every failure is an answer
            status = STATUS.get(type(e), 500)
            out = {"error": {"message": str(e), "type": type(e).__name__, "code": status}}
        data = b"" if self.command == "HEAD" else json.dumps(out).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    do_GET = do_POST = do_HEAD = serve

    def log_message(self, *_):
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_address[1], flush=True)
server.serve_forever()
