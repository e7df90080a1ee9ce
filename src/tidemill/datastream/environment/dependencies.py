"""Methods that declare what the functions of a program need where they run."""

from __future__ import annotations

import abc

from tidemill.common.configuration import Configuration
from tidemill.config import ConfigOption, PipelineOptions, PythonOptions
from tidemill.datastream.program.dependencies import local_path, with_entry
from tidemill.without_effect import without_effect

__all__ = ["EnvironmentDependencies"]

_NO_CLASSES = "programs have no Java classes"
_NO_JAVA = "programs have no Java code. Kafka, files and JDBC are included; for connectors of Spark, set spark.jars"


class EnvironmentDependencies(abc.ABC):
    """The methods of an environment for files, archives, packages, the interpreter, and what only Java has."""

    @abc.abstractmethod
    def get_configuration(self) -> Configuration:
        """The configuration of the program."""

    def add_python_file(self, file_path: str) -> None:
        """Let functions import a Python file, or what is in a directory or in a zip.

        The same as ``python.files``.
        """
        self._add(PipelineOptions.PYTHON_FILES, file_path, None, "a Python file")

    def set_python_requirements(self, requirements_file_path: str, requirements_cache_dir: str | None = None) -> None:
        """Install the packages of a requirements file where functions run, before the job starts.

        With a directory of packages (``pip download -d DIR -r FILE``) no network is needed. Nothing is installed where
        all packages exist. Packages are installed for this job only, and have precedence over others. The same as
        ``python.requirements``.
        """
        local_path(requirements_file_path, "requirements file")
        text = with_entry(None, requirements_file_path, requirements_cache_dir, "requirements")
        self.get_configuration().set(PythonOptions.REQUIREMENTS, text)

    def add_python_archive(self, archive_path: str, target_dir: str | None = None) -> None:
        """Unpack a zip or tar file where functions run, before the job starts.

        It is unpacked to ``target_dir``, by default the name of the archive, in the working directory of the
        functions, which is then a temporary directory::

            env.add_python_archive("model.zip", "model")

            class Score(MapFunction):
                def open(self, runtime_context):
                    self.weights = pathlib.Path("model/weights.json").read_text()

        The same as ``python.archives``.
        """
        self._add(PythonOptions.ARCHIVES, archive_path, target_dir, "an archive")

    def set_python_executable(self, python_exec: str) -> None:
        """Accepted without effect: functions run in the driver's version of Python.

        If ``python_exec`` is another version, a warning says so when the job starts. To choose the interpreter of
        Spark's workers, set ``spark.pyspark.python``.
        """
        self.get_configuration().set(PythonOptions.EXECUTABLE, python_exec)

    def add_jars(self, *jars_path: str) -> None:
        """Accepted without effect: Flink's Java connectors cannot be used. Set ``spark.jars`` for Spark connectors."""
        without_effect("add_jars()", _NO_JAVA)
        self._add_to_list("pipeline.jars", jars_path)

    def add_classpaths(self, *classpaths: str) -> None:
        """Accepted without effect: programs have no Java code. Set ``spark.jars`` for Spark connectors."""
        without_effect("add_classpaths()", _NO_JAVA)
        self._add_to_list("pipeline.classpaths", classpaths)

    def register_cached_file(self, file_path: str, name: str, executable: bool = False) -> None:
        """Accepted without effect: as in PyFlink, Python functions cannot read cached files. Use
        :meth:`add_python_archive`."""
        without_effect("register_cached_file()", "Python functions cannot read cached files; use add_python_archive()")

    def add_default_kryo_serializer(self, type_class_name: str, serializer_class_name: str) -> None:
        """Accepted without effect: programs have no Java classes."""
        without_effect("add_default_kryo_serializer()", _NO_CLASSES)

    def register_type_with_kryo_serializer(self, type_class_name: str, serializer_class_name: str) -> None:
        """Accepted without effect: programs have no Java classes."""
        without_effect("register_type_with_kryo_serializer()", _NO_CLASSES)

    def register_type(self, type_class_name: str) -> None:
        """Accepted without effect: programs have no Java classes."""
        without_effect("register_type()", _NO_CLASSES)

    def _add(self, option: ConfigOption[str | None], path: str, target: str | None, what: str) -> None:
        configuration = self.get_configuration()
        configuration.set(option, with_entry(configuration.get(option), path, target, what))

    def _add_to_list(self, key: str, added: tuple[str, ...]) -> None:
        configuration = self.get_configuration()
        known = Configuration.parse_list_value(configuration.get_string(key, ""))
        configuration.set_string(key, ";".join([*known, *added]))
