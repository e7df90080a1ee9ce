"""The sending end of an exchange: spreads batches over targets and packs them into parcels.

Per record nothing happens here but one dictionary look-up for keyed edges and one append; everything else is done per
batch. Watermarks travel in band: a mark says after how many of the parcel's records the channel's time moved on.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from itertools import compress
from operator import length_hint
from typing import Any, Protocol

from tidemill.datastream.transformations import Partitioning, PartitionKind
from tidemill.errors import GraphError, InvalidKeyError
from tidemill.runtime.failures import user_error
from tidemill.runtime.parcels import Header, Kind, encode_records, split
from tidemill.runtime.records import Batch
from tidemill.state.canonical_key import canonical_keys
from tidemill.state.key_groups import TargetCache

#: Records of a first parcel; later ones follow the measured size of a record.
_FIRST_COUNT = 2048
#: A parcel never holds more records than this, however small they are.
_MOST_COUNT = 65536


class Buffer:
    """Records waiting to be packed for one target."""

    __slots__ = ("keys", "marks", "seq", "start", "timestamps", "values")

    def __init__(self, watermark: int) -> None:
        self.seq = 0
        self.reset(watermark)

    def reset(self, watermark: int) -> None:
        self.values: list[Any] = []
        self.timestamps: list[int] | None = None
        self.keys: list[Any] = []
        self.marks: list[tuple[int, int]] = []
        self.start = watermark

    def add(self, values: list[Any], timestamps: list[int] | None, keys: list[Any] | None) -> None:
        if timestamps is not None:
            if self.timestamps is None:
                # Records without a timestamp before the first that has one: keep the lists parallel.
                self.timestamps = [None] * len(self.values)  # type: ignore[list-item]
            self.timestamps += timestamps
        elif self.timestamps is not None:
            self.timestamps += [None] * len(values)  # type: ignore[list-item]
        self.values += values
        if keys is not None:
            self.keys += keys


class Route(Protocol):
    """Chooses the targets of a batch: yields (target, values, timestamps, keys)."""

    def __call__(self, batch: Batch) -> Iterator[tuple[int, list[Any], list[int] | None, list[Any] | None]]: ...


class EdgeSender:
    """Sends the output of one subtask over one edge.

    ``partitions`` lists, per subtask of the consumer, its partition on the consumer's level. Parcels that are full are
    handed to ``ship``; :meth:`finish` sends the rest and closes every channel.
    """

    def __init__(
        self,
        *,
        edge: int,
        partitioning: Partitioning,
        operator: str,
        sender: int,
        senders: int,
        level: int,
        partitions: list[int],
        max_parallelism: int,
        parcel_size: int,
        attempt: bytes,
        watermark: int,
        seed: str,
        ship: Callable[[Header, bytes], None],
    ) -> None:
        # configuration
        self._edge = edge
        self._operator = operator
        self._sender = sender
        self._senders = senders
        self._level = level
        self._partitions = partitions
        self._parcel_size = parcel_size
        self._attempt = attempt
        self._ship = ship
        self._broadcast = partitioning.kind is PartitionKind.BROADCAST
        # transient
        targets = 1 if self._broadcast else len(partitions)
        self._buffers = [Buffer(watermark) for _ in range(targets)]
        self._watermark = watermark
        self._limit = _FIRST_COUNT
        self._route = self._choose_route(partitioning, max_parallelism, seed)

    def send(self, batch: Batch) -> None:
        """Take one batch; parcels that became full are shipped."""
        for target, values, timestamps, keys in self._route(batch):
            buffer = self._buffers[target]
            buffer.add(values, timestamps, keys)
            if len(buffer.values) >= self._limit:
                self._flush(target)

    def watermark(self, watermark: int) -> None:
        """Time has moved on for everything sent from now on."""
        self._watermark = watermark
        for buffer in self._buffers:
            if not buffer.values:
                buffer.start = watermark
                continue
            position = len(buffer.values)
            if buffer.marks and buffer.marks[-1][0] == position:
                buffer.marks[-1] = (position, watermark)
            else:
                buffer.marks.append((position, watermark))

    def finish(self) -> None:
        """Ship what is left, then tell every target the final watermark and how many parcels it was sent."""
        for target, buffer in enumerate(self._buffers):
            if buffer.values:
                self._flush(target)
        for target, partition in enumerate(self._partitions):
            sent = self._buffers[0 if self._broadcast else target].seq
            header = Header(
                Kind.END, self._level, self._edge, partition, self._sender, sent, self._watermark, self._attempt
            )
            self._ship(header, header.pack())

    def _flush(self, target: int) -> None:
        buffer = self._buffers[target]
        payload = encode_records(buffer.values, buffer.timestamps, buffer.keys or None, buffer.marks or None)
        self._limit = max(1, min(_MOST_COUNT, self._parcel_size * len(buffer.values) // max(1, len(payload))))
        partitions = self._partitions if self._broadcast else [self._partitions[target]]
        for partition in partitions:
            header = Header(
                Kind.DATA, self._level, self._edge, partition, self._sender, buffer.seq, buffer.start, self._attempt
            )
            for parcel in split(header, payload, self._parcel_size):
                self._ship(header, parcel)
        buffer.seq += 1
        buffer.reset(self._watermark)

    def _choose_route(self, partitioning: Partitioning, max_parallelism: int, seed: str) -> Route:
        targets = len(self._partitions)
        kind = partitioning.kind
        if kind is PartitionKind.KEY_GROUP:
            return KeyRoute(self._operator, partitioning, max_parallelism, targets)
        if kind is PartitionKind.CUSTOM:
            return CustomRoute(self._operator, partitioning, targets)
        if kind is PartitionKind.BROADCAST or kind is PartitionKind.GLOBAL:
            return _to_target(0)
        if kind is PartitionKind.FORWARD:
            if self._sender >= targets:
                raise GraphError(f"{self._operator}: a forward edge needs equal parallelism on both ends")
            return _to_target(self._sender)
        if kind is PartitionKind.SHUFFLE:
            return ShuffleRoute(targets, f"{seed}/{self._edge}/{self._sender}")
        if kind is PartitionKind.RESCALE:
            return RoundRobinRoute(rescale_targets(self._sender, self._senders, targets), 0)
        return RoundRobinRoute(list(range(targets)), self._sender)


def _to_target(target: int) -> Route:
    def route(batch: Batch) -> Iterator[tuple[int, list[Any], list[int] | None, list[Any] | None]]:
        yield target, batch.values, batch.timestamps, None

    return route


def rescale_targets(sender: int, senders: int, targets: int) -> list[int]:
    """The local group of targets of a rescale edge: as in Flink, neighbours share neighbours."""
    if targets >= senders:
        return list(range(sender * targets // senders, (sender + 1) * targets // senders)) or [targets - 1]
    return [sender * targets // senders]


class RoundRobinRoute:
    """Record by record to the next target, done by slicing with a stride."""

    def __init__(self, targets: list[int], start: int) -> None:
        self._targets = targets
        self._next = start % len(targets)

    def __call__(self, batch: Batch) -> Iterator[tuple[int, list[Any], list[int] | None, list[Any] | None]]:
        count = len(self._targets)
        if count == 1:
            yield self._targets[0], batch.values, batch.timestamps, None
            return
        for offset in range(min(count, len(batch.values))):
            timestamps = None if batch.timestamps is None else batch.timestamps[offset::count]
            yield self._targets[(self._next + offset) % count], batch.values[offset::count], timestamps, None
        self._next = (self._next + len(batch.values)) % count


class _PickedRoute:
    """Routes by a list of targets, one per record."""

    def __init__(self, targets: int) -> None:
        self._count = targets

    def _deal(
        self, batch: Batch, chosen: list[int], keys: list[Any] | None
    ) -> Iterator[tuple[int, list[Any], list[int] | None, list[Any] | None]]:
        if self._count == 1:
            yield 0, batch.values, batch.timestamps, keys
            return
        if self._count <= 256:
            # One byte per record and a translation table per target: selection runs in C.
            marks = bytes(chosen)
            for target in set(marks):
                picks = marks.translate(_PICKS[target])
                timestamps = None if batch.timestamps is None else list(compress(batch.timestamps, picks))
                kept = None if keys is None else list(compress(keys, picks))
                yield target, list(compress(batch.values, picks)), timestamps, kept
            return
        positions: dict[int, list[int]] = {}
        for position, target in enumerate(chosen):
            positions.setdefault(target, []).append(position)
        for target, places in positions.items():
            timestamps = None if batch.timestamps is None else [batch.timestamps[i] for i in places]
            kept = None if keys is None else [keys[i] for i in places]
            yield target, [batch.values[i] for i in places], timestamps, kept


_PICKS = [bytes(other == target for other in range(256)) for target in range(256)]


class ShuffleRoute(_PickedRoute):
    """Uniformly random, from a seed that belongs to the epoch: a re-run sends every record where it went before."""

    def __init__(self, targets: int, seed: str) -> None:
        super().__init__(targets)
        self._random = random.Random(seed)

    def __call__(self, batch: Batch) -> Iterator[tuple[int, list[Any], list[int] | None, list[Any] | None]]:
        yield from self._deal(batch, self._random.choices(range(self._count), k=len(batch.values)), None)


class KeyRoute(_PickedRoute):
    """By the key group of the record's key. Keys travel with the records unless they are a plain field of them."""

    def __init__(self, operator: str, partitioning: Partitioning, max_parallelism: int, targets: int) -> None:
        super().__init__(targets)
        self._extract = key_extractor(operator, partitioning.selector)
        self._send_keys = not hasattr(partitioning.selector, "bulk")
        self._operator = operator
        self._target_of = TargetCache(max_parallelism, targets)

    def __call__(self, batch: Batch) -> Iterator[tuple[int, list[Any], list[int] | None, list[Any] | None]]:
        keys = self._extract(batch.values)
        try:
            chosen = self._target_of.groups(keys)
        except InvalidKeyError as error:
            raise InvalidKeyError(f"key_by before {self._operator}: {error}") from error
        yield from self._deal(batch, chosen, keys if self._send_keys else None)


