"""Programs over REST: uploaded, looked at, run in a process of their own, deleted; and what is refused of them."""

from __future__ import annotations

import errno
import io
import os
import re
import shutil
import socket
import stat
import threading
import zipfile
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from tests.unit.ops.rest.serving import Answer, Client
from tests.waiting import eventually
from tidemill.common import Configuration
from tidemill.errors import ConfigurationError
from tidemill.ops.drivers import starting
from tidemill.ops.drivers.records import drivers, recorded, records_directory
from tidemill.ops.rest import guard, program_runs, program_store
from tidemill.ops.rest.errors import BadRequestError, ConflictError, ResourceNotFoundError
from tidemill.ops.rest.guard import CSRF_HEADER
from tidemill.ops.rest.models.programs import RunRequest
from tidemill.ops.rest.notices import AUDIT
from tidemill.ops.rest.program_store import ProgramStore
from tidemill.ops.rest.server import RestServer, server_for

SOURCE = Path(__file__).parents[4] / "src"
JOB = """\
import sys
from tidemill.common import Types, WatermarkStrategy
from tidemill.datastream import StreamExecutionEnvironment
from tidemill.datastream.connectors.datagen import DataGeneratorSource, RateLimiterStrategy
from greeting import NAME

def main():
    env = StreamExecutionEnvironment.get_execution_environment()
    source = DataGeneratorSource(lambda n: n, None, RateLimiterStrategy.per_second(100), Types.LONG())
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").uid("numbers")
    numbers.key_by(lambda n: n % 5, Types.LONG()).reduce(max).uid("largest").print().uid("out")
    env.execute(" ".join([NAME, *sys.argv[1:]]))
"""
ENDS_AT_ONCE = b"print('connecting with password=hunter2')\nraise SystemExit('not today')\n"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RestServer]:
    """A server that takes programs."""
    folder = tmp_path_factory.mktemp("programs")
    settings = {
        "rest.port": "0",
        "rest.operate-token": f"file:{folder}/token",
        "rest.read-token": f"file:{folder}/read",
        "rest.max-requests-per-second": "100000",
        "web.submit.enable": "true",
        "execution.checkpointing.savepoint-dir": str(folder / "savepoints"),
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(folder))
        patch.setenv("PYTHONPATH", str(SOURCE))
        made = server_for(Configuration.from_dict(settings))
        yield made
        made.close()


@pytest.fixture
def home(server: RestServer) -> Iterator[Path]:
    """Where the server keeps programs."""
    kept = records_directory() / "programs"
    yield kept
    shutil.rmtree(kept, ignore_errors=True)


@pytest.fixture
def client(server: RestServer, home: Path) -> Client:
    return Client(server, token("token"))


