"""Lists what programs can import from PyFlink, version by version, by reading its sources. Nothing of it is run.

python tools/pyflink_names.py FOLDER OUTPUT    # FOLDER has the sources of each version: 1.12/pyflink, 2.3/pyflink

The output has three parts:

- ``versions``: the versions in order;
- ``modules``: module -> name -> [where the name is defined, versions]: ``module:name`` for a class or a value,
  ``module:name()`` for a function, ``module:`` for a module. Names are those of PyFlink: what a module imports from
  elsewhere (``typing``, ``py4j``) is left out, what it imports from another module of PyFlink is not;
- ``classes``: class -> member -> signature -> versions. The signature of a method has its parameters without ``self``,
  with ``=`` after those that have a default, ``*`` before those that take the rest, and a single ``*`` before those
  that are keywords only; ``@`` is a property or an attribute. Members of nested classes are ``Builder.build``.
  Inherited members are included if a class of PyFlink defines them.

Versions are ranges: ``1.12-1.16 2.0``.
"""

from __future__ import annotations

import ast
import json
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

#: What is not for programs of the DataStream API, or is not for programs at all.
_LEFT_OUT: Final = (
    "bin",
    "dataframe",
    "dataset",
    "examples",
    "fn_execution",
    "gen_protos",
    "ml",
    "shell",
    "table",
    "testing",
    "tests",
)
_SHOWN_BY_PRINT: Final = frozenset(("__str__", "__repr__", "__init_subclass__", "__new__", "__del__"))

Signature = str
#: The signature of what is not called.
_ATTRIBUTE: Final = "@"


@dataclass
class Class:
    """A class as its module defines it. ``bases`` are the names that the module knows them by."""

    bases: list[str]
    members: dict[str, Signature] = field(default_factory=dict)
    nested: dict[str, Class] = field(default_factory=dict)


@dataclass
class Module:
    """What one module defines and imports."""

    name: str
    is_package: bool
    classes: dict[str, Class] = field(default_factory=dict)
    others: dict[str, str] = field(default_factory=dict)
    imports: dict[str, tuple[str, str]] = field(default_factory=dict)
    stars: list[str] = field(default_factory=list)
    exported: list[str] | None = None


@dataclass(frozen=True)
class Found:
    """Where a name is defined, and what it is: ``class``, ``function``, ``value`` or ``module``."""

    module: str
    name: str
    kind: str


class Sources:
    """All modules of one version."""

    def __init__(self, folder: Path) -> None:
        self.modules: dict[str, Module] = {}
        for file in sorted((folder / "pyflink").rglob("*.py")):
            parts = file.relative_to(folder).with_suffix("").parts
            if parts[-1] == "setup":
                continue
            is_package = parts[-1] == "__init__"
            name = ".".join(parts[:-1] if is_package else parts)
            self.modules[name] = read(file, name, is_package)

    def names_of(self, module: str, seen: frozenset[str] = frozenset()) -> dict[str, Found]:
        """All names of PyFlink that ``from module import name`` finds."""
        if module in seen or module not in self.modules:
            return {}
        source, seen = self.modules[module], seen | {module}
        found: dict[str, Found] = {}
        for other in source.stars:
            names = self.names_of(other, seen)
            exported = self.modules[other].exported if other in self.modules else None
            found.update({name: one for name, one in names.items() if exported is None or name in exported})
        for name, (other, original) in source.imports.items():
            one = self.resolve(other, original, seen)
            if one is not None:
                found[name] = one
        found.update({name: Found(module, name, "class") for name in source.classes})
        found.update({name: Found(module, name, kind) for name, kind in source.others.items()})
        return {name: one for name, one in found.items() if not name.startswith("_")}

    def resolve(self, module: str, name: str, seen: frozenset[str] = frozenset()) -> Found | None:
        """What ``from module import name`` finds, or None if it is not PyFlink's."""
        if not name:
            return Found(module, "", "module") if module in self.modules else None
        source = self.modules.get(module)
        if source is None:
            return None
        if name in source.classes:
            return Found(module, name, "class")
        if name in source.others:
            return Found(module, name, source.others[name])
        if name in source.imports:
            other, original = source.imports[name]
            if (other, original) != (module, name) and module not in seen:
                return self.resolve(other, original, seen | {module})
        for other in source.stars:
            found = self.names_of(other, seen | {module}).get(name)
            if found is not None:
                return found
        return Found(f"{module}.{name}", "", "module") if f"{module}.{name}" in self.modules else None

    def members_of(self, module: str, path: str) -> dict[str, Signature]:
        """The public members of a class, with those of its nested classes and of its bases in PyFlink."""
        return dict(self._members(module, path.split("."), frozenset()))

    def _members(self, module: str, path: list[str], seen: frozenset[tuple[str, str]]) -> Iterator[tuple[str, str]]:
        source = self.modules[module]
        cls = source.classes.get(path[0])
        for part in path[1:]:
            cls = cls.nested.get(part) if cls is not None else None
        if cls is None or (module, ".".join(path)) in seen:
            return
        seen = seen | {(module, ".".join(path))}
        for base in reversed(cls.bases):
            yield from self._inherited(source, path, base, seen)
        yield from ((name, signature) for name, signature in cls.members.items() if is_public(name))
        for name in cls.nested:
            if is_public(name):
                yield name, _ATTRIBUTE
                for member, signature in self._members(module, [*path, name], seen):
                    yield f"{name}.{member}", signature

    def _inherited(
        self, source: Module, path: list[str], base: str, seen: frozenset[tuple[str, str]]
    ) -> Iterator[tuple[str, str]]:
        first, *rest = base.split(".")
        # A base of a nested class may be its sibling.
        if len(path) > 1 and not rest:
            siblings = source.classes[path[0]].nested
            if first in siblings:
                yield from self._members(source.name, [path[0], first], seen)
                return
        found = self.resolve(source.name, first)
        if found is None or found.kind == "value":
            return
        if found.kind == "module":
            if rest and found.module in self.modules:
                yield from self._members(found.module, rest, seen)
            return
        yield from self._members(found.module, [found.name, *rest], seen)