def key_extractor(operator: str, selector: Any) -> Callable[[list[Any]], list[Any]]:
    """A function from a list of values to the list of their keys."""
    bulk = getattr(selector, "bulk", None)
    if bulk is not None:

        def extract_fields(values: list[Any]) -> list[Any]:
            keys: list[Any] = bulk(values)
            return canonical_keys(keys)

        return extract_fields
    call = selector.get_key if hasattr(selector, "get_key") else selector

    def extract(values: list[Any]) -> list[Any]:
        remaining = iter(values)
        try:
            keys = list(map(call, remaining))
        except Exception as error:
            record = values[len(values) - length_hint(remaining) - 1]
            raise user_error(f"the key selector before {operator}", error, record=record) from error
        return canonical_keys(keys)

    return extract


class CustomRoute(_PickedRoute):
    """By the user's partitioner."""

    def __init__(self, operator: str, partitioning: Partitioning, targets: int) -> None:
        super().__init__(targets)
        self._extract = key_extractor(operator, partitioning.selector)
        custom: Any = partitioning.custom
        self._partition: Callable[[Any, int], Any] = getattr(custom, "partition", custom)
        self._operator = operator

    def __call__(self, batch: Batch) -> Iterator[tuple[int, list[Any], list[int] | None, list[Any] | None]]:
        chosen = []
        for key in self._extract(batch.values):
            try:
                target = self._partition(key, self._count)
            except Exception as error:
                raise user_error(f"the partitioner before {self._operator}", error, key=key) from error
            if type(target) is not int or not 0 <= target < self._count:
                raise GraphError(
                    f"the partitioner before {self._operator} returned {target!r} for key {key!r}; "
                    f"it must return an int from 0 to {self._count - 1}"
                )
            chosen.append(target)
        yield from self._deal(batch, chosen, None)
