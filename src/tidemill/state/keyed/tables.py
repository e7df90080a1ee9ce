"""The entries of one keyed state: a committed base, and on top of it the changes of the current epoch.

An epoch reads through to the base but writes only to the overlay. At the barrier the overlay is exported as a delta.
When that delta is known to be committed, :meth:`fold` moves it into the base; :meth:`discard` drops an attempt that was
not committed. The base never contains an object that user code may still change: values that cannot be proven immutable
are returned as copies, one per key and epoch.

The base of these tables is in memory. Other backends have their own tables, with a base elsewhere and the same overlay
(:mod:`tidemill.state.rocksdb`).

Order matters: the base keeps entries in the order in which they were first written, and a restore replays deltas in the
same order, so iteration over a map state is the same on a warm and on a cold worker.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, ClassVar, Final

from tidemill.state.codecs.copies import ATOMIC, detached
from tidemill.state.files.rows import APPEND, CLEAR, DELETE, PUT, Rows, by_namespace
from tidemill.state.files.section_kinds import LIST, MAP, VALUE, SectionKind

if TYPE_CHECKING:
    from tidemill.state.codecs.normal_form import NormalForm
    from tidemill.state.keys.key_groups import KeyGroup


class _Marker(enum.Enum):
    MISSING = "missing"
    DELETED = "deleted"


MISSING: Final = _Marker.MISSING
DELETED: Final = _Marker.DELETED

_UNSHARED: Final = ATOMIC | {_Marker}


class Layer:
    """The entries of one namespace: the epoch's overlay, the committed base, and copies returned to readers.

    The base is a dict, or an object with the same methods for reading.
    """

    __slots__ = ("base", "overlay", "reads")

    def __init__(self) -> None:
        self.overlay: dict[Any, Any] = {}
        self.base: Any = {}
        self.reads: dict[Any, Any] = {}


class Table:
    """The common part of all tables: layers by namespace, and which of them the current epoch has used."""

    #: The kind of the sections in which the entries are stored.
    section_kind: ClassVar[SectionKind]
    #: Protects the base from changes to a value that was read from it.
    detached = staticmethod(detached)

    def __init__(self) -> None:
        #: Whether no value is ever changed after it has been put or read: no copies are needed.
        self.unshared = False
        #: The form of stored values, which also applies in memory; None: unchanged.
        self.form: NormalForm | None = None
        #: The form of the user keys of a map.
        self.key_form: NormalForm | None = None
        #: Converts user keys to their stored form, for types whose forms are different keys.
        self.form_keys: Callable[[list[Any]], list[Any]] | None = None
        self._layers: dict[Any, Layer] = {}
        self._touched: dict[Any, Layer] = {}

    def layer(self, namespace: Any) -> Layer:
        """The layer of a namespace, created if needed; whatever is read or written through it is folded later."""
        layer = self._touched.get(namespace)
        if layer is None:
            layer = self._layers.get(namespace)
            if layer is None:
                layer = self._layers[namespace] = self._new_layer(namespace)
            self._touched[namespace] = layer
        return layer

    def _new_layer(self, namespace: Any) -> Layer:
        return Layer()

    def export_delta(self) -> Rows | None:
        """The changes of the epoch, or None."""
        rows = Rows()
        for namespace, layer in self._touched.items():
            if layer.overlay:
                self._export(rows, namespace, layer.overlay)
        return rows if rows.keys else None

    def export_all(self) -> Rows | None:
        """The whole committed state as puts; the overlay must be empty."""
        rows = Rows()
        for namespace, layer in self._layers.items():
            self._export_base(rows, namespace, layer.base)
        return rows if rows.keys else None

    def fold(self) -> None:
        """Move the epoch's changes into the base, after a manifest has named this attempt."""
        if self.form is not None:
            for layer in self._touched.values():
                self._normalise(layer.overlay, self.form)
        if not self.unshared:
            for layer in self._touched.values():
                # A user function may still have references to the objects that it put.
                self._detach(layer.overlay)
        self.settle()

    def settle(self) -> None:
        """Like :meth:`fold`, for changes whose objects are not referenced anywhere else."""
        for namespace, layer in self._touched.items():
            if layer.overlay:
                self._fold(layer)
                layer.overlay.clear()
            layer.reads.clear()
            if not layer.base and namespace is not None:
                self._layers.pop(namespace, None)
        self._touched = {None: self._layers[None]} if None in self._layers else {}

    def discard(self) -> None:
        """Drop the epoch's changes."""
        for layer in self._touched.values():
            layer.overlay.clear()
            layer.reads.clear()

    def rewrite(self, first_group: KeyGroup) -> KeyGroup | None:
        """Mark committed entries as changed in this epoch, so that its delta contains them.

        Covers whole key groups from ``first_group`` on, limited by the available memory. Returns the last of these
        groups, or None if there are no more.

        The epoch must not have changed any of them.
        """
        rows = self.export_all()
        if rows is not None:
            self.replay(rows)
            for layer in self._touched.values():
                self._detach(layer.overlay)
        return None

    def drop_groups(self, first: KeyGroup, last: KeyGroup) -> None:
        """Drop the initial committed entries of some key groups. The table must not have been used yet."""

    def keys(self, namespace: Any) -> Iterator[Any]:
        """The keys with a value in a namespace, as seen by the current epoch."""
        layer = self._layers.get(namespace) or self._new_layer(namespace)
        for key in layer.base:
            if key not in layer.overlay:
                yield key
        for key, change in layer.overlay.items():
            if self._present(layer, key, change):
                yield key

    def scan(self) -> Iterator[tuple[Any, Any, Any, Any]]:
        """Committed entries as (namespace, key, user key or None, stored value); may be paused and resumed later."""
        for namespace in list(self._layers):
            base = self._layers[namespace].base if namespace in self._layers else {}
            for key in list(base):
                stored = base.get(key, MISSING)
                if stored is not MISSING:
                    yield namespace, key, None, stored

    def namespaces(self) -> list[Any]:
        """All namespaces that contain, or may contain, entries."""
        return list(self._layers)

    def entries(self) -> int:
        """Number of committed keys, over all namespaces."""
        return sum(len(layer.base) for layer in self._layers.values())

    def load(self, rows: Rows) -> None:
        """Apply rows of a delta or snapshot to the base, in order; the overlay must be empty."""
        self.replay(rows)
        self.settle()

    @classmethod
    def merged(cls, parts: Iterable[Rows], *, keep_deletes: bool) -> Rows | None:
        """The rows of one state, oldest first, merged into one; None if nothing is left.

        See :func:`tidemill.state.merging.merge_sections`.
        """
        table = cls()
        for rows in parts:
            table.replay(rows)
        if keep_deletes:
            return table.export_delta()
        table.settle()
        return table.export_all()

    def replay(self, rows: Rows) -> None:
        """Apply rows to the overlay, as if they were changes of the epoch."""
        raise NotImplementedError

    def _export(self, rows: Rows, namespace: Any, overlay: dict[Any, Any]) -> None:
        raise NotImplementedError

    def _export_base(self, rows: Rows, namespace: Any, base: dict[Any, Any]) -> None:
        raise NotImplementedError

    def _fold(self, layer: Layer) -> None:
        raise NotImplementedError

    def _detach(self, overlay: dict[Any, Any]) -> None:
        raise NotImplementedError

    def _normalise(self, overlay: dict[Any, Any], form: NormalForm) -> None:
        raise NotImplementedError

    def _present(self, layer: Layer, key: Any, change: Any) -> bool:
        raise NotImplementedError


