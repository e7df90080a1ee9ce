"""Writes savepoints: state created from data, parts of other savepoints, keys removed, values changed."""

from __future__ import annotations

import contextlib
import hashlib
import secrets
import tempfile
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from tidemill.checkpoint.model import Epoch, Manifest, Piece, RunRef, SectionInfo, Slot
from tidemill.checkpoint.names import (
    MANIFESTS,
    SNAPSHOTS,
    input_prefix,
    lineage_id,
    snapshot_file_name,
    snapshot_id,
    snapshot_index_name,
)
from tidemill.checkpoint.portable import PortableFile, PortableState
from tidemill.checkpoint.savepoint import METADATA, UNFINISHED, dispose_savepoint, encode_metadata, open_state
from tidemill.checkpoint.snapshot_index import SnapshotIndex, decode_snapshot_index, encode_snapshot_index
from tidemill.checkpoint.storage.storages import LocalStorage, Storage, storage_for, store_options
from tidemill.common.configuration import Configuration
from tidemill.config import ExecutionOptions
from tidemill.errors import CheckpointError, ConfigurationError, StateError
from tidemill.python_versions import Self
from tidemill.state.codecs.class_names import TRUSTED, Loading
from tidemill.state.files.replacing import replaced_groups, replacing_groups, without_replaced
from tidemill.state.files.state_file import Section, decode_sections, encode_sections
from tidemill.state.keyed.backend import EVENT_TIMERS, PROCESSING_TIMERS
from tidemill.state.keys.key_groups import KeyGroup
from tidemill.state.operator.operator_state import is_operator_state
from tidemill.state_processor.bootstrap import BootstrapTransformation, run_bootstrap
from tidemill.state_processor.rewriting import KeyDeletion, Rewrite, map_values

__all__ = ["SavepointWriter"]

T = TypeVar("T")

#: Smaller state files are stored in the index.
_INLINE = 64 << 10


@dataclass(frozen=True)
class _Part:
    """Some operators of a savepoint; if their state is changed, it is read with ``loading``."""

    state: PortableState
    operators: frozenset[str]
    loading: Loading


