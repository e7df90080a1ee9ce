"""Running a user's program inside the command line's process: a script, or a function of a module."""

from __future__ import annotations

import importlib
import os
import sys
import traceback
import types
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import typer

from tidemill.common.exit_codes import exit_code_of
from tidemill.errors import ConfigurationError, TidemillError
from tidemill.ops.cli.failures import CommandExit, NotThereError

__all__ = ["Program", "ended_with"]

_OURS: Final = str(Path(__file__).parent)
#: Code is small. More than that is a directory with something else in it.
_MOST_SHIPPED: Final = 50 << 20


@dataclass(frozen=True)
class Program:
    """A program as it was named: ``path/to/script.py``, or ``package.module:function``."""

    name: str
    arguments: tuple[str, ...] = ()

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
        with _as_main(module, [str(path), *self.arguments], path.resolve().parent):
            exec(compile(source, str(path), "exec"), module.__dict__)  # noqa: S102 - it is what the user asks for

    def _run_function(self, module_name: str, function_name: str) -> None:
        with _as_main(sys.modules["__main__"], [self.name, *self.arguments], Path.cwd()):
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


def ended_with(error: BaseException) -> int:
    """Tell a person what a program ended with, and return its exit code. The user's own traceback is shown; ours never.

    What Tidemill raises says itself what happened, and has the traceback of a user's function in it.
    """
    if isinstance(error, SystemExit):
        if error.code is None or isinstance(error.code, int):
            return error.code or 0
        typer.echo(str(error.code), err=True)
        return 1
    if isinstance(error, KeyboardInterrupt):
        typer.echo("interrupted: the job was cancelled", err=True)
        return CommandExit.INTERRUPTED
    if isinstance(error, TidemillError):
        typer.echo(f"{type(error).__name__}: {error}", err=True)
    else:
        told = traceback.TracebackException.from_exception(error)
        told.stack = traceback.StackSummary.from_list(
            [frame for frame in told.stack if not frame.filename.startswith(_OURS)]
        )
        typer.echo("".join(told.format()), err=True, nl=False)
    return CommandExit.NOT_FOUND if isinstance(error, NotThereError) else exit_code_of(error)


@contextmanager
def _as_main(module: types.ModuleType, arguments: Sequence[str], directory: Path) -> Iterator[None]:
    """Let ``module`` be the main module of this process, with these arguments and this directory on the path.

    Workers on this machine inherit the path from the environment.
    """
    main, argv, path, inherited = sys.modules["__main__"], sys.argv, list(sys.path), os.environ.get("PYTHONPATH")
    sys.modules["__main__"], sys.argv = module, list(arguments)
    sys.path.insert(0, str(directory))
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(directory), inherited]))
    try:
        yield
    finally:
        sys.modules["__main__"], sys.argv, sys.path[:] = main, argv, path
        if inherited is None:
            del os.environ["PYTHONPATH"]
        else:
            os.environ["PYTHONPATH"] = inherited


def _is_code(path: Path) -> bool:
    return path.suffix == ".py" if path.is_file() else (path / "__init__.py").is_file()


def _files_of(part: Path) -> list[Path]:
    if part.is_file():
        return [part]
    return sorted(file for file in part.rglob("*") if file.is_file() and "__pycache__" not in file.parts)
