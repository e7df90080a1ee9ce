"""Lets a program have modules whose names others have too, such as ``rich.py``, in one process with those others.

Python has one module for each name. With the directory of a program first in the path, a file ``rich.py`` in it is
imported by everything that needs the package ``rich``, the command line included; with the directory last, the program
itself gets the package. So the files with such *shared names* are modules of the package ``tidemill_program``, and only
the modules of the program import them under their short names: their ``import`` statements use a function of their own.
Nothing else is slower or different, and classes of such modules can be pickled by reference, for workers too.

This is set up only if there are shared names (:func:`shared_names`): otherwise the directory of the program is simply
the first one in the path.
"""

from __future__ import annotations

import builtins
import importlib
import re
import sys
from collections.abc import Mapping, Sequence
from importlib import metadata
from importlib.machinery import FileFinder, ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any, Final

__all__ = ["PACKAGE", "ProgramModules", "shared_names", "write_stubs"]

#: The package of the modules with shared names.
PACKAGE: Final = "tidemill_program"
#: The name in a requirement, such as ``rich>=13; extra == "ops"``.
_NAME: Final = re.compile(r"[A-Za-z0-9._-]+")


def shared_names(directories: Sequence[str]) -> frozenset[str]:
    """The names of modules in these directories that the standard library has too, or a package that Tidemill needs.

    Other names belong to the program, also if something that is installed has them too: Tidemill does not import that.
    """
    own = {str(Path(directory).resolve()) for directory in directories}
    elsewhere = [place for place in sys.path if str(Path(place or ".").resolve()) not in own]
    found = {name for directory in directories for name in _modules_in(Path(directory))}
    standard = found & sys.stdlib_module_names
    installed = {name for name in found - standard if PathFinder.find_spec(name, elsewhere) is not None}
    return frozenset(standard | (installed & _needed_modules() if installed else set()))


def _needed_modules() -> set[str]:
    """The modules of Tidemill and of all packages that it needs, with all its extras. Takes a tenth of a second."""
    of_distribution: dict[str, set[str]] = {}
    for module, distributions in metadata.packages_distributions().items():
        for distribution in distributions:
            of_distribution.setdefault(_normal(distribution), set()).add(module)
    needed, waiting = set(), ["tidemill"]
    while waiting:
        distribution = waiting.pop()
        if distribution not in needed and distribution in of_distribution:
            needed.add(distribution)
            wanted = (one for one in metadata.requires(distribution) or () if not _is_extra(distribution, one))
            waiting += [_normal(found[0]) for one in wanted if (found := _NAME.match(one))]
    return {module for distribution in needed for module in of_distribution[distribution]} | {"tidemill"}


def _is_extra(distribution: str, requirement: str) -> bool:
    """Whether a requirement is that of an extra; those of Tidemill itself are needed too."""
    return distribution != "tidemill" and "extra ==" in requirement


def _normal(distribution: str) -> str:
    return re.sub(r"[-_.]+", "-", distribution).lower()


def _modules_in(directory: Path) -> list[str]:
    """The names that a directory gives to modules and packages, without those of folders that are no packages."""
    if not directory.is_dir():
        return []
    finder = FileFinder(str(directory), (SourceFileLoader, [".py"]))
    names = {path.name.partition(".")[0] for path in directory.iterdir()}
    specs = ((name, finder.find_spec(name)) for name in sorted(names) if name.isidentifier() and name != "__main__")
    return [name for name, spec in specs if spec is not None and spec.loader is not None]


class ProgramModules:
    """Finds the modules of a program in its directories. Goes into ``sys.meta_path``, before Python's own finders."""

    def __init__(self, directories: Sequence[str], shared: frozenset[str]) -> None:
        self._directories = [str(Path(directory).resolve()) for directory in directories]
        self._shared = shared

    def install(self) -> None:
        """Let modules be found from now on."""
        sys.meta_path.insert(0, self)

    def remove(self) -> None:
        """Undo :meth:`install`. Modules that have been imported stay."""
        sys.meta_path.remove(self)

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: object = None) -> ModuleSpec | None:
        """The module with this full name, if it is the program's."""
        if name == PACKAGE:
            spec = ModuleSpec(name, None, is_package=True)
            spec.submodule_search_locations = list(self._directories)
            return spec
        if path is None:
            if name in self._shared:
                return None
            path = self._directories
        elif not any(self._holds(place) for place in path):
            return None
        found = PathFinder.find_spec(name, path)
        if found is not None and type(found.loader) is SourceFileLoader:
            found.loader = _Loader(found.loader.name, found.loader.path, self)
        return found

    def imported(self, name: str) -> ModuleType:
        """Import a module by the name that the program has for it."""
        return importlib.import_module(f"{PACKAGE}.{name}" if name.partition(".")[0] in self._shared else name)

    def builtins(self) -> dict[str, Any]:
        """The built-in names of a module of the program: with an ``import`` that finds the modules of the program."""
        return {**vars(builtins), "__import__": self._import}

    def _holds(self, place: str) -> bool:
        return any(Path(place).resolve().is_relative_to(directory) for directory in self._directories)

    def _import(
        self,
        name: str,
        globals: Mapping[str, object] | None = None,  # noqa: A002 - the names of the builtin
        locals: Mapping[str, object] | None = None,  # noqa: A002
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> ModuleType:
        top = name.partition(".")[0]
        if level or top not in self._shared:
            return builtins.__import__(name, globals, locals, fromlist or (), level)
        module = builtins.__import__(f"{PACKAGE}.{name}", globals, locals, fromlist or ())
        return module if fromlist else importlib.import_module(f"{PACKAGE}.{top}")


class _Loader(SourceFileLoader):
    """Runs a module of the program with the program's ``import``."""

    def __init__(self, name: str, path: str, modules: ProgramModules) -> None:
        super().__init__(name, path)
        self._modules = modules

    def exec_module(self, module: ModuleType) -> None:
        module.__dict__["__builtins__"] = self._modules.builtins()
        super().exec_module(module)


def write_stubs(folder: Path, directories: Sequence[str], shared: frozenset[str]) -> None:
    """Fill a folder that workers have in their path instead of the directories of the program.

    It has a small module for each name that is only the program's. The first one that is imported installs
    :class:`ProgramModules` in the worker, and lets it find the real module.
    """
    text = (
        "import importlib, sys\n"
        "from tidemill.runtime.task.program_modules import ProgramModules\n"
        f"ProgramModules({list(directories)!r}, frozenset({sorted(shared)!r})).install()\n"
        "del sys.modules[__name__]\n"
        "importlib.import_module(__name__)\n"
    )
    for name in [PACKAGE, *(name for one in directories for name in _modules_in(Path(one)) if name not in shared)]:
        (folder / f"{name}.py").write_text(text, encoding="utf-8")
