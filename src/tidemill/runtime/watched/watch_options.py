"""The options of a source that watches files, which are those of Spark's file source."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from tidemill.common.configuration import Configuration
from tidemill.config import FileOptions
from tidemill.config.values import MemorySizeValue
from tidemill.connectors.file_system.listing import FileListing, glob_pattern, local_root
from tidemill.connectors.sources import FormatSource
from tidemill.graph.plan import OperatorPlan
from tidemill.runtime.driver.file_enumerator import FileBounds
from tidemill.runtime.watched.processed_files import ProcessedFiles
from tidemill.runtime.watched.watched_source import FileReader, WatchedSource, WatchSettings

__all__ = ["WatchOptions"]

#: The options, in lower case, that define how files are found and not how they are read.
_OF_LISTING: Final = frozenset(
    {
        "maxfilespertrigger",
        "maxbytespertrigger",
        "latestfirst",
        "filenameonly",
        "maxfileage",
        "cleansource",
        "sourcearchivedir",
        "maxcachedfiles",
        "discardcachedinputratio",
        "pathglobfilter",
        "recursivefilelookup",
        "basepath",
    }
)


@dataclass(frozen=True)
class WatchOptions:
    """The options of one source; those that define how files are found have their names in lower case."""

    source: FormatSource
    #: One of the paths of the source; by default its first.
    of_path: str | None = None

    @property
    def _by_name(self) -> dict[str, str]:
        return {name.lower(): value for name, value in self.source.options.items()}

    @property
    def path(self) -> str:
        """The path that is read."""
        return self.of_path or self.source.path or ""

    @property
    def recursive(self) -> bool:
        """Whether all files below the path are read."""
        return _is_true(self._by_name, "recursivefilelookup")

    @property
    def accepts(self) -> Callable[[str], bool]:
        """The filter for file names."""
        if "pathglobfilter" not in self._by_name:
            return lambda name: True
        pattern = glob_pattern(self._by_name["pathglobfilter"])
        return lambda name: pattern.fullmatch(name) is not None

    @property
    def root(self) -> str:
        """The path without a slash at its end, absolute if it is local."""
        return local_root(self.path) or self.path.rstrip("/")

    @property
    def root_depth(self) -> int:
        """The number of leading path parts that cannot name columns."""
        base = self._by_name.get("basepath")
        return len((self.root if base is None else local_root(base) or base.rstrip("/")).split("/"))

    @property
    def of_format(self) -> dict[str, str]:
        """The options of the format."""
        return {name: value for name, value in self.source.options.items() if name.lower() not in _OF_LISTING}

    def watched(
        self,
        configuration: Configuration,
        operator: OperatorPlan,
        listing: FileListing,
        reader: FileReader,
        *,
        local: bool,
        keeps_order: bool,
    ) -> WatchedSource:
        """Return the source of an operator. With ``local``, its files are in the file system of this machine."""
        options = self._by_name
        return WatchedSource(
            operator.uid,
            operator.name,
            listing,
            reader,
            bounds=FileBounds(_number(options, "maxfilespertrigger"), _size(options, "maxbytespertrigger")),
            settings=WatchSettings(
                missing=configuration.get(FileOptions.MISSING),
                interval=self.source.discovery_interval,
                latest_first=_is_true(options, "latestfirst"),
                by_name=_is_true(options, "filenameonly"),
            ),
            processed=ProcessedFiles.of(options, self.root, local=local),
            keeps_order=keeps_order,
        )


def _is_true(options: Mapping[str, str], name: str) -> bool:
    return str(options.get(name, "false")).lower() == "true"


def _number(options: Mapping[str, str], name: str) -> int | None:
    return None if name not in options else max(1, int(options[name]))


def _size(options: Mapping[str, str], name: str) -> int | None:
    """Parse a number of bytes, with or without a unit."""
    return None if name not in options else MemorySizeValue().parse(options[name])
