"""The folders are the architecture: imports go one way, rooms are small, and only `tidemill.spark` knows Spark.

Read statically, so that an import inside a function counts like any other.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

SOURCE = Path(__file__).parents[2] / "src"

# From lowest to highest: a layer may import itself and those before it; those in one line are of the same rank. A
# module belongs to the longest name that it begins with. The first layer is `tidemill/__init__.py`, which runs whenever
# any of the others is imported, and so imports none of them.
LAYERS = (
    ("tidemill",),
    ("python_versions",),
    ("deprecation",),
    ("lazy_names",),
    ("errors",),
    ("faults",),
    ("java_gateway", "late_names", "version", "without_effect"),
    ("util",),
    ("config",),
    ("common",),
    ("metrics",),
    ("table",),
    ("datastream.output_tag", "datastream.time_domain", "datastream.timerservice"),
    ("datastream.functions",),
    ("datastream.window",),
    ("connectors",),
    ("datastream.program",),
    ("datastream.slot_sharing_group",),
    ("datastream.streams",),
    ("datastream.checkpointing_mode", "datastream.externalized_checkpoint_retention", "datastream.checkpoint_storage"),
    ("datastream.checkpoint_config", "datastream.execution_mode", "datastream.state_backend"),
    ("datastream.time_characteristic",),
    ("datastream.environment",),
    ("datastream",),
    ("graph",),
    ("state",),
    ("checkpoint",),
    ("runtime",),
    ("local",),
    ("spark",),
    ("state_processor",),
    ("testing",),
    ("ops",),
    ("__main__",),
)
RANKS = {layer: rank for rank, layers in enumerate(LAYERS) for layer in layers}
ONLY_IN_SPARK = ("pyspark", "py4j")
LONGEST_MODULE = 500
MOST_MODULES = 22
NAMES_THAT_SAY_NOTHING = {"util", "utils", "helper", "helpers", "misc"}
#: PyFlink's paths, which programs import.
NAMED_BY_PYFLINK = {"tidemill.util", "tidemill.util.utils"}
#: Streams make each other: `DataStream.key_by` returns a `KeyedStream`, which is a `DataStream`.
MAY_BE_CYCLIC = ("tidemill.datastream.streams",)


class Import(NamedTuple):
    """An import statement; ``typing`` if it stands under `TYPE_CHECKING`."""

    line: int
    module: str
    typing: bool


def module_name(path: Path) -> str:
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_name(path): path for path in sorted((SOURCE / "tidemill").rglob("*.py"))}
PACKAGES = {module for module, path in MODULES.items() if path.name == "__init__.py"}


def layer_of(module: str) -> str | None:
    """The layer of a `tidemill` module: `spark` for `tidemill.spark.executor`."""
    parts = module.split(".")[1:]
    if not parts:
        return "tidemill"
    return next((layer for n in range(len(parts), 0, -1) if (layer := ".".join(parts[:n])) in RANKS), None)


@cache
def imports_of(source: str, module: str, *, is_package: bool = False) -> tuple[Import, ...]:
    """Every import statement of a module, wherever it stands, with absolute names."""
    return tuple(_imports_of(source, module, is_package))


def _imports_of(source: str, module: str, is_package: bool) -> Iterator[Import]:
    package = module.split(".") if is_package else module.split(".")[:-1]
    tree = ast.parse(source)
    typing = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(node.lineno, alias.name, id(node) in typing)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) + 1 - node.level] if node.level else []
            origin = ".".join([*above, *([node.module] if node.module else [])])
            for alias in node.names:
                # `from tidemill import graph` imports a layer; below that, a name may be a module or not.
                whole = f"{origin}.{alias.name}"
                is_layer = origin == "tidemill" and alias.name != "__version__"
                yield Import(node.lineno, whole if is_layer or whole in MODULES else origin, id(node) in typing)


def violations(source: str, module: str, *, is_package: bool = False) -> list[str]:
    layer = layer_of(module)
    assert layer is not None, f"{module} has no place in LAYERS"
    found = []
    for line, imported, typing in imports_of(source, module, is_package=is_package):
        root = imported.partition(".")[0]
        if root in ONLY_IN_SPARK and layer != "spark":
            found.append(f"line {line}: {module} imports {imported}; only tidemill.spark may")
        elif root == "tidemill":
            target = layer_of(imported)
            if target is None:
                found.append(
                    f"line {line}: {imported} has no place in LAYERS (a name is imported from where it is defined)"
                )
            elif RANKS[target] > RANKS[layer] and not (typing and target.split(".")[0] == layer.split(".")[0]):
                found.append(f"line {line}: {module} imports {imported}, which is a higher layer")
    return found


@cache
def graph() -> dict[str, set[str]]:
    """Which modules each module needs when it runs; what is imported for its types alone does not count."""
    return {
        module: {
            needed
            for _, needed, typing in imports_of(path.read_text(encoding="utf-8"), module, is_package=module in PACKAGES)
            if needed in MODULES and needed != module and not typing
        }
        for module, path in MODULES.items()
    }


def cycle_in(needs: Mapping[str, Iterable[str]]) -> list[str]:
    """The nodes of one cycle in their order, or nothing."""
    done: set[str] = set()
    way: list[str] = []

    def visit(node: str) -> list[str]:
        if node in way:
            return [*way[way.index(node) :], node]
        if node in done:
            return []
        way.append(node)
        for needed in sorted(needs.get(node, ())):
            if found := visit(needed):
                return found
        way.pop()
        done.add(node)
        return []

    for node in sorted(needs):
        if found := visit(node):
            return found
    return []


def rooms_of(package: str, needs: Mapping[str, Iterable[str]]) -> dict[str, set[str]]:
    """What the packages directly inside a package need of each other."""

    def room(module: str) -> str | None:
        name = ".".join(module.split(".")[: package.count(".") + 2])
        return name if module.startswith(f"{package}.") and name in PACKAGES else None

    found: dict[str, set[str]] = {}
    for module, needed in needs.items():
        here = room(module)
        if here is not None:
            found.setdefault(here, set()).update(there for one in needed if (there := room(one)) not in (None, here))
    return found


def test_every_module_belongs_to_a_layer() -> None:
    assert not [module for module in MODULES if layer_of(module) is None], "a new layer needs its place in LAYERS"


def test_imports_go_one_way() -> None:
    found = [
        violation
        for module, path in MODULES.items()
        for violation in violations(path.read_text(encoding="utf-8"), module, is_package=module in PACKAGES)
    ]
    assert not found, "\n".join(found)


def test_no_modules_need_each_other() -> None:
    needs = {module: needed for module, needed in graph().items() if not module.startswith(MAY_BE_CYCLIC)}
    found = cycle_in(needs)
    assert not found, " -> ".join(found)


@pytest.mark.parametrize("package", sorted(PACKAGES - {"tidemill"}))
def test_no_rooms_need_each_other(package: str) -> None:
    found = cycle_in(rooms_of(package, graph()))
    assert not found, " -> ".join(found)


def test_rooms_are_small() -> None:
    sizes = {package: len(list(MODULES[package].parent.glob("*.py"))) - 1 for package in PACKAGES}
    assert {package: size for package, size in sizes.items() if size > MOST_MODULES} == {}


def unclear(docstring: str, folder: Path) -> str | None:
    """What the docstring of a package lacks, or None."""
    if len(re.findall(r"\.(?=\s|$)", docstring)) < 2:
        return "fewer than two sentences: what lives there, what does not, and where that is instead"
    start = re.search(r"Start\s+with\s+`+([\w/]+\.py)`", docstring)
    if start is None:
        alone = {path.name for path in folder.iterdir()} <= {"__init__.py", "__pycache__"}
        return None if alone else "no 'Start with `module.py`'"
    return None if (folder / start[1]).is_file() else f"{start[1]} does not exist"


def test_rooms_say_what_lives_there() -> None:
    found = {
        package: lacks
        for package in sorted(PACKAGES)
        if (
            lacks := unclear(
                ast.get_docstring(ast.parse(MODULES[package].read_text(encoding="utf-8"))) or "",
                MODULES[package].parent,
            )
        )
    }
    assert not found, found


@pytest.mark.parametrize(
    ("docstring", "lacks"),
    [
        ("", "fewer than two"),
        ("Windows. Start with", "fewer than two"),
        ("Windows. Triggers are elsewhere.", "no 'Start with"),
        ("Windows. Start with `missing.py`.", "missing.py does not exist"),
        ("Windows. Start with ``here.py``.", None),
        ("Windows. Start\nwith `room/inside.py`.", None),
    ],
)
def test_an_unclear_docstring_of_a_room_is_seen(docstring: str, lacks: str | None, tmp_path: Path) -> None:
    (tmp_path / "room").mkdir()
    (tmp_path / "here.py").touch()
    (tmp_path / "room" / "inside.py").touch()
    found = unclear(docstring, tmp_path)
    assert found is None if lacks is None else lacks in (found or "")


def test_modules_are_short_enough_to_read() -> None:
    lines = {module: len(path.read_text(encoding="utf-8").splitlines()) for module, path in MODULES.items()}
    long = {module: count for module, count in lines.items() if count > LONGEST_MODULE}
    assert not long, "split them along a concept"


def test_modules_are_named_after_what_they_hold() -> None:
    named = [module for module in MODULES if not {module, module.rpartition(".")[0]} & NAMED_BY_PYFLINK]
    assert not [module for module in named if NAMES_THAT_SAY_NOTHING & set(module.split("."))]


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
        ("tidemill.graph.plan", "if TYPE_CHECKING:\n    from tidemill.runtime.task import Task"),
        ("tidemill.connectors.sinks", "from tidemill.datastream.streams.data_stream import DataStream"),
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
        ("tidemill.graph.plan", "from tidemill import __version__"),
        ("tidemill.connectors.sinks", "from tidemill.datastream.functions.base import Function"),
        ("tidemill.datastream.streams.data_stream", "if TYPE_CHECKING:\n    import tidemill.datastream.environment"),
        ("tidemill.spark.driver", "from pyspark.sql import SparkSession"),
        ("tidemill.ops.cli", "from tidemill.spark.driver import Driver"),
        ("tidemill.graph.plan", "import pysparkling"),
    ],
)
def test_an_allowed_import_passes(module: str, source: str) -> None:
    assert not violations(source, module)


def test_a_cycle_is_seen() -> None:
    needs = {"a": ["b"], "b": ["c"], "c": ["b"], "d": ["a"]}
    assert cycle_in(needs) == ["b", "c", "b"]
    assert cycle_in({**needs, "c": []}) == []


def test_a_cycle_of_rooms_is_seen() -> None:
    needs = {
        "tidemill.state.codecs.base": {"tidemill.state.files.rows"},
        "tidemill.state.files.sections": {"tidemill.state.codecs.any", "tidemill.errors"},
        "tidemill.state.merging": {"tidemill.state.files.sections"},
    }
    assert cycle_in(rooms_of("tidemill.state", needs))
    assert not cycle_in(rooms_of("tidemill", needs))