class ValueTable(Table):
    """One value per key and namespace (value, reducing and aggregating state). An overlay entry is the new value."""

    section_kind = VALUE

    def _export(self, rows: Rows, namespace: Any, overlay: dict[Any, Any]) -> None:
        rows.keys.extend(overlay)
        values = list(overlay.values())
        if _Marker in map(type, values):
            rows.ops += [DELETE if value is DELETED else PUT for value in values]
            values = [None if value is DELETED else value for value in values]
        else:
            rows.ops += [PUT] * len(values)
        rows.values += values
        rows.namespaces += [namespace] * len(values)

    def _export_base(self, rows: Rows, namespace: Any, base: dict[Any, Any]) -> None:
        self._export(rows, namespace, base)

    def _detach(self, overlay: dict[Any, Any]) -> None:
        if not _UNSHARED.issuperset(map(type, overlay.values())):
            for key, value in overlay.items():
                overlay[key] = detached(value)

    def _normalise(self, overlay: dict[Any, Any], form: NormalForm) -> None:
        if (form.kinds | {_Marker}).issuperset(map(type, overlay.values())):
            return
        keys = [key for key, value in overlay.items() if value is not DELETED]
        values = [overlay[key] for key in keys]
        settled = form.settled(values)
        if settled is not values:
            overlay.update(zip(keys, settled, strict=True))

    def _fold(self, layer: Layer) -> None:
        base, overlay = layer.base, layer.overlay
        base.update(overlay)
        for key, value in overlay.items():
            if value is DELETED:
                del base[key]

    def _present(self, layer: Layer, key: Any, change: Any) -> bool:
        return change is not DELETED

    def replay(self, rows: Rows) -> None:
        for namespace, part in by_namespace(rows):
            overlay = self.layer(namespace).overlay
            overlay.update(zip(part.keys, part.values, strict=True))
            if any(part.ops):
                # A key occurs once in a section, so the order of puts and deletes does not matter.
                overlay.update((key, DELETED) for key, op in zip(part.keys, part.ops, strict=True) if op == DELETE)