def read(file: Path, name: str, is_package: bool) -> Module:
    """What a module defines and imports when it is run."""
    module = Module(name, is_package)
    for statement in executed(ast.parse(file.read_text(encoding="utf-8")).body):
        match statement:
            case ast.Import() | ast.ImportFrom():
                read_import(statement, module)
            case ast.ClassDef():
                module.classes[statement.name] = read_class(statement)
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                module.others[statement.name] = "function"
            case ast.Assign() | ast.AnnAssign():
                for target in targets(statement):
                    if target == "__all__" and isinstance(statement.value, (ast.List, ast.Tuple)):
                        module.exported = [str(ast.literal_eval(one)) for one in statement.value.elts]
                    module.others[target] = "value"
    return module


def read_import(statement: ast.Import | ast.ImportFrom, module: Module) -> None:
    """What a module imports from PyFlink."""
    if isinstance(statement, ast.Import):
        for alias in statement.names:
            if alias.name.startswith("pyflink") and alias.asname:
                module.imports[alias.asname] = (alias.name, "")
        return
    origin = absolute(module, statement)
    for alias in statement.names if origin.startswith("pyflink") else ():
        if alias.name == "*":
            module.stars.append(origin)
        else:
            module.imports[alias.asname or alias.name] = (origin, alias.name)


