"""What functions need where they run, on `execution.target: local`: archives, packages, files, an interpreter."""

from __future__ import annotations

import importlib
import logging
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.dependency_files import PACKAGE, requirements, tar_of, wheel, zip_of
from tidemill.common import Configuration
from tidemill.datastream import MapFunction, RuntimeContext, StreamExecutionEnvironment
from tidemill.errors import ConfigurationError


class Read(MapFunction):
    """Reads a file by a relative path, as functions of PyFlink do with archives."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._text = ""

    def open(self, runtime_context: RuntimeContext) -> None:
        self._text = Path(self._path).read_text()

    def map(self, value: int) -> str:
        return f"{self._text} {Path(self._path).read_text()} {value}"


def environment(**options: str) -> StreamExecutionEnvironment:
    settings = {"execution.target": "local", "parallelism.default": 1, **options}
    return StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(settings))


def results(env: StreamExecutionEnvironment, function: MapFunction | Callable[[int], object]) -> list[object]:
    return list(env.from_collection([1, 2]).map(function).execute_and_collect())


@pytest.fixture(autouse=True)
def imports_as_before() -> Iterator[None]:
    path, modules = list(sys.path), set(sys.modules)
    yield
    sys.path[:] = path
    for name in set(sys.modules) - modules:
        if not name.startswith("tidemill."):
            del sys.modules[name]


def test_an_archive_is_unpacked_in_the_working_directory_of_functions(tmp_path: Path) -> None:
    here = Path.cwd()
    env = environment()
    env.add_python_archive(str(zip_of(tmp_path / "model.zip", {"weights/a.txt": "seven"})), "model")
    env.add_python_archive(str(tar_of(tmp_path / "more.tar.gz", {"b.txt": "eight"})))
    assert results(env, Read("model/weights/a.txt")) == ["seven seven 1", "seven seven 2"]
    assert results(env, Read("more.tar.gz/b.txt")) == ["eight eight 1", "eight eight 2"]
    assert Path.cwd() == here
    assert not Path("model").exists()


def test_archives_can_be_set_by_configuration(tmp_path: Path) -> None:
    archive = zip_of(tmp_path / "model.zip", {"a.txt": "seven"}).as_uri()
    env = environment(**{"python.archives": f"{archive}#first, {archive}#second/below"})
    assert results(env, Read("second/below/a.txt")) == ["seven seven 1", "seven seven 2"]


def test_programs_of_an_archive_stay_executable(tmp_path: Path) -> None:
    import zipfile

    entry = zipfile.ZipInfo("run.sh")
    entry.external_attr = 0o755 << 16
    with zipfile.ZipFile(tmp_path / "tools.zip", "w") as target:
        target.writestr(entry, "#!/bin/sh\n")
    env = environment()
    env.add_python_archive(str(tmp_path / "tools.zip"), "tools")
    assert results(env, lambda value: oct(Path("tools/run.sh").stat().st_mode)[-3:]) == ["755", "755"]


def test_requirements_are_installed_from_the_cached_directory(tmp_path: Path) -> None:
    file, cache = requirements(tmp_path, "1.5")
    env = environment()
    env.set_python_requirements(str(file), str(cache))
    assert results(env, lambda value: importlib.import_module(PACKAGE).VERSION) == ["1.5", "1.5"]


def test_requirements_can_be_set_by_configuration(tmp_path: Path) -> None:
    file, cache = requirements(tmp_path, "1.6")
    env = environment(**{"python.requirements": f"{file}#{cache}"})
    assert results(env, lambda value: importlib.import_module(PACKAGE).VERSION) == ["1.6", "1.6"]


def test_nothing_is_installed_if_everything_is_there(tmp_path: Path) -> None:
    file = tmp_path / "requirements.txt"
    file.write_text("pytest\n")
    env = environment()
    env.set_python_requirements(str(file))  # an installation would need a network, or fail without one
    assert results(env, lambda value: [path for path in sys.path if "requirements" in path]) == [[], []]


def test_requirements_that_cannot_be_installed_fail_before_anything_starts(tmp_path: Path) -> None:
    file, cache = requirements(tmp_path)
    wheel(cache, "3.0")
    file.write_text(f"{PACKAGE}==2.0\n")
    env = environment()
    env.set_python_requirements(str(file), str(cache))
    with pytest.raises(ConfigurationError, match=rf"(?s)cannot be installed from the directory.*{PACKAGE}==2\.0"):
        results(env, str)


def test_python_files_and_directories_and_zips_can_be_imported(tmp_path: Path) -> None:
    (tmp_path / "first_helper.py").write_text("NAME = 'file'\n")
    (tmp_path / "code" / "second_helper").mkdir(parents=True)
    (tmp_path / "code" / "second_helper" / "__init__.py").write_text("NAME = 'directory'\n")
    zip_of(tmp_path / "third.zip", {"third_helper.py": "NAME = 'zip'\n"})
    env = environment(**{"python.files": str(tmp_path / "first_helper.py")})
    env.add_python_file(str(tmp_path / "code"))
    env.add_python_file((tmp_path / "third.zip").as_uri())
    names = ("first_helper", "second_helper", "third_helper")
    found = results(env, lambda value: [importlib.import_module(name).NAME for name in names])
    assert found == [["file", "directory", "zip"]] * 2


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"python.archives": "/nowhere/a.zip"}, "the archive /nowhere/a.zip does not exist"),
        ({"python.archives": "hdfs://host/a.zip"}, "the archive hdfs://host/a.zip is not on this machine"),
        ({"python.archives": __file__}, "is neither a zip nor a tar file"),
        ({"python.files": "/nowhere/a.py"}, "the Python file /nowhere/a.py does not exist"),
        ({"python.requirements": "/nowhere/r.txt"}, "the requirements file /nowhere/r.txt does not exist"),
        ({"python.requirements": f"{__file__}#{__file__}"}, "are not a directory"),
    ],
)
def test_what_does_not_exist_is_an_error(options: dict[str, str], problem: str) -> None:
    with pytest.raises(ConfigurationError, match=problem):
        results(environment(**options), str)


@pytest.mark.parametrize("target", ["/tmp/model", "../model", "a/../../b"])
def test_an_archive_cannot_be_unpacked_elsewhere(tmp_path: Path, target: str) -> None:
    env = environment()
    env.add_python_archive(str(zip_of(tmp_path / "model.zip", {"a": "b"})), target)
    with pytest.raises(ConfigurationError, match="below the working directory"):
        results(env, str)


def test_two_archives_need_two_targets(tmp_path: Path) -> None:
    archive = str(zip_of(tmp_path / "model.zip", {"a": "b"}))
    with pytest.raises(ConfigurationError, match=r"two archives would be unpacked to 'model\.zip'"):
        results(environment(**{"python.archives": f"{archive},{archive}"}), str)


def test_an_archive_with_files_outside_of_it_is_refused(tmp_path: Path) -> None:
    env = environment()
    env.add_python_archive(str(tar_of(tmp_path / "a.tar.gz", {"../evil": "x"})))
    with pytest.raises(ConfigurationError, match=r"contains \.\./evil"):
        results(env, str)


def test_another_interpreter_is_explained_in_one_line(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    other = tmp_path / "python3.9"
    other.write_text("#!/bin/sh\necho 3.9\n")
    other.chmod(0o755)
    env = environment()
    env.set_python_executable(str(other))
    with caplog.at_level(logging.WARNING):
        assert results(env, str) == ["1", "2"]
    (line,) = (record.getMessage() for record in caplog.records if "python.executable" in record.getMessage())
    assert f"{other} is Python 3.9" in line
    assert "\n" not in line


@pytest.mark.parametrize("executable", ["python3", sys.executable])
def test_the_same_interpreter_needs_no_explanation(executable: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        results(environment(**{"python.executable": executable}), str)
    assert "python.executable" not in caplog.text


def test_jars_have_no_effect_and_that_is_said_once(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidemill.without_effect._said", set())
    env = environment()
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            env.add_jars("file:///a.jar")
            env.add_classpaths("file:///classes")
    assert [record.getMessage().partition(" ")[0] for record in caplog.records] == ["add_jars()", "add_classpaths()"]
    assert results(env, str) == ["1", "2"]
