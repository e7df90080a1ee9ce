"""A real Elasticsearch node on loopback for tests. Its jars come from Maven Central, once."""

from __future__ import annotations

import json
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.jars import fetched_jars
from tests.java import QUICK_JAVA
from tests.ports import own_ports

VERSION = "7.17.28"  # the last of version 7; later ones are not in Maven Central as a whole
MODULES = {
    ("org.elasticsearch", "elasticsearch"): VERSION,
    ("org.elasticsearch.plugin", "transport-netty4-client"): VERSION,
}
_HOST = "127.0.0.1"
_MAIN = Path(__file__).with_name("EmbeddedElasticsearch.java")
_SECONDS = 400.0


class ElasticsearchNode:
    """The node's REST API."""

    def __init__(self, port: int) -> None:
        self.host = f"http://{_HOST}:{port}"

    def request(self, method: str, path: str, body: Any = None) -> Any:
        """Make a request; None for what does not exist."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(  # noqa: S310 - on loopback
            self.host + path, data, {"content-type": "application/json"}, method=method
        )
        try:
            with urllib.request.urlopen(request, timeout=_SECONDS) as response:  # noqa: S310 - on loopback
                return json.load(response)
        except urllib.error.HTTPError as error:
            if error.code == 404:
                return None
            raise

    def documents(self, index: str) -> list[dict[str, Any]]:
        """All documents of an index."""
        self.request("POST", f"/{index}/_refresh")
        found = self.request("GET", f"/{index}/_search?size=10000")
        return [] if found is None else [hit["_source"] for hit in found["hits"]["hits"]]


@contextmanager
def elasticsearch_node(folder: Path) -> Iterator[ElasticsearchNode]:
    """A running node without indices."""
    jars = fetched_jars(f"elasticsearch-{VERSION}", MODULES)
    (folder / "config").mkdir()
    http, transport = own_ports(2)
    with (folder / "node.log").open("wb") as log:
        command = ["java", *QUICK_JAVA.split(), "-Xmx512m", "-cp", f"{jars}/*", str(_MAIN)]
        process = subprocess.Popen([*command, str(folder), str(http), str(transport)], stdout=log, stderr=log)
    node = ElasticsearchNode(http)
    try:
        _await(node, process, folder / "node.log")
        yield node
    finally:
        process.kill()
        process.wait()


def _await(node: ElasticsearchNode, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + _SECONDS
    while True:
        try:
            node.request("GET", "/_cluster/health?wait_for_status=yellow&timeout=30s")
        except OSError as error:
            if process.poll() is not None or time.monotonic() > deadline:
                text = log.read_text(errors="replace")[-2000:]
                raise RuntimeError(f"the node did not start: {error}\n{text}") from None
            time.sleep(0.1)
        else:
            return
