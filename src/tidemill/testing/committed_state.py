"""The committed state of a job as plain Python values, read from its storage as in a restore."""

from __future__ import annotations

from typing import Any

from tidemill.checkpoint.log import ManifestLog
from tidemill.checkpoint.restore import committed_pieces, pieces_for
from tidemill.checkpoint.storage.storages import Storage
from tidemill.state.files.replacing import without_replaced
from tidemill.state.files.section_kinds import section_kind
from tidemill.state.files.sections import read_rows
from tidemill.state.files.state_file import Section, decode_sections
from tidemill.state.files.ttl_declared import stored_ttl
from tidemill.state.files.ttl_rows import fit_times
from tidemill.state.keyed.backend import EVENT_TIMERS, PROCESSING_TIMERS
from tidemill.state.keyed.kinds import tables_of
from tidemill.state.keys.key_groups import FIRST_GROUP, LAST_GROUP
from tidemill.state.operator.operator_state import BROADCAST, SPLIT, stored_name


class CommittedState:
    """The state of all operators in one manifest."""

    def __init__(self, storage: Storage, manifests: ManifestLog) -> None:
        self._tables: dict[tuple[str, str], Any] = {}
        head = manifests.head
        runs = committed_pieces(storage, manifests, head)
        operators = {section.operator for _, pieces in runs for piece in pieces for section in piece.sections}
        found: dict[tuple[str, str], list[Section]] = {}
        for piece, reader in pieces_for(storage, runs, operators, FIRST_GROUP, LAST_GROUP):
            counting = {section.operator for section in piece.sections}
            for section in decode_sections(reader.read(), piece.file or reader.named_by, counting):
                found.setdefault((section.operator, section.state), []).append(section)
        for name, sections in found.items():
            table = self._tables[name] = tables_of(sections[-1].kind).memory()
            types = sections[-1].schema.get("types")
            for section in without_replaced(sections):
                rows, ttl = read_rows(section, as_types=types), stored_ttl(section.schema)
                in_lists = section_kind(section.kind).in_lists
                rows.values = fit_times(rows.values, rows.ops, ttl, None, in_lists=in_lists)
                table.load(rows)

    def of(self, operator: str, state: str, namespace: Any = None) -> dict[Any, Any]:
        """Return state by key: a list for list state, a dict for map state, the accumulator for aggregating state."""
        table = self._tables.get((operator, state))
        return {} if table is None else dict(table.layer(namespace).base)

    def operator_state(self, operator: str, state: str) -> dict[int, Any]:
        """Return operator state by subtask index: lists, or dicts for broadcast state."""
        lists, maps = self.of(operator, stored_name(SPLIT, state)), self.of(operator, stored_name(BROADCAST, state))
        return lists or maps

    def names(self, operator: str) -> list[str]:
        """Return the names of an operator's states that contain, or have contained, something."""
        timers = (EVENT_TIMERS, PROCESSING_TIMERS)
        return sorted(state for owner, state in self._tables if owner == operator and state not in timers)

    def timers(self, operator: str, *, event_time: bool) -> list[tuple[int, Any]]:
        """Return pending timers as (time, key), in the order in which they will fire."""
        queue = self._tables.get((operator, EVENT_TIMERS if event_time else PROCESSING_TIMERS))
        return [] if queue is None else [(time, key) for time, key, _ in queue.pending()]