def executed(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of a module or class that an import executes, those within ``if`` and ``try`` included."""
    for statement in body:
        match statement:
            case ast.If():
                if "TYPE_CHECKING" not in ast.unparse(statement.test) and "__main__" not in ast.unparse(statement.test):
                    yield from executed([*statement.body, *statement.orelse])
            case ast.Try():
                yield from executed([*statement.body, *(one for handler in statement.handlers for one in handler.body)])
            case _:
                yield statement


def read_class(definition: ast.ClassDef) -> Class:
    """The members of a class, without what it inherits."""
    cls = Class([without_parameters(base) for base in definition.bases])
    if any("NamedTuple" in base for base in cls.bases) or any(
        "dataclass" in ast.unparse(one) for one in definition.decorator_list
    ):
        fields = [one for one in definition.body if isinstance(one, ast.AnnAssign)]
        names = [f"{one.target.id}{'=' if one.value else ''}" for one in fields if isinstance(one.target, ast.Name)]
        cls.members["__init__"] = " ".join(names)
    for statement in executed(definition.body):
        match statement:
            case ast.ClassDef():
                cls.nested[statement.name] = read_class(statement)
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                decorators = {ast.unparse(one) for one in statement.decorator_list}
                if any(one.endswith(".setter") or one == "overload" for one in decorators):
                    continue
                is_property = any("property" in one for one in decorators)
                cls.members[statement.name] = _ATTRIBUTE if is_property else signature_of(statement, decorators)
                for name in attributes_set_in(statement):
                    cls.members.setdefault(name, _ATTRIBUTE)
            case ast.Assign() | ast.AnnAssign():
                for target in targets(statement):
                    if isinstance(statement, ast.Assign) or statement.value is not None:
                        cls.members[target] = _ATTRIBUTE
    return cls


def signature_of(function: ast.FunctionDef | ast.AsyncFunctionDef, decorators: set[str]) -> Signature:
    """The parameters of a method without ``self``."""
    given = function.args
    places = [*given.posonlyargs, *given.args]
    optional = len(given.defaults)
    parts = [f"{one.arg}{'=' if position >= len(places) - optional else ''}" for position, one in enumerate(places)]
    if "staticmethod" not in decorators:
        parts = parts[1:]
    if given.vararg is not None:
        parts.append(f"*{given.vararg.arg}")
    elif given.kwonlyargs:
        parts.append("*")
    parts += [
        f"{one.arg}{'' if default is None else '='}"
        for one, default in zip(given.kwonlyargs, given.kw_defaults, strict=True)
    ]
    if given.kwarg is not None:
        parts.append(f"**{given.kwarg.arg}")
    return " ".join(parts)


def attributes_set_in(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[str]:
    """The public attributes that ``__init__`` sets."""
    if function.name != "__init__":
        return
    for node in ast.walk(function):
        if (
            isinstance(node, ast.Attribute)
            and isinstance(node.ctx, ast.Store)
            and isinstance(node.value, ast.Name)
            and node.value.id == "self"
            and not node.attr.startswith("_")
        ):
            yield node.attr


def targets(statement: ast.Assign | ast.AnnAssign) -> Iterator[str]:
    """The names that a statement assigns."""
    for target in statement.targets if isinstance(statement, ast.Assign) else [statement.target]:
        for one in target.elts if isinstance(target, ast.Tuple) else [target]:
            if isinstance(one, ast.Name):
                yield one.id


def without_parameters(base: ast.expr) -> str:
    """The name of a base class: ``Generic`` for ``Generic[T]``."""
    return ast.unparse(base.value if isinstance(base, ast.Subscript) else base)


def absolute(module: Module, statement: ast.ImportFrom) -> str:
    """The module that a statement imports from."""
    if not statement.level:
        return statement.module or ""
    parts = module.name.split(".")
    parts = parts[: len(parts) - statement.level + module.is_package]
    return ".".join([*parts, *filter(None, [statement.module])])


def is_public(name: str) -> bool:
    return not name.startswith("_") or (name.endswith("__") and name not in _SHOWN_BY_PRINT)


def is_for_programs(module: str) -> bool:
    """Whether programs import from a module."""
    parts = module.split(".")[1:]
    return (
        bool(parts)
        and parts[0] not in _LEFT_OUT
        and "tests" not in parts
        and not any(part.startswith("_") for part in parts)
    )


def ranges(versions: Iterable[str], of: list[str]) -> str:
    """Versions as ranges of all versions."""
    places = sorted({of.index(version) for version in versions})
    parts: list[list[int]] = []
    for place in places:
        if parts and parts[-1][-1] == place - 1:
            parts[-1].append(place)
        else:
            parts.append([place])
    return " ".join(of[part[0]] if len(part) == 1 else f"{of[part[0]]}-{of[part[-1]]}" for part in parts)


def short(module: str) -> str:
    """A module without ``pyflink.``."""
    return module.removeprefix("pyflink").removeprefix(".")


def extract(folder: Path) -> dict[str, object]:
    """What all versions in a folder have."""
    versions = sorted((one.name for one in folder.iterdir() if (one / "pyflink").is_dir()), key=in_order)
    modules: dict[str, dict[str, dict[str, list[str]]]] = {}
    classes: dict[str, dict[str, dict[str, list[str]]]] = {}
    for version in versions:
        sources = Sources(folder / version)
        for module in filter(is_for_programs, sources.modules):
            names = modules.setdefault(short(module), {})
            for name, found in sources.names_of(module).items():
                is_class = found.kind == "class"
                where = f"{short(found.module)}:{found.name}{'()' if found.kind == 'function' else ''}"
                names.setdefault(name, {}).setdefault(where, []).append(version)
                if is_class and is_for_programs(found.module) and version not in _seen(classes, where):
                    members = classes.setdefault(where, {})
                    members.setdefault("", {}).setdefault(_ATTRIBUTE, []).append(version)
                    for member, signature in sources.members_of(found.module, found.name).items():
                        members.setdefault(member, {}).setdefault(signature, []).append(version)
    return {
        "versions": versions,
        "modules": {
            module: {
                name: [next(reversed(where)), ranges([one for each in where.values() for one in each], versions)]
                for name, where in sorted(names.items())
            }
            for module, names in sorted(modules.items())
        },
        "classes": {
            name: {
                member: {signature: ranges(each, versions) for signature, each in signatures.items()}
                for member, signatures in sorted(members.items())
                if member
            }
            for name, members in sorted(classes.items())
        },
    }


def _seen(classes: dict[str, dict[str, dict[str, list[str]]]], name: str) -> list[str]:
    return classes.get(name, {}).get("", {}).get(_ATTRIBUTE, [])


def in_order(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


def written(found: dict[str, object]) -> str:
    """As JSON with one line for each module and class, so that changes are readable."""
    lines = []
    for part, content in found.items():
        if isinstance(content, dict):
            rows = (f"{json.dumps(key)}: {json.dumps(value, separators=(',', ':'))}" for key, value in content.items())
            lines.append(f"{json.dumps(part)}: {{\n" + ",\n".join(rows) + "\n}")
        else:
            lines.append(f"{json.dumps(part)}: {json.dumps(content)}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


if __name__ == "__main__":
    Path(sys.argv[2]).write_text(written(extract(Path(sys.argv[1]))), encoding="utf-8")
