"""Running a user's program inside the command line's process: a script, or a function of a module."""

from __future__ import annotations

import importlib
import os
import sys
import types
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tidemill.common.configuration import Configuration
from tidemill.config import PipelineOptions, SparkOptions
from tidemill.errors import ConfigurationError
from tidemill.ops.errors import NotThereError

__all__ = ["Program", "has_workers_elsewhere", "send_along"]

#: Code is small. More than that is a directory with something else in it.
_MOST_SHIPPED: Final = 50 << 20


@dataclass(frozen=True)
class Program:
    """A program as it was named: ``path/to/script.py``, or ``package.module:function``.

    ``python_files`` are those that workers get: what the program imports from them, it finds too.
    """

    name: str
    arguments: tuple[str, ...] = ()
    python_files: tuple[str, ...] = ()

    @property
    def is_script(self) -> bool:
        return ":" not in self.name or self.name.endswith(".py")

    def run(self) -> None:
        """Run it as Python would: a script is ``__main__``, with its own directory on the path and its arguments; a
        function is called without arguments, with the current directory on the path.

        Raises :class:`NotThereError` if there is no such program, and whatever the program raises.
        """
        if self.is_script:
            self._run_script(Path(self.name))
        else:
            self._run_function(*self.name.split(":", 1))

    def _run_script(self, path: Path) -> None:
        try:
            source = path.read_bytes()
        except OSError as error:
            raise NotThereError(f"cannot read the program {path}: {error.strerror}") from error
        module = types.ModuleType("__main__")
        module.__file__ = str(path)
        with self._as_main(module, str(path), path.resolve().parent):
            exec(compile(source, str(path), "exec"), module.__dict__)  # noqa: S102 - it is what the user asks for

    def _run_function(self, module_name: str, function_name: str) -> None:
        if module_name.endswith(".py"):  # to look for it would run a module of that name, for nothing
            raise NotThereError(
                f"{self.name} names a file: say {module_name} for the script, or the module without .py for a function"
            )
        with self._as_main(sys.modules["__main__"], self.name, Path.cwd()):
            try:
                module = importlib.import_module(module_name)
            except ModuleNotFoundError as error:
                if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
                    raise  # the module is there, and misses another one
                raise NotThereError(
                    f"there is no module {module_name!r}: neither installed, nor below {Path.cwd()}"
                ) from error
            function = getattr(module, function_name, None)
            if not callable(function):
                raise NotThereError(f"module {module_name!r} has no function {function_name!r}")
            function()

    def ship(self, folder: Path) -> Path | None:
        """A zip of the code that workers elsewhere need to import: what lies beside a script, or the package of a
        function's module. None if there is nothing."""
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
                f"the code beside {self.name} is larger than {_MOST_SHIPPED >> 20} MB: put the program in a directory "
                "of its own, or name what workers need with --py-files"
            )
        if not files:
            return None
        archive = folder / "program.zip"
        with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as target:
            for file in files:
                target.write(file, file.relative_to(root))
        return archive

    @contextmanager
    def _as_main(self, module: types.ModuleType, name: str, directory: Path) -> Iterator[None]:
        """Let ``module`` be the main module of this process, with the program's arguments, its directory and its files
        on the path.

        Workers on this machine inherit the directory from the environment; files are handed to them.
        """
        main, argv, path, inherited = sys.modules["__main__"], sys.argv, list(sys.path), os.environ.get("PYTHONPATH")
        sys.modules["__main__"], sys.argv = module, [name, *self.arguments]
        sys.path[:0] = [str(directory), *_import_paths(self.python_files)]
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(directory), inherited]))
        try:
            yield
        finally:
            sys.modules["__main__"], sys.argv, sys.path[:] = main, argv, path
            if inherited is None:
                del os.environ["PYTHONPATH"]
            else:
                os.environ["PYTHONPATH"] = inherited


def has_workers_elsewhere(settings: Configuration) -> bool:
    """Whether code must be sent to workers: those of this machine find it where it is."""
    return not settings.get(SparkOptions.MASTER).startswith("local")


def send_along(settings: Configuration, file: Path) -> None:
    """Have workers get a file too, beside those that the settings name."""
    known = settings.get(PipelineOptions.PYTHON_FILES)
    settings.set(PipelineOptions.PYTHON_FILES, ",".join(filter(None, [known, str(file)])))


def _import_paths(files: Sequence[str]) -> list[str]:
    """What makes Python files and zips importable; those elsewhere than on this machine are left to Spark."""
    here = [Path(file).resolve() for file in files if "://" not in file]
    return list(dict.fromkeys(str(file.parent if file.suffix == ".py" else file) for file in here))


def _is_code(path: Path) -> bool:
    return path.suffix == ".py" if path.is_file() else (path / "__init__.py").is_file()


def _files_of(part: Path) -> list[Path]:
    if part.is_file():
        return [part]
    return sorted(file for file in part.rglob("*") if file.is_file() and "__pycache__" not in file.parts)