class ListChange:
    """The change of one list in an epoch: it was replaced (``replaced``), or appended to."""

    __slots__ = ("items", "replaced")

    def __init__(self, replaced: bool, items: list[Any]) -> None:
        self.replaced = replaced
        self.items = items


class ListTable(Table):
    """A list per key and namespace; an append stores only the new elements."""

    section_kind = LIST

    def _export(self, rows: Rows, namespace: Any, overlay: dict[Any, Any]) -> None:
        for key, change in overlay.items():
            rows.keys.append(key)
            if not change.replaced:
                rows.ops.append(APPEND)
            else:
                rows.ops.append(PUT if change.items else DELETE)
            rows.values.append(change.items)
            rows.namespaces.append(namespace)

    def _export_base(self, rows: Rows, namespace: Any, base: dict[Any, Any]) -> None:
        rows.keys.extend(base)
        rows.values.extend(base.values())
        rows.ops += [PUT] * len(base)
        rows.namespaces += [namespace] * len(base)

    def _detach(self, overlay: dict[Any, Any]) -> None:
        for change in overlay.values():
            if not ATOMIC.issuperset(map(type, change.items)):
                change.items = [detached(item) for item in change.items]

    def _normalise(self, overlay: dict[Any, Any], form: NormalForm) -> None:
        items = list(chain.from_iterable(change.items for change in overlay.values()))
        settled = form.settled(items)
        if settled is not items:
            remaining = iter(settled)
            for change in overlay.values():
                change.items = list(islice(remaining, len(change.items)))

    def _fold(self, layer: Layer) -> None:
        base = layer.base
        for key, change in layer.overlay.items():
            if not change.replaced:
                base.setdefault(key, []).extend(change.items)
            elif change.items:
                base[key] = change.items
            else:
                base.pop(key, None)

    def _present(self, layer: Layer, key: Any, change: Any) -> bool:
        return bool(change.items) or (not change.replaced and key in layer.base)

    def replay(self, rows: Rows) -> None:
        for namespace, part in by_namespace(rows):
            overlay = self.layer(namespace).overlay
            for key, op, items in zip(part.keys, part.ops or [PUT] * len(part.keys), part.values, strict=True):
                if op == APPEND and key in overlay:
                    overlay[key].items.extend(items)
                else:
                    overlay[key] = ListChange(op != APPEND, list(items or ()))


