"""Any sequence of accesses, ticks, commits, discards, restores and merges, against plain dicts that know the time.

Where expired entries are never returned, no cleanup can be seen: one model holds for all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.thorough import examples
from tests.unit.state.backends import make_backend
from tests.unit.state.ttl_states import KINDS, TTL, Expiring, config, merged
from tidemill.common.time import Time
from tidemill.datastream.state import StateTtlConfig
from tidemill.state.files.ttl_merge import CommittedTimes
from tidemill.state.keyed.backend import KeyedStateBackend

KEYS = ("a", ("b", 1), None)
NAMESPACES = (None, "w")

CLEANUPS = (
    config(),
    config().cleanup_full_snapshot(),
    config().cleanup_incrementally(3, False),
    config().cleanup_incrementally(70, True),
    config().cleanup_in_rocksdb_compact_filter(1),
    StateTtlConfig.new_builder(Time.milliseconds(TTL)),
)

PLACE = (st.sampled_from(KEYS), st.sampled_from(NAMESPACES))
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), *PLACE, st.sampled_from(KINDS), st.integers(1, 9), st.sampled_from("xyz")),
        st.tuples(st.just("read"), *PLACE, st.sampled_from(KINDS)),
        st.tuples(st.just("remove"), *PLACE, st.sampled_from("xyz")),
        st.tuples(st.just("clear"), *PLACE, st.sampled_from(KINDS)),
        st.tuples(st.just("tick"), st.sampled_from((1, 30, TTL - 1, TTL))),
        st.just(("commit",)),
        st.just(("commit",)),
        st.just(("discard",)),
        st.just(("restore",)),
        st.tuples(st.just("merge"), st.integers(0, 3)),
    ),
    max_size=60,
)


class Model:
    """Entries with the time of their last access: key, namespace and kind to a list of [user key, value, time]."""

    def __init__(self, on_read: bool) -> None:
        self.now = 1
        self._on_read = on_read
        self._entries: dict[Any, list[list[Any]]] = {}
        self._committed: dict[Any, list[list[Any]]] = {}

    def write(self, place: Any, kind: str, number: int, user_key: str) -> None:
        entries = self._alive(place, kind)
        if kind == "list":
            entries.append([None, number, self.now])
        elif kind == "map":
            found = [entry for entry in entries if entry[0] == user_key]
            if found:
                found[0][1:] = [number, self.now]
            else:
                entries.append([user_key, number, self.now])
        else:
            before = entries[0][1] if entries else None
            value: Any = number
            if kind == "reducing" and before is not None:
                value = before + number
            elif kind == "aggregating":
                value = (*(before or ()), number)
            entries[:] = [[None, value, self.now]]

    def read(self, place: Any, kind: str) -> Any:
        entries = self._alive(place, kind)
        if self._on_read:
            for entry in entries:
                entry[2] = self.now
        if kind == "list":
            return [value for _, value, _ in entries]
        if kind == "map":
            return {user_key: value for user_key, value, _ in entries}
        return entries[0][1] if entries else None

    def remove(self, place: Any, user_key: str) -> None:
        entries = self._alive(place, "map")
        entries[:] = [entry for entry in entries if entry[0] != user_key]

    def clear(self, place: Any, kind: str) -> None:
        self._entries.pop((*place, kind), None)

    def commit(self) -> None:
        self._committed = _copy(self._entries)

    def discard(self) -> None:
        self._entries = _copy(self._committed)

    def _alive(self, place: Any, kind: str) -> list[list[Any]]:
        entries = self._entries.setdefault((*place, kind), [])
        entries[:] = [entry for entry in entries if entry[2] + TTL > self.now]
        return entries


def _copy(entries: dict[Any, list[list[Any]]]) -> dict[Any, list[list[Any]]]:
    return {place: [list(entry) for entry in found] for place, found in entries.items()}


@settings(max_examples=examples(150), deadline=None, derandomize=True)
@given(steps=STEPS, cleanup=st.sampled_from(CLEANUPS), on_read=st.booleans())
def test_an_expired_entry_looks_like_none(steps: Any, cleanup: StateTtlConfig.Builder, on_read: bool) -> None:
    check_against_model(steps, cleanup, on_read, make_backend)


def access(states: Expiring, model: Model, what: str, rest: list[Any]) -> None:
    """One access of both, to a kind of state in a place."""
    place, (kind, *more) = tuple(rest[:2]), rest[2:]
    states.key(*place)
    if what == "write":
        states.write(kind, *more)
        model.write(place, kind, *more)
    elif what == "remove":
        states.map.remove(kind)
        model.remove(place, kind)
    elif what == "clear":
        getattr(states, kind).clear()
        model.clear(place, kind)
    else:
        assert states.read(kind) == model.read(place, kind)


def check_against_model(
    steps: Any, cleanup: StateTtlConfig.Builder, on_read: bool, new_backend: Callable[[], KeyedStateBackend]
) -> None:
    kinds = StateTtlConfig.UpdateType
    ttl = cleanup.set_update_type(kinds.OnReadAndWrite if on_read else kinds.OnCreateAndWrite).build()
    per_epoch = 2 if ttl.get_cleanup_strategies().get_rocksdb_compact_filter_cleanup_strategy() else None
    model, states = Model(on_read), Expiring(ttl, now=1, new_backend=new_backend, per_epoch=per_epoch)
    files: list[bytes] = []
    for step in steps:
        what, *rest = step
        if what in ("commit", "merge", "restore"):
            data = states.commit()
            files += [data] if data is not None else []
            model.commit()
        if what == "tick":
            model.now += rest[0]
            states.at(model.now)
        elif what == "discard":
            states.backend.discard()
            states.backend.begin_epoch()
            model.discard()
        elif what == "merge":
            cut = min(rest[0], len(files))
            times = CommittedTimes(model.now, started=0)
            files = files[:cut] + merged(files[cut:], times, keep_deletes=cut > 0)
        elif what == "restore":
            states = Expiring(ttl, files, now=model.now, new_backend=new_backend, per_epoch=per_epoch)
        elif what != "commit":
            access(states, model, what, rest)
    for key in KEYS:
        for namespace in NAMESPACES:
            states.key(key, namespace)
            assert states.seen() == {kind: model.read((key, namespace), kind) for kind in KINDS}
