"""The path of ``java_utils`` in PyFlink 1.12."""

from __future__ import annotations

from tidemill.util.java_utils import (
    add_jars_to_context_class_loader,
    from_j_flink_time,
    get_j_env_configuration,
    is_instance_of,
    is_local_deployment,
    load_java_class,
    to_j_explain_detail_arr,
    to_j_flink_time,
    to_jarray,
)

__all__ = [
    "add_jars_to_context_class_loader",
    "from_j_flink_time",
    "get_j_env_configuration",
    "is_instance_of",
    "is_local_deployment",
    "load_java_class",
    "to_j_explain_detail_arr",
    "to_j_flink_time",
    "to_jarray",
]
