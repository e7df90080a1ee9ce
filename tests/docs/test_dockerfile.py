"""The Dockerfile follows simple rules. Its steps are run by ``tests/integration/test_release.py``."""

from __future__ import annotations

import os
import re
from pathlib import Path

from setuptools.compat.py310 import tomllib

ROOT = Path(__file__).parents[2]
#: Lines that are continued are one instruction; comments are left out.
TEXT = re.sub(r"^#.*\n", "", (ROOT / "Dockerfile").read_text(encoding="utf-8"), flags=re.MULTILINE)
INSTRUCTIONS = [tuple(line.split(maxsplit=1)) for line in re.sub(r"\\\n\s*", "", TEXT).splitlines() if line]


def arguments(name: str) -> list[str]:
    return [rest for instruction, rest in INSTRUCTIONS if instruction == name]


def test_its_instructions_are_known_and_its_images_have_versions() -> None:
    known = {"FROM", "WORKDIR", "COPY", "ARG", "RUN", "ENV", "USER", "ENTRYPOINT", "CMD"}
    assert {name for name, _ in INSTRUCTIONS} <= known
    for image in arguments("FROM"):
        assert re.match(r"python:3\.\d+-slim-\w+( AS build)?$", image)


def test_what_it_copies_exists_and_is_all_that_a_build_needs() -> None:
    copied = {path for line in arguments("COPY") if "--from" not in line for path in line.split()[:-1]}
    assert all((ROOT / path).exists() for path in copied)
    assert {"pyproject.toml", "setup.py", "README.md", "LICENSE", "requirements.lock", "src/"} <= copied


def test_packages_of_the_system_leave_no_lists_and_nothing_runs_as_root() -> None:
    (installs,) = (line for line in arguments("RUN") if "apt-get" in line)
    assert installs.startswith("apt-get update && apt-get install --yes --no-install-recommends ")
    assert installs.endswith("&& rm -rf /var/lib/apt/lists/*")
    names = [name for name, _ in INSTRUCTIONS]
    assert arguments("USER") == ["1000"]
    assert names.index("USER") > max(at for at, name in enumerate(names) if name == "RUN")
    assert arguments("ENTRYPOINT") == ['["tidemill"]']


def test_its_steps_are_those_of_the_script() -> None:
    steps = [line for line in arguments("RUN") if "tools/" in line]
    assert steps == ["tools/image.sh build /opt/wheels", "tools/image.sh install /opt/wheels /opt/tidemill"]
    assert os.access(ROOT / "tools" / "image.sh", os.X_OK)


def test_the_extra_all_has_every_extra_but_that_of_the_demo() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    (everything,) = extras["all"]
    assert everything == f"tidemill[{','.join(sorted(set(extras) - {'all', 'demo'}))}]"
