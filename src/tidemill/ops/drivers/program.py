"""Runs a user's program, a script or a function of a module, in the process of the command line."""

from __future__ import annotations

import importlib
import os
import sys
import types
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from tidemill.common.configuration import Configuration
from tidemill.config import PipelineOptions, SparkOptions
from tidemill.errors import ConfigurationError
from tidemill.ops.errors import NotThereError
from tidemill.runtime.task.program_modules import PACKAGE, ProgramModules, shared_names, write_stubs

__all__ = ["CODE_VARIABLE", "Program", "has_workers_elsewhere", "send_along"]

#: Maximum size of the code that is sent to workers. A larger directory probably contains something else.
_MOST_SHIPPED: Final = 50 << 20
#: Environment variable with the directory of a ``module:function``, if it is not the working directory.
CODE_VARIABLE: Final = "TIDEMILL_PROGRAM_DIRECTORY"


@dataclass(frozen=True)
class Program:
    """A program as the user specified it: ``path/to/script.py``, or ``package.module:function``.

    ``python_files`` are sent to workers. The program itself can import from them too.
    """

    name: str
    arguments: tuple[str, ...] = ()
    python_files: tuple[str, ...] = ()

    @property
    def is_script(self) -> bool:
        return ":" not in self.name or self.name.endswith(".py")

    def run(self, read: Callable[[Path], bytes] = Path.read_bytes) -> None:
        """Run the program as Python would.

        A script is ``__main__``, with its directory in the path, and gets its arguments. A function is called without
        arguments, with the current directory in the path. ``read`` returns the source of a script.

        Raises :class:`NotThereError` if the program does not exist, and any exception that the program raises.
        """
        if self.is_script:
            self._run_script(Path(self.name), read)
        else:
            self._run_function(*self.name.split(":", 1))

    def _run_script(self, path: Path, read: Callable[[Path], bytes]) -> None:
        try:
            source = read(path)
        except OSError as error:
            raise NotThereError(f"cannot read the program {path}: {error.strerror}") from error
        module = types.ModuleType("__main__")
        module.__file__ = str(path)
        with self._as_main(module, str(path), path.resolve().parent):
            exec(compile(source, str(path), "exec"), module.__dict__)  # noqa: S102 - the user requested it

    def _run_function(self, module_name: str, function_name: str) -> None:
        if module_name.endswith(".py"):  # importing it would run a module of that name in vain
            raise NotThereError(
                f"{self.name} is a file: specify {module_name} for the script, or the module without .py for a function"
            )
        directory = Path(os.environ.get(CODE_VARIABLE) or Path.cwd())
        with self._as_main(sys.modules["__main__"], self.name, directory) as imported:
            try:
                module = imported(module_name)
            except ModuleNotFoundError as error:
                if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
                    raise  # the module exists, but imports another one that does not
                raise NotThereError(
                    f"there is no module {module_name!r}: it is neither installed, nor in {Path.cwd()}"
                ) from error
            function = getattr(module, function_name, None)
            if not callable(function):
                raise NotThereError(f"module {module_name!r} has no function {function_name!r}")
            function()

    def ship(self, folder: Path) -> Path | None:
        """Create a zip of the code that workers on other machines must import, or return None if there is none.

        This is the code in the directory of a script, or the package of a function's module.
        """
        if self.is_script:
            root = Path(self.name).resolve().parent
            parts = sorted(path for path in root.iterdir() if path != Path(self.name).resolve() and _is_code(path))
        else:
            top = self.name.partition(":")[0].partition(".")[0]
            root = Path.cwd()
            parts = [path for path in (root / top, root / f"{top}.py") if path.exists()]
        files = [file for part in parts for file in _files_of(part)]
        if sum(file.stat().st_size for file in files) > _MOST_SHIPPED:
            raise ConfigurationError(
                f"the code next to {self.name} is larger than {_MOST_SHIPPED >> 20} MB: put the program in a separate "
                "directory, or specify the files for workers with --py-files"
            )
        if not files:
            return None
        archive = folder / "program.zip"
        shared = shared_names([str(root)])
        with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as target:
            if shared:
                target.writestr(f"{PACKAGE}/__init__.py", "")
            for file in files:
                name = file.relative_to(root)
                target.write(file, Path(PACKAGE, name) if name.parts[0].removesuffix(".py") in shared else name)
        return archive

    @contextmanager
    def _as_main(
        self, module: types.ModuleType, name: str, directory: Path
    ) -> Iterator[Callable[[str], types.ModuleType]]:
        """Make ``module`` the main module of this process, with the program's arguments and with its directory and
        files in the path. Yields a function that imports a module of the program.

        The command line itself never imports a file of the program, whatever its name: see
        :mod:`tidemill.runtime.task.program_modules`. Workers on this machine inherit the directory through the
        environment; the files are sent to them.
        """
        main, argv, path, inherited = sys.modules["__main__"], sys.argv, list(sys.path), os.environ.get("PYTHONPATH")
        directories = [str(directory), *_import_paths(self.python_files)]
        shared = shared_names(directories)
        sys.modules["__main__"], sys.argv = module, [name, *self.arguments]
        with ExitStack() as undo:
            for_workers = str(directory)
            imported: Callable[[str], types.ModuleType] = importlib.import_module
            if shared:
                modules = ProgramModules(directories, shared)
                if module is not main:
                    module.__dict__["__builtins__"] = modules.builtins()
                modules.install()
                undo.callback(modules.remove)
                imported = modules.imported
                for_workers = undo.enter_context(TemporaryDirectory(prefix="tidemill-modules-"))
                write_stubs(Path(for_workers), directories, shared)
            else:
                sys.path[:0] = directories
            os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [for_workers, inherited]))
            try:
                yield imported
            finally:
                sys.modules["__main__"], sys.argv, sys.path[:] = main, argv, path
                if inherited is None:
                    del os.environ["PYTHONPATH"]
                else:
                    os.environ["PYTHONPATH"] = inherited


def has_workers_elsewhere(settings: Configuration) -> bool:
    """Whether code must be sent to workers. Workers on this machine read it from its original location."""
    return not settings.get(SparkOptions.MASTER).startswith("local")


def send_along(settings: Configuration, file: Path) -> None:
    """Add a file to the Python files that are sent to workers."""
    known = settings.get(PipelineOptions.PYTHON_FILES)
    settings.set(PipelineOptions.PYTHON_FILES, ",".join(filter(None, [known, str(file)])))


def _import_paths(files: Sequence[str]) -> list[str]:
    """Return the import paths for Python files and zips on this machine. Remote files are left to Spark."""
    here = [Path(file).resolve() for file in files if "://" not in file]
    return list(dict.fromkeys(str(file.parent if file.suffix == ".py" else file) for file in here))


def _is_code(path: Path) -> bool:
    return path.suffix == ".py" if path.is_file() else (path / "__init__.py").is_file()


def _files_of(part: Path) -> list[Path]:
    if part.is_file():
        return [part]
    return sorted(file for file in part.rglob("*") if file.is_file() and "__pycache__" not in file.parts)
