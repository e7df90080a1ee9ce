"""The sources of a job that Spark would read, read by the local engine instead.

Bounded sources are stored first, as on Spark, and then read from the same positions. Watched files and Kafka topics are
read in each epoch; their positions have the same form as on Spark too, so that savepoints move between the engines.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import partial
from typing import Any

from tidemill.checkpoint.model import Manifest
from tidemill.checkpoint.storage.storages import Storage
from tidemill.common.configuration import Configuration
from tidemill.connectors.kafka.library_broker import LibraryBroker
from tidemill.connectors.kafka.source import KafkaSource
from tidemill.connectors.sources import FormatSource, Source, SparkSource
from tidemill.errors import GraphError
from tidemill.graph.plan import JobPlan
from tidemill.local.files.opening import SourceFiles
from tidemill.local.files.reader import LocalFileReader
from tidemill.local.files.stored_files import checked_format, store_files
from tidemill.local.frames import frame_of
from tidemill.local.kafka.stored_topics import store_topics
from tidemill.local.kafka.streams import KafkaStreams
from tidemill.runtime.driver.assembly import JobAssembly
from tidemill.runtime.driver.coordinator import Coordinator
from tidemill.runtime.driver.engine import EpochInput
from tidemill.runtime.driver.launch import Launch
from tidemill.runtime.operators.source import has_event_time
from tidemill.runtime.stored_input.parquet_source import materialise, reading_stored
from tidemill.runtime.watched.watch_options import WatchOptions
from tidemill.runtime.watched.watched_files import LoggedFiles, WatchedFiles, WatchingInput
from tidemill.runtime.watched.watched_source import WatchedSource

__all__ = ["LocalExecution", "LocalSources"]


class LocalSources:
    """The sources of one job, by chain, that workers do not read themselves."""

    def __init__(self, launch: Launch) -> None:
        """Raises :class:`GraphError` or :class:`~tidemill.errors.ConfigurationError` for what only Spark can read."""
        self._configuration: Configuration = launch.configuration
        self.stored: dict[int, SparkSource] = {}
        self.watched: dict[int, FormatSource] = {}
        self.topics: dict[int, KafkaSource] = {}
        for chain, source in launch.sources().items():
            if isinstance(source, SparkSource):
                self._add(launch.plan, chain, source)
        #: The number of files skipped because they no longer existed, by uid, across all executions.
        self.skipped: Counter[str] = Counter()

    def _add(self, plan: JobPlan, chain: int, source: SparkSource) -> None:
        if isinstance(source, KafkaSource):
            with LibraryBroker(source) as broker:
                broker.partitions()  # raises if no broker responds, or a topic does not exist
            if source.ends:
                self.stored[chain] = source
            else:
                self.topics[chain] = source
        elif isinstance(source, FormatSource):
            checked_format(self._configuration, source)
            if source.bounded:
                self.stored[chain] = source
            else:
                self.watched[chain] = source
        else:
            raise GraphError(
                f"source {plan.chains[chain].head.name!r} is a Spark DataFrame, which execution.target: local cannot "
                "read: set execution.target: spark, or read its files or topic with a FileSource or KafkaSource"
            )

    def store(self, launch: Launch, storage: Storage, parallelism: int) -> Launch:
        """Store the rows of bounded sources, unless that has been done; return a launch that reads them."""

        def folder(source: SparkSource, uid: str) -> str:
            return materialise(partial(self._write, source, uid, storage), storage, uid)

        return reading_stored(launch, self.stored, folder, storage, parallelism)

    def _write(self, source: Source, uid: str, storage: Storage, folder: str) -> None:
        if isinstance(source, KafkaSource):
            store_topics(source, storage, folder)
        elif isinstance(source, FormatSource):
            store_files(self._configuration, uid, source, storage, folder)

    def watched_sources(self, launch: Launch) -> dict[int, WatchedSource]:
        """Return the watched files of one execution."""
        found = {}
        for chain, source in self.watched.items():
            options, operator = WatchOptions(source), launch.plan.chains[chain].head
            files = SourceFiles(self._configuration, options.path, options.accepts, recursive=options.recursive)
            reader = LocalFileReader(
                operator.uid,
                source,
                files,
                checked_format(self._configuration, source),
                None if options.recursive else options.root_depth,
                has_event_time(launch.plan.chains[chain], launch.operators),
            )
            found[chain] = options.watched(
                self._configuration, operator, files.listing, reader, local=files.is_local, keeps_order=True
            )
        return found


class LocalExecution:
    """The sources of one execution of a job."""

    def __init__(self, sources: LocalSources, launch: Launch, job: JobAssembly) -> None:
        watched = sources.watched_sources(launch)
        self._watched = WatchedFiles(launch, watched, job.metrics, sources.skipped, frame_of)
        self._streams = KafkaStreams(launch, sources.topics)
        self.schemas: Mapping[int, bytes] = {**self._watched.schemas(), **self._streams.schemas()}

    def open_input(self, coordinator: Coordinator, *arguments: Any, **options: Any) -> WatchingInput:
        """Open the input of an execution; the other arguments are those of ``SplitInput``."""
        try:
            self._watched.open(coordinator, _none_logged, alone=not self._streams)
            self._streams.open(coordinator, self._watched.uids)
            return _LocalInput(self._streams, self._watched, *arguments, **options)
        except BaseException:
            self._streams.close()
            self._watched.close()
            raise


class _LocalInput(WatchingInput):
    """The input of a job: sources in plain Python, watched files, and topics."""

    def __init__(self, streams: KafkaStreams, watched: WatchedFiles, *arguments: Any, **options: Any) -> None:
        self._streams = streams
        super().__init__(watched, *arguments, **options)

    @property
    def finished(self) -> bool:
        return not self._streams and super().finished

    def available(self) -> bool:
        return self._streams.available() or super().available()

    def next_input(self) -> EpochInput:
        return self._streams.add_to(super().next_input(), self._limit)

    def end_of_input(self) -> EpochInput:
        return self._streams.add_nothing_to(super().end_of_input())

    def committed(self) -> None:
        super().committed()
        self._streams.committed()

    def close(self) -> None:
        self._streams.close()
        super().close()


def _none_logged(head: Manifest, lineage: str, uids: set[str]) -> Mapping[str, LoggedFiles]:
    """Refuse positions in a log of Spark's own file source, which older versions of Tidemill used."""
    stored = {} if head.spark is None else head.spark.get("sources") or {}
    old = sorted((uids - head.sources.keys()) & stored.keys())
    if old:
        raise GraphError(
            f"the position of the source with uid {old[0]!r} is in a log of Spark's: run the job on Spark once, and "
            "take a savepoint there"
        )
    return {}
