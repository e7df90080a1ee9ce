"""The file format of manifests, and reading the pieces of state that manifests refer to.

A manifest is a :mod:`~tidemill.checkpoint.frame` with magic ``TMMANIF\\n`` and the lowest version that has its fields:
1, 2 with ``times``, 3 with ``history``. Its header is a JSON object with the fields of
:class:`~tidemill.checkpoint.model.Manifest` by name, ``rerun`` as ``run``. Fields that have their default value are
omitted:

- ``kind``, ``job_id``, ``lineage``: strings; ``slot``, ``epoch``, ``run``, ``clock``, ``next_timer``,
  ``operators_slot``: integers; ``finished``: a boolean; ``parallelism``, ``max_parallelism``: objects of integers;
  ``attempts``: object of lists of strings; ``watermarks``: object of lists of integers; ``checkpoints``: list of
  integers.
- ``pieces``: list of ``[subtask, chain, length, sha256, sections, file, attachment]``, where ``sections`` is a list of
  ``[operator, state, first group, last group, rows]`` and one of ``file`` (a relative name) and ``attachment`` (a
  number, from 0) is null.
- ``runs``: list of ``[through, slot, snapshot, bytes]``, where one of ``slot`` and ``snapshot`` is null.
- ``committables``: object from sink uid to a list of ``[subtask, [attachment, ...]]``.
- ``times`` (in version 2): object of lists, one entry per subtask: null, or a list of ``[partition, watermark, idle,
  inactive since, fields]``, where ``partition`` is a string or null, ``inactive since`` an integer or null and
  ``fields`` a base64 string or null.
- ``history`` (in version 3): object of strings.
- ``sources``, ``spark``, ``operators``, ``metrics``: values of any type as :func:`~tidemill.checkpoint.frame.to_json`
  writes them.

Any change to this list requires a new format version; a reader rejects unknown fields.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import Any, Final, TypeVar

from tidemill.checkpoint.frame import from_json, pack, to_json, unpack
from tidemill.checkpoint.model import Attempt, Epoch, Lineage, Manifest, Piece, RunRef, SectionInfo, Slot
from tidemill.checkpoint.names import check_name
from tidemill.checkpoint.storage.api import NotFoundError, Storage
from tidemill.errors import CheckpointError, CorruptFileError
from tidemill.state.keys.key_groups import KeyGroup

MAGIC: Final = b"TMMANIF\n"
VERSION: Final = 3

#: Fields whose name in files differs from their name in :class:`~tidemill.checkpoint.model.Manifest`.
_STORED_AS: Final = {"rerun": "run"}
_FIELDS: Final = frozenset(_STORED_AS.get(field.name, field.name) for field in fields(Manifest))
_PLAIN: Final = (
    "rerun",
    "clock",
    "finished",
    "next_timer",
    "operators_slot",
    "parallelism",
    "max_parallelism",
    "history",
)
_LISTS: Final = ("attempts", "watermarks", "times")
_VALUES: Final = ("sources", "operators", "metrics")
_T = TypeVar("_T")


def encode_manifest(manifest: Manifest) -> bytes:
    """The bytes of a manifest; equal manifests give equal bytes.

    Raises :class:`CheckpointError` for anything :func:`decode_manifest` could not read back, so nothing unreadable is
    stored.
    """
    attachments: list[bytes] = []
    try:
        header = _to_header(manifest, attachments)
        data = pack(MAGIC, _version(manifest), header, attachments)
        _from_header(header, attachments)
    except (CheckpointError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise CheckpointError(f"the manifest of epoch {manifest.epoch} cannot be stored: {error}") from error
    return data


def _version(manifest: Manifest) -> int:
    """The lowest version that has the fields of a manifest, so that older releases can read as much as possible."""
    if manifest.history:
        return 3
    return 2 if manifest.times else 1


def _to_header(manifest: Manifest, attachments: list[bytes]) -> dict[str, Any]:
    header: dict[str, Any] = {
        "kind": manifest.kind,
        "job_id": manifest.job_id,
        "lineage": manifest.lineage,
        "slot": manifest.slot,
        "epoch": manifest.epoch,
    }
    for name in _PLAIN:
        value = getattr(manifest, name)
        if value or (value is not None and name in ("next_timer", "operators_slot")):
            header[_STORED_AS.get(name, name)] = value
    for name in _LISTS:
        if value := getattr(manifest, name):
            header[name] = {key: list(items) for key, items in value.items()}
    for name in _VALUES:
        if value := getattr(manifest, name):
            header[name] = to_json(value, name)
    if manifest.spark is not None:
        header["spark"] = to_json(manifest.spark, "spark")
    if manifest.checkpoints:
        header["checkpoints"] = list(manifest.checkpoints)
    if manifest.pieces:
        header["pieces"] = pieces_to_json(manifest.pieces, attachments)
    if manifest.runs:
        header["runs"] = [[run.through, run.slot, run.snapshot, run.bytes] for run in manifest.runs]
    if manifest.committables:
        header["committables"] = {
            sink: [[subtask, _attach(data, attachments)] for subtask, data in by_subtask.items()]
            for sink, by_subtask in manifest.committables.items()
        }
    return header


def decode_manifest(data: bytes, name: str) -> Manifest:
    """The manifest stored as ``data`` under ``name``.

    Raises :class:`CorruptFileError` that names the file and, if known, the offset, if a single byte is wrong or
    missing, and :class:`~tidemill.errors.NewerFormatError` if the format version is newer than this code supports.
    """
    frame = unpack(data, MAGIC, VERSION, name)
    return decode_header(name, lambda: _from_header(frame.header, frame.attachments))


def decode_header(name: str, decode: Callable[[], _T]) -> _T:
    """The result of ``decode``; any error in the header's contents becomes a :class:`CorruptFileError`."""
    try:
        return decode()
    except (CheckpointError, ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError) as error:
        raise CorruptFileError(f"{name} is corrupt: its header does not match its format: {error!r}") from error