class SavepointWriter:
    """Builds a new savepoint. No existing data is changed, and nothing is written before :meth:`write`.

    >>> from tidemill.common import Types
    >>> from tidemill.datastream.state import ValueStateDescriptor
    >>> from tidemill.state_processor import KeyedStateBootstrapFunction, OperatorTransformation
    >>> class Balance(KeyedStateBootstrapFunction):
    ...     def open(self, runtime_context):
    ...         self.balance = runtime_context.get_state(ValueStateDescriptor("balance", Types.LONG()))
    ...     def process_element(self, value, ctx):
    ...         self.balance.update(value[1])
    >>> rows = [("ann", 10), ("bob", 20)]
    >>> accounts = OperatorTransformation.bootstrap_with(rows).key_by(lambda row: row[0], Types.STRING())
    >>> directory = tempfile.TemporaryDirectory()
    >>> writer = SavepointWriter.new_savepoint().with_operator("accounts", accounts.transform(Balance()))
    >>> path = writer.write(f"{directory.name}/start")
    >>> path = SavepointWriter.from_existing_savepoint(path).delete_keys("accounts", {"bob"}).write(f"{path}-2")
    >>> from tidemill import state_processor
    >>> state_processor.read(path).keyed_state("accounts", "balance").to_pylist()
    [{'key': 'ann', 'value': 10}]
    >>> directory.cleanup()
    """

    def __init__(
        self,
        base: PortableState | None,
        max_parallelism: int,
        configuration: Configuration | None,
        *,
        allow_pickle: bool = False,
    ) -> None:
        self._max_parallelism = max_parallelism
        self._configuration = Configuration(configuration or Configuration())
        if configuration is None:
            self._configuration.set(ExecutionOptions.TARGET, "local")
        self._base = base
        self._parts: list[_Part] = []
        if base is not None:
            self._parts.append(_Part(base, frozenset(base.manifest.operators), Loading(allow_pickle)))
        self._new: dict[str, BootstrapTransformation] = {}
        self._rewrites: dict[str, list[Rewrite]] = {}
        self._changed_states: list[tuple[str, str]] = []
        self._deletions: list[KeyDeletion] = []

    @classmethod
    def new_savepoint(cls, max_parallelism: int = 1024, configuration: Configuration | None = None) -> Self:
        """Start with an empty savepoint.

        ``max_parallelism`` is that of the operators that will be added. Their functions run in this process, or where
        ``configuration`` specifies: on Spark with ``execution.target: spark``.
        """
        return cls(None, max_parallelism, configuration)

    @classmethod
    def from_existing_savepoint(
        cls, path: str, configuration: Configuration | None = None, *, allow_pickle: bool = False
    ) -> Self:
        """Start with the content of another savepoint or a retained checkpoint, including source positions and timers.

        The files are not trusted: unless ``allow_pickle`` is set, changing keys or values that are pickled raises an
        error. State that is copied unchanged is not decoded.
        """
        base = open_state(path, store_options(configuration or Configuration()))
        known = base.manifest.max_parallelism.values()
        return cls(base, max(known, default=1024), configuration, allow_pickle=allow_pickle)

    def with_operator(self, uid: str, transformation: BootstrapTransformation) -> Self:
        """Add the operator with this uid, filled from data; call :meth:`remove_operator` first if it exists."""
        self._check_free(uid)
        if not isinstance(transformation, BootstrapTransformation):
            raise TypeError(
                "with_operator() needs the result of OperatorTransformation's transform(), not "
                f"{type(transformation).__name__}"
            )
        self._new[uid] = transformation
        return self

    def with_operators_of(self, path: str, uids: Collection[str] | None = None, *, allow_pickle: bool = False) -> Self:
        """Add some operators of another savepoint, by default all: merges two savepoints.

        Positions of sources are those of the savepoint that this one started from; to take over a source, use its uid
        in the program that is started. ``allow_pickle`` is as for :meth:`from_existing_savepoint`.
        """
        if isinstance(uids, str):
            raise TypeError(f"with_operators_of() needs a collection of uids, not {uids!r}: write [{uids!r}]")
        other = open_state(path, store_options(self._configuration))
        chosen = frozenset(_with_state(other.manifest) if uids is None else uids)
        if not chosen:
            raise StateError(f"there is nothing to take over from {path}: no uid is given, or no operator has state")
        for uid in sorted(chosen):
            if uid not in other.manifest.operators:
                raise StateError(f"{path} has no operator with uid {uid!r}, only {sorted(other.manifest.operators)}")
            self._check_free(uid)
        self._parts.append(_Part(other, chosen, Loading(allow_pickle)))
        return self

    def remove_operator(self, uid: str) -> Self:
        """Remove the state of this operator, or the position of this source."""
        if uid not in self._operators():
            raise StateError(f"there is no operator with uid {uid!r} to remove, only {sorted(self._operators())}")
        self._new.pop(uid, None)
        self._rewrites.pop(uid, None)  # an operator that is added under this uid later must not inherit them
        self._changed_states = [changed for changed in self._changed_states if changed[0] != uid]
        self._deletions = [deletion for deletion in self._deletions if deletion.uid != uid]
        self._parts = [replace(part, operators=part.operators - {uid}) for part in self._parts]
        return self

    def delete_keys(self, uid: str, keys: Collection[Any] | Callable[[Any], bool], *, missing_ok: bool = False) -> Self:
        """Remove the state and the timers of some keys, given as a collection or as a predicate.

        :meth:`write` raises :class:`~tidemill.errors.StateError` for a key that is not of the operator's declared key
        type, and for keys that have neither state nor timers, unless ``missing_ok`` is set. Missing keys are then
        logged, as is a predicate that returns true for no key.
        """
        deletion = KeyDeletion(uid, keys, missing_ok=missing_ok)
        self._rewrite(uid, deletion)
        self._deletions.append(deletion)
        return self

    def transform_state(self, uid: str, state: str, function: Callable[[Any, Any], Any]) -> Self:
        """Replace each value of a keyed state with ``function(key, value)``, which must be of the same type.

        The function is called for each element of a list state and for each value of a map state. It may be called for
        values that are no longer current: the whole stored history of a key is changed, not only its latest value. It
        cannot delete: :meth:`write` raises if it returns None for a value, or if the operator has no such state.
        """
        if not callable(function):
            raise TypeError(f"transform_state() needs a function of key and value, not {type(function).__name__}")
        self._rewrite(uid, map_values(state, function))
        self._changed_states.append((uid, state))
        return self

    def write(self, path: str) -> str:
        """Write the savepoint into a directory that contains neither a savepoint nor a job; returns its path.

        A directory without ``_metadata``, which is written last, is not a savepoint: the leftovers of a crash can be
        removed with ``dispose_savepoint``. If anything raises, all files are removed.
        """
        options = store_options(self._configuration)
        storage = storage_for(path, options=options)
        if storage.exists(METADATA) or storage.exists(UNFINISHED):
            raise CheckpointError(f"{path} already contains a savepoint: choose another directory, or dispose of it")
        if storage.list(MANIFESTS) or storage.list(SNAPSHOTS):
            raise CheckpointError(f"{path} is the directory of a job: choose another one for the savepoint")
        if not self._operators():
            raise ConfigurationError("a savepoint needs at least one operator: with_operator() adds one")
        with tempfile.TemporaryDirectory(prefix="tidemill-bootstrap-") as scratch:
            bootstrapped = [
                _Part(
                    open_state(
                        run_bootstrap(
                            transformation, uid, self._max_parallelism, self._configuration, f"{scratch}/{number}"
                        )
                    ),
                    frozenset({uid}),
                    TRUSTED,
                )
                for number, (uid, transformation) in enumerate(self._new.items())
            ]
            storage.create(UNFINISHED, b"")
            try:
                self._assemble(storage, [*self._parts, *bootstrapped])
            except BaseException:
                with contextlib.suppress(CheckpointError):
                    dispose_savepoint(path, options)
                raise
        with contextlib.suppress(CheckpointError):
            storage.delete([UNFINISHED])
        return str(storage.root) if isinstance(storage, LocalStorage) else path

    def _assemble(self, storage: Storage, parts: list[_Part]) -> None:
        """Write all files, the metadata last."""
        assembly = _Assembly(storage, self._rewrites)
        for part in parts:
            assembly.add(part)
        for uid, state in self._changed_states:
            known = sorted(found for owner, found in assembly.states if owner == uid)
            if state not in known:
                there_is = f"only {known}" if known else "and has no other keyed state"
                raise StateError(f"the operator with uid {uid!r} has no keyed state {state!r} to change, {there_is}")
        for deletion in self._deletions:
            deletion.check()
        manifest = self._manifest(parts, assembly)
        if self._base is not None:
            left_out = self._base.manifest.operators.keys() - manifest.operators.keys()
            unwanted = (SNAPSHOTS, *map(input_prefix, left_out))
            assembly.files += self._base.copy_into(storage, wanted=lambda name: not name.startswith(unwanted))
        storage.create(METADATA, encode_metadata(manifest, tuple(assembly.files), time.time_ns() // 1_000_000))

    def _manifest(self, parts: list[_Part], assembly: _Assembly) -> Manifest:
        operators = {uid: part.state.manifest.operators[uid] for part in parts for uid in sorted(part.operators)}
        limits = {
            uid: part.state.manifest.max_parallelism[uid]
            for part in parts
            for uid in part.operators
            if uid in part.state.manifest.max_parallelism
        }
        runs = tuple(assembly.runs)
        epoch = Epoch(max((part.state.manifest.epoch for part in parts), default=0) + 1)
        timers = (part.state.manifest.next_timer for part in parts if part.operators)
        next_timer = min((timer for timer in timers if timer is not None), default=None)
        if self._base is None:
            return Manifest(
                kind="epoch",
                job_id="savepoint",
                lineage=assembly.owner,
                slot=Slot(1),
                epoch=epoch,
                runs=runs,
                operators=operators,
                max_parallelism=limits,
                next_timer=next_timer,
            )
        base, kept = self._base.manifest, self._parts[0].operators
        return replace(
            base,
            epoch=epoch,
            runs=runs,
            operators=operators,
            max_parallelism=limits,
            sources=_only(base.sources, kept),
            watermarks=_only(base.watermarks, kept),
            times=_only(base.times, kept),
            committables=_only(base.committables, kept),
            next_timer=next_timer,
            finished=False,
        )

    def _rewrite(self, uid: str, rewrite: Rewrite) -> Self:
        if uid not in self._operators():
            raise StateError(f"there is no operator with uid {uid!r}, only {sorted(self._operators())}")
        self._rewrites.setdefault(uid, []).append(rewrite)
        return self

    def _operators(self) -> set[str]:
        return {*self._new, *(uid for part in self._parts for uid in part.operators)}

    def _check_free(self, uid: str) -> None:
        if uid in self._operators():
            raise StateError(f"an operator with uid {uid!r} already exists: remove it first, or choose another uid")


def _only(by_uid: Mapping[str, T], operators: Collection[str]) -> dict[str, T]:
    return {uid: value for uid, value in by_uid.items() if uid in operators}


def _with_state(manifest: Manifest) -> list[str]:
    """The operators that have state to take over."""
    return [
        uid
        for uid, description in manifest.operators.items()
        if description.get("keyed") or description.get("operator_state")
    ]


@dataclass
class _Assembly:
    """The state files of a savepoint that is being built, with each run of each part as a snapshot."""

    storage: Storage
    rewrites: Mapping[str, list[Rewrite]]
    runs: list[RunRef] = field(default_factory=list)
    files: list[PortableFile] = field(default_factory=list)
    #: The keyed states found, by uid and name.
    states: set[tuple[str, str]] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.owner = lineage_id(0, secrets.token_hex(6))
        self._number = 0
        self._replaced: dict[tuple[str, str], list[tuple[KeyGroup, KeyGroup]]] = {}

    def add(self, part: _Part) -> None:
        """Add the state of the operators of a part.

        Goes from the newest run to the oldest: state that a later run replaces because it was migrated may have another
        type, and is left out instead of rewritten.
        """
        by_name = {file.name: file for file in part.state.files}
        taken_over: list[RunRef] = []
        for run in reversed(part.state.manifest.runs):
            name = snapshot_index_name(run.snapshot or "")
            index = decode_snapshot_index(part.state.read(by_name[name]), name)
            snapshot = snapshot_id(self.owner, run.through, str(self._number))
            self._number += 1
            pieces: list[Piece] = []
            replacing: list[Section] = []
            for piece in index.pieces:
                data = piece.data if piece.data is not None else part.state.read(by_name[piece.file or ""])
                taken = self._taken(data, piece, part, snapshot, len(pieces), replacing)
                if taken is not None:
                    pieces.append(taken)
            for section in replacing:
                spans = self._replaced.setdefault((section.operator, section.state), [])
                spans += replaced_groups(section.schema)
            if pieces:
                made = SnapshotIndex(snapshot, run.through, tuple(pieces))
                self._store(snapshot_index_name(snapshot), encode_snapshot_index(made))
                taken_over.append(made.run())
        self.runs += reversed(taken_over)

    def _taken(
        self,
        data: bytes,
        piece: Piece,
        part: _Part,
        snapshot: str,
        number: int,
        replacing: list[Section],
    ) -> Piece | None:
        wanted = {section.operator for section in piece.sections} & part.operators
        if not wanted:
            return None
        if wanted == {section.operator for section in piece.sections} and not wanted & self.rewrites.keys():
            sections = piece.sections
        else:
            rewritten = list(self._rewritten(data, piece.file or snapshot, wanted, part.loading, replacing))
            if not rewritten:
                return None
            data, entries = encode_sections(rewritten)
            sections = tuple(SectionInfo(e.operator, e.state, e.first_group, e.last_group, e.rows) for e in entries)
        taken = Piece(number, piece.chain, len(data), hashlib.sha256(data).hexdigest(), sections)
        if len(data) <= _INLINE:
            return replace(taken, data=data)
        name = snapshot_file_name(snapshot, number)
        self._store(name, data)
        return replace(taken, file=name)

    def _rewritten(
        self, data: bytes, name: str, wanted: set[str], loading: Loading, replacing: list[Section]
    ) -> Iterator[Section]:
        for section in decode_sections(data, name, wanted):
            changed: Section | None = section
            rewrites = self.rewrites.get(section.operator, ())
            if rewrites and not is_operator_state(section):
                if section.state not in (EVENT_TIMERS, PROCESSING_TIMERS):
                    self.states.add((section.operator, section.state))
                replacing.append(section)
                changed = self._counting(section)
            for rewrite in rewrites:
                changed = None if changed is None else rewrite(changed, loading)
            if changed is not None:
                yield changed

    def _counting(self, section: Section) -> Section | None:
        """The rows of a section that no later run replaces."""
        spans = self._replaced.get((section.operator, section.state))
        if not spans:
            return section
        later = replace(section, schema=replacing_groups(spans), table=section.table.slice(0, 0))
        return next(iter(without_replaced([section, later])), None)

    def _store(self, name: str, data: bytes) -> None:
        self.storage.write(name, data)
        self.files.append(PortableFile(name, len(data), hashlib.sha256(data).hexdigest(), source=name))
