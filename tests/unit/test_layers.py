"""The folders are the architecture: imports go one way, and only `tidemill.spark` knows Spark.

Read statically, so that an import inside a function or under `TYPE_CHECKING` counts like any other.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src"

# From lowest to highest: a layer may import itself and those before it. The first is `tidemill/__init__.py`, which runs
# whenever any of the others is imported, and so imports none of them.
LAYERS = (
    "tidemill",
    "errors",
    "faults",
    "config",
    "common",
    "metrics",
    "table",
    "datastream",
    "graph",
    "state",
    "checkpoint",
    "runtime",
    "spark",
    "state_processor",
    "testing",
    "ops",
    "__main__",
)
ONLY_IN_SPARK = ("pyspark", "py4j")
LONGEST_MODULE = 600
NAMES_THAT_SAY_NOTHING = {"util", "utils", "helper", "helpers", "misc"}

MODULES = sorted((SOURCE / "tidemill").rglob("*.py"))
each_module = pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))


def module_name(path: Path) -> str:
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def layer_of(module: str) -> str:
    """The layer that a `tidemill` module belongs to: `spark` for `tidemill.spark.driver`."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else parts[0]


def imports_of(source: str, module: str, *, is_package: bool = False) -> Iterator[tuple[int, str]]:
    """Yield (line, absolute module name) of every import statement, wherever in the module it stands."""
    package = module.split(".") if is_package else module.split(".")[:-1]
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) + 1 - node.level] if node.level else []
            origin = ".".join([*above, *([node.module] if node.module else [])])
            for alias in node.names:
                # `from tidemill import graph` imports a layer; below that, the origin alone tells it.
                yield node.lineno, f"tidemill.{alias.name}" if origin == "tidemill" else origin


def violations(source: str, module: str, *, is_package: bool = False) -> list[str]:
    layer = layer_of(module)
    found = []
    for line, imported in imports_of(source, module, is_package=is_package):
        root = imported.partition(".")[0]
        if root in ONLY_IN_SPARK and layer != "spark":
            found.append(f"line {line}: {module} imports {imported}; only tidemill.spark may")
        elif root == "tidemill":
            target = layer_of(imported)
            if target not in LAYERS:
                found.append(
                    f"line {line}: {imported} has no place in LAYERS (a name is imported from where it is defined)"
                )
            elif LAYERS.index(target) > LAYERS.index(layer):
                found.append(f"line {line}: {module} imports {imported}, which is a higher layer")
    return found


def test_every_module_belongs_to_a_layer() -> None:
    assert {layer_of(module_name(path)) for path in MODULES} <= set(LAYERS), "a new layer needs its place in LAYERS"


@each_module
def test_imports_go_one_way(path: Path) -> None:
    found = violations(path.read_text(encoding="utf-8"), module_name(path), is_package=path.name == "__init__.py")
    assert not found, "\n".join(found)


@each_module
def test_module_is_short_enough_to_read(path: Path) -> None:
    lines = len(path.read_text(encoding="utf-8").splitlines())
    assert lines <= LONGEST_MODULE, f"{lines} lines; split it along a concept before it passes {LONGEST_MODULE}"


@each_module
def test_module_is_named_after_what_it_holds(path: Path) -> None:
    assert not NAMES_THAT_SAY_NOTHING & set(module_name(path).split("."))


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("tidemill.graph.plan", "import tidemill.spark.driver"),
        ("tidemill.graph.plan", "from tidemill import spark"),
        ("tidemill.graph.plan", "from tidemill.runtime.task import Task"),
        ("tidemill.graph.plan", "from ..runtime.task import Task"),
        ("tidemill.graph.plan", "from .. import runtime"),
        ("tidemill.graph.plan", "def f():\n    from tidemill.runtime import task"),
        ("tidemill.graph.plan", "if TYPE_CHECKING:\n    from pyspark.sql import DataFrame"),
        ("tidemill.ops.cli", "import py4j.protocol"),
        ("tidemill.graph.plan", "from tidemill import Something"),
    ],
)
def test_a_forbidden_import_is_seen(module: str, source: str) -> None:
    assert violations(source, module)


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("tidemill.graph.plan", "from tidemill.graph import chains"),
        ("tidemill.graph.plan", "from . import chains"),
        ("tidemill.graph.plan", "from tidemill import errors"),
        ("tidemill.spark.driver", "from pyspark.sql import SparkSession"),
        ("tidemill.ops.cli", "from tidemill.spark.driver import Driver"),
        ("tidemill.graph.plan", "import pysparkling"),
    ],
)
def test_an_allowed_import_passes(module: str, source: str) -> None:
    assert not violations(source, module)
