"""PyFlink's functions on Java objects. There are none here: all but two raise ``NotImplementedError``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tidemill.java_gateway import no_java
from tidemill.without_effect import without_effect

__all__ = [
    "add_jars_to_context_class_loader",
    "create_url_class_loader",
    "from_j_duration",
    "from_j_flink_time",
    "get_field",
    "get_field_value",
    "get_j_env_configuration",
    "invoke_method",
    "is_instance_of",
    "is_local_deployment",
    "load_java_class",
    "to_j_duration",
    "to_j_explain_detail_arr",
    "to_j_flink_time",
    "to_jarray",
]


def add_jars_to_context_class_loader(jar_urls: Iterable[str]) -> None:
    """Accepted without effect: Flink's Java connectors cannot be used. Set ``spark.jars`` for Spark connectors."""
    without_effect("add_jars_to_context_class_loader()", "programs have no Java code")


def is_instance_of(java_object: Any, java_class: Any) -> bool:
    """Always false: no object is a Java object."""
    return False


def to_jarray(j_type: Any, arr: Any) -> Any:
    """Raises ``NotImplementedError``: there are no Java objects."""
    no_java("to_jarray()")


def load_java_class(class_name: str) -> Any:
    """Raises ``NotImplementedError``: there are no Java objects."""
    no_java(f"load_java_class({class_name!r})")


def create_url_class_loader(urls: Any, parent_class_loader: Any) -> Any:
    """Raises ``NotImplementedError``: there are no Java objects."""
    no_java("create_url_class_loader()")


def get_j_env_configuration(j_env: Any) -> Any:
    """Raises ``NotImplementedError``: use ``env.get_configuration()``."""
    raise NotImplementedError(
        "get_j_env_configuration() needs Flink's JVM, which does not exist in Tidemill: read and change the "
        "configuration with env.get_configuration()"
    )


def get_field(cls: Any, field_name: str) -> Any:
    """Raises ``NotImplementedError``: there are no Java objects."""
    no_java("get_field()")


def get_field_value(java_obj: Any, field_name: str) -> Any:
    """Raises ``NotImplementedError``: there are no Java objects."""
    no_java("get_field_value()")


def invoke_method(obj: Any, object_type: Any, method_name: str, args: Any = None, arg_types: Any = None) -> Any:
    """Raises ``NotImplementedError``: there are no Java objects."""
    no_java("invoke_method()")


def is_local_deployment(j_configuration: Any) -> bool:
    """Raises ``NotImplementedError``: use the configuration key ``execution.target``."""
    raise NotImplementedError(
        "is_local_deployment() needs Flink's JVM, which does not exist in Tidemill: read the key execution.target of "
        "env.get_configuration()"
    )


def to_j_explain_detail_arr(p_extra_details: Any) -> Any:
    """Raises ``NotImplementedError``: there are no Java objects."""
    no_java("to_j_explain_detail_arr()")


def to_j_flink_time(time_delta: Any) -> Any:
    """Raises ``NotImplementedError``: durations are ``timedelta`` or :class:`~tidemill.common.Duration`."""
    no_java("to_j_flink_time()")


def from_j_flink_time(j_flink_time: Any) -> Any:
    """Raises ``NotImplementedError``: durations are ``timedelta`` or :class:`~tidemill.common.Duration`."""
    no_java("from_j_flink_time()")


def to_j_duration(time_delta: Any) -> Any:
    """Raises ``NotImplementedError``: durations are ``timedelta`` or :class:`~tidemill.common.Duration`."""
    no_java("to_j_duration()")


def from_j_duration(j_duration: Any) -> Any:
    """Raises ``NotImplementedError``: durations are ``timedelta`` or :class:`~tidemill.common.Duration`."""
    no_java("from_j_duration()")
