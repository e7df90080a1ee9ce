"""Calls that need no job: what they return, and the errors that programs match on."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import partial
from typing import Any

from tests.semantics.differential.program import Call, shown
from tidemill.common import Configuration, Duration, Instant, Row, RowKind, Time, Types
from tidemill.datastream import (
    EmbeddedRocksDBStateBackend,
    FileSystemCheckpointStorage,
    JobManagerCheckpointStorage,
    OutputTag,
    StreamExecutionEnvironment,
)
from tidemill.datastream.state import MapStateDescriptor, ValueStateDescriptor
from tidemill.datastream.window import (
    CountTrigger,
    EventTimeSessionWindows,
    SlidingEventTimeWindows,
    TimeWindow,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)

MS = Time.milliseconds
#: Called with arguments of the wrong type.
TAG: Any = OutputTag
DESCRIPTOR: Any = ValueStateDescriptor


def renamed(row: Row) -> str:
    row.set_field_names(["a"])
    return shown(row)


def conf(*sets: Any) -> Any:
    made = Configuration()
    for one in sets:
        one(made)
    return made


def stream() -> Any:
    env = StreamExecutionEnvironment.get_execution_environment()
    return env.from_collection([("a", 1)], Types.TUPLE([Types.STRING(), Types.INT()]))


CALLS: dict[str, Callable[[], Any]] = {
    # configuration
    "conf-get-absent": lambda: conf().get_string("k", "d"),
    "conf-string": lambda: conf(lambda c: c.set_string("k", "v")).get_string("k", "d"),
    "conf-integer-as-string": lambda: conf(lambda c: c.set_integer("k", 5)).get_string("k", "d"),
    "conf-float-as-string": lambda: conf(lambda c: c.set_float("k", 0.5)).get_string("k", "d"),
    "conf-large-float-as-string": lambda: conf(lambda c: c.set_float("k", 1e10)).get_string("k", "d"),
    "conf-boolean-as-string": lambda: conf(lambda c: c.set_boolean("k", True)).get_string("k", "d"),
    "conf-string-as-integer": lambda: conf(lambda c: c.set_string("k", "5")).get_integer("k", 0),
    "conf-string-as-float": lambda: conf(lambda c: c.set_string("k", "5")).get_float("k", 0),
    "conf-string-as-boolean": lambda: conf(lambda c: c.set_string("k", "TRUE")).get_boolean("k", False),
    "conf-integer-as-float": lambda: conf(lambda c: c.set_integer("k", 5)).get_float("k", 0),
    "conf-float-as-integer": lambda: conf(lambda c: c.set_float("k", 5.7)).get_integer("k", 0),
    "conf-float-as-integer-whole": lambda: conf(lambda c: c.set_float("k", 5.0)).get_integer("k", 0),
    "conf-integer-as-boolean": lambda: conf(lambda c: c.set_integer("k", 1)).get_boolean("k", False),
    "conf-text-as-integer": lambda: conf(lambda c: c.set_string("k", "x")).get_integer("k", 0),
    "conf-text-as-float": lambda: conf(lambda c: c.set_string("k", "x")).get_float("k", 0),
    "conf-text-as-boolean": lambda: conf(lambda c: c.set_string("k", "yes")).get_boolean("k", False),
    "conf-bytes": lambda: conf(lambda c: c.set_bytearray("k", bytearray(b"ab"))).get_bytearray("k", bytearray()),
    "conf-bytes-absent": lambda: conf().get_bytearray("k", bytearray(b"d")),
    "conf-large-integer": lambda: conf(lambda c: c.set_integer("k", 2**40)).get_integer("k", 0),
    "conf-to-dict": lambda: dict(
        sorted(conf(lambda c: c.set_string("k", "v"), lambda c: c.set_integer("n", 1)).to_dict().items())
    ),
    "conf-to-dict-list": lambda: conf(lambda c: c.set_string("k", "a;b")).to_dict(),
    "conf-to-dict-odd": lambda: conf(lambda c: c.set_string("k", "a: b #c")).to_dict(),
    "conf-to-dict-empty": lambda: conf(lambda c: c.set_string("k", "")).to_dict(),
    "conf-key-set": lambda: sorted(conf(lambda c: c.set_string("k", "v")).key_set()),
    "conf-contains": lambda: (conf(lambda c: c.set_string("k", "v")).contains_key("k"), conf().contains_key("k")),
    "conf-remove": lambda: (conf(lambda c: c.set_string("k", "v")).remove_config("k"), conf().remove_config("k")),
    "conf-add-all": lambda: conf(
        lambda c: c.set_string("k", "v"), lambda c: c.add_all(conf(lambda d: d.set_string("k", "w")))
    ).to_dict(),
    "conf-add-all-prefix": lambda: conf(lambda c: c.add_all(conf(lambda d: d.set_string("k", "w")), "p.")).to_dict(),
    "conf-copy": lambda: Configuration(conf(lambda c: c.set_string("k", "v"))).to_dict(),
    "conf-deepcopy": lambda: copy.deepcopy(conf(lambda c: c.set_string("k", "v"))).to_dict(),
    "conf-deepcopy-is-apart": lambda: (lambda c: (copy.deepcopy(c).set_string("k", "w"), c.to_dict())[1])(
        conf(lambda c: c.set_string("k", "v"))
    ),
    "conf-equal": lambda: conf(lambda c: c.set_string("k", "v")) == conf(lambda c: c.set_string("k", "v")),
    "conf-equal-other-type": lambda: conf(lambda c: c.set_string("k", "1")) == conf(lambda c: c.set_integer("k", 1)),
    "conf-not-equal": lambda: conf() == {},
    "conf-list-empty": lambda: Configuration.parse_list_value(""),
    "conf-list-semicolons": lambda: Configuration.parse_list_value("a;b"),
    "conf-list-brackets": lambda: Configuration.parse_list_value("[a, b]"),
    "conf-list-numbers": lambda: Configuration.parse_list_value("[1, true]"),
    "conf-list-one": lambda: Configuration.parse_list_value("a"),
    "conf-list-spaces": lambda: Configuration.parse_list_value(" a ; b "),
    "conf-list-quotes": lambda: Configuration.parse_list_value("['a;b', \"c\"]"),
    "conf-list-lines": lambda: Configuration.parse_list_value("- a\n- b"),
    # rows
    "row-index": lambda: Row(1, 2)[1],
    "row-slice": lambda: Row(1, 2, 3)[1:],
    "row-name-of-unnamed": lambda: Row(1, 2)["a"],
    "row-name-absent": lambda: Row(a=1)["b"],
    "row-attribute-absent": lambda: Row(a=1).b,
    "row-too-far": lambda: Row(1)[3],
    "row-mixed": lambda: Row(1, a=2),
    "row-as-dict": lambda: Row(a=1, b=2).as_dict(),
    "row-as-dict-unnamed": lambda: Row(1).as_dict(),
    "row-as-dict-nested": lambda: Row(a=Row(b=1)).as_dict(True),
    "row-equal-unnamed": lambda: Row(1, 2) == Row(1, 2),
    "row-equal-named-unnamed": lambda: Row(a=1) == Row(1),
    "row-equal-order": lambda: Row(a=1, b=2) == Row(b=2, a=1),
    "row-equal-kind": lambda: Row.of_kind(RowKind.DELETE, 1) == Row(1),
    "row-equal-tuple": lambda: Row(1, 2) == (1, 2),
    "row-text": lambda: str(Row(1, "a")),
    "row-text-named": lambda: str(Row(a=1, b="a")),
    "row-text-kind": lambda: str(Row.of_kind(RowKind.DELETE, 1)),
    "row-repr": lambda: repr(Row(1, "a")),
    "row-template": lambda: Row("a", "b")(1, 2),
    "row-template-too-many": lambda: Row("a")(1, 2),
    "row-names": lambda: list(Row(a=1).get_fields_by_names(["a"])),
    "row-iterate": lambda: list(Row(1, 2)),
    "row-len": lambda: len(Row(1, 2)),
    "row-in": lambda: (1 in Row(1), "a" in Row(a=1), 1 in Row(a=1)),
    "row-hash": lambda: hash(Row(1, 2)) == hash(Row(1, 2)),
    "row-set-names": lambda: renamed(Row(1)),
    "row-kind-text": lambda: [str(kind) for kind in RowKind],
    # types
    "type-text-string": lambda: str(Types.STRING()),
    "type-text-tuple": lambda: str(Types.TUPLE([Types.INT(), Types.STRING()])),
    "type-text-row": lambda: str(Types.ROW([Types.INT(), Types.STRING()])),
    "type-text-row-named": lambda: str(Types.ROW_NAMED(["a", "b"], [Types.INT(), Types.STRING()])),
    "type-text-list": lambda: str(Types.LIST(Types.INT())),
    "type-text-map": lambda: str(Types.MAP(Types.INT(), Types.LIST(Types.STRING()))),
    "type-text-array": lambda: str(Types.PRIMITIVE_ARRAY(Types.INT())),
    "type-text-basic-array": lambda: str(Types.BASIC_ARRAY(Types.STRING())),
    "type-text-object-array": lambda: str(Types.OBJECT_ARRAY(Types.STRING())),
    "type-text-pickled": lambda: str(Types.PICKLED_BYTE_ARRAY()),
    "type-text-date": lambda: [str(t) for t in (Types.SQL_DATE(), Types.SQL_TIME(), Types.SQL_TIMESTAMP())],
    "type-text-numbers": lambda: [
        str(t) for t in (Types.BYTE(), Types.SHORT(), Types.LONG(), Types.FLOAT(), Types.BIG_INT(), Types.BIG_DEC())
    ],
    "type-equal": lambda: Types.INT() == Types.INT(),
    "type-equal-names": lambda: Types.ROW_NAMED(["a"], [Types.INT()]) == Types.ROW_NAMED(["b"], [Types.INT()]),
    "type-names": lambda: list(Types.ROW([Types.INT()]).get_field_names()),
    "type-index": lambda: Types.ROW_NAMED(["a"], [Types.INT()]).get_field_index("a"),
    "type-primitive-array-of-string": lambda: Types.PRIMITIVE_ARRAY(Types.STRING()),
    "type-basic-array-of-list": lambda: Types.BASIC_ARRAY(Types.LIST(Types.INT())),
    "type-of-names-too-few": lambda: Types.ROW_NAMED(["a"], [Types.INT(), Types.INT()]),
    # streams
    "project-negative": lambda: stream().project(-1),
    "project-too-far": lambda: stream().project(2),
    "project-text": lambda: stream().project("a"),
    "parallelism-zero": lambda: stream().map(lambda t: t).set_parallelism(0),
    "max-parallelism-zero": lambda: stream().map(lambda t: t).set_max_parallelism(0),
    "max-parallelism-too-large": lambda: stream().map(lambda t: t).set_max_parallelism(32769),
    "env-parallelism-zero": lambda: StreamExecutionEnvironment.get_execution_environment().set_parallelism(0),
    "union-of-types": lambda: (lambda s: s.union(s.map(lambda t: 1, Types.INT())))(stream()),
    "sum-of-negative": lambda: stream().key_by(lambda t: t[0]).sum(-1),
    "sum-of-float": lambda: stream().key_by(lambda t: t[0]).sum(1.5),
    "type-of-stream": lambda: str(stream().get_type()),
    "type-of-map": lambda: str(stream().map(lambda t: t).get_type()),
    "type-of-typed-map": lambda: str(stream().map(lambda t: 1, Types.INT()).get_type()),
    "type-of-filter": lambda: str(stream().filter(lambda t: True).get_type()),
    "type-of-project": lambda: str(stream().project(1).get_type()),
    "name-of-map": lambda: stream().map(lambda t: t).get_name(),
    "map-of-text": lambda: stream().map("no function"),
    "flat-map-of-number": lambda: stream().flat_map(1),
    "filter-of-none": lambda: stream().filter(None),
    "key-by-number": lambda: stream().key_by(0),
    "process-of-function": lambda: stream().process(lambda v: v),
    "reduce-of-text": lambda: stream().key_by(lambda t: t[0]).reduce("x"),
    "output-tag-empty": lambda: OutputTag("", Types.INT()),
    "output-tag-none": lambda: TAG(None, Types.INT()),
    "output-tag-of-text": lambda: TAG("a", "b"),
    "side-output-of-text": lambda: stream().get_side_output("a"),
    "window-before-key": lambda: stream().window(TumblingEventTimeWindows.of(MS(1))),
    # windows
    "tumbling-zero": lambda: TumblingEventTimeWindows.of(MS(0)),
    "tumbling-offset-too-large": lambda: TumblingEventTimeWindows.of(MS(5), MS(5)),
    "tumbling-offset-none": lambda: str(TumblingEventTimeWindows.of(MS(5), None)),
    "tumbling-processing-offset-too-large": lambda: TumblingProcessingTimeWindows.of(MS(5), MS(-5)),
    "sliding-zero": lambda: SlidingEventTimeWindows.of(MS(5), MS(0)),
    "sliding-offset-too-large": lambda: SlidingEventTimeWindows.of(MS(5), MS(2), MS(2)),
    "session-zero": lambda: EventTimeSessionWindows.with_gap(MS(0)),
    "session-negative": lambda: EventTimeSessionWindows.with_gap(MS(-1)),
    "text-of-tumbling": lambda: str(TumblingEventTimeWindows.of(MS(5), MS(1))),
    "text-of-sliding": lambda: str(SlidingEventTimeWindows.of(MS(5), MS(1))),
    "text-of-session": lambda: str(EventTimeSessionWindows.with_gap(MS(5))),
    "text-of-count-trigger": lambda: str(CountTrigger.of(5)),
    "text-of-window": lambda: str(TimeWindow(1, 5)),
    "window-max": lambda: TimeWindow(1, 5).max_timestamp(),
    "window-cover": lambda: str(TimeWindow(1, 5).cover(TimeWindow(3, 9))),
    "window-equal": lambda: TimeWindow(1, 5) == TimeWindow(1, 5),
    # times
    "time-seconds": lambda: Time.seconds(5).to_milliseconds(),
    "time-equal": lambda: Time.seconds(5) == Time.milliseconds(5000),
    "duration-text": lambda: Duration.of_seconds(5) == Duration.of_millis(5000),
    "instant-text": lambda: str(Instant.of_epoch_milli(1234)),
    "instant-negative": lambda: str(Instant.of_epoch_milli(-1)),
    "instant-millis": lambda: Instant(1, 999999999).to_epoch_milli(),
    # descriptors
    "descriptor-name": lambda: ValueStateDescriptor("a", Types.INT()).get_name(),
    "descriptor-of-text": lambda: DESCRIPTOR("a", "b"),
    "descriptor-map-name": lambda: MapStateDescriptor("a", Types.INT(), Types.INT()).name,
}

PATHS = {
    "plain": "/x/y", "plain-slash": "/x/y/", "relative": "x/y", "root": "/", "empty": "", "space": " /x ",
    "file": "file:/x/y", "file-slash": "file:/x/y/", "file-slashes": "file:///x/y", "file-slashes-slash": "file:///x/y/",
    "file-host": "file://x/y/", "file-root": "file:///", "doubled": "file:///x//y///z", "dots": "file:///x/../y/./z",
    "upper": "FILE:///x", "object": "s3://b/x", "object-slash": "s3://b/x/", "object-bucket": "s3://b",
    "object-bucket-slash": "s3://b/", "port": "hdfs://host:8020/x/", "no-host": "hdfs:///x/", "spaces": "file:///x y/ü",
    "percent": "file:///x%20y", "query": "s3://b/x?y#z", "colon": "file:///x:y",
}  # fmt: skip


def savepoint_directory(path: str) -> Any:
    env = StreamExecutionEnvironment.get_execution_environment()
    return env.set_default_savepoint_directory(path).get_default_savepoint_directory()


def database_paths(*paths: str) -> Any:
    backend = EmbeddedRocksDBStateBackend()
    backend.set_db_storage_paths(*paths)
    return backend.get_db_storage_paths()


CALLS |= {
    **{
        f"path-checkpoints-{name}": partial(lambda path: FileSystemCheckpointStorage(path).get_checkpoint_path(), path)
        for name, path in PATHS.items()
    },
    **{
        f"path-memory-{name}": partial(
            lambda path: JobManagerCheckpointStorage(path).get_checkpoint_path(), PATHS[name]
        )
        for name in ("plain", "file-slashes-slash", "object-slash")
    },
    **{
        f"path-savepoints-{name}": partial(savepoint_directory, PATHS[name])
        for name in (
            "plain-slash",
            "relative",
            "file-slashes",
            "file-slashes-slash",
            "object-slash",
            "object-bucket-slash",
        )
    },
    "path-memory-none": lambda: JobManagerCheckpointStorage().get_checkpoint_path(),
    "path-memory-savepoint": lambda: JobManagerCheckpointStorage("file:///x").get_savepoint_path(),
    "path-files-savepoint": lambda: FileSystemCheckpointStorage("file:///x").get_savepoint_path(),
    "path-databases": lambda: database_paths("/x", "/y/", "file:///z", "/a//b/../c"),
    "path-databases-relative": lambda: database_paths("x"),
    "path-databases-object": lambda: database_paths("s3://b/x"),
    "path-databases-none": lambda: database_paths(),
    "path-databases-unset": lambda: EmbeddedRocksDBStateBackend().get_db_storage_paths(),
    "path-savepoints-unset": lambda: (
        StreamExecutionEnvironment.get_execution_environment().get_default_savepoint_directory()
    ),
}
CALLED = [Call(f"calls-{name}", call) for name, call in CALLS.items()]
