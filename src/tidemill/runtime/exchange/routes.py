"""Routes, which distribute the records of an edge to targets: one class per kind of partitioning.

Routes work on whole batches. The only work per record is a dictionary lookup for keyed edges, and calls of user
functions (key selectors, partitioners); the distribution itself runs in C.
"""

from __future__ import annotations

import random
import zlib
from collections.abc import Callable, Iterator, Sequence
from itertools import compress
from typing import Any

import numpy as np

from tidemill.common.calls import call_each
from tidemill.common.type_kinds.basic import BasicType, BasicTypeInfo, PickledBytesTypeInfo
from tidemill.common.typeinfo import TypeInformation
from tidemill.datastream.program.key_selectors import FieldSelector, PositionSelector
from tidemill.datastream.program.transformations import Partitioning, PartitionKind
from tidemill.errors import GraphError, InvalidKeyError, TidemillError
from tidemill.runtime.batch.columns import ColumnBatch
from tidemill.runtime.batch.failures import user_error
from tidemill.runtime.batch.records import Batch
from tidemill.runtime.exchange.column_routes import deal_by_key, deal_chosen, deal_in_turn, key_column
from tidemill.state.codecs.normal_form import stream_key_form
from tidemill.state.keys.key_groups import TargetCache

#: The types of keys that are equal to the integers and strings of a column.
_COLUMN_KEYS = frozenset(BasicType) - {BasicType.FLOAT, BasicType.BOOLEAN, BasicType.INSTANT}

#: A part of a batch: target, values, timestamps, keys.
Deal = tuple[int, list[Any], list[int] | None, list[Any] | None]
#: A part of a columnar batch: target and rows. Its keys are a column of it, if they are sent at all.
ColumnDeal = tuple[int, ColumnBatch]


class Route:
    """Selects the targets of records. A route exists as long as its sender. It is reset in each epoch, so that every
    record has the same target if the epoch is run again."""

    def begin_epoch(self, seed: str) -> None:
        """Begin a new epoch; ``seed`` depends on the epoch and the sender."""

    def deal(self, batch: Batch) -> Iterator[Deal]:
        """Return the parts of a batch, by target."""
        raise NotImplementedError

    def deal_columns(self, batch: ColumnBatch) -> Iterator[ColumnDeal] | None:
        """Return the rows of a columnar batch by target, as columns; None if this route needs Python objects."""
        return None


def route_for(
    partitioning: Partitioning, operator: str, sender: int, senders: int, targets: int, max_parallelism: int
) -> Route:
    """Create the route of a sender over an edge to ``targets`` subtasks; ``operator`` is the consumer, for errors."""
    kind = partitioning.kind
    if kind is PartitionKind.KEY_GROUP:
        return KeyRoute(operator, partitioning, max_parallelism, targets)
    if kind is PartitionKind.CUSTOM:
        return CustomRoute(operator, partitioning, targets)
    if kind is PartitionKind.BROADCAST or kind is PartitionKind.GLOBAL:
        return FixedRoute(0)
    if kind is PartitionKind.FORWARD:
        if sender >= targets:
            raise GraphError(f"{operator}: a forward edge needs equal parallelism on both ends")
        return FixedRoute(sender)
    if kind is PartitionKind.SHUFFLE:
        return ShuffleRoute(targets)
    if kind is PartitionKind.RESCALE:
        return RoundRobinRoute(rescale_targets(sender, senders, targets), 0)
    return RoundRobinRoute(list(range(targets)), sender)


class FixedRoute(Route):
    """Sends all records to one target."""

    def __init__(self, target: int) -> None:
        self._target = target

    def deal(self, batch: Batch) -> Iterator[Deal]:
        yield self._target, batch.values, batch.timestamps, None

    def deal_columns(self, batch: ColumnBatch) -> Iterator[ColumnDeal]:
        yield self._target, batch.without_keys()


