"""Options for what functions need where they run."""

from __future__ import annotations

from tidemill.config.option import option
from tidemill.config.values import Text


class PythonOptions:
    """Files, archives and packages for functions. Keys and forms are those of Flink."""

    ARCHIVES = option(
        "python.archives",
        Text(),
        None,
        "Archives that are unpacked in the working directory of functions, comma-separated; ``path#directory`` sets "
        "the name of the directory.",
    )
    REQUIREMENTS = option(
        "python.requirements",
        Text(),
        None,
        "A requirements file that is installed where functions run; ``file#directory`` adds a directory with packages, "
        "which are then installed without a network.",
    )
    EXECUTABLE = option(
        "python.executable",
        Text(),
        None,
        "The interpreter of functions. They run in the driver's version of Python: another one is reported.",
    )
