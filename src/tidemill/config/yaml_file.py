"""Reads a YAML configuration file, flat or nested, into flat entries with line numbers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import yaml

from tidemill.config.option import Registry
from tidemill.config.values import MapValue
from tidemill.errors import ConfigurationError


@dataclass(frozen=True)
class YamlEntry:
    """One configured key with its raw value (text, or a list or dict of text) and its line in the file."""

    key: str
    value: object
    line: int


def read_entries(path: Path, registry: Registry) -> list[YamlEntry]:
    """Read the entries of a YAML file in file order.

    Nested keys are joined with dots, except below an option whose value is itself a map. Scalars stay text, because
    each option parses its own value: for example, ``off`` must not become a boolean. Raises
    :class:`ConfigurationError` with file and line if the file is not YAML, if its top level is not a map, or if an
    entry has no value.
    """
    try:
        loader = yaml.BaseLoader(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigurationError(f"Cannot read configuration file {path}: {error.strerror}") from error
    try:
        root = loader.get_single_node()
        if root is None:
            return []
        if not isinstance(root, yaml.MappingNode):
            raise ConfigurationError(f"{path}: the file must contain 'key: value' pairs at its top level.")
        return list(_flatten(loader, root, "", path, registry))
    except yaml.YAMLError as error:
        raise ConfigurationError(f"{path} is not valid YAML: {error}") from error
    finally:
        loader.dispose()


def _flatten(
    loader: yaml.BaseLoader, node: yaml.MappingNode, prefix: str, path: Path, registry: Registry
) -> Iterator[YamlEntry]:
    for key_node, value_node in node.value:
        line = key_node.start_mark.line + 1
        if not isinstance(key_node, yaml.ScalarNode):
            raise ConfigurationError(f"{path}, line {line}: a key must be plain text.")
        key = f"{prefix}{key_node.value}"
        known = registry.find(key)
        if isinstance(value_node, yaml.MappingNode) and not (
            known is not None and isinstance(known.value_type, MapValue)
        ):
            yield from _flatten(loader, value_node, f"{key}.", path, registry)
            continue
        if (
            isinstance(value_node, yaml.ScalarNode)
            and value_node.style is None
            and value_node.value in ("", "~", "null")
        ):
            raise ConfigurationError(f"{path}, line {line}: '{key}' has no value.")
        yield YamlEntry(key, loader.construct_object(value_node, deep=True), line)
