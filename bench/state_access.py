"""The cost of state access in one worker, without Spark: compared with a plain dict, and on large lists and maps."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from typing import Any

from bench.measure import Measurement
from tidemill.common import Configuration, Types
from tidemill.datastream.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from tidemill.state.backends import choose_backend
from tidemill.state.keyed.backend import BackendPlace, KeyedStateBackend
from tidemill.state.keys.key_groups import KeyGroup, KeyGroupRange

_BACKENDS = ("hashmap", "rocksdb")
_KEYS = 10_000
_ROUNDS = 20
_SMALL, _LARGE = 100, 100_000
_EPOCHS = 200


@contextmanager
def backend_named(name: str) -> Iterator[KeyedStateBackend]:
    """Open a backend with string keys, for a parallelism of 1."""
    configuration = Configuration()
    configuration.set_string("state.backend.type", name)
    groups = KeyGroupRange(KeyGroup(0), KeyGroup(127))
    place = BackendPlace("bench", "the benchmark", groups, 128, key_type=Types.STRING())
    with closing(choose_backend(configuration).create(place)) as backend:
        backend.begin_epoch()
        yield backend


def commit(backend: KeyedStateBackend) -> None:
    """Commit an epoch."""
    backend.context.leave()
    backend.export_delta()
    backend.fold()
    backend.begin_epoch()


def measure_state_access() -> list[Measurement]:
    """Measure a read and a write of a ValueState per record, compared with the same loop over a dict."""
    keys = [f"key-{number}" for number in range(_KEYS)] * _ROUNDS
    case = "read and write one value, 10 000 keys"
    plain: dict[str, int] = {}

    def dict_loop() -> None:
        get = plain.get
        for key in keys:
            plain[key] = get(key, 0) + 1

    results = [_rate(case, "a plain dict", len(keys), dict_loop)]
    for name in _BACKENDS:
        with backend_named(name) as backend:
            state = backend.value_state(ValueStateDescriptor("count", Types.LONG(), default_value=0))

            def state_loop(backend: KeyedStateBackend = backend, state: Any = state) -> None:
                context, value, update = backend.context, state.value, state.update
                for context.key in keys:
                    update(value() + 1)

            results.append(_rate(case, f"tidemill, {name}", len(keys), state_loop, partial(commit, backend)))
    return results


def measure_large_entries() -> list[Measurement]:
    """Measure epochs that append to one list, or change one map entry, by the size of the list or map."""
    return [
        measure(name, size) for measure in (_list_append, _map_put) for name in _BACKENDS for size in (_SMALL, _LARGE)
    ]


def _list_append(name: str, size: int) -> Measurement:
    with backend_named(name) as backend:
        state = backend.list_state(ListStateDescriptor("list", Types.LONG()))
        backend.context.key = "key"
        state.add_all(range(size))
        commit(backend)

        def epoch() -> None:
            backend.context.key = "key"
            state.add(1)
            commit(backend)

        return _epochs("append to a list", name, size, epoch)


def _map_put(name: str, size: int) -> Measurement:
    with backend_named(name) as backend:
        state = backend.map_state(MapStateDescriptor("map", Types.LONG(), Types.LONG()))
        backend.context.key = "key"
        state.put_all({number: number for number in range(size)})
        commit(backend)

        def epoch() -> None:
            backend.context.key = "key"
            state.put(7, (state.get(7) or 0) + 1)
            commit(backend)

        return _epochs("change one map entry", name, size, epoch)


def _epochs(what: str, name: str, size: int, epoch: Callable[[], None]) -> Measurement:
    seconds = []
    for _ in range(_EPOCHS):
        started = time.perf_counter()
        epoch()
        seconds.append(time.perf_counter() - started)
    return Measurement(f"{what}, {name}", f"{size:,} entries", 0.0, statistics.median(seconds), {"entries": size})


def _rate(
    case: str, contender: str, records: int, loop: Callable[[], None], between: Callable[[], None] = lambda: None
) -> Measurement:
    rates = []
    for _ in range(15):
        started = time.perf_counter()
        loop()
        rates.append(records / (time.perf_counter() - started))
        between()
    return Measurement(case, contender, max(rates), records / max(rates))
