"""Flink's options that Tidemill accepts but ignores, so that existing programs and configuration files load."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from tidemill.config.option import ConfigOption, KeyFamily, option
from tidemill.config.values import (
    Bool,
    DurationValue,
    Float,
    Int,
    ListValue,
    MapValue,
    MemorySizeValue,
    Text,
    ValueType,
)

_S = timedelta(seconds=1)
_MB = 1 << 20

_TYPES: dict[type, ValueType[Any]] = {
    bool: Bool(),
    int: Int(),
    float: Float(),
    str: Text(),
    timedelta: DurationValue(),
    list: ListValue(),
    dict: MapValue(),
}


def _accept(key: str, default: Any, *deprecated: str) -> ConfigOption[Any]:
    return option(key, _TYPES[type(default)], default, deprecated=deprecated, accepted_only=True)


def _size(key: str, default: int) -> ConfigOption[Any]:
    return option(key, MemorySizeValue(), default, accepted_only=True)


def _unset(key: str, *deprecated: str) -> ConfigOption[Any]:
    return option(key, Text(), None, deprecated=deprecated, accepted_only=True)


ACCEPTED: tuple[ConfigOption[Any], ...] = (
    # The program
    option("pipeline.jars", ListValue(), None, accepted_only=True),
    option("pipeline.classpaths", ListValue(), None, accepted_only=True),
    _unset("pipeline.cached-files"),
    _unset("pipeline.serialization-config"),
    _accept("pipeline.auto-type-registration", True),
    _accept("pipeline.closure-cleaner-level", "RECURSIVE"),
    _accept("pipeline.force-avro", False),
    _accept("pipeline.force-kryo", False),
    _accept("pipeline.jobvertex-parallelism-overrides", {}),
    _accept("pipeline.operator-chaining.chain-operators-with-different-max-parallelism", True),
    _accept("pipeline.vertex-description-mode", "TREE"),
    _accept("pipeline.vertex-name-include-index-prefix", False),
    _accept("pipeline.watermark-alignment.allow-unaligned-source-splits", False),
    # Execution
    _accept("execution.attached", False),
    _accept("execution.shutdown-on-attached-exit", False),
    _accept("execution.batch-shuffle-mode", "ALL_EXCHANGES_BLOCKING"),
    _accept("execution.buffer-timeout.enabled", True),
    _accept("execution.buffer-timeout.interval", _S / 10, "execution.buffer-timeout"),
    _accept("execution.sorted-inputs.enabled", True),
    _accept("execution.batch-state-backend.enabled", True),
    # Checkpoints and state
    _accept("execution.checkpointing.aligned-checkpoint-timeout", 0 * _S, "execution.checkpointing.alignment-timeout"),
    _accept("execution.checkpointing.unaligned.forced", False),
    _accept("execution.checkpointing.checkpoints-after-tasks-finish", True),
    option("execution.checkpointing.interval-during-backlog", DurationValue(), None, accepted_only=True),
    _accept("execution.checkpointing.create-subdir", True, "state.checkpoints.create-subdir"),
    _size("execution.checkpointing.data-inline-threshold", 20 * 1024),
    _accept("execution.checkpointing.file-merging.enabled", False),
    _accept("execution.checkpointing.local-backup.enabled", False, "state.backend.local-recovery"),
    _accept("state.changelog.enabled", False, "state.backend.changelog.enabled"),
    _accept("state.latency-track.keyed-state-enabled", False, "state.backend.latency-track.keyed-state-enabled"),
    # RocksDB
    option("state.backend.rocksdb.memory.fixed-per-tm", MemorySizeValue(), None, accepted_only=True),
    _accept("state.backend.rocksdb.memory.high-prio-pool-ratio", 0.1),
    _accept("state.backend.rocksdb.checkpoint.transfer.thread.num", 4),
    _unset("state.backend.rocksdb.log.dir"),
    _accept("state.backend.rocksdb.log.level", "INFO_LEVEL"),
    _size("state.backend.rocksdb.log.max-file-size", 25 * _MB),
    _accept("state.backend.rocksdb.log.file-num", 4),
    # Python
    _accept("python.fn-execution.bundle.size", 1000),
    _accept("python.fn-execution.bundle.time", 1000),
    _accept("python.fn-execution.arrow.batch.size", 1000),
    _accept("python.fn-execution.memory.managed", True),
    _accept("python.metric.enabled", True),
    _accept("python.profile.enabled", False),
    _accept("python.systemenv.enabled", True),
    _accept("python.operator-chaining.enabled", True),
    _unset("python.pythonpath"),
    _accept("python.client.executable", "python"),
    _accept("python.state.cache-size", 1000),
    _accept("python.map-state.read-cache-size", 1000),
    _accept("python.map-state.write-cache-size", 1000),
    _accept("python.map-state.iterate-response-batch-size", 1000),
    _accept("python.execution-mode", "process"),
    _accept("python.logging.default.level", "INFO"),
    # Metrics and REST
    _accept("metrics.latency.granularity", "operator"),
    _accept("metrics.latency.history-size", 128),
    _accept("metrics.system-resource", False),
    _accept("metrics.system-resource-probing-interval", 5 * _S),
    _accept("queryable-state.proxy.network-threads", 0),
    _accept("queryable-state.proxy.query-threads", 0),
    _accept("queryable-state.server.network-threads", 0),
    _accept("queryable-state.client.network-threads", 0),
    _accept("rest.url-prefix", "/"),
    _accept("rest.path", ""),
    _accept("rest.await-leader-timeout", 30 * _S),
    _accept("rest.retry.max-attempts", 20),
    _accept("rest.retry.delay", 3 * _S),
    _accept("rest.idleness-timeout", 300 * _S),
    _accept("rest.server.max-content-length", 100 * _MB),
    _accept("rest.client.max-content-length", 100 * _MB),
    _accept("rest.server.numThreads", 4),
    _accept("rest.flamegraph.enabled", False),
    _accept("rest.profiling.enabled", False),
    _accept("rest.async.store-duration", 300 * _S),
)

FAMILIES: tuple[KeyFamily, ...] = (
    KeyFamily("user.", "User-defined keys."),
    KeyFamily("pipeline.global-job-parameters.", "One global job parameter each."),
    KeyFamily("spark.", "Passed to Spark unchanged."),
    KeyFamily("s3.", "Object storage."),
    KeyFamily("fs.", "File systems."),
    KeyFamily("metrics.reporter.", "One metric reporter, by name."),
    KeyFamily("metrics.scope.", "Formats of metric scopes; no effect."),
    KeyFamily("python.internal.", "Internal to PyFlink; no effect."),
    KeyFamily("jobmanager.", "Flink's cluster; no effect."),
    KeyFamily("taskmanager.", "Flink's cluster; no effect."),
    KeyFamily("resourcemanager.", "Flink's cluster; no effect."),
    KeyFamily("slotmanager.", "Flink's cluster; no effect."),
    KeyFamily("cluster.", "Flink's cluster; no effect."),
    KeyFamily("heartbeat.", "Flink's cluster; no effect."),
    KeyFamily("high-availability.", "Flink's cluster; no effect."),
    KeyFamily("zookeeper.", "Flink's cluster; no effect."),
    KeyFamily("recovery.", "Flink's cluster, before 1.12; no effect."),
    KeyFamily("kubernetes.", "Flink's cluster; no effect."),
    KeyFamily("yarn.", "Flink's cluster; no effect."),
    KeyFamily("mesos.", "Flink's cluster, before 1.14; no effect."),
    KeyFamily("containerized.", "Flink's cluster; no effect."),
    KeyFamily("env.", "Flink's cluster; no effect."),
    KeyFamily("security.", "Flink's cluster; no effect."),
    KeyFamily("blob.", "Flink's cluster; no effect."),
    KeyFamily("historyserver.", "Flink's cluster; no effect."),
    KeyFamily("jobstore.", "Flink's cluster; no effect."),
    KeyFamily("external-resource.", "Flink's cluster; no effect."),
    KeyFamily("akka.", "Flink's RPC; no effect."),
    KeyFamily("pekko.", "Flink's RPC; no effect."),
    KeyFamily("dstl.", "Flink's changelog of state; no effect."),
    KeyFamily("state.changelog.", "Flink's changelog of state; no effect."),
    KeyFamily("state.backend.changelog.", "Flink's changelog of state; no effect."),
    KeyFamily("state.backend.forst.", "Flink's ForSt backend; no effect."),
    KeyFamily("state.backend.rocksdb.metrics.", "RocksDB's native metrics; no effect."),
    KeyFamily("execution.async-state.", "Flink's asynchronous state; no effect."),
    KeyFamily("table.", "Table API; no effect."),
    KeyFamily("sql-client.", "Table API; no effect."),
    KeyFamily("sql-gateway.", "Table API; no effect."),
    KeyFamily("classloader.", "Java; no effect."),
    KeyFamily("plugin.", "Java; no effect."),
    KeyFamily("events.", "Flink's event reporters; no effect."),
    KeyFamily("traces.", "Flink's trace reporters; no effect."),
    KeyFamily("$internal.", "Internal to Flink; no effect."),
)