def _from_header(header: dict[str, Any], attachments: Sequence[bytes]) -> Manifest:
    if unknown := header.keys() - _FIELDS:
        raise ValueError(f"unknown fields {sorted(unknown)}")
    kind = header["kind"]
    if kind not in ("epoch", "takeover"):
        raise ValueError(f"unknown kind {kind!r}")
    spark = header.get("spark")
    return Manifest(
        kind=kind,
        job_id=_is(header["job_id"], str),
        lineage=Lineage(_is(header["lineage"], str)),
        slot=Slot(_count(header["slot"])),
        epoch=Epoch(_count(header["epoch"])),
        rerun=_count(header.get("run", 0)),
        clock=_is(header.get("clock", 0), int),
        finished=_is(header.get("finished", False), bool),
        parallelism={key: _count(value) for key, value in _items(header, "parallelism")},
        max_parallelism={key: _count(value) for key, value in _items(header, "max_parallelism")},
        attempts={
            key: tuple(Attempt(_is(value, str)) for value in _is(values, list))
            for key, values in _items(header, "attempts")
        },
        watermarks={
            key: tuple(_is(value, int) for value in _is(values, list)) for key, values in _items(header, "watermarks")
        },
        times={key: tuple(map(_time_state, _is(values, list))) for key, values in _items(header, "times")},
        next_timer=_optional(header.get("next_timer"), int),
        sources=_is(from_json(header.get("sources", {})), dict),
        spark=None if spark is None else _is(from_json(spark), dict),
        pieces=pieces_from_json(header.get("pieces", []), attachments),
        runs=tuple(_run(*entry) for entry in _is(header.get("runs", []), list)),
        committables={
            sink: {_count(subtask): tuple(attachments[_count(n)] for n in numbers) for subtask, numbers in entries}
            for sink, entries in _items(header, "committables")
        },
        operators=_is(from_json(header.get("operators", {})), dict),
        metrics=_is(from_json(header.get("metrics", {})), dict),
        operators_slot=_slot(header.get("operators_slot")),
        checkpoints=tuple(Slot(_count(slot)) for slot in _is(header.get("checkpoints", []), list)),
        history={key: _is(value, str) for key, value in _items(header, "history")},
    )


def _run(through: Any, slot: Any, snapshot: Any, size: Any) -> RunRef:
    if (slot is None) == (snapshot is None):
        raise ValueError("a run names either a slot or a snapshot")
    return RunRef(Epoch(_count(through)), _slot(slot), _optional(snapshot, str), _count(size))


