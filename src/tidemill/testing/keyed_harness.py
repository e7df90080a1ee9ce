"""Runs a function on a keyed stream, and gives the test access to its state and timers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tidemill.common.typeinfo import TypeInformation
from tidemill.datastream.functions.state_descriptors import MapStateDescriptor
from tidemill.datastream.streams.data_stream import DataStream
from tidemill.datastream.time_domain import TimeDomain
from tidemill.errors import StateError
from tidemill.state.codecs.copies import detached
from tidemill.state.keyed.backend import KeyedStateBackend
from tidemill.state.keys.canonical_key import canonical_key
from tidemill.testing.operator_harness import OperatorHarness
from tidemill.testing.snapshot import Snapshot


class KeyedHarness(OperatorHarness):
    """Runs a function on a keyed stream, or on two connected keyed streams.

    ``what`` is a function object (KeyedProcessFunction, KeyedCoProcessFunction, a RichFunction for map, ...), or a
    callable that takes the keyed stream (or two) and returns the stream to record. ``key_selector`` is anything that
    ``key_by`` accepts; ``key_selector2`` is for the second stream, if it has a different one.

    >>> from tidemill.common import Types
    >>> from tidemill.datastream import KeyedProcessFunction, ValueStateDescriptor
    >>> class Remind(KeyedProcessFunction):
    ...     def open(self, runtime_context):
    ...         self.seen = runtime_context.get_state(ValueStateDescriptor("seen", Types.LONG()))
    ...     def process_element(self, value, ctx):
    ...         self.seen.update((self.seen.value() or 0) + 1)
    ...         ctx.timer_service().register_event_time_timer(ctx.timestamp() + 10)
    ...     def on_timer(self, timestamp, ctx):
    ...         yield ctx.get_current_key(), self.seen.value()
    >>> harness = KeyedHarness(Remind(), key_selector=0, key_type=Types.STRING())
    >>> harness.process(("a", 1), timestamp=5)
    >>> harness.process(("a", 2), timestamp=7)
    >>> harness.state("seen", "a"), harness.timers()
    (2, [(15, 'a'), (17, 'a')])
    >>> snapshot = harness.snapshot()
    >>> harness.close()
    >>> with harness.restore(snapshot) as again:
    ...     again.watermark(16)
    ...     again.output_with_timestamps()
    [(('a', 2), 15)]
    """

    def __init__(
        self,
        what: Any,
        key_selector: Any,
        key_type: TypeInformation | None = None,
        *,
        key_selector2: Any = None,
        parallelism: int = 1,
        subtask: int = 0,
        processing_time: int = 0,
        runtime_mode: str = "STREAMING",
        job_parameters: dict[str, str] | None = None,
        types: Iterable[TypeInformation | None] = (),
        broadcast: Iterable[MapStateDescriptor] = (),
        snapshot: Snapshot | None = None,
    ) -> None:
        self._selectors = (key_selector, key_selector if key_selector2 is None else key_selector2)
        self._key_type = key_type
        super().__init__(
            what,
            parallelism=parallelism,
            subtask=subtask,
            processing_time=processing_time,
            runtime_mode=runtime_mode,
            job_parameters=job_parameters,
            types=types,
            broadcast=broadcast,
            snapshot=snapshot,
        )
        self._options |= {"key_selector": key_selector, "key_type": key_type, "key_selector2": key_selector2}

    # --- state

    def state(self, name: str, key: Any, namespace: Any = None) -> Any:
        """Return the contents of a state for a key, including the changes of the current epoch.

        The result is a value for value state, a list for list state, a dict for map state, the reduced value for
        reducing state, and the result for aggregating state; None, [] or {} if the state is empty. The call does not
        count as an access that extends a time to live.
        """
        state: Any = self._state(name)
        with _AtKey(self, state, key, namespace):
            found = state.peek()
        return detached(found)

    def put_state(self, name: str, key: Any, value: Any, namespace: Any = None) -> None:
        """Set the contents of a state for a key in the current epoch, before the first record or between records.

        ``value`` is a list for list state, a dict for map state, an accumulator for aggregating state.
        """
        state: Any = self._state(name)
        with _AtKey(self, state, key, namespace):
            state.replace(value)

    def keys(self, name: str, namespace: Any = None) -> list[Any]:
        """Return the keys for which a state is not empty."""
        self._state(name)
        return list(self._settled().keys(name, namespace))

    def state_names(self) -> list[str]:
        """Return the names of the states that the function has registered."""
        return self._backend().state_names()

    def timers(self, domain: TimeDomain = TimeDomain.EVENT_TIME) -> list[tuple[int, Any]]:
        """Return the pending timers of a time domain as (time, key), in the order in which they will fire."""
        backend = self._settled()
        queue = backend.event_timers if domain is TimeDomain.EVENT_TIME else backend.processing_timers
        return [(time, key) for time, key, _ in queue.pending()]

    # --- building blocks

    def _apply(self, streams: list[DataStream]) -> DataStream:
        keyed: list[DataStream] = [
            stream.key_by(selector, self._key_type) for stream, selector in zip(streams, self._selectors, strict=False)
        ]
        if self._broadcast:
            keyed[1:] = streams[1:]
        return super()._apply(keyed)

    def _settled(self) -> KeyedStateBackend:
        """Return the backend, after all operators have written their buffered state and timers to it."""
        for operator in self._chain.operators:
            operator.settle()
        return self._backend()

    def _state(self, name: str) -> Any:
        backend = self._settled()
        if name not in backend.state_names():
            known = ", ".join(map(repr, backend.state_names())) or "none"
            raise StateError(f"the function registered no state {name!r}, only {known}")
        return backend.state(name)


class _AtKey:
    """Sets the current key and namespace to access a state, and resets them afterwards."""

    def __init__(self, harness: KeyedHarness, state: Any, key: Any, namespace: Any) -> None:
        self._context = harness._backend().context
        self._state = state
        self._key = canonical_key(key)
        self._namespace = namespace

    def __enter__(self) -> None:
        self._context.key = self._key
        if self._namespace is not None:
            self._state.set_current_namespace(self._namespace)

    def __exit__(self, *_: object) -> None:
        self._context.leave()
        if self._namespace is not None:
            self._state.set_current_namespace(None)