def token(name: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {(records_directory().parent / name).read_text().strip()}"}


def zipped(**files: str | bytes) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return made.getvalue()


FORM = {"Content-Type": "multipart/form-data; boundary=edge"}


def form(name: str, content: bytes, field: str = "jarfile") -> bytes:
    head = f'--edge\r\nContent-Disposition: form-data; name="{field}"; filename="{name}"\r\n\r\n'
    return head.encode() + content + b"\r\n--edge--\r\n"


def upload(client: Client, name: str, content: bytes, **headers: str) -> Answer:
    return client.ask("POST", "/jars/upload", raw=form(name, content), headers={**FORM, **headers})


def uploaded(client: Client, name: str, content: bytes) -> str:
    answer = upload(client, name, content)
    assert answer.status == 200, answer
    assert answer.json["status"] == "success"
    return str(answer.json["filename"])


def refused(folder: Path, content: bytes, name: str = "job.zip") -> str:
    """Why a program is not kept."""
    with pytest.raises(BadRequestError) as told:
        ProgramStore(folder / "kept").add(name, io.BytesIO(content))
    assert not list((folder / "kept").glob("*")), "nothing is left of it"
    return str(told.value)


def test_the_life_of_a_program(client: Client, tmp_path: Path) -> None:
    program = uploaded(client, "shop.zip", zipped(**{"shop/job.py": JOB, "greeting.py": "NAME = 'hello'\n"}))
    (file,) = client.read("/jars")["files"]
    assert (file["id"], file["name"], file["entry"]) == (
        program,
        "shop.zip",
        [{"name": "greeting.py", "description": None}],
    )

    plan = client.read(f"/v1/jars/{program}/plan?entry-class=shop.job:main&parallelism=2")
    assert plan["name"] == "hello"
    assert {node["parallelism"] for node in plan["plan"]["nodes"]} >= {2}

    settings = {"execution.target": "local", "execution.checkpointing.dir": str(tmp_path / "checkpoints")}
    asked = {"entryClass": "shop.job:main", "programArgsList": ["again", "--help"], "parallelism": 2}
    answer = client.ask("POST", f"/jars/{program}/run", {**asked, "jobId": "greeter", "flinkConfiguration": settings})
    assert (answer.status, answer.json) == (200, {"jobid": "greeter"}), answer
    driver = drivers()[0]
    try:
        assert [(job.id, job.name) for job in driver.jobs] == [("greeter", "hello again --help")]
        busy = client.ask("DELETE", f"/jars/{program}")
        assert (busy.status, "is running as job greeter" in busy.errors) == (409, True)
    finally:
        psutil.Process(driver.pid).kill()
        eventually(lambda: not psutil.pid_exists(driver.pid))
    assert client.ask("DELETE", f"/jars/{program}").status == 200
    assert client.read("/jars")["files"] == []
    assert client.ask("DELETE", f"/jars/{program}").status == 404


def test_a_program_that_ends_at_once_reports_why_without_secrets(client: Client) -> None:
    program = uploaded(client, "job.py", ENDS_AT_ONCE)
    for answer in (client.ask("POST", f"/jars/{program}/run"), client.get(f"/jars/{program}/plan")):
        assert answer.status == 400
        assert "ended with code 1" in answer.errors
        assert "not today" in answer.errors
        assert "hunter2" not in answer.errors


@pytest.mark.usefixtures("server")
def test_a_program_begins_with_the_settings_of_its_server_but_serves_elsewhere_and_takes_no_programs() -> None:
    begin_with = {"rest.bind-port": "8081", "web.submit.enable": "true", "parallelism.default": "3"}
    programs = program_runs.Programs(Configuration(), Configuration.from_dict(begin_with))
    assert programs._settings(RunRequest()).to_dict() == {"parallelism.default": "3"}


def test_a_program_that_does_nothing_is_reported_to_have_no_job(client: Client) -> None:
    program = uploaded(client, "job.py", b"x = 1\n")
    answer = client.ask("POST", f"/jars/{program}/run")
    assert (answer.status, "ended with code 0 and without a job" in answer.errors) == (400, True)


def test_a_program_that_takes_long_to_have_a_job_is_not_to_be_run_again(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(starting, "_START_SECONDS", 0.1)
    program = uploaded(client, "job.py", b"import time\ntime.sleep(60)\n")
    answer = client.ask("POST", f"/jars/{program}/run")
    found = re.search(r"runs in process (\d+) but has no job yet", answer.errors)
    assert found is not None
    with suppress(psutil.NoSuchProcess):
        psutil.Process(int(found[1])).kill()
    assert answer.status == 409, "503 would say: try again"


def test_a_program_that_is_being_started_cannot_be_deleted_and_a_deleted_one_not_be_started(
    client: Client, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = uploaded(client, "job.py", b"x = 1\n")
    found = ProgramStore(home).get(program)
    starting_it, deleted = threading.Event(), threading.Event()

    def slow(*args: object) -> starting.Started:
        starting_it.set()
        assert deleted.wait(60)
        return starting.Started(1, home / "log", None, None)

    monkeypatch.setattr(program_runs, "start_detached", slow)
    with ThreadPoolExecutor(1) as others:
        run = others.submit(client.ask, "POST", f"/jars/{program}/run")
        assert starting_it.wait(60)
        try:
            here = client.ask("DELETE", f"/jars/{program}")
            with pytest.raises(ConflictError, match="in use by another request"):
                program_runs.Programs(Configuration(), Configuration()).remove(found)
        finally:
            deleted.set()
        assert (here.status, "in use by another request" in here.errors) == (409, True)
        assert run.result().status == 409, "it runs, but has no job yet"
    assert found.code.exists()

    assert client.ask("DELETE", f"/jars/{program}").status == 200
    with pytest.raises(ResourceNotFoundError):  # it was looked up before it was deleted
        client.server.app.state.programs.run(found, RunRequest())


def test_a_program_for_which_there_is_no_process_left_is_not_reported_as_started_already(
    client: Client, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*args: object) -> None:
        raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")  # what fork() says

    monkeypatch.setattr(program_runs, "start_detached", full)
    found = ProgramStore(home).get(uploaded(client, "job.py", b"x = 1\n"))
    with pytest.raises(BlockingIOError):
        client.server.app.state.programs.run(found, RunRequest())


def test_a_program_without_a_job_runs_all_the_same(client: Client, home: Path) -> None:
    program = uploaded(client, "job.py", b"x = 1\n")
    (home / program / "runs").write_text(f"{home}/log\n")
    with recorded("job.py", f"{home}/log"):
        answer = client.ask("DELETE", f"/jars/{program}")
        assert (answer.status, f"is running as process {os.getpid()}: stop it" in answer.errors) == (409, True)
    assert client.ask("DELETE", f"/jars/{program}").status == 200


def test_a_program_without_an_end_has_no_plan(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program_runs, "_PLAN_SECONDS", 0.3)
    program = uploaded(client, "job.py", b"import time\ntime.sleep(60)\n")
    assert "no plan after" in client.get(f"/jars/{program}/plan").errors


def test_the_arguments_of_a_run_are_checked_first(client: Client) -> None:
    program = uploaded(client, "job.zip", zipped(**{"a.py": "x", "b.py": "x", "c/d.py": "x"}))
    run, before = f"/jars/{program}/run", drivers()

    def told(body: Mapping[str, object], status: int = 400) -> str:
        answer = client.ask("POST", run, body)
        assert answer.status == status, answer
        return answer.errors

    assert "entryClass: the root of the zip has no script, or several" in told({})
    for entry in ("no.py", "../../about.json", "/etc/passwd", "c/../a.py", "os:system;", "--help", "a:b:c"):
        assert "has no script" in told({"entryClass": entry})
    outside = {"entryClass": "a.py", "savepointPath": f"{records_directory().parent}/savepoints/../elsewhere"}
    assert "savepointPath must be below" in told(outside, 403)
    assert "NUL" in told({"entryClass": "a.py", "programArgsList": ["a\0b"]})
    assert "not valid Unicode" in told({"entryClass": "a.py", "programArgsList": ["\ud800"]})
    assert "not valid Unicode" in told({"entryClass": "a.py", "flinkConfiguration": {"user.x": "\ud800"}})
    assert "parallelism" in told({"parallelism": 0})
    assert "jobId" in told({"jobId": "../x"})
    assert "flinkConfiguration: Unknown" in told(
        {"flinkConfiguration": {"no.such": "1", "pipeline.strict-configuration": "true"}}
    )
    assert told({"unknown": 1})
    assert drivers() == before


def test_no_more_are_started_at_a_time_than_can_be_borne(client: Client) -> None:
    program = uploaded(client, "job.py", ENDS_AT_ONCE)
    starts = client.server.app.state.programs._starts
    for _ in range(program_runs._MOST_STARTS):
        assert starts.acquire(blocking=False)
    try:
        assert client.ask("POST", f"/jars/{program}/run").status == 503
        assert client.get(f"/jars/{program}/plan").status == 503
    finally:
        for _ in range(program_runs._MOST_STARTS):
            starts.release()


def test_without_the_option_there_is_no_such_path(tmp_path: Path) -> None:
    off = server_for(Configuration.from_dict({"rest.port": "0", "rest.operate-token": f"file:{tmp_path}/token"}))
    try:
        asking = Client(off, {"Authorization": f"Bearer {(tmp_path / 'token').read_text().strip()}"})
        assert asking.read("/config")["features"]["web-submit"] is False
        some = "0" * 32
        paths = [
            ("GET", "/jars"),
            ("POST", f"/jars/{some}/run"),
            ("GET", f"/jars/{some}/plan"),
            ("DELETE", f"/jars/{some}"),
        ]
        assert {asking.ask(method, path).status for method, path in paths} == {404}
        assert upload(asking, "job.py", b"x").status == 415, "nor is a form read"
    finally:
        off.close()


@pytest.mark.parametrize("more", [{}, {"rest.read-token": "env:HOME"}], ids=["no token", "a token to read"])
def test_the_option_needs_a_token_to_operate(more: dict[str, str]) -> None:
    settings = {"rest.port": "0", "web.submit.enable": "true", **more}
    with pytest.raises(ConfigurationError, match=r"web\.submit\.enable: true lets clients run any code.*operate-token"):
        server_for(Configuration.from_dict(settings))


def test_it_takes_the_right_to_operate(client: Client, home: Path) -> None:
    program = uploaded(client, "job.py", ENDS_AT_ONCE)
    for headers, status in ((token("read"), 403), ({}, 401)):
        other = Client(client.server, headers)
        assert other.get("/jars").status == other.get(f"/jars/{program}/plan").status == status
        assert other.ask("POST", f"/jars/{program}/run").status == status
        assert other.ask("DELETE", f"/jars/{program}").status == status
        assert upload(other, "job.py", b"x").status == status
    browser = {"Sec-Fetch-Site": "same-origin"}
    assert upload(client, "job.py", b"x", **browser).status == 403, "a browser says that it means it"
    assert upload(client, "job.py", b"x", **browser, **{CSRF_HEADER: "1"}).status == 200
    assert upload(client, "job.py", b"x", Origin="http://evil.example.org", **{CSRF_HEADER: "1"}).status == 403
    assert len(list(home.iterdir())) == 2


def test_files_are_their_owners_alone(client: Client, home: Path) -> None:
    uploaded(client, "a.py", b"x = 1\n")
    uploaded(client, "b.zip", zipped(**{"p/q.py": "x"}))
    files = [path for path in home.rglob("*") if path.is_file()]
    assert {stat.S_IMODE(path.stat().st_mode) & 0o077 for path in home.iterdir()} == {0}
    assert {path.name for path in files} == {"about.json", "program.py", "q.py", "program.zip"}


@pytest.mark.parametrize(
    "name",
    ["../job.py", "/etc/job.py", ".py", "job.sh", "a/b.py", "a\\b.py", "job", "x" * 200 + ".py", "jöb.py", "a\tb.py"],
)
def test_a_name_leads_nowhere(tmp_path: Path, name: str) -> None:
    assert "short and simple name" in refused(tmp_path, b"x = 1\n", name)


@pytest.mark.parametrize(
    "name",
    [
        "../x.py",
        "a/../../x.py",
        "/x.py",
        "a//x.py",
        "./x.py",
        "C:/x.py",
        "a\\..\\x.py",
        "a\nb.py",
        "a/.",
        "d/" * 40 + "x",
    ],
)
def test_a_file_of_a_zip_leads_nowhere(tmp_path: Path, name: str) -> None:
    assert "leads outside" in refused(tmp_path, zipped(**{name: "x"}))
    assert not list(tmp_path.rglob("*x.py"))


def entry(name: str, kind: int) -> zipfile.ZipInfo:
    made = zipfile.ZipInfo(name)
    made.external_attr = (kind | 0o777) << 16
    return made


def test_a_zip_has_plain_files_only(tmp_path: Path) -> None:
    for kind in (stat.S_IFLNK, stat.S_IFIFO, stat.S_IFCHR):
        made = io.BytesIO()
        with zipfile.ZipFile(made, "w") as archive:
            archive.writestr(entry("link", kind), "/etc/passwd")
        assert "no links" in refused(tmp_path, made.getvalue())
    plain = zipped(**{"a.py": "x"})
    central = plain.rindex(b"PK\x01\x02")
    encrypted = bytearray(plain)
    encrypted[central + 8] |= 1
    assert "no encrypted files" in refused(tmp_path, bytes(encrypted))


def test_a_zip_that_grows_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program_store, "MOST_BYTES", 1 << 20)
    monkeypatch.setattr(program_store, "MOST_FILES", 3)
    bomb = zipped(**{"a.py": b" " * (700 << 10), "b.py": b" " * (700 << 10)})
    assert len(bomb) < 4096
    assert "more than 1048576 bytes" in refused(tmp_path, bomb)
    assert "more than 3 files" in refused(tmp_path, zipped(**{f"{n}.py": "x" for n in range(4)}))


def test_a_damaged_zip_is_refused(tmp_path: Path) -> None:
    whole = zipped(**{"a.py": "print(1)\n" * 1000})
    assert "cannot be unpacked" in refused(tmp_path, b"PK no zip")
    assert "cannot be unpacked" in refused(tmp_path, whole[:60] + b"\xff" * 8 + whole[68:])
    twice = io.BytesIO()
    with zipfile.ZipFile(twice, "w") as archive:
        archive.writestr("a.py", "1")
        with pytest.warns(UserWarning, match="Duplicate"):
            archive.writestr("a.py", "2")
    assert "File exists" in refused(tmp_path, twice.getvalue())
    both = zipped(**{"a": "1", "a/b.py": "2"})
    assert "cannot be unpacked" in refused(tmp_path, both)


def test_a_script_is_text(tmp_path: Path) -> None:
    for content in (b"\xff\xfe", b"", b"a\0b"):
        assert "must contain Python" in refused(tmp_path, content, "job.py")


def test_a_form_must_be_one(client: Client, home: Path) -> None:
    for raw in (
        form("job.py", b"x", "other"),
        b"",
        b"nothing",
        b'--edge\r\nContent-Disposition: form-data; name="jarfile"\r\n\r\nx\r\n--edge--\r\n',
    ):
        answer = client.ask("POST", "/jars/upload", raw=raw, headers=FORM)
        assert (answer.status, "jarfile" in answer.errors) == (400, True)
    assert client.ask("POST", "/jars/upload", raw=b"x", headers={"Content-Type": "multipart/form-data"}).status == 400
    assert client.ask("POST", "/jars/upload", raw=b"{}").status == 415
    assert not list(home.glob("*"))


def test_an_upload_may_be_long_but_not_too_long_and_not_slow(
    client: Client, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    uploaded(client, "long.py", b"#" * (guard.LONGEST_BODY + 1))
    monkeypatch.setattr(guard, "LONGEST_UPLOAD", 1 << 20)
    long = b"#" * (1 << 20)
    assert upload(client, "job.py", long).status == 413
    body = form("job.py", long)
    chunked = b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)
    headers = {**FORM, "Transfer-Encoding": "chunked"}
    assert client.ask("POST", "/jars/upload", raw=chunked, headers=headers).status == 413
    assert client.ask("POST", "/savepoint-disposal", raw=long).status == 413, "only there"
    monkeypatch.setattr(guard, "UPLOAD_SECONDS", 0.1)
    promised = {**FORM, "Content-Length": "100"}
    assert client.ask("POST", "/jars/upload", raw=b"--edge", headers=promised).status == 408
    assert len(list(home.iterdir())) == 1


def test_an_upload_that_breaks_off_leaves_nothing(client: Client, home: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", AUDIT)
    head = ["POST /jars/upload HTTP/1.1", "Host: localhost", "Content-Length: 9999"]
    head += [f"{name}: {value}" for name, value in {**FORM, **client.headers}.items()]
    begun = ("\r\n".join(head) + "\r\n\r\n").encode() + form("job.py", b"x = 1\n" * 100)[:500]
    with socket.create_connection(("127.0.0.1", client.server.port)) as connection:
        connection.sendall(begun)
    eventually(lambda: "POST /jars/upload -> 400" in caplog.text)
    assert "a request failed" not in caplog.text
    assert not home.exists()


def test_there_is_an_end_to_what_is_kept(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program_store, "MOST_PROGRAMS", 1)
    uploaded(client, "job.py", b"x = 1\n")
    assert upload(client, "job.py", b"x = 1\n").status == 409
