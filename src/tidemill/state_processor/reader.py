"""Reads the state of a job as data: any committed epoch, as Arrow tables, Python values, Parquet or a DataFrame."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from tidemill.checkpoint.model import Epoch
from tidemill.checkpoint.savepoint import METADATA, UNFINISHED, read_savepoint
from tidemill.checkpoint.storage.storages import Storage, storage_for, store_options
from tidemill.common.configuration import Configuration
from tidemill.errors import CheckpointError, ConfigurationError, CorruptFileError, StateError
from tidemill.state.codecs.plain_values import as_plain
from tidemill.state.files.section_kinds import section_kind
from tidemill.state.keyed.backend import EVENT_TIMERS, PROCESSING_TIMERS
from tidemill.state.keys.canonical_key import canonical_key
from tidemill.state.keys.key_groups import FIRST_GROUP, LAST_GROUP, KeyGroup, key_group_of, key_group_spans
from tidemill.state_processor.catalog import Catalog, CatalogState, OperatorInfo, StateInfo
from tidemill.state_processor.csv_file import CsvWriter
from tidemill.state_processor.job_directory import EpochInfo, JobDirectory, described
from tidemill.state_processor.key_types import check_key
from tidemill.state_processor.merged import Entry, StateSchema, merged_entries, merged_table
from tidemill.state_processor.operator_tables import operator_table

__all__ = ["SavepointReader", "read"]

#: The approximate amount of file data that is read and merged at a time. A key group is never divided.
_SLICE_BYTES: Final = 32 << 20
#: Rows in a batch: enough for columnar processing, few enough to hold many batches in memory.
_BATCH_ROWS: Final = 64 << 10


def read(
    location: str | os.PathLike[str] | Storage,
    epoch: int | None = None,
    job_id: str | None = None,
    *,
    allow_pickle: bool = False,
    configuration: Configuration | None = None,
) -> SavepointReader:
    """Open the state of a job at a committed epoch, by default the last one, or the state of a savepoint.

    ``location`` is the directory of a job, or a directory that contains those of several jobs, one of which is selected
    by ``job_id``. The job may be running: nothing is claimed or changed. ``location`` may also be the directory of a
    savepoint. From ``configuration``, the ``s3.`` keys are used if the location is on an object store.

    Files are not trusted. Unless ``allow_pickle`` is set, no code from them runs: nothing is unpickled, and no class is
    imported. Instances of dataclasses are structs (dicts), enum members are their names. Values of undeclared types
    that had to be pickled are ``{"$pickle": base64}`` in tables, and are not available as Python values.

    Raises :class:`~tidemill.errors.CheckpointError` if there is no such job or epoch.
    """
    where = location if isinstance(location, Storage) else os.fspath(location).rstrip("/").removesuffix(f"/{METADATA}")
    options = store_options(configuration or Configuration())
    storage = where if isinstance(where, Storage) else storage_for(where, durable=False, options=options)
    if storage.exists(METADATA) or storage.exists(UNFINISHED):
        name = repr(storage) if isinstance(where, Storage) else where
        manifest = read_savepoint(storage, name).manifest
        if epoch not in (None, manifest.epoch) or job_id not in (None, manifest.job_id):
            raise CheckpointError(f"{name} is a savepoint of epoch {manifest.epoch} of job {manifest.job_id} only")
        return SavepointReader(Catalog(JobDirectory(storage, manifest.job_id, name), manifest), allow_pickle)
    directory = JobDirectory.open(storage, job_id)
    return SavepointReader(
        Catalog(directory, directory.manifest(None if epoch is None else Epoch(epoch))), allow_pickle
    )


class SavepointReader:
    """The state of a job at one committed epoch. Created by :func:`read`, or :meth:`SavepointReader.read`.

    >>> from tidemill.testing import JobHarness
    >>> def count(env, words):
    ...     return words.map(lambda word: (word, 1)).key_by(0).sum(1).uid("count")
    >>> with JobHarness(count, inputs=["words"]) as job:
    ...     job.epoch(words=["a", "b", "a"])
    ...     job.epoch(words=["b"])
    ...     state = read(job.storage)
    ...     before = read(job.storage, epoch=1)
    >>> [(operator.uid, [info.name for info in operator.states]) for operator in state.operators()]
    [('count', ['_reduce_state'])]
    >>> state.keyed_state("count", "_reduce_state").sort_by("key").to_pydict()["value"]
    [{'f0': 'a', 'f1': 2}, {'f0': 'b', 'f1': 2}]
    >>> state.get("count", "_reduce_state", "b"), before.get("count", "_reduce_state", "b")
    (('b', 2), ('b', 1))
    """

    def __init__(self, catalog: Catalog, allow_pickle: bool) -> None:
        self._catalog = catalog
        self._allow_pickle = allow_pickle

    read = staticmethod(read)

    @property
    def job_id(self) -> str:
        """The job's id."""
        return self._catalog.directory.job_id

    @property
    def epoch(self) -> Epoch:
        """The epoch of this state."""
        return self._catalog.manifest.epoch

    @property
    def epoch_info(self) -> EpochInfo:
        """Information about this epoch; reads no other epoch."""
        manifest = self._catalog.manifest
        return described(manifest, manifest.checkpoints)

    def epochs(self) -> list[EpochInfo]:
        """The epochs of the job that can be read now, oldest first: the last ones, and retained checkpoints."""
        return self._catalog.directory.epochs()

    def operators(self) -> list[OperatorInfo]:
        """The operators that have state, with their states."""
        with self._reading():
            return self._catalog.operators()

    def counted_operators(self, on_rows: Callable[[int], object] = lambda rows: None) -> list[OperatorInfo]:
        """:meth:`operators`, with their entries and pending timers counted, for which all of the state is read.

        ``on_rows`` is called with the number of entries of each part that has been read.
        """

        def counted(uid: str, info: StateInfo) -> StateInfo:
            entries = 0
            for batch in self.iter_batches(uid, info.name):
                entries += batch.num_rows
                on_rows(batch.num_rows)
            return replace(info, entries=entries)

        return [
            replace(
                one,
                states=tuple(counted(one.uid, info) for info in one.states),
                timers=len(self.timers(one.uid)) if one.timers else 0,
                operator_states=tuple(
                    replace(info, entries=len(self.operator_state(one.uid, info.name))) for info in one.operator_states
                ),
            )
            for one in self.operators()
        ]

    def schema(self, uid: str, state: str) -> Any:
        """The Arrow schema of the result of :meth:`keyed_state`."""
        with self._reading():
            return self._stored(uid, state).schema().arrow

    def keyed_state(self, uid: str, state: str, *, key_groups: tuple[int, int] | None = None) -> Any:
        """A keyed state as an Arrow table, with one row per entry as a restore would load it.

        The columns are ``key``, ``namespace`` if it has any, ``map_key`` for map state, ``value``, and ``last_access``
        (milliseconds) for state with a time to live. Map state has one row per map entry. ``key_groups`` restricts the
        result to the groups from the first to the last one. Columns of values without a common type are JSON text.
        """
        schema, batches = self._batches(uid, state, key_groups)
        return pa.Table.from_batches(batches, schema=schema.arrow)

    def iter_batches(
        self, uid: str, state: str, *, key_groups: tuple[int, int] | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Like :meth:`keyed_state`, one batch at a time, for state larger than memory: holds a few key groups."""
        return self._batches(uid, state, key_groups)[1]

    def record_batches(self, uid: str, state: str, *, key_groups: tuple[int, int] | None = None) -> Any:
        """Like :meth:`iter_batches`, as a ``pyarrow.RecordBatchReader``, which DuckDB and others read as a stream."""
        schema, batches = self._batches(uid, state, key_groups)
        return pa.RecordBatchReader.from_batches(schema.arrow, batches)

    def entries(self, uid: str, state: str, *, key_groups: tuple[int, int] | None = None) -> Iterator[Entry]:
        """The entries as Python values: as the program stored them with ``allow_pickle``, otherwise as plain data."""
        stored = self._stored(uid, state)
        kind = stored.schema().kind
        for first, last in self._slices(stored, key_groups):
            with self._reading():
                sections = stored.read(first, last)
            yield from merged_entries(sections, kind, allow_pickle=self._allow_pickle)

    def get(self, uid: str, state: str, key: Any, namespace: Any = None) -> Any:
        """The value of one key: a list for list state, a dict for map state, None if the key has no state.

        Reads only the key's group. A key of a user class is passed as an instance of it. A key that is not of the
        declared key type of the operator raises ``StateError``.
        """
        stored = self._stored(uid, state)
        check_key(stored.sections[-1][1].schema.get("types"), canonical_key(key), uid)
        group = key_group_of(key, self._catalog.max_parallelism(uid))
        wanted = (canonical_key(as_plain(key)), as_plain(namespace))
        with self._reading():
            kind = stored.schema().kind
            sections = stored.read(group, group)
        found = list(merged_entries(sections, kind, allow_pickle=self._allow_pickle, key=wanted))
        if section_kind(kind).has_user_keys:
            return {entry.map_key: entry.value for entry in found} or None
        return found[0].value if found else None

    def timers(self, uid: str) -> Any:
        """The pending timers of an operator as an Arrow table, ordered by time within a domain.

        The columns are ``domain`` ("event" or "processing"), ``timestamp``, ``key`` and ``namespace``.
        """
        tables = []
        with self._reading():
            self._catalog.check_operator(uid)
            for domain, state in (("event", EVENT_TIMERS), ("processing", PROCESSING_TIMERS)):
                if self._catalog.has(uid, state):
                    table = self._table(self._catalog.stored(uid, state)).sort_by("timestamp")
                    tables.append(table.add_column(0, "domain", pa.array([domain] * len(table), pa.large_string())))
        columns = [("domain", pa.large_string()), ("key", pa.null()), ("timestamp", pa.int64())]
        if not tables:
            return pa.schema(columns).empty_table()
        return pa.concat_tables(tables, promote_options="permissive")

    def operator_state(self, uid: str, state: str) -> Any:
        """Operator state as an Arrow table with one row per element: the ``subtask`` that stored it, and the ``value``.

        Broadcast state, which is the same in all subtasks, has ``map_key`` and ``value``. Raw state is called
        ``__raw``. A source of watched files has ``__files``: each ``path`` that was read, and the ``epoch`` that read
        it.
        """
        with self._reading():
            stored = next(
                (
                    self._catalog.stored(uid, name)
                    for name in (f"__operator:{state}", f"__broadcast:{state}", state)
                    if self._catalog.has(uid, name)
                ),
                None,
            )
            stored = stored or self._catalog.stored(uid, state)  # raises
            mode = stored.sections[-1][1].schema.get("operator_state")
            if mode is None:
                raise StateError(f"state {state!r} of the operator with uid {uid!r} is keyed state: use keyed_state()")
            return operator_table(self._table(stored), mode)

    def export(
        self,
        path: str | os.PathLike[str],
        uid: str,
        state: str,
        format: str = "parquet",  # noqa: A002
        *,
        on_rows: Callable[[int], None] = lambda rows: None,
    ) -> int:
        """Write a keyed state to a file, one batch at a time; returns the number of rows.

        ``format`` is "parquet", which DuckDB, Spark and others read, "arrow" (an Arrow IPC file), or "csv", where
        structs, lists and maps are JSON text. The file is written completely or not at all. ``on_rows`` is called with
        the number of rows of each batch that was written.
        """
        if format not in _WRITERS:
            raise ConfigurationError(f"cannot export as {format!r}; formats are {', '.join(sorted(_WRITERS))}")
        schema, batches = self._batches(uid, state, None)
        target = Path(path)
        unfinished = target.with_name(f".{target.name}.unfinished")
        rows = 0
        try:
            with _WRITERS[format](str(unfinished), schema.arrow) as writer:
                for batch in batches:
                    writer.write_batch(batch)
                    rows += batch.num_rows
                    on_rows(batch.num_rows)
            unfinished.replace(target)
        finally:
            unfinished.unlink(missing_ok=True)
        return rows

    def to_dataframe(self, spark: Any, uid: str, state: str, *, partitions: int | None = None) -> Any:
        """A keyed state as a Spark DataFrame with the columns of :meth:`keyed_state`.

        Its partitions are ranges of key groups, read by the executors, which must be able to access the job's
        directory.
        """
        from tidemill.spark.output.state_reader import frame_of_parts

        stored = self._stored(uid, state)
        with self._reading():
            schema = stored.schema()
        cuts = self._slices(stored, None, partitions)
        parts = [StatePart(stored, schema, first, last, self._allow_pickle) for first, last in cuts]
        return frame_of_parts(spark, schema.arrow, parts)

    def _stored(self, uid: str, state: str) -> CatalogState:
        with self._reading():
            stored = self._catalog.stored(uid, state)
        if "operator_state" in stored.sections[-1][1].schema:
            raise StateError(
                f"state {state!r} of the operator with uid {uid!r} is operator state: use operator_state()"
            )
        return stored

    def _batches(
        self, uid: str, state: str, key_groups: tuple[int, int] | None
    ) -> tuple[StateSchema, Iterator[pa.RecordBatch]]:
        stored = self._stored(uid, state)
        with self._reading():
            schema = stored.schema()
        slices = self._slices(stored, key_groups)

        def batches() -> Iterator[pa.RecordBatch]:
            for first, last in slices:
                with self._reading():
                    part = StatePart(stored, schema, first, last, self._allow_pickle)
                    table = part.table()
                yield from table.to_batches(max_chunksize=_BATCH_ROWS)

        return schema, batches()

    def _table(self, stored: CatalogState) -> Any:
        return StatePart(stored, stored.schema(), FIRST_GROUP, LAST_GROUP, self._allow_pickle).table()

    def _slices(
        self, stored: CatalogState, key_groups: tuple[int, int] | None, count: int | None = None
    ) -> list[tuple[KeyGroup, KeyGroup]]:
        """Ranges of key groups that are read one after the other, or by one task each."""
        first, last = key_groups or (0, self._catalog.max_parallelism(stored.operator) - 1)
        if not 0 <= first <= last:
            raise StateError(f"invalid key groups {first} to {last}: pass the first and the last one, counted from 0")
        groups = last - first + 1
        parts = max(1, min(groups, count or -(-stored.bytes // _SLICE_BYTES)))
        return [(KeyGroup(first + start), KeyGroup(first + end)) for start, end in key_group_spans(groups, parts)]

    @contextmanager
    def _reading(self) -> Iterator[None]:
        try:
            yield
        except CorruptFileError as error:
            raise self._catalog.explained(error) from error


@dataclass(frozen=True)
class StatePart:
    """A range of key groups of a state, which can be read in another process."""

    stored: CatalogState
    schema: StateSchema
    first: KeyGroup
    last: KeyGroup
    allow_pickle: bool

    def table(self) -> Any:
        """The entries of these key groups."""
        sections = self.stored.read(self.first, self.last)
        return merged_table(sections, self.schema, allow_pickle=self.allow_pickle)


_WRITERS: Final[dict[str, Callable[[str, Any], Any]]] = {
    "parquet": pq.ParquetWriter,
    "arrow": pa.ipc.new_file,
    "csv": CsvWriter,
}