def pieces_to_json(pieces: Sequence[Piece], attachments: list[bytes]) -> list[Any]:
    """Pieces in the form they have in a header; appends inline data to ``attachments``, after verifying it."""
    result: list[Any] = []
    for piece in pieces:
        number = None
        if (piece.data is None) == (piece.file is None):
            raise CheckpointError(f"a piece of {piece.chain}[{piece.subtask}] must have either data or a file")
        if piece.data is not None:
            _verify(piece.data, piece, f"inline state of {piece.chain}[{piece.subtask}]")
            number = _attach((piece.data,), attachments)[0]
        sections = [[s.operator, s.state, s.first_group, s.last_group, s.rows] for s in piece.sections]
        result.append([piece.subtask, piece.chain, piece.length, piece.sha256, sections, piece.file, number])
    return result


def pieces_from_json(entries: Any, attachments: Sequence[bytes]) -> tuple[Piece, ...]:
    """The inverse of :func:`pieces_to_json`. Raises ValueError, TypeError, IndexError or CheckpointError."""
    pieces = []
    for subtask, chain, length, sha256, sections, file, number in _is(entries, list):
        if (file is None) == (number is None):
            raise ValueError("a piece has either a file or an attachment")
        pieces.append(
            Piece(
                subtask=_count(subtask),
                chain=_is(chain, str),
                length=_count(length),
                sha256=_is(sha256, str),
                sections=tuple(
                    SectionInfo(_is(operator, str), _is(state, str), _group(first), _group(last), _count(rows))
                    for operator, state, first, last, rows in _is(sections, list)
                ),
                file=None if file is None else check_name(_is(file, str)),
                data=None if number is None else attachments[_count(number)],
            )
        )
    return tuple(pieces)


def read_piece(storage: Storage, piece: Piece, name_of_manifest: str) -> bytes:
    """The bytes of a piece, after checking length and SHA-256; ``name_of_manifest`` is the file that refers to it.

    Never reads more than the piece's length plus one byte. Raises :class:`CorruptFileError` if the file is missing or
    its content is wrong.
    """
    if piece.data is not None:
        _verify(piece.data, piece, f"the state of {piece.chain}[{piece.subtask}] in {name_of_manifest}")
        return piece.data
    if piece.file is None:
        raise CorruptFileError(f"{name_of_manifest} is corrupt: a piece has neither data nor a file")
    try:
        data = storage.read_range(piece.file, 0, piece.length + 1)
    except NotFoundError as error:
        raise CorruptFileError(f"{piece.file} is missing, but {name_of_manifest} refers to it: {error}") from error
    _verify(data, piece, f"{piece.file} (named by {name_of_manifest})")
    return data


def _verify(data: bytes, piece: Piece, what: str) -> None:
    if len(data) != piece.length:
        size = f"{len(data)} bytes" if len(data) < piece.length else "more bytes"
        offset = min(len(data), piece.length)
        raise CorruptFileError(f"{what} is corrupt at offset {offset}: it has {size}, not {piece.length} bytes")
    if hashlib.sha256(data).hexdigest() != piece.sha256:
        raise CorruptFileError(f"{what} is corrupt: its {piece.length} bytes do not match their SHA-256")


def _attach(data: Sequence[bytes], attachments: list[bytes]) -> list[int]:
    first = len(attachments)
    attachments.extend(data)
    return list(range(first, len(attachments)))


def _is(value: Any, kind: type[_T]) -> _T:
    if type(value) is not kind:
        raise TypeError(f"expected {kind.__name__}, found {type(value).__name__}")
    return value


def _optional(value: Any, kind: type[_T]) -> _T | None:
    return None if value is None else _is(value, kind)


def _count(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise ValueError(f"expected a number from 0, found {value!r:.50}")
    return value


def _group(value: Any) -> KeyGroup:
    """A bound of a range of key groups; -1 for an empty range."""
    return KeyGroup(_is(value, int))


def _time_state(value: Any) -> Any:
    if value is not None:
        for partition, watermark, idle, since, kept in _is(value, list):
            _optional(partition, str), _is(watermark, int), _is(idle, bool), _optional(since, int), _optional(kept, str)
    return value


def _slot(value: Any) -> Slot | None:
    return None if value is None else Slot(_count(value))


def _items(header: dict[str, Any], name: str) -> Sequence[tuple[str, Any]]:
    return [(_is(key, str), value) for key, value in _is(header.get(name, {}), dict).items()]
