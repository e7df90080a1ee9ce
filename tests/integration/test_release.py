"""A release: `python -m build` makes a wheel and an sdist, and the wheel works where there is no repository.

The wheel is installed into an environment of its own, which borrows the packages that Tidemill depends on. Nothing is
fetched.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from email import message_from_bytes
from email.message import Message
from pathlib import Path
from typing import NamedTuple

import pytest

import tidemill

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "tidemill"
#: What a release is made of.
PARTS = ("pyproject.toml", "setup.py", "MANIFEST.in", "README.md", "LICENSE", "CHANGELOG.md")
SECONDS = 300

#: Runs a job with its web page, and prints what there is.
PROGRAM = """
import json
import urllib.request
from pathlib import Path

import tidemill
from tidemill.common import Configuration
from tidemill.datastream import StreamExecutionEnvironment
from tidemill.ops.rest.server import close_servers, servers
from tidemill.ops.web.pages import page_files
from tidemill.spark.session.session import FAST_SETTINGS

settings = {"execution.target": "local", "parallelism.default": "2", "rest.enabled": "true", "rest.port": "0"}
env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(settings))
words = env.from_collection(["to", "be", "or", "not", "to", "be"])
counts = words.map(lambda word: (word, 1)).key_by(lambda pair: pair[0]).sum(1)
results = dict(counts.execute_and_collect())