class MapChange:
    """The change of one map in an epoch: entries put or deleted, after clearing it first if ``cleared``.

    If several epochs are replayed as one, ``moved`` are the user keys that one epoch deleted and a later one put again:
    they are no longer at their position in the base, but after all existing entries.
    """

    __slots__ = ("cleared", "entries", "moved")

    def __init__(self, cleared: bool) -> None:
        self.cleared = cleared
        self.entries: dict[Any, Any] = {}
        self.moved: dict[Any, None] | None = None


class MapTable(Table):
    """A map per key and namespace; each map entry is stored separately."""

    section_kind = MAP

    def in_order(self, items: list[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
        """The entries of a map in iteration order: committed ones come first, in the order of the base."""
        return items

    def _export(self, rows: Rows, namespace: Any, overlay: dict[Any, Any]) -> None:
        for key, change in overlay.items():
            count = len(change.entries)
            if change.cleared:
                count += 1
                rows.ops.append(CLEAR)
                rows.user_keys.append(None)
                rows.values.append(None)
            if change.moved:
                count += len(change.moved)
                rows.ops += [DELETE] * len(change.moved)
                rows.user_keys.extend(change.moved)
                rows.values += [None] * len(change.moved)
            rows.ops += [DELETE if value is DELETED else PUT for value in change.entries.values()]
            rows.user_keys.extend(change.entries)
            rows.values += [None if value is DELETED else value for value in change.entries.values()]
            rows.keys += [key] * count
            rows.namespaces += [namespace] * count

    def _export_base(self, rows: Rows, namespace: Any, base: dict[Any, Any]) -> None:
        for key, entries in base.items():
            rows.keys += [key] * len(entries)
            rows.user_keys.extend(entries)
            rows.values.extend(entries.values())
            rows.ops += [PUT] * len(entries)
            rows.namespaces += [namespace] * len(entries)

    def _detach(self, overlay: dict[Any, Any]) -> None:
        for change in overlay.values():
            entries = change.entries
            if not _UNSHARED.issuperset(map(type, entries.values())):
                for user_key, value in entries.items():
                    entries[user_key] = detached(value)

    def _normalise(self, overlay: dict[Any, Any], form: NormalForm) -> None:
        places = [
            (change.entries, user_key)
            for change in overlay.values()
            for user_key, value in change.entries.items()
            if value is not DELETED
        ]
        values = [entries[user_key] for entries, user_key in places]
        settled = form.settled(values)
        if settled is not values:
            for (entries, user_key), value in zip(places, settled, strict=True):
                entries[user_key] = value

    def _fold(self, layer: Layer) -> None:
        base = layer.base
        for key, change in layer.overlay.items():
            entries = base.get(key)
            if entries is None or change.cleared:
                entries = base[key] = {}
            for user_key in change.moved or ():
                entries.pop(user_key, None)
            for user_key, value in change.entries.items():
                if value is DELETED:
                    entries.pop(user_key, None)
                else:
                    entries[user_key] = value
            if not entries:
                del base[key]

    def scan(self) -> Iterator[tuple[Any, Any, Any, Any]]:
        for namespace, key, _, entries in super().scan():
            for user_key in list(entries):
                value = entries.get(user_key, MISSING)
                if value is not MISSING:
                    yield namespace, key, user_key, value

    def _present(self, layer: Layer, key: Any, change: Any) -> bool:
        if any(value is not DELETED for value in change.entries.values()):
            return True
        if change.cleared:
            return False
        return any(user_key not in change.entries for user_key in layer.base.get(key, ()))

    def replay(self, rows: Rows) -> None:
        for namespace, part in by_namespace(rows):
            overlay = self.layer(namespace).overlay
            ops = part.ops or [PUT] * len(part.keys)
            for key, op, user_key, value in zip(part.keys, ops, part.user_keys, part.values, strict=True):
                change = overlay.get(key)
                if change is None or op == CLEAR:
                    change = overlay[key] = MapChange(cleared=op == CLEAR)
                if op == DELETE:
                    change.entries[user_key] = DELETED
                elif op != CLEAR:
                    if change.entries.get(user_key) is DELETED:
                        del change.entries[user_key]
                        change.moved = change.moved or {}
                        change.moved[user_key] = None
                    change.entries[user_key] = value
