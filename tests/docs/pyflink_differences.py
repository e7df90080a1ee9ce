"""The names of PyFlink that are not here or differ, each with the reason.

A key is a regular expression for the whole name of a difference, as :mod:`tests.docs.pyflink_names` forms it, without
arguments. The first one that matches counts.
"""

from __future__ import annotations

import re
from typing import Final

#: Reasons that the porting page does not repeat: no program uses these names.
INTERNAL: Final[dict[str, str]] = {
    r"(?!java_gateway\.).*\.get_gateway": "Java, re-exported by accident: import it from `java_gateway`",
    r"(?!util\.)[\w.]*\.(add_jars_to_context_class_loader|convert_py4j_exception|get_field_value"
    r"|get_j_env_configuration|invoke_method|is_local_deployment|is_instance_of|load_java_class|to_jarray"
    r"|create_url_class_loader|(to|from)_j_\w+)": "Java, re-exported by accident: import it from `util.java_utils`",
    r".*[.:](JavaObjectWrapper|JavaFunctionWrapper|ResultTypeQueryable)": "wraps Java objects",
    r"common\.serialization\.RowDataBulkWriterFactory": "wraps Java objects",
    r"common\.io(\..*)?": "wraps Java objects: use the formats of `FileSource`",
    r".*\.InputFormat": "wraps Java objects: use the formats of `FileSource`",
    r".*\.(Deprecated|Experimental|Internal|Public|PublicEvolving)": "re-exported by accident",
    r"[\w.]+\.(K|N|T|V|W|W2|IN|IN1|IN2|OUT|KEY)": "a type variable",
    r".*\.(typeinfo|async_retry_strategies)": "a module, re-exported by accident: import it from its package",
    r"datastream\.(data_stream|functions)\.\w+Wrapper": "internal to PyFlink",
    r"datastream\.(data_stream|functions|window)\.(Internal|PassThrough)\w+": "internal to PyFlink",
    r".*\.(AsyncFunctionDescriptor|WindowOperationDescriptor|WINDOW_STATE_NAME|PickleSerializer|InternalTimer"
    r"|InternalTimerService|GenericMetricGroup|MetricGroupType|VoidNamespaceSerializer|void|convert_to_python_obj)": (
        "internal to PyFlink"
    ),
    r"datastream\.window\.(Min|long_to_int_with_bit_mixing|mod_inverse)": "internal to PyFlink",
    r"datastream\.window:Continuous\w+Trigger\.(fire_timestamp_state|register_next_fire_timestamp|state_desc)": (
        "internal to PyFlink"
    ),
    r"datastream\.data_stream:KeyedStream\.AccumulateType(\.\w+)?": "internal to PyFlink",
    r"datastream\.data_stream:(AllWindowedStream|WindowedStream)\.__init__": "streams create them: use `window()`",
    r"datastream\.stream_execution_environment:StreamExecutionEnvironment\.serializer": "internal to PyFlink",
    r"datastream\.utils(\..*)?|common\.utils(\..*)?|serializers(\..*)?": "a module internal to PyFlink",
    r"pyflink_gateway_server(\..*)?|pyflink_callback_server(\..*)?|find_flink_home(\..*)?": "starts Flink's JVM",
    r"java_gateway\.(PythonFunctionFactory|Watchdog|install_\w+|launch_gateway_server_process)": "starts Flink's JVM",
    r"util\.exceptions\.(capture_java_exception|convert_py4j_exception|exception_mapping|install_\w+)": (
        "wraps Java objects"
    ),
    r"util\.api_stability_decorators:\w+\.get_directive": "for PyFlink's documentation",
    r"common\.typeinfo:\w+\.(to|from)_internal_type": "the name of the only parameter differs from class to class",
    r"common\.restart_strategy:RestartStrategyConfiguration\.__(eq|hash)__": "its subclasses compare by value",
    r"common\.restart_strategy:RestartStrategies\.\w+\.__init__": "PyFlink's default of None is refused there too",
    r"datastream\.state_backend:FsStateBackend\.__init__": "PyFlink's default of None is refused there too",
    r"datastream\.checkpoint_storage:FileSystemCheckpointStorage\.__init__": "PyFlink's default of None is refused too",
    r"datastream\.functions:TimerService\.\w+": "in 1.12, `timestamp` was `time`",
    r".*:(FileSink|KafkaSink)\.get_transformer": "internal to PyFlink: `sink_to()` calls it",
    r".*:(OutputFileConfig\.OutputFileConfigBuilder|DefaultRollingPolicy\.PolicyBuilder)\.(part_\w+|\w+_interval)": (
        "attributes of a builder"
    ),
    r".*:StreamingFileSink\.\w+\.with_(rolling_policy|bucket_assigner)": "another name of the only parameter",
    r".*:(KafkaRecordDeserializationSchema\.value_only|PulsarSourceBuilder\.set_deserialization_schema)": (
        "another name of the only parameter"
    ),
    r".*:ElasticsearchSinkBuilderBase\.build": "abstract: its subclasses have it",
    r".*:(MessageDelayer|StartCursor|StopCursor)\.__init__": "wraps Java objects",
    r"datastream\.formats\.(orc|parquet)\.create_\w+": "Java, re-exported by accident",
}
_STORED: Final = "windows have their own storage format; serializers are never called"
#: What programs may use, and what to do instead.
UNSUPPORTED: Final[dict[str, str]] = {
    r"datastream\.window:(Count|Global|Time)WindowSerializer\.\w+": _STORED,
    r".*:PulsarDeserializationSchema\.flink_type_info": "reads Flink's own binary format: use a schema",
}


#: Uses of classes that are rejected although the class and its methods are here.
LIMITS: Final[dict[str, str]] = {
    "datastream.connectors.dynamic_kafka:DynamicKafkaSource": (
        "more than one cluster, and metadata services other than `SingleClusterTopicMetadataService`: use the union of "
        "one `KafkaSource` for each cluster"
    ),
    "datastream.connectors.hybrid_source:HybridSource": (
        "sources that Spark reads, such as `FileSource` and `KafkaSource`: run the program with the first source, take "
        "a savepoint, and resume it with the second one under another uid"
    ),
}


def reason(difference: str) -> str | None:
    """Why a name differs, or None if there is no reason."""
    bare = difference.partition("(")[0]
    for reasons in (INTERNAL, UNSUPPORTED):
        for pattern, why in reasons.items():
            if re.fullmatch(pattern, bare):
                return why
    return None


def unused(differences: set[str]) -> list[str]:
    """The patterns that match no difference any more."""
    bare = {difference.partition("(")[0] for difference in differences}
    patterns = [*INTERNAL, *UNSUPPORTED]
    return [pattern for pattern in patterns if not any(re.fullmatch(pattern, each) for each in bare)]
