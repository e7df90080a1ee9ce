"""The analysis names what is missing and what differs, with its line, and keeps silent about what it does not know."""

from __future__ import annotations

import pytest

from tidemill.ops.porting.analysis import analysed
from tidemill.ops.porting.findings import Weight
from tidemill.ops.porting.imports import ported

IMPORTS = """\
from pyflink.common import *
from pyflink.datastream import *
from pyflink.datastream.window import *
env = StreamExecutionEnvironment.get_execution_environment()
ds = env.from_collection([1])
"""


def found(program: str, imports: str = IMPORTS) -> list[tuple[int, str, Weight]]:
    """The findings of a program, with lines after those of the imports."""
    before = imports.count("\n")
    findings = analysed(ported(f"{imports}{program}\n".encode(), "job.py"))
    return [(one.line - before, one.name, one.kind) for one in findings]


MISSING = {
    "a module": ("from pyflink.table import TableEnvironment", (1, "pyflink.table.TableEnvironment")),
    "a name": ("from pyflink.common import (Row,\n  Nonsense)", (2, "pyflink.common.Nonsense")),
    "a module by its name": ("import pyflink.ml.core as ml", (1, "pyflink.ml.core")),
    "an attribute of a module": ("import pyflink.common\npyflink.common.Nonsense", (2, "pyflink.common.Nonsense")),
    "a method": ("ds.nonsense()", (1, "DataStream.nonsense")),
    "a method in a chain": ("ds.key_by(lambda x: x) \\\n  .sum(0) \\\n  .nonsense()", (3, "DataStream.nonsense")),
    "a method of a class": ("Types.NONSENSE()", (1, "Types.NONSENSE")),
    "a method of Java's environment": (
        "env._j_stream_execution_environment.getStreamGraph()",
        (1, "JavaEnvironment.getStreamGraph"),
    ),
    "an object of Java": ("ds._j_data_stream.getId()", (1, "DataStream._j_data_stream")),
    "a method that is always rejected": (
        (
            "from pyflink.datastream.connectors.kinesis import FlinkKinesisConsumer\n"
            "FlinkKinesisConsumer('s', None, {}).set_periodic_watermark_assigner(None)"
        ),
        (2, "FlinkKinesisConsumer.set_periodic_watermark_assigner"),
    ),
    "an argument": ("ds.map(len, result_type=Types.INT())", (1, "DataStream.map")),
    "an argument of a class": ("ValueStateDescriptor('x', Types.INT(), 1, 2, 3)", (1, "ValueStateDescriptor")),
    "in a function": ("def build(stream: DataStream):\n  stream.nonsense()", (2, "DataStream.nonsense")),
    "in a lambda": ("f = lambda: ds.nonsense()", (1, "DataStream.nonsense")),
    "in a comprehension": ("[ds.nonsense() for x in y]", (1, "DataStream.nonsense")),
    "with a name": ("with env as other:\n  other.nonsense()", (2, "StreamExecutionEnvironment.nonsense")),
    "in both branches": ("if a:\n  ds = ds.map(len)\nds.nonsense()", (3, "DataStream.nonsense")),
    "by a walrus": ("if (other := ds.map(len)):\n  other.nonsense()", (2, "DataStream.nonsense")),
    "of a context": (
        "class F(KeyedProcessFunction):\n  def process_element(self, value, ctx):\n    ctx.nonsense()",
        (3, "Context.nonsense"),
    ),
    "of a state": (
        (
            "class F(KeyedProcessFunction):\n  def process_element(self, value, ctx):\n    self.s.nonsense()\n"
            "  def open(self, c):\n    self.s = c.get_state(ValueStateDescriptor('s', Types.INT()))"
        ),
        (3, "ValueState.nonsense"),
    ),
}
NOTHING = {
    "unknown values": "def f(x):\n  return x.nonsense()\nopen('file').nonsense()",
    "a name that is bound again": "ds = other(ds)\nds.nonsense()",
    "a name of a loop": "for ds in y:\n  ds.nonsense()",
    "a parameter of that name": "def f(ds):\n  ds.nonsense()",
    "a method of the program's class": "class F(MapFunction):\n  def g(self):\n    self.h()\nF().i()",
    "one of two values": "client = env.execute_async() if a else env.execute()\nclient.get_net_runtime()",
    "one of two branches": "if a:\n  x = env.execute()\nelse:\n  x = env.execute_async()\nx.get_net_runtime()",
    "PyFlink's way to read a socket": "DataStream(env._j_stream_execution_environment.socketTextStream('h', 1))",
    "fields of rows": "Row(a=1).a",
    "methods of a subclass of the annotated class": "env.get_state_backend().is_incremental_checkpoints_enabled()",
    "arguments that are not known": "ds.map(*args, **kwargs)",
    "attributes set before the first record": "class F(MapFunction):\n  def open(self, c):\n    self.n = 0",
    "attributes of other classes": "class F(list):\n  def f(self):\n    self.n = 1",
    "members of enumerations": "RuntimeExecutionMode.BATCH.name",
    "builders": "Configuration().set_string('a', 'b').set_integer('c', 1)",
}
DIFFERS = {
    "KeyedStream.count_window": "ds.key_by(lambda x: x).count_window(3, 2)",
    "WindowedStream.reduce": "ds.key_by(f).window(EventTimeSessionWindows.with_gap(Time.seconds(1))).reduce(g)",
    "ContinuousEventTimeTrigger": "ContinuousEventTimeTrigger.of(Time.seconds(1))",
    "self.n": "class F(MapFunction):\n  def map(self, value):\n    self.n += 1",
    "TimerService.register_processing_time_timer": (
        "class F(KeyedProcessFunction):\n  def process_element(self, value, ctx):\n"
        "    ctx.timer_service().register_processing_time_timer(1)"
    ),
}


@pytest.mark.parametrize("case", list(MISSING))
def test_what_is_missing(case: str) -> None:
    program, (line, name) = MISSING[case]
    assert (line, name, Weight.MISSING) in found(program)


@pytest.mark.parametrize("case", list(NOTHING))
def test_no_false_alarm(case: str) -> None:
    assert found(NOTHING[case]) == []


@pytest.mark.parametrize("name", list(DIFFERS))
def test_what_differs(name: str) -> None:
    assert (name, Weight.DIFFERS) in [(found_name, kind) for _, found_name, kind in found(DIFFERS[name])]


@pytest.mark.parametrize(
    "program",
    ["ds.key_by(lambda x: x).count_window(3)", "ds.key_by(f).window(TumblingEventTimeWindows.of(s)).reduce(g)"],
)
def test_what_is_the_same(program: str) -> None:
    assert found(program) == []


def test_what_has_no_effect_is_a_note() -> None:
    assert found("env.get_checkpoint_config().enable_unaligned_checkpoints()") == [
        (1, "CheckpointConfig.enable_unaligned_checkpoints", Weight.NOTE)
    ]


def test_a_text_that_names_a_module_is_a_note() -> None:
    assert found("import importlib\nimportlib.import_module('pyflink.common')") == [(2, "pyflink", Weight.NOTE)]
