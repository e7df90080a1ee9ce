"""PyFlink's paths to Java can be imported; a call that needs Java says so, and what to do."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

import tidemill.version
from tidemill.common import Types
from tidemill.datastream import DataStream, SourceFunction, StreamExecutionEnvironment
from tidemill.java_gateway import get_gateway, import_flink_view, is_launch_gateway_disabled, launch_gateway
from tidemill.late_names import late
from tidemill.util import java_utils, utils
from tidemill.util.api_stability_decorators import Deprecated, PublicEvolving
from tidemill.util.exceptions import JavaException, TableException
from tidemill.without_effect import without_effect


def test_there_is_no_gateway() -> None:
    assert is_launch_gateway_disabled()
    for call in (get_gateway, launch_gateway, lambda: import_flink_view(None)):
        with pytest.raises(NotImplementedError, match="needs Flink's JVM, which does not exist"):
            call()


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("create_url_class_loader", ([], None)),
        ("from_j_duration", (None,)),
        ("from_j_flink_time", (None,)),
        ("get_field", (None, "name")),
        ("get_field_value", (None, "name")),
        ("invoke_method", (None, "type", "name")),
        ("load_java_class", ("java.lang.String",)),
        ("to_j_duration", (1,)),
        ("to_j_explain_detail_arr", ([],)),
        ("to_j_flink_time", (1,)),
        ("to_jarray", (None, [])),
    ],
)
def test_functions_on_java_objects_say_that_there_are_none(name: str, arguments: tuple[object, ...]) -> None:
    with pytest.raises(NotImplementedError, match=name):
        getattr(java_utils, name)(*arguments)


def test_what_programs_call_on_the_java_environment() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    java = env._j_stream_execution_environment
    lines = DataStream(java.socketTextStream("localhost", 9999)).name("lines").uid("lines")
    assert (lines.get_name(), lines.get_type(), lines.get_execution_environment()) == ("lines", Types.STRING(), env)
    assert DataStream(java.readTextFile("/in")).get_type() == Types.STRING()
    configuration = java.getConfiguration()
    configuration.setString("pipeline.name", "words")
    configuration.setInteger("parallelism.default", 3)
    configuration.setBoolean("pipeline.object-reuse", True)
    assert env.get_configuration().get_string("pipeline.name", "") == "words"
    assert env.get_parallelism() == 3
    for value, name in ((java, "getStreamGraph"), (configuration, "getOptional")):
        with pytest.raises(AttributeError, match="is not in Tidemill, which has no Java objects"):
            getattr(value, name)


def test_where_a_key_does_the_same_the_error_names_it() -> None:
    with pytest.raises(NotImplementedError, match=r"env\.get_configuration"):
        java_utils.get_j_env_configuration(None)
    with pytest.raises(NotImplementedError, match=r"execution\.target"):
        java_utils.is_local_deployment(None)


def test_nothing_is_a_java_object() -> None:
    assert not utils.is_instance_of("text", "java.lang.String")


def test_a_source_in_java_is_refused_by_name() -> None:
    no_format: Any = "format"
    with pytest.raises(NotImplementedError, match=r"SourceFunction\('org\.example\.Source'\)"):
        SourceFunction("org.example.Source")
    with pytest.raises(TypeError, match="create_input"):
        StreamExecutionEnvironment.get_execution_environment().create_input(no_format)


def test_what_has_no_effect_says_so_once(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidemill.without_effect._said", set())
    for name in ("one()", "other()", "one()"):
        without_effect(name, "of a reason")
    java_utils.add_jars_to_context_class_loader(["file:///a.jar"])
    said = [record.getMessage().partition(" ")[0] for record in caplog.records]
    assert said == ["one()", "other()", "add_jars_to_context_class_loader()"]


def test_errors_of_java_are_classes_that_nothing_raises() -> None:
    assert issubclass(TableException, JavaException)
    assert TableException("a trace").stack_trace == "a trace"


def test_decorators_return_what_they_decorate() -> None:
    @PublicEvolving()
    def function() -> int:
        return 3

    assert function() == 3
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert Deprecated(since="1.2", detail="Use another.")(function) is function
    (warning,) = caught
    assert "is deprecated since version 1.2. Use another." in str(warning.message)


def test_the_version_is_that_of_the_api() -> None:
    assert tidemill.version.__version__ == "2.3.0"
    assert tidemill.__version__ != tidemill.version.__version__


def test_names_of_higher_packages_are_imported_late() -> None:
    import tidemill.common.serialization
    import tidemill.common.state
    from tidemill.datastream.formats.json import JsonRowSerializationSchema
    from tidemill.datastream.state import ValueState

    late_name = "JsonRowSerializationSchema"
    assert getattr(tidemill.common.serialization, late_name) is JsonRowSerializationSchema
    assert getattr(tidemill.common, late_name) is JsonRowSerializationSchema
    assert vars(ValueState) is not None
    assert late("module", {"ValueState": "tidemill.datastream.state"}, "ValueState") is ValueState
    with pytest.raises(AttributeError, match="module 'module' has no attribute 'other'"):
        late("module", {}, "other")
    with pytest.raises(AttributeError, match="has no attribute 'other'"):
        getattr(tidemill.common.state, "other")  # noqa: B009 - a type checker knows that it is not there
