"""Options of queryable state: Flink's keys, and those that Tidemill adds."""

from __future__ import annotations

from datetime import timedelta

from tidemill.config.option import option
from tidemill.config.values import Bool, DurationValue, Int, MemorySizeValue, Text

_MS = timedelta(milliseconds=1)


class QueryableStateOptions:
    """Looking up the committed state of a job by key."""

    ENABLE = option("queryable-state.enable", Bool(), False, "Start a server for queryable state beside the job.")
    PROXY_PORTS = option(
        "queryable-state.proxy.ports",
        Text(),
        "9069",
        "Port, or range of ports ('9069-9099') of which the proxy, which clients ask, takes the first free one.",
    )
    SERVER_PORTS = option(
        "queryable-state.server.ports", Text(), "9067", "The same for state servers, if there are several."
    )
    SERVER_QUERY_THREADS = option(
        "queryable-state.server.query-threads",
        Int(0),
        0,
        "Threads of a state server that read what is not in memory; 0: two.",
    )
    SERVERS = option(
        "queryable-state.servers",
        Int(1, 64),
        1,
        "Tidemill's own: processes that share the key groups; with one, it is the proxy too.",
    )
    BIND_ADDRESS = option(
        "queryable-state.bind-address",
        Text(),
        "127.0.0.1",
        "Tidemill's own: address to listen on; any but loopback needs a token.",
    )
    TOKEN = option(
        "queryable-state.token",
        Text(),
        None,
        "Tidemill's own: where the token is that clients must send: 'env:NAME', or 'file:PATH', which is made.",
    )
    CACHE_SIZE = option(
        "queryable-state.cache-size",
        MemorySizeValue(),
        256 << 20,
        "Tidemill's own: what each state server may hold in memory of the state.",
    )
    POLL_INTERVAL = option(
        "queryable-state.poll-interval",
        DurationValue(_MS),
        50 * _MS,
        "Tidemill's own: how often a state server looks for a new epoch.",
    )
    KEEP_RUNNING = option(
        "queryable-state.keep-running",
        Bool(),
        False,
        "Tidemill's own: let the server go on answering when the job's driver has ended, until it is stopped.",
    )
