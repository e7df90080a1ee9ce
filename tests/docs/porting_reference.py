"""The tables of docs/porting.md: every public class of PyFlink's DataStream API and its methods, and what is here.

They are made from the names of PyFlink 1.12 to 2.3 (:mod:`tests.docs.pyflink_names`), without those of Java objects and
without those that no program uses (:data:`tests.docs.pyflink_differences.INTERNAL`).

python -m tests.docs.porting_reference    # writes the tables into docs/porting.md
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

from tests.docs.pyflink_differences import INTERNAL, LIMITS, UNSUPPORTED
from tests.docs.pyflink_names import CLASSES, JAVA, MODULES, VERSIONS, expanded, found, has, imported

PAGE = Path(__file__).parents[2] / "docs" / "porting.md"
HEADING = "\n## Every name\n"
INTRODUCTION = """\
PyFlink 1.12 to 2.3, module by module. The second column has the versions of PyFlink with the name, if it is not in all
of them, and so have the brackets after a method. Each name in the third column is available in the same module with the
same arguments. A name in *italics* is accepted but has no effect, because what it controls does not exist in Tidemill.
The fourth column lists what is not supported.
"""
_ALL: Final = f"{VERSIONS[0]}-{VERSIONS[-1]}"
#: The package that was one module until PyFlink 1.15: its names are described where they are now.
_FORMER: Final = "datastream.connectors"


def reference() -> str:
    """A table for each module."""
    lines = [INTRODUCTION]
    for module in MODULES:
        names = [name for name in MODULES[module] if not is_internal(f"{module}.{name}")]
        if not names:
            continue
        lines.append(f"### {module}\n")
        own = [name for name in names if _home(module, name) == module and module != _FORMER]
        if own:
            lines += ["| name | PyFlink | supported | not supported |", "|---|---|---|---|"]
            lines += [_row(module, name) for name in own]
            lines.append("")
        lines += _others(module, [name for name in names if name not in own])
    return "\n".join(lines)


def written() -> str:
    """The tables that the page has."""
    return PAGE.read_text(encoding="utf-8").partition(HEADING)[2].strip()


def is_internal(name: str) -> bool:
    """Whether no program uses a name."""
    return any(re.fullmatch(pattern, name) for pattern in INTERNAL)


def _home(module: str, name: str) -> str:
    return MODULES[module][name][0].partition(":")[0]


def _others(module: str, names: list[str]) -> Iterator[str]:
    """The names that a module has from others."""
    here = [name for name in names if hasattr(imported(module), name)]
    if here:
        yield f"Also from here: {', '.join(f'`{name}`{_in(MODULES[module][name][1])}' for name in here)}.\n"
    if len(here) < len(names):
        missing = [name for name in names if name not in here]
        yield f"Not supported from here: {', '.join(f'`{name}`{_in(MODULES[module][name][1])}' for name in missing)}.\n"


def _row(module: str, name: str) -> str:
    where, versions = MODULES[module][name]
    shown = "" if versions == _ALL else versions
    ours = imported(module)
    if not hasattr(ours, name):
        return f"| `{name}` | {shown} | | {_reason(module, name, None)} |"
    owner = getattr(ours, name)
    members = {
        member: list(signatures.values())
        for member, signatures in CLASSES.get(where, {}).items()
        if not JAVA.search(member) and "__" not in member and not is_internal(f"{where}.{member}")
    }
    there = [member for member in members if has(owner, member) and _rejected(owner, member) is None]
    lacking: dict[str, list[str]] = {}
    for member in members:
        if member not in there:
            why = _rejected(owner, member) if has(owner, member) else _reason(module, name, member)
            lacking.setdefault(why or "", []).append(member)
    supported = ", ".join(f"{_told(owner, one)}{_in(' '.join(members[one]), expanded(versions))}" for one in there)
    limit = [LIMITS[where]] if where in LIMITS else []
    told = "; ".join([*limit, *(f"{_listed(names)}: {what}" for what, names in lacking.items())])
    return f"| `{name}` | {shown} | {supported or 'yes'} | {told} |"


def _in(ranges: str, owner: list[str] | None = None) -> str:
    """The versions of a name in brackets, unless it is in all of them, or in all that have its class."""
    versions = set(expanded(ranges))
    if versions >= set(owner or VERSIONS):
        return ""
    places = sorted(map(VERSIONS.index, versions))
    first, last = VERSIONS[places[0]], VERSIONS[places[-1]]
    return f" ({first})" if first == last else f" ({first}-{last})"


def _reason(module: str, name: str, member: str | None) -> str:
    whole = f"{module}.{name}" if member is None else f"{module}:{name}.{member}"
    for pattern, why in UNSUPPORTED.items():
        if re.fullmatch(pattern, whole):
            return why
    raise AssertionError(f"{whole} is not here: add it, or a reason to tests/docs/pyflink_differences.py")


def _rejected(owner: Any, member: str) -> str | None:
    """What the documentation of a method that always raises recommends in its place; None for other methods."""
    heading, _, instead = _documentation(owner, member).partition("\n")[0].partition("Rejected: ")
    if heading or not instead:
        return None
    return re.sub(r":\w+:`([^`]+)`|``([^`]+)``", r"`\1\2`", instead).rstrip(".")


def _documentation(owner: Any, member: str) -> str:
    return getattr(found(owner, member), "__doc__", None) or ""


def _told(owner: Any, member: str) -> str:
    accepted = _documentation(owner, member).startswith("Accepted")
    return f"*`{member}`*" if accepted else f"`{member}`"


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


if __name__ == "__main__":
    page = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(page.partition(HEADING)[0] + HEADING + "\n" + reference().strip() + "\n", encoding="utf-8")
