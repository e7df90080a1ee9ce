"""The state of a committed epoch: operators, their states, and where each of them is stored."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

import pyarrow as pa

from tidemill.checkpoint.model import Manifest, SectionInfo
from tidemill.checkpoint.restore import PieceReader, committed_pieces, run_name
from tidemill.errors import CheckpointError, CorruptFileError, StateError
from tidemill.state.codecs.serializers import parse_type_snapshot, type_text
from tidemill.state.files.replacing import is_replaced, replaced_groups, without_replaced
from tidemill.state.files.state_file import Section, decode_sections, read_index
from tidemill.state.files.state_file_index import IndexedSection, as_reader
from tidemill.state.keyed.backend import EVENT_TIMERS, PROCESSING_TIMERS
from tidemill.state.keys.key_groups import KeyGroup
from tidemill.state_processor.job_directory import JobDirectory
from tidemill.state_processor.merged import StateSchema

__all__ = ["Catalog", "CatalogState", "OperatorInfo", "StateInfo"]

#: The part of a block that is read to get its columns: the schema comes first, and is rarely larger than this.
_SCHEMA_BYTES: Final = 16 << 10


@dataclass(frozen=True)
class StateInfo:
    """A state of an operator.

    ``kind`` is how it was declared (value, list, map, reducing, aggregating), or, for operator state, how it is
    redistributed (split, union, broadcast, raw). ``types`` are the declared types. ``rows`` and ``bytes`` refer to the
    stored files: an entry that changed in several epochs since the last merge counts several times, and so does a
    deleted one. ``entries`` is the number of entries, if it was counted.
    """

    name: str
    kind: str
    types: dict[str, str]
    rows: int
    bytes: int
    entries: int | None = None


@dataclass(frozen=True)
class OperatorInfo:
    """An operator that has, or had, state. ``timers`` are stored rows too, unless they were counted."""

    uid: str
    name: str
    kind: str
    keyed: bool
    parallelism: int | None
    max_parallelism: int
    states: tuple[StateInfo, ...] = ()
    timers: int = 0
    operator_states: tuple[StateInfo, ...] = ()


@dataclass(frozen=True)
class CatalogState:
    """The sections of one state, oldest first, each with the piece that contains it."""

    operator: str
    state: str
    sections: tuple[tuple[PieceReader, IndexedSection], ...] = field(repr=False)

    @property
    def bytes(self) -> int:
        return sum(block.length for _, section in self.sections for block in section.blocks)

    def schema(self) -> StateSchema:
        """The schema with which the state is read; reads the beginning of each section."""
        found: list[tuple[str, dict[str, Any], Any]] = []
        replaced: list[tuple[KeyGroup, KeyGroup]] = []
        for reader, section in reversed(self.sections):
            if section.blocks and not is_replaced(section.groups, replaced):
                found.insert(0, (section.kind, section.schema, _columns(reader, section)))
            replaced += replaced_groups(section.schema)
        return StateSchema.of(f"state {self.state!r} of the operator with uid {self.operator!r}", found)

    def read(self, first_group: KeyGroup, last_group: KeyGroup) -> list[Section]:
        """The sections with their rows of these key groups, oldest first; reads only what is needed of large files."""
        found: list[Section] = []
        overlapping = [
            reader for reader, part in self.sections if part.first <= last_group and part.last >= first_group
        ]
        for reader in dict.fromkeys(overlapping):
            source = reader.for_groups({self.operator: (first_group, last_group)})
            name = reader.piece.file or reader.named_by
            found += decode_sections(source, name, {self.operator}, first_group, last_group, {self.state})
        return without_replaced(found)


class Catalog:
    """The state of one committed epoch."""

    def __init__(self, directory: JobDirectory, manifest: Manifest) -> None:
        self.directory = directory
        self.manifest = manifest

    @cached_property
    def _pieces(self) -> list[PieceReader]:
        runs = committed_pieces(self.directory.storage, self.directory.log, self.manifest)
        return [PieceReader(self.directory.storage, piece, run_name(run)) for run, pieces in runs for piece in pieces]

    @cached_property
    def _described(self) -> dict[str, Any]:
        return self.directory.log.operators_of(self.manifest)

    def operators(self) -> list[OperatorInfo]:
        """All operators that have stored state, in program order."""
        by_operator: dict[str, dict[str, list[IndexedSection]]] = {}
        for reader in self._pieces:
            for section in _index(reader):
                by_operator.setdefault(section.operator, {}).setdefault(section.state, []).append(section)
        unknown = sorted(by_operator.keys() - self._described.keys())
        order = [*(uid for uid in self._described if uid in by_operator), *unknown]
        return [self._operator(uid, by_operator[uid]) for uid in order]

    def stored(self, operator: str, state: str) -> CatalogState:
        """The stored sections of a state. Raises :class:`StateError` with similar names if it does not exist."""
        names = {(info.operator, info.state) for reader in self._pieces for info in reader.piece.sections}
        if (operator, state) not in names:
            raise self._unknown(operator, state, names)
        sections = [
            (reader, section)
            for reader in self._pieces
            if any(_is(info, operator, state) for info in reader.piece.sections)
            for section in _index(reader)
            if (section.operator, section.state) == (operator, state)
        ]
        return CatalogState(operator, state, tuple(sections))

    def has(self, operator: str, state: str) -> bool:
        """Whether this state exists."""
        return any(_is(info, operator, state) for reader in self._pieces for info in reader.piece.sections)

    def max_parallelism(self, operator: str) -> int:
        """The number of key groups of an operator."""
        return self.manifest.max_parallelism.get(operator, 1)

    def explained(self, error: CorruptFileError) -> CheckpointError:
        """The exception for a missing or damaged file: the job may have continued and removed it."""
        last = self.directory.log.last_slot() or 0
        if last > self.manifest.slot and not self.directory.is_readable(self.manifest):
            return CheckpointError(
                f"epoch {self.manifest.epoch} of job {self.directory.job_id} was removed while it was being read: the "
                "job has continued; read the newest epoch, or a retained checkpoint"
            )
        return error

    def check_operator(self, operator: str) -> None:
        """Raise :class:`StateError` with similar names unless this operator has state."""
        names = {(info.operator, info.state) for reader in self._pieces for info in reader.piece.sections}
        if all(operator != uid for uid, _ in names) and operator not in self._described:
            raise self._unknown(operator, "", names)

    def _operator(self, uid: str, states: dict[str, list[IndexedSection]]) -> OperatorInfo:
        described = self._described.get(uid, {})
        keyed, dealt, timers = [], [], 0
        for state, sections in states.items():
            schema = sections[-1].schema
            if state in (EVENT_TIMERS, PROCESSING_TIMERS):
                timers += sum(section.rows for section in sections)
            elif "operator_state" not in schema:
                keyed.append(_state(state, schema.get("types", {}).get("kind", sections[-1].kind), sections))
            elif schema["operator_state"] != "layout":
                dealt.append(_state(plain_name(state), schema["operator_state"], sections))
        return OperatorInfo(
            uid,
            described.get("name", uid),
            described.get("kind", ""),
            bool(described.get("keyed", keyed)),
            self.manifest.parallelism.get(uid),
            self.max_parallelism(uid),
            tuple(keyed),
            timers,
            tuple(dealt),
        )

    def _unknown(self, operator: str, state: str, names: Iterable[tuple[str, str]]) -> StateError:
        epoch = f"epoch {self.manifest.epoch} of job {self.directory.job_id}"
        operators = {uid for uid, _ in names}
        if operator not in operators:
            by_name = {str(described.get("name")): uid for uid, described in self._described.items()}
            hint = _similar(operator, {**dict.fromkeys(operators, ""), **by_name})
            return StateError(f"{epoch} has no state of an operator with uid {operator!r}{hint}")
        hint = _similar(plain_name(state), dict.fromkeys((plain_name(s) for uid, s in names if uid == operator), ""))
        return StateError(f"{epoch} has no state {plain_name(state)!r} of the operator with uid {operator!r}{hint}")


def plain_name(state: str) -> str:
    """The name of operator state as in the program; other names are returned unchanged."""
    return state.removeprefix("__operator:").removeprefix("__broadcast:")


def _similar(name: str, known: dict[str, str]) -> str:
    """A hint with similar names; the values of ``known`` are the uids of names that are not uids themselves."""
    close = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
    found = [f"{match!r}" + (f" (uid {known[match]!r})" if known[match] else "") for match in close]
    if found:
        return f"; did you mean {' or '.join(found)}?"
    return f"; known are {', '.join(map(repr, sorted(known)))}" if known else ""


def _state(name: str, kind: str, sections: list[IndexedSection]) -> StateInfo:
    types = {column: type_text(t) for column, t in parse_type_snapshot(sections[-1].schema.get("types")).items()}
    size = sum(block.length for section in sections for block in section.blocks)
    return StateInfo(name, kind, types, sum(section.rows for section in sections), size)


def _index(reader: PieceReader) -> Iterator[IndexedSection]:
    """The valid sections of a piece."""
    counting = {(info.operator, info.state) for info in reader.piece.sections}
    for section in read_index(reader.for_groups({}), reader.piece.file or reader.named_by):
        if (section.operator, section.state) in counting:
            yield section


def _is(info: SectionInfo, operator: str, state: str) -> bool:
    return info.operator == operator and info.state == state


def _columns(reader: PieceReader, section: IndexedSection) -> Any:
    """The Arrow schema of a section, from the beginning of its first block."""
    source = as_reader(reader.for_groups({}))
    block = section.blocks[0]
    for size in (min(block.length, _SCHEMA_BYTES), block.length):
        try:
            with pa.ipc.open_stream(pa.py_buffer(source.read(block.offset, size))) as stream:
                return stream.schema
        except (pa.ArrowException, OSError) as error:
            if size == block.length:
                name = reader.piece.file or reader.named_by
                raise CorruptFileError(
                    f"{name}: the block at offset {block.offset} is not an Arrow stream: {error}"
                ) from error
    raise AssertionError("unreachable")
