"""Names that modules have because PyFlink's have them: where they come from, and what they do not load."""

from __future__ import annotations

import importlib
import subprocess
import sys
from types import ModuleType
from typing import Any

import pytest

from tidemill.datastream import connectors
from tidemill.lazy_names import PYTHON_NAMES, names_elsewhere

#: What published programs import, and from where.
IMPORTED = {
    "datastream.connectors": (
        "BucketAssigner DefaultRollingPolicy DeliveryGuarantee DynamicKafkaSource FileEnumeratorProvider FileSink "
        "FileSource FlinkKafkaConsumer FlinkKafkaProducer HybridSource JdbcConnectionOptions JdbcExecutionOptions "
        "JdbcSink KafkaSource NumberSequenceSource OutputFileConfig RollingPolicy Semantic Sink Source StreamFormat "
        "StreamingFileSink SinkFunction SourceFunction Duration Encoder typeinfo Dict List kafka jdbc"
    ),
    "datastream.connectors.base": "DeliveryGuarantee Sink Source StreamTransformer SupportsPreprocessing",
    "datastream.connectors.kafka": (
        "DeliveryGuarantee DeserializationSchema FlinkKafkaConsumer FlinkKafkaConsumerBase FlinkKafkaProducer "
        "FlinkKafkaProducerBase KafkaOffsetsInitializer KafkaSink KafkaSource Row Semantic SerializationSchema "
        "SimpleStringSchema Sink SinkFunction Source SourceFunction TypeInformation Types Union typeinfo"
    ),
    "datastream.connectors.file_system": (
        "BulkWriterFactory Duration Encoder InputFormat RowDataBulkWriterFactory Sink SinkFunction Source "
        "StreamTransformer SupportsPreprocessing warnings"
    ),
    "datastream.connectors.jdbc": "RowTypeInfo SinkFunction typeinfo",
    "datastream.connectors.dynamic_kafka": "DeserializationSchema KafkaOffsetsInitializer Source",
    "datastream.connectors.hybrid_source": "HybridSource HybridSourceBuilder Source",
    "datastream.connectors.number_seq": "NumberSequenceSource Source",
    "datastream.formats.avro": "BulkWriterFactory DeserializationSchema InputFormat SerializationSchema",
    "datastream.formats.csv": "BulkWriterFactory DataTypes RowDataBulkWriterFactory StreamFormat TypeInformation",
    "datastream.formats.json": "DeserializationSchema SerializationSchema TypeInformation typeinfo",
    "datastream.formats.orc": "BulkWriterFactory Configuration RowDataBulkWriterFactory",
    "datastream.formats.parquet": "AvroSchema BulkFormat BulkWriterFactory Configuration StreamFormat",
}


@pytest.mark.parametrize("module", IMPORTED)
def test_names_can_be_imported_from_where_programs_do(module: str) -> None:
    found = importlib.import_module(f"tidemill.{module}")
    missing = [name for name in IMPORTED[module].split() if not hasattr(found, name)]
    assert missing == []


def test_a_name_of_the_package_is_that_of_its_module() -> None:
    kafka: Any = importlib.import_module("tidemill.datastream.connectors.kafka")
    assert connectors.KafkaSource is kafka.KafkaSource
    assert set(connectors.__all__) <= set(dir(connectors))


def test_everything_can_be_imported_at_once() -> None:
    space: dict[str, Any] = {}
    exec("from tidemill.datastream.connectors import *", space)
    assert set(connectors.__all__) <= set(space)


def test_the_package_loads_a_connector_when_it_is_used() -> None:
    program = (
        "import sys; from tidemill.datastream.connectors import NumberSequenceSource; "
        "print([name for name in sys.modules if 'kafka' in name or 'jdbc' in name or name == 'pyarrow'])"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=300)
    assert run.stdout.strip() == "[]"


def test_other_names_are_missing() -> None:
    with pytest.raises(AttributeError, match=r"module 'tidemill\.datastream\.connectors' has no attribute 'Nothing'"):
        connectors.__getattr__("Nothing")


class TestNamesElsewhere:
    def test_a_name_is_that_of_its_place_or_the_place_itself(self) -> None:
        find = names_elsewhere("here", {"Decimal": "decimal", "decimal": "decimal", **PYTHON_NAMES})
        assert find("Decimal") is importlib.import_module("decimal").Decimal
        assert find("decimal") is importlib.import_module("decimal")
        assert find("Enum") is importlib.import_module("enum").Enum

    def test_a_name_appears_once_its_module_is_there(self, monkeypatch: pytest.MonkeyPatch) -> None:
        find = names_elsewhere("here", {"Thing": "tests.unit.not_there_yet", "Other": "decimal"})
        for name in ("Thing", "Other"):
            with pytest.raises(AttributeError, match="module 'here' has no attribute"):
                find(name)
        made: Any = ModuleType("tests.unit.not_there_yet")
        made.Thing = 17
        monkeypatch.setitem(sys.modules, "tests.unit.not_there_yet", made)
        assert find("Thing") == 17

    def test_a_module_that_lacks_something_else_is_an_error(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "decimal", None)
        find = names_elsewhere("here", {"Fraction": "fractions"})
        monkeypatch.delitem(sys.modules, "fractions", raising=False)
        with pytest.raises(ModuleNotFoundError, match="decimal"):
            find("Fraction")
