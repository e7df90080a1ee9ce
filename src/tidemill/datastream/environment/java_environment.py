"""The methods of Flink's Java environment that PyFlink programs call, because PyFlink has none of their own for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from tidemill.common.configuration import Configuration
from tidemill.datastream.environment.sources import EnvironmentSources

if TYPE_CHECKING:
    from tidemill.datastream.streams.data_stream import DataStream

__all__ = ["JavaConfiguration", "JavaEnvironment"]


class JavaConfiguration:
    """What ``env._j_stream_execution_environment.getConfiguration()`` returns: the environment's configuration."""

    def __init__(self, configuration: Configuration) -> None:
        self._configuration = configuration

    def setString(self, key: str, value: str) -> None:
        self._configuration.set_string(key, value)

    def setInteger(self, key: str, value: int) -> None:
        self._configuration.set_integer(key, value)

    def setBoolean(self, key: str, value: bool) -> None:
        self._configuration.set_boolean(key, value)

    def __getattr__(self, name: str) -> NoReturn:
        raise _absent(f"getConfiguration().{name}()")


class JavaEnvironment:
    """What programs reach as ``env._j_stream_execution_environment``; not a Java object.

    PyFlink's way to read a socket is ``DataStream(env._j_stream_execution_environment.socketTextStream(host, port))``.
    """

    def __init__(self, environment: EnvironmentSources, configuration: Configuration) -> None:
        self._environment = environment
        self._configuration = configuration

    def socketTextStream(self, hostname: str, port: int, delimiter: str = "\n", maxRetry: int = 0) -> DataStream:
        """Same as ``env.socket_text_stream``."""
        return self._environment.socket_text_stream(hostname, port, delimiter, maxRetry)

    def readTextFile(self, filePath: str, charsetName: str = "UTF-8") -> DataStream:
        """Same as ``env.read_text_file``."""
        return self._environment.read_text_file(filePath, charsetName)

    def getConfiguration(self) -> JavaConfiguration:
        """Same as ``env.get_configuration``, with Java's names of the methods."""
        return JavaConfiguration(self._configuration)

    def __getattr__(self, name: str) -> NoReturn:
        raise _absent(f"{name}()")


def _absent(what: str) -> AttributeError:
    return AttributeError(
        f"env._j_stream_execution_environment.{what} is not in Tidemill, which has no Java objects: use the method "
        "of StreamExecutionEnvironment with the same purpose"
    )