def rescale_targets(sender: int, senders: int, targets: int) -> list[int]:
    """Return the targets of a sender on a rescale edge: as in Flink, a local group of adjacent subtasks."""
    if targets >= senders:
        return list(range(sender * targets // senders, (sender + 1) * targets // senders)) or [targets - 1]
    return [sender * targets // senders]


class RoundRobinRoute(Route):
    """Sends each record to the next target, by slicing with a stride.

    Each epoch begins with a different target, so that the few records of many small epochs do not all go to one target.
    """

    def __init__(self, targets: list[int], start: int) -> None:
        self._targets = targets
        self._start = start
        self._next = start % len(targets)

    def begin_epoch(self, seed: str) -> None:
        self._next = (self._start + zlib.crc32(seed.encode())) % len(self._targets)

    def deal(self, batch: Batch) -> Iterator[Deal]:
        count = len(self._targets)
        if count == 1:
            yield self._targets[0], batch.values, batch.timestamps, None
            return
        for offset in range(min(count, len(batch.values))):
            timestamps = None if batch.timestamps is None else batch.timestamps[offset::count]
            yield self._targets[(self._next + offset) % count], batch.values[offset::count], timestamps, None
        self._next = (self._next + len(batch.values)) % count

    def deal_columns(self, batch: ColumnBatch) -> Iterator[ColumnDeal]:
        batch = batch.without_keys()
        count = len(self._targets)
        if count == 1:
            yield self._targets[0], batch
            return
        for offset in range(min(count, len(batch))):
            yield self._targets[(self._next + offset) % count], deal_in_turn(batch, offset, count)
        self._next = (self._next + len(batch)) % count


class _PickedRoute(Route):
    """Distributes records by a list of targets, one per record."""

    def __init__(self, targets: int) -> None:
        self._count = targets

    def _deal(self, batch: Batch, chosen: Sequence[int], keys: list[Any] | None) -> Iterator[Deal]:
        if self._count == 1:
            yield 0, batch.values, batch.timestamps, keys
            return
        if self._count <= 256:
            # With one byte per record and a translation table per target, the selection runs in C.
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
    """Selects targets at random. The seed depends on the epoch: the targets are the same if it is run again."""

    def __init__(self, targets: int) -> None:
        super().__init__(targets)
        self._random = random.Random()

    def begin_epoch(self, seed: str) -> None:
        self._random.seed(seed)

    def deal(self, batch: Batch) -> Iterator[Deal]:
        yield from self._deal(batch, self._chosen(len(batch.values)), None)

    def deal_columns(self, batch: ColumnBatch) -> Iterator[ColumnDeal]:
        yield from deal_chosen(batch.without_keys(), np.array(self._chosen(len(batch))))

    def _chosen(self, count: int) -> list[int]:
        return self._random.choices(range(self._count), k=count)


class KeyRoute(_PickedRoute):
    """Selects targets by key group. Keys are sent with the records, unless they are plain fields of them."""

    def __init__(self, operator: str, partitioning: Partitioning, max_parallelism: int, targets: int) -> None:
        super().__init__(targets)
        self._extract = key_extractor(operator, partitioning.selector, partitioning.key_type)
        self._typed = partitioning.key_type is not None
        self._has_form = partitioning.key_type is not None and not _fits_columns(partitioning.key_type)
        # A user function may return another key for the same record: it is called only once.
        self._send_keys = not is_field(partitioning.selector)
        self._operator = operator
        self._selector = partitioning.selector
        self._target_of = TargetCache(max_parallelism, targets)
        self._dealt = 0

    def begin_epoch(self, seed: str) -> None:
        self._target_of.trim(self._dealt)
        self._dealt = 0

    def deal_columns(self, batch: ColumnBatch) -> Iterator[ColumnDeal] | None:
        key = None if self._has_form else key_column(batch, self._selector, typed=self._typed)
        if key is None:
            return None
        self._dealt += len(batch)
        return deal_by_key(batch, key, self._count, self._targets)

    def deal(self, batch: Batch) -> Iterator[Deal]:
        keys = self._extract(batch.values)
        self._dealt += len(keys)
        yield from self._deal(batch, self._targets(keys), keys if self._send_keys else None)

    def _targets(self, keys: list[Any]) -> Sequence[int]:
        try:
            return self._target_of.targets(keys)
        except InvalidKeyError as error:
            raise InvalidKeyError(f"key_by before {self._operator}: {error}") from error
        except BaseException as error:  # __hash__ or __eq__ of a key's class
            raise user_error(f"the key before {self._operator}", error) from error


def _fits_columns(key_type: TypeInformation) -> bool:
    """Whether integers and strings of a column are distributed like keys of a type: those are equal to them."""
    return isinstance(key_type, PickledBytesTypeInfo) or (
        isinstance(key_type, BasicTypeInfo) and key_type.basic_type in _COLUMN_KEYS
    )


def is_field(selector: Any) -> bool:
    """Whether a key is a plain field of its record. It is then not sent: the receiver extracts it again.

    The result of a user function is sent, because the function is called only once per record.
    """
    return isinstance(selector, (PositionSelector, FieldSelector))


def key_extractor(
    operator: str, selector: Any, key_type: TypeInformation | None = None
) -> Callable[[list[Any]], list[Any]]:
    """Return a function that extracts the keys of a list of values, in the form of their type if one is declared.

    Without a declared type, keys are not converted here: the receiver converts them to their canonical form.
    """
    extract = _extractor(operator, selector)
    form = stream_key_form(key_type)
    return extract if form is None else lambda values: form(extract(values))


def _extractor(operator: str, selector: Any) -> Callable[[list[Any]], list[Any]]:
    if is_field(selector):
        bulk = selector.bulk

        def extract_fields(values: list[Any]) -> list[Any]:
            try:
                keys: list[Any] = bulk(values)
            except InvalidKeyError as error:
                raise InvalidKeyError(f"key_by before {operator}: {error}") from None
            except BaseException as error:  # a property of the record's class
                raise user_error(f"the key selector before {operator}", error) from error
            return keys

        return extract_fields

    def extract(values: list[Any]) -> list[Any]:
        def failed(error: BaseException, position: int) -> TidemillError:
            return user_error(f"the key selector before {operator}", error, record=values[position])

        return call_each(selector, values, failed)

    return extract


class CustomRoute(_PickedRoute):
    """Selects targets with the user's partitioner."""

    def __init__(self, operator: str, partitioning: Partitioning, targets: int) -> None:
        super().__init__(targets)
        self._extract = key_extractor(operator, partitioning.selector)
        self._partition: Any = partitioning.custom
        self._operator = operator

    def deal(self, batch: Batch) -> Iterator[Deal]:
        chosen = []
        for key in self._extract(batch.values):
            try:
                target = self._partition(key, self._count)
            except BaseException as error:
                raise user_error(f"the partitioner before {self._operator}", error, key=key) from error
            if type(target) is not int or not 0 <= target < self._count:
                raise GraphError(
                    f"the partitioner before {self._operator} returned {target!r} for key {key!r}; "
                    f"it must return an int from 0 to {self._count - 1}"
                )
            chosen.append(target)
        yield from self._deal(batch, chosen, None)
