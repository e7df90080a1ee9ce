"""The location of the rows of a queryable state: pieces, their sections, and the blocks with rows of a key group."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from tidemill.checkpoint.restore import PieceReader
from tidemill.ops.queryable.answer import PartSchema
from tidemill.ops.queryable.blocks import BlockCache, BlockId, IndexedBlock
from tidemill.state.files.replacing import replaced_groups
from tidemill.state.files.state_file import read_block, read_index
from tidemill.state.files.state_file_index import Block, IndexedSection, as_reader
from tidemill.state.keys.key_groups import KeyGroup

__all__ = ["BlocksAtHand", "PieceIndexes", "PlacedBlock", "PlacedSection", "SectionGroups"]


class SectionGroups:
    """The blocks of a section that contain rows of a key group, determined once for all epochs that use the section."""

    def __init__(self, section: IndexedSection) -> None:
        # configuration
        self.section = section
        self.replaced = tuple(replaced_groups(section.schema))
        # transient
        self._known: dict[KeyGroup, tuple[tuple[int, ...], bool]] = {}

    def of(self, group: KeyGroup) -> tuple[tuple[int, ...], bool]:
        """Return the numbers of the blocks, newest first, and whether the section replaces older rows of the group."""
        found = self._known.get(group)
        if found is None:
            replaces = any(first <= group <= last for first, last in self.replaced)
            found = self._known[group] = (self._blocks_of(group), replaces)
        return found

    def _blocks_of(self, group: KeyGroup) -> tuple[int, ...]:
        first, last = self.section.rows_of(group, group)
        if first >= last:
            return ()
        found, start = [], 0
        for number, block in enumerate(self.section.blocks):
            if start < last and start + block.rows > first:
                found.append(number)
            start += block.rows
        return tuple(reversed(found))


class PieceIndexes:
    """The indexes of the pieces of a manifest. Those of the previous manifest are reused."""

    def __init__(self) -> None:
        self._known: dict[str, list[SectionGroups]] = {}
        self._used: dict[str, list[SectionGroups]] = {}

    def sections(self, reader: PieceReader) -> list[SectionGroups]:
        """Return the sections of a piece that are in use."""
        sha256 = reader.piece.sha256
        found = self._known.get(sha256)
        if found is None:
            found = list(map(SectionGroups, read_index(reader.for_groups({}), reader.piece.file or reader.named_by)))
        self._used[sha256] = found
        counting = {(info.operator, info.state) for info in reader.piece.sections}
        return [one for one in found if (one.section.operator, one.section.state) in counting]

    def forget_others(self) -> None:
        """Forget the pieces that were not used since the last call."""
        self._known, self._used = self._used, {}


@dataclass(frozen=True, eq=False)
class PlacedBlock:
    """A block of a section, and the piece that contains it."""

    reader: PieceReader
    section: IndexedSection
    block: Block

    @cached_property
    def id(self) -> BlockId:
        """The unique id of the block, across all epochs."""
        return BlockId(self.reader.piece.sha256, self.block.offset)

    def read(self) -> IndexedBlock:
        """Read the block from storage."""
        name = self.reader.piece.file or self.reader.named_by
        table = read_block(as_reader(self.reader.for_groups({})), name, self.block)
        return IndexedBlock(table, PartSchema.of(self.section, table.schema))


class PlacedSection:
    """A section of a queryable state in one epoch, with its blocks."""

    def __init__(self, reader: PieceReader, groups: SectionGroups) -> None:
        self.section = groups.section
        self.groups = groups
        self.blocks = [PlacedBlock(reader, self.section, block) for block in self.section.blocks]


class BlocksAtHand:
    """The blocks that one request uses. Each is looked up in the cache once, and read if ``load`` is set."""

    def __init__(self, cache: BlockCache, *, load: bool) -> None:
        # configuration
        self._cache = cache
        self._load = load
        # transient
        self._known: dict[PlacedBlock, IndexedBlock] = {}

    def get(self, block: PlacedBlock) -> IndexedBlock:
        """Return a block. Raises :class:`~tidemill.ops.queryable.blocks.NotInMemoryError` if it must not be read."""
        found = self._known.get(block)
        if found is None:
            found = self._known[block] = self._cache.get(block.id, block.read if self._load else None)
        return found
