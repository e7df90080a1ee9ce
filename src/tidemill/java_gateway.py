"""PyFlink's path to the JVM. Tidemill has none: what programs call on Java objects has another name in Python.

Spark's JVM does not contain Flink, and with ``execution.target: local`` there is no JVM at all.
"""

from __future__ import annotations

from typing import Any, NoReturn

__all__ = ["get_gateway", "import_flink_view", "is_launch_gateway_disabled", "launch_gateway", "no_java"]


def no_java(what: str) -> NoReturn:
    """Raise the error for a call that needs Flink's Java classes."""
    raise NotImplementedError(
        f"{what} needs Flink's JVM, which does not exist in Tidemill: replace the Java class by the Python class of "
        "the same purpose (docs/porting.md lists all), or a setting of a Java object by its configuration key"
    )


def get_gateway() -> Any:
    """Raises ``NotImplementedError``: there is no JVM with Flink's classes."""
    no_java("get_gateway()")


def launch_gateway() -> Any:
    """Raises ``NotImplementedError``: there is no JVM with Flink's classes."""
    no_java("launch_gateway()")


def is_launch_gateway_disabled() -> bool:
    """Always true: no JVM is started."""
    return True


def import_flink_view(gateway: Any) -> None:
    """Raises ``NotImplementedError``: there is no JVM with Flink's classes."""
    no_java("import_flink_view()")
