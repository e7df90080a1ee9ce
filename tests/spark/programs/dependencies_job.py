"""A job whose function needs an archive, a package and a directory of code. Argument: settings and paths as JSON."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Any

from tidemill.common import Configuration
from tidemill.datastream import MapFunction, RuntimeContext, StreamExecutionEnvironment
from tidemill.errors import ConfigurationError


class Using(MapFunction):
    """Says what it finds where it runs, and whether that is the working directory of the driver."""

    def __init__(self, package: str, driver: str) -> None:
        self._package = package
        self._driver = driver

    def open(self, runtime_context: RuntimeContext) -> None:
        self._found = (
            Path("model/a.txt").read_text(),
            importlib.import_module(self._package).VERSION,
            importlib.import_module("helper").NAME,
            str(Path.cwd()) == self._driver,
        )

    def map(self, value: int) -> Any:
        return self._found


def main() -> None:
    given = json.loads(sys.argv[1])
    configuration = Configuration.from_dict({"parallelism.default": 2, **given["options"]})
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.add_python_archive(given["archive"], "model")
    env.set_python_requirements(given["requirements"], given["cache"])
    env.add_python_file(given["code"])
    using = env.from_sequence(1, 8).rebalance().map(Using(given["package"], str(Path.cwd())))
    print("RESULT", sorted(set(using.execute_and_collect())))
    print("AGAIN", sorted(set(using.execute_and_collect())))
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    plain = env.from_sequence(1, 8).map(lambda value: str(Path.cwd()))
    print("PLACES", sorted({place == str(Path.cwd()) for place in plain.execute_and_collect()}))
    Path(given["requirements"]).write_text(f"{given['package']}==9.9\n")
    env.set_python_requirements(given["requirements"], given["cache"])
    try:
        env.from_sequence(1, 8).print()
        env.execute()
    except ConfigurationError as error:
        print("REFUSED", error)


if __name__ == "__main__":
    main()