(server,) = servers()
page = urllib.request.urlopen(f"http://127.0.0.1:{server.port}/").read().decode()
missing = [
    path
    for path, file in page_files().items()
    if urllib.request.urlopen(f"http://127.0.0.1:{server.port}{path}").read() != file.content
]
overview = json.load(urllib.request.urlopen(f"http://127.0.0.1:{server.port}/overview"))
close_servers()
print(json.dumps({
    "package": str(Path(tidemill.__file__).parent),
    "results": results,
    "page": "<title>" in page,
    "missing": missing,
    "version": overview["tidemill-version"],
    "settings": [FAST_SETTINGS["spark.scheduler.allocation.file"], FAST_SETTINGS["spark.driver.extraJavaOptions"]],
}))
"""


class Release(NamedTuple):
    tree: Path
    sdist: Path
    wheel: Path
    #: Built from the tree, not from the sdist.
    other_wheel: Path


def run(*command: str | Path, folder: Path, **settings: str) -> str:
    """The output of a program that knows nothing of the repository."""
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
    environment["SOURCE_DATE_EPOCH"] = "1700000000"  # files have the same times in both wheels
    environment.update(settings)
    done = subprocess.run(
        list(map(str, command)),
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS,
    )
    assert done.returncode == 0, f"{command}: {done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Release:
    """Built from a copy: the build writes into the tree."""
    folder = tmp_path_factory.mktemp("release")
    tree = folder / "tree"
    shutil.copytree(PACKAGE, tree / "src" / "tidemill", ignore=shutil.ignore_patterns("__pycache__"))
    for part in PARTS:
        shutil.copy(ROOT / part, tree / part)
    build = (sys.executable, "-m", "build", "--no-isolation")
    run(*build, "--outdir", folder / "dist", folder=tree)
    run(*build, "--wheel", "--outdir", folder / "other", folder=tree)
    (sdist,), (wheel,) = (folder / "dist").glob("*.tar.gz"), (folder / "dist").glob("*.whl")
    (other,) = (folder / "other").glob("*.whl")
    return Release(tree, sdist, wheel, other)


@pytest.fixture(scope="module")
def programs(release: Release, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of `python` and `tidemill` in an environment with the wheel."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, symlinks=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    # Packages are found there, but what is installed as a link to the repository is not: that takes a file in there.
    (packages / "borrowed.pth").write_text(sysconfig.get_path("purelib"))
    pip = (sys.executable, "-m", "pip", "--python", folder / "bin" / "python", "--disable-pip-version-check")
    run(*pip, "install", "--quiet", "--no-deps", "--no-index", release.wheel, folder=folder)
    return folder / "bin"


def links_of(text: str, start: str = "") -> list[str]:
    """The targets of links and pictures that start like this; without a start, those relative to the repository."""
    text = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    found = re.findall(r"\]\(([^)\s]+)\)|\bsrc(?:set)?=\"([^\"]+)\"", text)
    links = [one or other for one, other in found]
    if start:
        return [link for link in links if link.startswith(start)]
    return [link for link in links if not link.startswith(("http:", "https:", "#"))]


def content_of(wheel: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(wheel) as files:
        return {name: files.read(name) for name in files.namelist()}


def metadata_of(wheel: Path) -> Message:
    (name,) = (name for name in content_of(wheel) if name.endswith(".dist-info/METADATA"))
    return message_from_bytes(content_of(wheel)[name])


def test_the_wheel_has_the_whole_package(release: Release) -> None:
    wanted = {
        path.relative_to(PACKAGE.parent).as_posix()
        for path in PACKAGE.rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    }
    assert {name for name in content_of(release.wheel) if name.startswith("tidemill/")} == wanted


def test_the_sdist_makes_the_same_wheel(release: Release) -> None:
    assert content_of(release.wheel) == content_of(release.other_wheel)
    with tarfile.open(release.sdist) as files:
        names = {name.partition("/")[2] for name in files.getnames()}
    assert set(PARTS) <= names
    assert not [name for name in names if name.startswith(("tests", "docs", "build"))]


def test_the_metadata_say_what_it_is(release: Release) -> None:
    metadata = metadata_of(release.wheel)
    assert (metadata["Name"], metadata["Version"]) == ("tidemill", tidemill.__version__)
    assert (metadata["Requires-Python"], metadata["License-Expression"]) == (">=3.10", "Apache-2.0")
    assert metadata["Description-Content-Type"] == "text/markdown"
    assert {"all", "avro", "kafka", "object-store", "ops", "postgres", "spark"} <= set(
        metadata.get_all("Provides-Extra", [])
    )
    for field in ("Summary", "Keywords", "Classifier"):
        assert metadata[field]


def wheel_with(release: Release, folder: Path, **addresses: str) -> Path:
    """A wheel for which the owner has filled in these addresses and no others."""
    tree = folder / "tree"
    shutil.copytree(release.tree, tree, ignore=shutil.ignore_patterns("build", "*.egg-info"))
    before, start, rest = (tree / "pyproject.toml").read_text(encoding="utf-8").partition("\n[tool.tidemill.urls]\n")
    _, _, after = rest.partition("\n[")
    lines = "".join(f'{name} = "{address}"\n' for name, address in addresses.items())
    (tree / "pyproject.toml").write_text(f"{before}{start}{lines}\n[{after}", encoding="utf-8")
    build = (sys.executable, "-m", "build", "--no-isolation", "--wheel", "--outdir", folder / "dist")
    run(*build, folder=tree)
    (wheel,) = (folder / "dist").glob("*.whl")
    return wheel


def test_the_base_needs_no_spark_and_no_server(release: Release) -> None:
    needed = [one for one in metadata_of(release.wheel).get_all("Requires-Dist", []) if "extra ==" not in one]
    assert not [one for one in needed if one.startswith(("pyspark", "fastapi", "rich", "typer"))]


def test_without_addresses_the_description_has_no_links_that_lead_nowhere(release: Release, tmp_path: Path) -> None:
    metadata = metadata_of(wheel_with(release, tmp_path))
    description = metadata.get_payload()
    assert isinstance(description, str)
    assert links_of(description) == []
    assert "<picture>" not in description
    assert metadata.get_all("Project-URL") is None
    # Everything else is as it is in the repository.
    assert "[quick start](docs/quick-start.md)" in (ROOT / "README.md").read_text(encoding="utf-8")
    assert "the quick start" in description
    for block in ("```sh", "```python run", "## Features", "## Limitations"):
        assert block in description


def test_with_addresses_links_and_pictures_are_absolute(release: Release, tmp_path: Path) -> None:
    wheel = wheel_with(release, tmp_path, Repository="https://example.org/t", Issues="https://example.org/t/issues")
    metadata = metadata_of(wheel)
    description = metadata.get_payload()
    assert isinstance(description, str)
    below = [link.removeprefix("https://example.org/t/") for link in links_of(description, "https://example.org/t/")]
    readme = links_of((ROOT / "README.md").read_text(encoding="utf-8"))
    assert [link.partition("/HEAD/")[2] for link in below] == readme
    assert {link.partition("/HEAD/")[0] for link in below} == {"blob", "raw"}
    assert all(link.startswith("raw/") for link in below if link.endswith((".png", ".svg")))
    assert links_of(description) == []
    assert sorted(metadata.get_all("Project-URL", [])) == [
        "Issues, https://example.org/t/issues",
        "Repository, https://example.org/t",
    ]


def test_the_steps_of_the_image_install_a_command_line_that_works(release: Release, tmp_path: Path) -> None:
    script, wheels, installed = ROOT / "tools" / "image.sh", tmp_path / "wheels", tmp_path / "tidemill"
    offline = {"PIP_NO_INDEX": "1", "PIP_NO_DEPS": "1", "PIP_NO_BUILD_ISOLATION": "0", "EXTRAS": "ops"}  # 0: without it
    python = {"PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])}
    shutil.copy(ROOT / "requirements.lock", release.tree / "requirements.lock")
    run(script, "build", wheels, folder=release.tree, **offline, **python)
    run(script, "install", wheels, installed, folder=release.tree, **offline, **python)
    (packages,) = installed.glob("lib/python*/site-packages")
    (packages / "borrowed.pth").write_text(sysconfig.get_path("purelib"))
    assert run(installed / "bin" / "tidemill", "--version", folder=tmp_path) == f"{tidemill.__version__}\n"


def test_what_is_deployed_is_this_version() -> None:
    needed = (ROOT / "examples" / "kubernetes" / "requirements.txt").read_text().split()
    assert [line.partition("==")[2] for line in needed if line.startswith("tidemill")] == [tidemill.__version__]


def test_the_command_line_works_elsewhere(programs: Path, tmp_path: Path) -> None:
    assert run(programs / "tidemill", "--version", folder=tmp_path) == f"{tidemill.__version__}\n"
    assert "savepoint" in run(programs / "python", "-m", "tidemill", "--help", folder=tmp_path)


def test_a_job_and_its_page_work_elsewhere(programs: Path, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    found = json.loads(run(programs / "python", "program.py", folder=tmp_path).splitlines()[-1])
    assert Path(found["package"]).is_relative_to(programs.parent)
    assert found["results"] == {"to": 2, "be": 2, "or": 1, "not": 1}
    assert (found["page"], found["missing"], found["version"]) == (True, [], tidemill.__version__)
    named = [Path(re.split("://|=", setting)[1]) for setting in found["settings"]]
    assert [path.name for path in named if path.is_relative_to(programs.parent) and path.is_file()] == [
        "fairscheduler.xml",
        "log4j2.properties",
    ]
