"""Analyses a program without running it: which names it uses that do not exist here, or that behave differently.

The types of values are followed as far as they are evident: from imports, calls whose return type is annotated,
annotations of the program, and the parameters of methods that override those of a base class. A value of unknown type
is never reported.
"""

from __future__ import annotations

import ast
import types
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Final

from tidemill.ops.porting.comparison import Comparison, path_of
from tidemill.ops.porting.differences import TEXT
from tidemill.ops.porting.findings import Remark, Weight
from tidemill.ops.porting.imports import FROM, TO, PortedSource
from tidemill.ops.porting.lookup import Absent, Known, member, module_member, parameter, returned

__all__ = ["analysed"]

#: Methods that may set attributes of their function: they run before the first record, or after the last.
_PREPARING: Final = frozenset({"__init__", "open", "close", "__setstate__", "initialize_state", "restore_state"})

_Names = dict[str, Known | None]
_Function = ast.FunctionDef | ast.AsyncFunctionDef
_Comprehension = ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp


def analysed(source: PortedSource) -> list[Remark]:
    """The findings in a program whose imports were rewritten, by line."""
    visitor = _Visitor()
    visitor.run(source.tree)
    found = {*visitor.uses.found, *(Remark(line, FROM, Weight.NOTE, TEXT) for line in source.strings)}
    return sorted(found, key=lambda one: (one.line, one.name, one.text))


@dataclass(frozen=True)
class _Class:
    """A class of the program: its base class here, and what is known of the attributes that its methods set."""

    base: Known | None
    attributes: _Names


@dataclass(frozen=True)
class _Place:
    """Where a statement is: the names in scope, inner ones last, and the class and the method around it."""

    scopes: tuple[_Names, ...]
    inside: _Class | None = None
    method: str | None = None


@dataclass(frozen=True)
class _Body:
    """A function whose body is visited later, when the names around it are known."""

    node: _Function | ast.Lambda
    place: _Place
    is_method: bool = False


