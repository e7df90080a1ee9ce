"""Sends bulk requests, and evaluates the status of every action in the response.

The client library is ``elastic-transport`` (``pip install 'tidemill[elasticsearch]'``), the HTTP layer of
Elasticsearch's own Python client. Unlike that client, it does not depend on a version of the server: the bulk API is
the same in Elasticsearch 6 to 9 and in OpenSearch.
"""

from __future__ import annotations

import base64
import time
from collections.abc import Sequence
from typing import Any, Final

from tidemill.connectors.client_library import client_library
from tidemill.connectors.elasticsearch.actions import Action
from tidemill.connectors.elasticsearch.options import BulkOptions
from tidemill.errors import ConnectorError

__all__ = ["BulkClient"]

#: The cluster is overloaded or not available: another attempt may succeed.
_PASSING: Final = (429, 502, 503, 504)
#: Another writer has changed the document in the meantime.
_CONFLICT: Final = 409
_TOO_LARGE: Final = 413
#: The maximum length of a record or a response in messages.
_SHOWN: Final = 500


class BulkClient:
    """A connection to a cluster, with one request at a time."""

    def __init__(self, options: BulkOptions) -> None:
        self._options = options
        self._library = client_library(
            "elastic_transport", "elastic-transport", "elasticsearch", f"a sink for {options.system}"
        )
        urllib3 = client_library("urllib3", "urllib3", "elasticsearch", f"a sink for {options.system}")
        self._timeout = urllib3.Timeout(connect=options.connection_timeout / 1000, read=options.socket_timeout / 1000)
        headers = {}
        if options.username is not None:
            login = base64.b64encode(f"{options.username}:{options.password or ''}".encode()).decode("ascii")
            headers["authorization"] = f"Basic {login}"
        self._transport = self._library.Transport(
            [
                self._library.NodeConfig(
                    host.scheme, host.host, host.port, path_prefix=options.path_prefix, headers=headers
                )
                for host in options.hosts
            ],
            max_retries=len(options.hosts) - 1,  # a node that cannot be reached is replaced by the next one
            retry_on_status=(),
            meta_header=False,
        )

    def send(self, actions: Sequence[Action]) -> None:
        """Send actions and return when the cluster has executed all of them.

        Actions that the cluster could not execute for lack of resources are repeated, as the options say, with all
        later actions on the same documents. Any other failure raises :class:`ConnectorError`.
        """
        retries = 0
        while True:
            problem, left = self._try(actions)
            if problem is None:
                return
            delay = self._options.delay_before(retries)
            if delay is None:
                raise self._failed(f"{problem}{f' (tried {retries + 1} times)' if retries else ''}")
            time.sleep(delay)
            retries += 1
            actions = left

    def close(self) -> None:
        """Close the connections."""
        self._transport.close()

    def _try(self, actions: Sequence[Action]) -> tuple[str | None, Sequence[Action]]:
        """Send a request. Returns a problem that may pass, or None, and the actions to repeat."""
        library = self._library
        try:
            response = self._transport.perform_request(
                "POST",
                "/_bulk",
                body=b"".join(action.data for action in actions),
                headers={"content-type": "application/x-ndjson", "accept": "application/json"},
                request_timeout=self._timeout,
            )
        except library.TlsError as error:
            raise self._failed(f"a TLS connection could not be established: {error}") from None
        except (library.ConnectionError, library.ConnectionTimeout) as error:
            return f"a request failed: {error}", actions
        except library.SerializationError as error:
            raise self._failed(f"the response cannot be read: {error}") from None
        status = response.meta.status
        if status in _PASSING:
            return f"a request was rejected with status {status}: {_shown(response.body)}", actions
        if status == _TOO_LARGE:
            raise self._failed(
                f"a request of {sum(len(one.data) for one in actions):,} bytes is larger than the cluster accepts "
                "(http.max_content_length): reduce set_bulk_flush_max_size_mb() or set_bulk_flush_max_actions()"
            )
        if not 200 <= status < 300:
            raise self._failed(f"a request was rejected with status {status}: {_shown(response.body)}")
        return self._evaluate(response.body, actions)

    def _evaluate(self, body: Any, actions: Sequence[Action]) -> tuple[str | None, Sequence[Action]]:
        items = body.get("items") if isinstance(body, dict) else None
        if not isinstance(items, list) or len(items) != len(actions):
            raise self._failed(f"the response does not list the {len(actions)} actions of the request: {_shown(body)}")
        problem: str | None = None
        left: list[Action] = []
        documents: set[tuple[str, str] | None] = set()
        for item, action in zip(items, actions, strict=True):
            ((kind, result),) = item.items()
            status = int(result.get("status", 0))
            if 200 <= status < 300:
                # An earlier action on this document is repeated: this one has to come after it again.
                if action.key is not None and action.key in documents:
                    left.append(action)
                continue
            told = f"{kind} was rejected with status {status}: {_shown(result.get('error'))}"
            if status not in _PASSING and not (status == _CONFLICT and kind == "update"):
                raise self._failed(f"{told}\n  record: {_shown(action.record)}")
            problem = problem or told
            documents.add(action.key)
            left.append(action)
        return problem, left

    def _failed(self, what: str) -> ConnectorError:
        return ConnectorError(f"{self._options.shown}: {what}")


def _shown(value: Any) -> str:
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"
