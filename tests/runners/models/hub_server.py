"""A small server that speaks as much of the Hugging Face hub's protocol as its client needs for a model's files.

`faults` makes it fail: a status for every answer, an error code of the hub's, silence in the middle of a file, or a
connection that breaks there.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Hub:
    """`files` are those of every repository, at `commit`; `asked` the paths of all requests for them."""

    files: dict[str, bytes]
    commit: str
    url: str = ""
    status: int = 200
    error_code: str = ""
    silent_after: int | None = None
    breaks_after: int | None = None
    asked: list[str] = field(default_factory=list)
    over: threading.Event = field(default_factory=threading.Event)


@contextmanager
def serving(hub: Hub) -> Iterator[Hub]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            return None

        def do_HEAD(self) -> None:
            self._answer(with_body=False)

        def do_GET(self) -> None:
            self._answer(with_body=True)

        def _answer(self, with_body: bool) -> None:
            path = self.path.partition("?")[0]
            hub.asked.append(f"{self.command} {path}")
            name = path.partition(f"/resolve/{hub.commit}/")[2]
            if hub.status != 200:
                self._send(hub.status, {"X-Error-Code": hub.error_code}, b"{}", with_body)
            elif path.startswith("/api/models/"):
                listed = [{"rfilename": file, "size": len(data)} for file, data in hub.files.items()]
                body = json.dumps({"id": "owner/tiny", "sha": hub.commit, "siblings": listed}).encode()
                self._send(200, {"Content-Type": "application/json"}, body, with_body)
            elif name in hub.files:
                data = hub.files[name]
                tag = {"ETag": f'"{hashlib.sha256(data).hexdigest()}"', "X-Repo-Commit": hub.commit}
                self._send(200, tag, data, with_body)
            else:
                self._send(404, {"X-Error-Code": "EntryNotFound"}, b"", with_body)

        def _send(self, status: int, headers: dict[str, str], body: bytes, with_body: bool) -> None:
            self.send_response(status)
            for key, value in {**headers, "Content-Length": str(len(body))}.items():
                self.send_header(key, value)
            self.end_headers()
            if not with_body:
                return
            cut = hub.silent_after if hub.silent_after is not None else hub.breaks_after
            self.wfile.write(body[:cut])
            self.wfile.flush()
            if cut is not None and cut < len(body):
                if hub.silent_after is not None:
                    hub.over.wait()
                self.close_connection = True

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    hub.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        hub.over.set()
        server.shutdown()
        server.server_close()
