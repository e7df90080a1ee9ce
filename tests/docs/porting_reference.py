"""The tables of docs/porting.md: every public class of PyFlink's DataStream API and its methods, and what is here.

`pyflink_names.json` has the names of PyFlink 2.3, by module and class, without those of Java objects; with each method,
and with each class that programs make objects of (`__init__`), the names of its arguments.

python -m tests.docs.porting_reference    # writes the tables into docs/porting.md
"""

from __future__ import annotations

import importlib
import inspect
import json
from collections.abc import Iterable, Iterator
from functools import reduce
from pathlib import Path
from typing import Any, Final

PAGE = Path(__file__).parents[2] / "docs" / "porting.md"
HEADING = "\n## Every name\n"
INTRODUCTION = """\
PyFlink 2.3, module by module. A name in the second column is available in the same module with the same arguments. A
name in *italics* is accepted but has no effect, because what it controls does not exist in Tidemill. The third column
lists what is not supported.
"""
NAMES: Final[dict[str, dict[str, dict[str, str]]]] = json.loads(
    (Path(__file__).parent / "pyflink_names.json").read_text(encoding="utf-8")
)

_SERIALIZER = "windows have their own storage format; serializers are never called"
_ARRAYS = "Spark's CSV format has no arrays: read text and split it"
_AVRO = "read and write Avro files with [Spark](connectors/spark.md)"
_OLD = "deprecated in Flink too: use"
#: What is not here: a module, `Class`, or `Class.method`, and what to do instead.
MISSING: Final = {
    "common.io": "a Java class; use the formats of `FileSource`",
    "datastream.connectors.dynamic_kafka": "clusters and topics are fixed in the program",
    "datastream.connectors.hybrid_source": "run with the first source, take a savepoint, resume with the second",
    "FlinkKafkaConsumer": f"{_OLD} `KafkaSource`",
    "FlinkKafkaProducer": f"{_OLD} `KafkaSink`",
    "Semantic": f"{_OLD} `DeliveryGuarantee`",
    "DataStream.cache": "use a sink and a second program",
    "KeyedStream.cache": "use a sink and a second program",
    "AvroBulkWriters": _AVRO,
    "AvroInputFormat": _AVRO,
    "AvroSchema": "schemas are JSON text",
    "GenericRecordAvroTypeInfo": "records are `Row`s",
    "AvroParquetReaders": "use `ParquetColumnarRowInputFormat`",
    "AvroParquetWriters": "use `ParquetBulkWriters`",
    "CsvSchemaBuilder.disable_array_element_separator": _ARRAYS,
    "CsvSchemaBuilder.remove_array_element_separator": _ARRAYS,
    "CsvSchemaBuilder.set_array_element_separator": _ARRAYS,
    "CsvSchemaBuilder.set_any_property_name": "name the columns",
    "SourceFunction": f"{_OLD} a [custom source](connectors/custom-sources.md)",
    "AsyncFunctionDescriptor": "internal to PyFlink",
    "StreamExecutionEnvironment.add_classpaths": "programs have no Java code; jars of Spark connectors: `spark.jars`",
    "StreamExecutionEnvironment.add_python_archive": "set Spark's `spark.archives`",
    "StreamExecutionEnvironment.create_input": "use `from_source` with a `FileSource`",
    "StreamExecutionEnvironment.register_cached_file": "set Spark's `spark.files`",
    "StreamExecutionEnvironment.set_python_executable": "set Spark's `spark.pyspark.python`",
    "StreamExecutionEnvironment.set_python_requirements": "set Spark's `spark.archives` to a packed environment",
    "CountWindowSerializer.deserialize": _SERIALIZER,
    "CountWindowSerializer.serialize": _SERIALIZER,
    "GlobalWindowSerializer.deserialize": _SERIALIZER,
    "GlobalWindowSerializer.serialize": _SERIALIZER,
    "TimeWindowSerializer.deserialize": _SERIALIZER,
    "TimeWindowSerializer.serialize": _SERIALIZER,
}


def reference() -> str:
    """A table for each module that is here; one for those that are not."""
    lines = [INTRODUCTION]
    absent = []
    for module, classes in NAMES.items():
        ours = _imported(module)
        if ours is None:
            absent.append((module, classes))
            continue
        lines += [f"### {module}\n", "| class | supported | not supported |", "|---|---|---|"]
        lines += [_row(ours, name, members) for name, members in classes.items()]
        lines.append("")
    lines += ["### Unsupported modules\n", "| module | classes | what to do |", "|---|---|---|"]
    lines += [f"| `{module}` | {_listed(classes)} | {MISSING[module]} |" for module, classes in absent]
    return "\n".join(lines)


def written() -> str:
    """The tables that the page has."""
    return PAGE.read_text(encoding="utf-8").partition(HEADING)[2].strip()


def missing() -> set[str]:
    """All that is not here, as :data:`MISSING` names it."""
    found = set()
    for module, classes in NAMES.items():
        ours = _imported(module)
        if ours is None:
            found.add(module)
            continue
        for name, members in classes.items():
            owner = getattr(ours, name, None)
            found |= {name} if owner is None else {f"{name}.{one}" for one in members if _found(owner, one) is None}
    return found


def other_arguments() -> Iterator[str]:
    """Methods that cannot be called with PyFlink's arguments, by position or by name."""
    for module, classes in NAMES.items():
        ours = _imported(module)
        for name, members in classes.items():
            for member, arguments in members.items():
                method = _found(getattr(ours, name, None), member)
                if inspect.isroutine(method) and not _takes(method, arguments.split()):
                    yield f"{name}.{member}({arguments})"


def _takes(method: Any, arguments: list[str]) -> bool:
    found = list(inspect.signature(method).parameters.values())
    if any(one.kind is one.VAR_POSITIONAL for one in found):
        return True
    places = [one.name for one in found if one.kind is one.POSITIONAL_OR_KEYWORD and one.name not in ("self", "cls")]
    also = {one.name for one in found if one.kind is one.KEYWORD_ONLY}
    return len(places) >= len(arguments) and all(
        name in (place, *also) for name, place in zip(arguments, places, strict=False)
    )


def _row(module: Any, name: str, members: Iterable[str]) -> str:
    owner = getattr(module, name, None)
    if owner is None:
        return f"| `{name}` | | {MISSING[name]} |"
    there = [one for one in members if one != "__init__" and _found(owner, one) is not None]
    lacking: dict[str, list[str]] = {}
    for one in members:
        if one != "__init__" and one not in there:
            lacking.setdefault(MISSING[f"{name}.{one}"], []).append(one)
    told = "; ".join(f"{_listed(names)}: {what}" for what, names in lacking.items())
    return f"| `{name}` | {', '.join(_told(owner, one) for one in there) or 'yes'} | {told} |"


def _told(owner: Any, member: str) -> str:
    accepted = (getattr(_found(owner, member), "__doc__", None) or "").startswith("Accepted")
    return f"*`{member}`*" if accepted else f"`{member}`"


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _found(owner: Any, member: str) -> Any:
    try:
        return reduce(getattr, member.split("."), owner)
    except AttributeError:
        return None


def _imported(module: str) -> Any:
    try:
        return importlib.import_module(f"tidemill.{module}")
    except ModuleNotFoundError:
        return None


if __name__ == "__main__":
    page = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(page.partition(HEADING)[0] + HEADING + "\n" + reference().strip() + "\n", encoding="utf-8")