class _Visitor(ast.NodeVisitor):
    """Follows the values of a program, statement by statement."""

    def __init__(self) -> None:
        self.uses = Comparison()
        self._place = _Place(({},))
        self._later: list[_Body] = []
        #: The methods of the class whose body is visited, or None outside of class bodies.
        self._methods: list[_Body] | None = None

    def run(self, tree: ast.Module) -> None:
        self._visit_all(tree.body)
        while self._later:
            body = self._later.pop(0)
            with self._at(body.place):
                self._visit_body(body)

    # --- statements

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            first = alias.name.partition(".")[0]
            found = self._imported(alias.name, None, alias.lineno) if first == TO else None
            if alias.asname is not None:
                self._bind(alias.asname, found)
            else:
                top = module_member(TO, None) if first == TO else None
                self._bind(first, top if isinstance(top, Known) else None)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        module = node.module if node.level == 0 and node.module is not None else ""
        ours = module.partition(".")[0] == TO
        for alias in node.names:
            if alias.name == "*":
                self._bind_all(module if ours else "", node.lineno)
            else:
                found = self._imported(module, alias.name, alias.lineno) if ours else None
                self._bind(alias.asname or alias.name, found)

    def visit_Assign(self, node: ast.Assign) -> None:
        value = self._value(node.value)
        for target in node.targets:
            self._assign(target, value)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        declared = self._annotated(node.annotation)
        value = None if node.value is None else self._value(node.value)
        self._assign(node.target, value or declared)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self._value(node.value)
        self._assign(node.target, None)

    def visit_For(self, node: ast.For) -> None:
        self._value(node.iter)
        self._assign(node.target, None)
        self._visit_all([*node.body, *node.orelse])

    def visit_If(self, node: ast.If) -> None:
        self._value(node.test)
        scope = self._place.scopes[-1]
        before = dict(scope)
        self._visit_all(node.body)
        after = dict(scope)
        scope.clear()
        scope.update(before)
        self._visit_all(node.orelse)
        for name, value in after.items():  # a name with another value in each branch is unknown
            scope[name] = value if scope.get(name, value) == value else None

    def visit_With(self, node: ast.With) -> None:
        for item in node.items:
            value = self._value(item.context_expr)
            if item.optional_vars is not None:
                self._assign(item.optional_vars, value)
        self._visit_all(node.body)

    def visit_FunctionDef(self, node: _Function) -> None:
        self._visit_all(node.decorator_list)
        self._bind(node.name, None)
        is_method = self._methods is not None
        place = self._place
        if is_method:  # the names of a class are not in scope in its methods
            place = replace(place, scopes=place.scopes[:-1], method=node.name)
        (self._later if self._methods is None else self._methods).append(_Body(node, place, is_method))

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self.visit_FunctionDef(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        bases = [self._value(base) for base in node.bases]
        base = next((one for one in bases if one is not None and isinstance(one.what, type)), None)
        self._bind(node.name, None)
        methods: list[_Body] = []
        outer, self._methods = self._methods, methods
        with self._at(_Place(self._place.scopes, _Class(base, {}))):
            for statement in node.body:
                if isinstance(statement, ast.Assign | ast.AnnAssign):
                    self.generic_visit(statement)  # attributes of the class are no names in scope
                else:
                    self.visit(statement)
        self._methods = outer
        self._later += sorted(methods, key=lambda body: getattr(body.node, "name", "") not in _PREPARING)

    def generic_visit(self, node: ast.AST) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                self._value(child)
            else:
                self.visit(child)

    def _visit_all(self, nodes: Iterable[ast.AST]) -> None:
        for node in nodes:
            if isinstance(node, ast.expr):
                self._value(node)
            else:
                self.visit(node)

    def _visit_body(self, body: _Body) -> None:
        node, scope = body.node, self._place.scopes[-1]
        arguments = node.args
        every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
        for position, argument in enumerate(filter(None, every)):
            scope[argument.arg] = self._annotated(argument.annotation) or self._inherited(body, position)
        self._visit_all([*arguments.defaults, *filter(None, arguments.kw_defaults)])
        self._visit_all([node.body] if isinstance(node, ast.Lambda) else node.body)

    def _inherited(self, body: _Body, position: int) -> Known | None:
        """What a parameter of a method is, by the method of the base class that it overrides."""
        inside = body.place.inside
        if not body.is_method or position == 0 or inside is None or inside.base is None:
            return None
        overridden = member(inside.base, body.place.method or "")
        if not isinstance(overridden, Known) or not isinstance(overridden.what, types.FunctionType):
            return None
        return parameter(overridden, position)

    # --- values

    def _value(self, node: ast.expr) -> Known | None:
        """Visit an expression, and return its value if it is known."""
        match node:
            case ast.Name():
                if (known := self._lookup(node.id)) is not None:
                    self.uses.used(node.lineno, known, None)
                return known
            case ast.Attribute():
                return self._attribute(node, None)
            case ast.Call():
                return self._call(node)
            case ast.NamedExpr():
                value = self._value(node.value)
                self._assign(node.target, value)
                return value
            case ast.IfExp():
                self._value(node.test)
                first, second = self._value(node.body), self._value(node.orelse)
                return first if first == second else None
            case ast.Lambda():
                self._later.append(_Body(node, self._place))
            case ast.ListComp() | ast.SetComp() | ast.GeneratorExp() | ast.DictComp():
                self._comprehension(node)
            case _:
                self.generic_visit(node)
        return None

    def _attribute(self, node: ast.Attribute, call: ast.Call | None) -> Known | None:
        inside = self._place.inside
        if isinstance(node.value, ast.Name) and node.value.id == "self" and inside is not None:
            return inside.attributes.get(node.attr)
        value = self._value(node.value)
        found = None if value is None else member(value, node.attr)
        if value is None or found is None:
            return None
        if isinstance(found, Absent):
            self.uses.absent(_line_of(node), f"{path_of(value)}.{node.attr}", found)
            return None
        self.uses.used(_line_of(node), found, call)
        return found

    def _call(self, node: ast.Call) -> Known | None:
        if isinstance(node.func, ast.Attribute):
            function = self._attribute(node.func, node)
        elif (function := self._value(node.func)) is not None:
            self.uses.used(node.lineno, function, node)
        self._visit_all([*node.args, *(keyword.value for keyword in node.keywords)])
        if function is None or function.instance or not callable(function.what):
            return None
        self.uses.called(node, function)
        return returned(function)

    def _comprehension(self, node: _Comprehension) -> None:
        with self._at(self._place):
            for generator in node.generators:
                self._value(generator.iter)
                self._assign(generator.target, None)
                self._visit_all(generator.ifs)
            self._visit_all([node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt])

    def _annotated(self, node: ast.expr | None) -> Known | None:
        """The instance that an annotation of the program describes, if it is one class of Tidemill."""
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            try:
                node = ast.parse(node.value, mode="eval").body
            except SyntaxError:
                return None
        if not isinstance(node, ast.Name | ast.Attribute):
            return None
        found = self._value(node)
        if found is None or found.instance or not isinstance(found.what, type):
            return None
        return Known(found.what, instance=True)

    # --- names

    def _lookup(self, name: str) -> Known | None:
        return next((scope[name] for scope in reversed(self._place.scopes) if name in scope), None)

    def _bind(self, name: str, value: Known | None) -> None:
        self._place.scopes[-1][name] = value

    def _bind_all(self, module: str, line: int) -> None:
        whole = self._imported(module, None, line) if module else None
        for name in getattr(whole and whole.what, "__all__", ()):
            found = module_member(module, name)
            self._bind(name, found if isinstance(found, Known) else None)

    def _assign(self, target: ast.expr, value: Known | None) -> None:
        match target:
            case ast.Name():
                self._bind(target.id, value)
            case ast.Attribute(value=ast.Name(id="self"), attr=name) if self._place.inside is not None:
                self._place.inside.attributes[name] = value
                if self._place.method not in _PREPARING:
                    self.uses.attribute_set(target.lineno, name, self._place.inside.base)
            case ast.Tuple() | ast.List():
                for element in target.elts:
                    self._assign(element, None)
            case ast.Starred():
                self._assign(target.value, None)
            case _:
                self.generic_visit(target)

    def _imported(self, module: str, name: str | None, line: int) -> Known | None:
        found = module_member(module, name)
        if isinstance(found, Known):
            return found
        self.uses.absent(line, ".".join([*module.split("."), *([name] if name else [])]), found)
        return None

    @contextmanager
    def _at(self, place: _Place) -> Iterator[None]:
        """Visit statements at another place, with a scope of their own."""
        before, self._place = self._place, replace(place, scopes=(*place.scopes, {}))
        try:
            yield
        finally:
            self._place = before


def _line_of(node: ast.Attribute) -> int:
    """The line of the name, which is the last of a chain of calls over several lines."""
    return node.end_lineno or node.lineno
