"""Options of queryable state: Flink's keys and Tidemill's additional keys."""

from __future__ import annotations

from datetime import timedelta

from tidemill.config.option import option
from tidemill.config.values import Bool, DurationValue, Int, MemorySizeValue, Text

_MS = timedelta(milliseconds=1)


class QueryableStateOptions:
    """Queryable state: lookups by key in the committed state of a job."""

    ENABLE = option(
        "queryable-state.enable", Bool(), False, "Start a server for queryable state together with the job."
    )
    PROXY_PORTS = option(
        "queryable-state.proxy.ports",
        Text(),
        "9069",
        "Port of the proxy that clients connect to, or a range ('9069-9099') of which the first free port is used.",
    )
    SERVER_PORTS = option(
        "queryable-state.server.ports", Text(), "9067", "Port or range of ports of state servers, if there are several."
    )
    SERVER_QUERY_THREADS = option(
        "queryable-state.server.query-threads",
        Int(0),
        0,
        "Threads of a state server that read state that is not in memory; 0 means two.",
    )
    SERVERS = option(
        "queryable-state.servers",
        Int(1, 64),
        1,
        "Tidemill only. Number of server processes that share the key groups; a single one is also the proxy.",
    )
    BIND_ADDRESS = option(
        "queryable-state.bind-address",
        Text(),
        "127.0.0.1",
        "Tidemill only. Address to listen on; any address other than loopback requires a token.",
    )
    TOKEN = option(
        "queryable-state.token",
        Text(),
        None,
        "Tidemill only. Location of the token that clients must send: 'env:NAME', or 'file:PATH', which is created.",
    )
    CACHE_SIZE = option(
        "queryable-state.cache-size",
        MemorySizeValue(),
        256 << 20,
        "Tidemill only. Maximum size of the state that each state server keeps in memory.",
    )
    POLL_INTERVAL = option(
        "queryable-state.poll-interval",
        DurationValue(_MS),
        50 * _MS,
        "Tidemill only. How often a state server checks for a new epoch.",
    )
    KEEP_RUNNING = option(
        "queryable-state.keep-running",
        Bool(),
        False,
        "Tidemill only. Keep the server running after the job's driver has ended, until it is stopped.",
    )
