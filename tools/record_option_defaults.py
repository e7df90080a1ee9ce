"""Records the defaults of Flink's options that Tidemill has too, for ``tests/docs/test_porting_defaults.py``.

``python tools/record_option_defaults.py KEYS OUT`` runs with an interpreter that has apache-flink, and Java. ``KEYS``
is a file with one key in each line, and ``OUT`` is the file to write. It reads all option classes of Flink.
"""

from __future__ import annotations

import json
import sys
import zipfile
from importlib import import_module
from pathlib import Path
from typing import Any


def defaults() -> dict[str, str | None]:
    """The default of each option, as text; None if it has none."""
    flink: Any = import_module("pyflink")
    jvm = import_module("pyflink.java_gateway").get_gateway().jvm
    duration = jvm.java.lang.Class.forName("java.time.Duration")
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    found: dict[str, str | None] = {}
    for jar in (Path(flink.__file__).parent / "lib").glob("flink-dist*.jar"):
        for name in zipfile.ZipFile(jar).namelist():
            if not name.startswith("org/apache/flink/") or not name.endswith("Options.class") or "shaded" in name:
                continue
            kind = jvm.java.lang.Class.forName(name.removesuffix(".class").replace("/", "."), False, loader)
            for field in kind.getFields():
                if field.getType().getSimpleName() == "ConfigOption":
                    option = field.get(None)
                    value = option.defaultValue()
                    if duration.isInstance(value):
                        value = jvm.org.apache.flink.util.TimeUtils.formatWithHighestUnit(value)
                    found[option.key()] = str(value) if option.hasDefaultValue() else None
    return found


def main(keys: Path, out: Path) -> None:
    """Write the defaults of the options named in a file."""
    known = defaults()
    wanted = sorted(set(keys.read_text(encoding="utf-8").split()) & known.keys())
    out.write_text(json.dumps({key: known[key] for key in wanted}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
