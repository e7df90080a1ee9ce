"""Who is answered, and what is never told: one test for each rule, over all paths where it holds for all."""

from __future__ import annotations

import logging
import re
import socket
import stat
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.thorough import THOROUGH
from tests.unit.ops.rest.serving import Client, client_of, environment, is_running, options, serving
from tests.waiting import eventually
from tidemill.common import Configuration
from tidemill.common.job_client import JobClient
from tidemill.errors import ConfigurationError
from tidemill.ops.rest import guard
from tidemill.ops.rest.app import create_app
from tidemill.ops.rest.guard import CSRF_HEADER, LONGEST_BODY
from tidemill.ops.rest.jobs_shown import ShownJobs
from tidemill.ops.rest.messages import HIDDEN
from tidemill.ops.rest.server import server_for, servers
from tidemill.ops.rest.settings import RestSettings

NOT_THERE = [("GET", "/web"), ("GET", "/jars"), ("POST", "/jars/upload"), ("GET", "/docs"), ("DELETE", "/cluster")]
FORGED_HOSTS = [
    "evil.example.org",
    "10.0.0.1:80",
    "127.0.0.1.evil.example.org",
    "localhost.evil.org",
    "[::2]:80",
    "a b",
    "",
    "[]",
]
TRAVERSALS = [
    "..",
    "%2e%2e",
    "%252e%252e",
    "..%2f..%2fetc%2fpasswd",
    "%2fetc%2fpasswd",
    "..%5c..%5cwindows",
    "file:%2f%2f%2fetc",
    "x%00y",
    "%ff",
    "a" * 300,
    "%0d%0aSet-Cookie:x",
    "*",
    "{job_id}",
]


@cache
def paths() -> list[tuple[str, str]]:
    """Every (method, path) there is, as OpenAPI has them, and under /v1."""
    described = create_app(ShownJobs(1), RestSettings()).openapi()["paths"]
    return [
        (method.upper(), prefix + path)
        for prefix in ("", "/v1")
        for path, methods in described.items()
        for method in methods
    ]


def filled(path: str, value: str = "x") -> str:
    return re.sub(r"\{\w+\}", value, path)


@pytest.fixture(scope="module")
def tokens(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Client, Client, JobClient]]:
    """A server that wants tokens: who may operate, who may read."""
    folder = tmp_path_factory.mktemp("tokens")
    settings = options(folder, rest_operate__token=f"file:{folder}/operate", rest_read__token=f"file:{folder}/read")
    with serving(settings) as (client, job):
        told = {name: (folder / name).read_text().strip() for name in ("operate", "read")}
        operating, reading = (
            Client(client.server, {"Authorization": f"Bearer {told[name]}"}) for name in ("operate", "read")
        )
        assert len({*told.values()}) == 2
        assert all(len(bytes.fromhex(token)) == 32 for token in told.values())
        assert {stat.S_IMODE((folder / name).stat().st_mode) for name in told} == {0o600}
        yield operating, reading, job


def test_without_a_token_no_path_returns_anything(tokens: tuple[Client, Client, JobClient]) -> None:
    server = tokens[0].server
    for wrong in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "Basic eDp5"}, {"Authorization": "Bearer "}):
        for method, path in [*paths(), *NOT_THERE, ("GET", "/openapi.json"), ("OPTIONS", "/jobs")]:
            answer = Client(server, wrong).ask(method, filled(path))
            assert (answer.status, answer.headers["www-authenticate"]) == (401, "Bearer"), (method, path)
            assert answer.errors == "a token is required: Authorization: Bearer ..."


def test_to_read_is_not_to_operate_and_not_to_see_state(tokens: tuple[Client, Client, JobClient]) -> None:
    operating, reading, job = tokens
    assert reading.read("/jobs") == operating.read("/jobs")
    refused = {(method, path) for method, path in paths() if reading.ask(method, filled(path)).status == 403}
    assert refused == {
        (method, path)
        for method, path in paths()
        if method != "GET" or "/state" in path or "queryable" in path or path.endswith(("/logs", "/hot-keys"))
    }
    assert operating.get(f"/jobs/{job.get_job_id()}/state").status == 200
    assert is_running(job)


def test_a_token_to_read_does_not_allow_operations(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKEN_TO_READ", "reading")
    with serving(options(tmp_path, rest_read__token="env:TOKEN_TO_READ")) as (client, job):  # noqa: S106 - a place
        reading = Client(client.server, {"Authorization": "Bearer reading"})
        assert reading.get("/jobs").status == 200
        assert client.get("/jobs", Authorization="bearer reading").status == 200
        assert client.get("/jobs", Authorization="Basic reading").status == 401
        assert reading.ask("PATCH", f"/jobs/{job.get_job_id()}").status == 403
        assert client.ask("PATCH", f"/jobs/{job.get_job_id()}").status == 401


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"rest.bind-address": "0.0.0.0"}, r"can be reached from other machines: set rest\.operate-token"),  # noqa: S104
        ({"rest.bind-address": "::"}, "can be reached from other machines"),
        ({"rest.bind-address": "192.0.2.1"}, "can be reached from other machines"),
        ({"rest.operate-token": "s3cret"}, "must specify where the token is stored: 'env:NAME' or 'file:PATH'"),
        ({"rest.operate-token": "env:TIDEMILL_NO_SUCH"}, "there is no environment variable TIDEMILL_NO_SUCH"),
        ({"rest.read-token": "file:/no/such/folder/token"}, r"rest\.read-token cannot be found"),
        ({"rest.bind-port": "9-1"}, "'9-1' for configuration key 'rest.bind-port'"),
        ({"rest.ssl.certificate": "/no/such"}, r"rest\.ssl\.certificate cannot be used"),
        ({"rest.ssl.certificate-key": "/no/such"}, r"but rest\.ssl\.certificate, which HTTPS requires, is not"),
    ],
)
def test_settings_that_would_not_be_safe_start_no_job(settings: dict[str, str], message: str) -> None:
    env = environment({"execution.target": "local", "rest.enabled": "true", **settings})
    ran: list[int] = []
    env.from_collection([1]).map(ran.append).print()
    before = servers()
    with pytest.raises(ConfigurationError, match=message) as refused:
        env.execute()
    assert "s3cret" not in str(refused.value)
    assert servers() == before
    assert not ran


def test_who_knows_what_that_means_may_serve_everybody(caplog: pytest.LogCaptureFixture) -> None:
    everybody = {"rest.bind-address": "0.0.0.0", "rest.port": "0", "rest.dangerously-allow-anyone": "true"}  # noqa: S104
    server = server_for(Configuration.from_dict(everybody))
    try:
        assert Client(server).get("/jobs").status == 200
        address = Client(server).get("/jobs", Host="192.0.2.7:8081")
        assert address.status == 200, "an address is nobody's trick"
        assert Client(server).get("/jobs", Host=socket.gethostname()).status == 200
        led_here = Client(server).get("/jobs", Host="evil.example.org")
        assert led_here.status == 403, "a name may be"
    finally:
        server.close()
    assert "may stop jobs, delete savepoints and read state: rest.dangerously-allow-anyone" in caplog.text
    assert "without TLS" in caplog.text


def test_a_token_that_others_can_read_is_refused(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("known")
    (tmp_path / "token").chmod(0o644)
    configuration = Configuration()
    configuration.set_string("rest.operate-token", f"file:{tmp_path}/token")
    with pytest.raises(ConfigurationError, match="can be read by others; restrict access with 'chmod 600"):
        server_for(configuration)


def test_a_port_that_is_taken_costs_the_server_and_not_the_job(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        env = environment(options(tmp_path) | {"rest.port": str(taken.getsockname()[1])})
        env.from_collection([1]).filter(lambda n: False).print()
        env.execute()
    assert "the job runs without a REST server" in caplog.text


@pytest.mark.parametrize("host", FORGED_HOSTS)
def test_a_name_that_is_not_ours_is_refused(client: Client, host: str) -> None:
    assert client.get("/jobs", Host=host).status == 403


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1:1", "[::1]:8081", "LOCALHOST:8081"])
def test_a_name_of_this_machine_is_ours(client: Client, host: str) -> None:
    assert client.get("/jobs", Host=host).status == 200


def test_elsewhere_it_answers_to_the_name_that_is_configured() -> None:
    settings = RestSettings(host="192.0.2.1", address="jobs.example.org", operate_token="x")  # noqa: S106
    assert settings.answers_to("jobs.example.org:8081")
    assert settings.answers_to("192.0.2.1:8081")
    assert not settings.answers_to("evil.example.org")
    assert not settings.answers_to("")


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example.org"},
        {"Origin": "null"},
        {"Origin": "https://127.0.0.1"},
        {"Origin": "http://["},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
def test_other_pages_get_nothing_and_change_nothing(
    served: tuple[Client, JobClient], path: str, headers: dict[str, str]
) -> None:
    client, job = served
    assert client.get("/jobs", **headers).status == 403
    assert client.ask("PATCH", path, headers={**headers, CSRF_HEADER: "1"}).status == 403
    assert is_running(job)


def test_a_link_of_another_page_may_be_followed(client: Client, path: str) -> None:
    followed = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
    assert client.get("/jobs", **followed).status == 200
    assert client.ask("PATCH", path, headers={**followed, CSRF_HEADER: "1"}).status == 403, "a form is no link"
    assert client.get("/jobs", **{**followed, "Sec-Fetch-Dest": "iframe"}).status == 403


def test_a_proxy_may_speak_https_for_a_server_with_an_address(tmp_path: Path) -> None:
    with serving(options(tmp_path, rest_address="jobs.example.org")) as (client, _):
        for origin, status in (("https://jobs.example.org", 200), ("http://jobs.example.org", 403), ("https://x", 403)):
            assert client.get("/jobs", Host="jobs.example.org:8081", Origin=origin).status == status


def test_a_browser_must_say_that_it_means_it(served: tuple[Client, JobClient], path: str) -> None:
    client, job = served
    own = {"Origin": f"http://127.0.0.1:{client.server.port}", "Host": f"127.0.0.1:{client.server.port}"}
    answer = client.ask("PATCH", path, headers=own)
    assert (answer.status, CSRF_HEADER in answer.errors) == (403, True)
    assert client.ask("PATCH", path, headers={"Sec-Fetch-Site": "same-origin"}).status == 403
    assert client.ask("PATCH", f"{path}?mode=none", headers={**own, CSRF_HEADER: "1"}).status == 400, "let through"
    assert client.get("/jobs", **own).status == 200
    assert is_running(job)


def test_every_answer_keeps_browsers_from_harm(client: Client) -> None:
    for method, path in [*paths(), *NOT_THERE]:
        answer = client.ask(method, filled(path))
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["x-frame-options"] == "DENY"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert answer.headers["cross-origin-resource-policy"] == "same-origin"
        assert "unsafe" not in answer.headers["content-security-policy"]
        assert "default-src 'none'" in answer.headers["content-security-policy"]
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["content-type"] == "application/json"
        assert not {"server", "set-cookie", "access-control-allow-origin"} & set(map(str.lower, answer.headers))


def test_what_is_missing_is_an_error(client: Client, path: str) -> None:
    for method, missing in NOT_THERE:
        assert client.ask(method, missing).errors == "Not Found"
    assert client.ask("DELETE", path).status == 405
    assert client.ask("OPTIONS", path, headers={"Access-Control-Request-Method": "PATCH"}).status == 405
    assert client.get("/jobs/").status == 404, "nobody is sent to another path"
    assert "not found" in client.get("/jobs/unknown").errors


@pytest.mark.parametrize("value", TRAVERSALS)
def test_no_part_of_a_path_leads_anywhere(client: Client, path: str, value: str) -> None:
    # Every other path for one value, the others for the next.
    for method, template in paths() if THOROUGH else paths()[TRAVERSALS.index(value) % 2 :: 2]:
        if method != "GET" or "{" not in template:
            continue
        for shown in (filled(template, value), filled(template.replace("/jobs/{job_id}", path), value)):
            if "{" in template.replace("{job_id}", "") or shown == filled(template, value):
                answer = client.get(shown)
                assert answer.status in (400, 404), shown
                assert "root:" not in answer.text
                assert answer.errors


def test_long_bodies_and_those_that_are_no_json_are_refused(client: Client, path: str) -> None:
    long = b" " * (LONGEST_BODY + 1)
    savepoints = f"{path}/savepoints"
    assert client.ask("POST", savepoints, raw=long).status == 413
    chunked = {"Transfer-Encoding": "chunked"}
    body = b"%x\r\n%b\r\n0\r\n\r\n" % (len(long), long)
    assert client.ask("POST", savepoints, raw=body, headers=chunked).status == 413
    assert client.ask("POST", savepoints, raw=b"{}", headers={"Content-Type": "text/plain"}).status == 415
    assert (
        client.ask("POST", savepoints, raw=b"a=b", headers={"Content-Type": "application/x-www-form-urlencoded"}).status
        == 415
    )
    assert client.ask("POST", savepoints, raw=b"{").status == 400
    assert client.ask("POST", savepoints, raw=b"[" * 60_000).status == 400
    assert client.ask("POST", savepoints, raw=b'"\xff"').status == 400
    assert client.get("/jobs").status == 200


@pytest.mark.parametrize("length", [4, 0, 500])
def test_a_body_of_two_lengths_is_refused_and_nothing_behind_it_is_read(client: Client, path: str, length: int) -> None:
    """A proxy that goes by the other length would take what is left of the body for a request of its own."""
    hidden = f"GET /config HTTP/1.1\r\nHost: localhost:{client.server.port}\r\n\r\n"
    request = (
        f"POST {path}/savepoints HTTP/1.1\r\nHost: localhost:{client.server.port}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {length}\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n{hidden}"
    )
    with socket.create_connection(("127.0.0.1", client.server.port), timeout=60) as connection:
        connection.sendall(request.encode())
        answers = b"".join(iter(lambda: connection.recv(1 << 16), b""))
    assert answers.startswith(b"HTTP/1.1 400 ")
    assert b"not both" in answers
    assert answers.count(b"HTTP/1.1") == 1


def test_who_asks_too_often_must_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr(guard, "time", SimpleNamespace(monotonic=lambda: now))
    with serving(options(tmp_path) | {"rest.max-requests-per-second": "5"}) as (client, _):
        assert [client.get("/config").status for _ in range(30)] == [200] * 10 + [429] * 20
        now += 0.2
        assert [client.get("/config").status for _ in range(2)] == [200, 429]


def test_pages_elsewhere_do_not_use_up_what_their_visitor_may_ask(tmp_path: Path) -> None:
    with serving(options(tmp_path) | {"rest.max-requests-per-second": "5"}) as (client, _):
        for _ in range(30):
            assert client.get("/", Origin="http://evil.example.org").status == 403
            assert client.get("/", Host="evil.example.org").status == 403
        assert client.get("/config").status == 200


def test_limits_hold_for_each_client_and_cost_little_memory() -> None:
    rates = guard._Rates(10)
    assert [rates.admits("a", 0.0) for _ in range(21)] == [True] * 20 + [False]
    assert rates.admits("b", 0.0)
    assert [rates.admits("a", 0.1), rates.admits("a", 0.1)] == [True, False]
    for number in range(5000):
        rates.admits(str(number), 1.0)
    assert len(rates._left) == guard._CLIENTS


def test_secrets_are_on_no_page(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    canary = "canary-4711"
    caplog.set_level(logging.DEBUG)
    env = environment(
        options(tmp_path, restart__strategy_type="none")
        | {
            "s3.secret-key": canary,
            "user.password": canary,
            "user.url": f"postgres://me:{canary}@db/x",
            "pipeline.global-job-parameters": f"api-token:{canary}",
        }
    )

    def fail(n: int) -> int:
        raise ValueError(f"cannot log in with password='{canary}'")

    env.from_collection([1]).map(fail).name(f"copy postgres://me:{canary}@db").uid("m").print()
    job = env.execute_async(f"token={canary}")
    with client_of(job) as (client, path):
        eventually(lambda: not is_running(job))
        for method, template in paths():
            if method == "GET":
                shown = template.replace("/jobs/{job_id}", path)
                for vertex in client.read(path)["vertices"]:
                    answer = client.get(filled(shown.replace("{vertex_id}", vertex["id"]), "1"))
                    assert canary not in answer.text, shown
        assert "******" in client.get(f"{path}/config").text
        assert "cannot log in" in client.get(f"{path}/exceptions").text
        assert canary not in client.get(f"/jobs/token={canary}").text
    ours = [
        record.getMessage() for record in caplog.records if record.name.startswith(("tidemill.ops", "tidemill.audit"))
    ]
    assert not [line for line in ours if canary in line]


def test_records_are_shown_only_to_who_may_operate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TO_READ", "reading")
    monkeypatch.setenv("TO_OPERATE", "operating")
    tokens = {"rest.read-token": "env:TO_READ", "rest.operate-token": "env:TO_OPERATE"}
    env = environment(options(tmp_path, restart__strategy_type="none", parallelism_default="1") | tokens)

    def fail(text: str) -> int:
        raise ValueError(f"no house number in:\n  {text}")

    env.from_collection(["alice's address"]).map(fail).name("find houses").uid("m").print()
    job = env.execute_async()
    with client_of(job) as (client, path):
        eventually(lambda: not is_running(job))
        operating, reading = (
            Client(client.server, {"Authorization": f"Bearer {who}"}) for who in ("operating", "reading")
        )
        (seen,) = operating.read(f"{path}/exceptions")["exceptionHistory"]["entries"]
        assert "no house number in:\n  alice's address" in seen["stacktrace"]
        assert 'record "alice\'s address"' in seen["stacktrace"]
        (told,) = reading.read(f"{path}/exceptions")["exceptionHistory"]["entries"]
        assert told["exceptionName"] == "ValueError"
        assert told["stacktrace"] == f"ValueError in operator 'find houses' (uid m), subtask 1, epoch 1: {HIDDEN}"
        for method, template in paths():
            if method == "GET":
                shown = template.replace("/jobs/{job_id}", path)
                for vertex in reading.read(path)["vertices"]:
                    answer = reading.get(filled(shown.replace("{vertex_id}", vertex["id"]), "1"))
                    assert "alice" not in answer.text, shown


def test_what_an_operation_failed_with_is_shown_only_to_who_may_operate(
    tokens: tuple[Client, Client, JobClient],
) -> None:
    operating, reading, job = tokens
    path = f"/jobs/{job.get_job_id()}"
    configured = operating.read(f"{path}/config")["configuration"]["execution.checkpointing.savepoint-dir"]
    Path(configured).mkdir(exist_ok=True)
    Path(configured, "taken").touch()
    begun = operating.ask("POST", f"{path}/savepoints", {"target-directory": f"{configured}/taken"}).json
    where = f"{path}/savepoints/{begun['request-id']}"
    cause = operating.finished(where)["failure-cause"]
    assert "taken" in cause["stack-trace"]
    assert reading.finished(where)["failure-cause"] == {"class": cause["class"], "stack-trace": HIDDEN}
    for who, told in ((operating, cause["stack-trace"]), (reading, HIDDEN)):
        checkpoints = who.read(f"{path}/checkpoints")
        failed = checkpoints["latest"]["failed"]
        assert failed["failure_message"] == told
        assert who.read(f"{path}/checkpoints/details/{failed['id']}")["status"] in ("FAILED", "COMPLETED")


def test_what_is_done_is_noted(tokens: tuple[Client, Client, JobClient], caplog: pytest.LogCaptureFixture) -> None:
    operating, reading, job = tokens
    caplog.set_level(logging.INFO, "tidemill.audit")
    path = f"/jobs/{job.get_job_id()}"
    # From where a request comes is not up to who sends it.
    operating.ask("PATCH", f"{path}/rescaling?parallelism=2", headers={"X-Forwarded-For": "192.0.2.1"})
    for who in (operating, operating, reading):  # repeated reads are logged once a minute
        who.get(f"{path}/state/sums/_reduce_state")
    reading.ask("POST", f"{path}/stop")
    Client(reading.server).ask("PATCH", "/jobs/a%0Ab")
    Client(reading.server).ask("PATCH", "/jobs/my-token-job")
    operating.get(path)
    expected = [
        f"operate at 127.0.0.1: PATCH {path}/rescaling -> 202",
        f"operate at 127.0.0.1: GET {path}/state/sums/_reduce_state -> 200",
        f"read at 127.0.0.1: GET {path}/state/sums/_reduce_state -> 403",
        f"read at 127.0.0.1: POST {path}/stop -> 403",
        r"nobody at 127.0.0.1: PATCH /jobs/a\nb -> 401",
        "nobody at 127.0.0.1: PATCH /jobs/my-token-job -> 401",
    ]

    def noted() -> list[str]:  # after the answer
        return [record.getMessage() for record in caplog.records if record.name == "tidemill.audit"]

    eventually(lambda: len(noted()) >= len(expected), shown=noted)
    assert noted() == expected


def test_who_is_refused_does_not_fill_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("TO_OPERATE", "operating")
    caplog.set_level(logging.INFO, "tidemill.audit")
    settings = Configuration.from_dict({"rest.port": "0", "rest.operate-token": "env:TO_OPERATE"})
    server = server_for(settings)
    try:
        begun = time.monotonic()
        for number in range(100):
            assert Client(server).ask("PATCH", f"/jobs/{number}").status in (401, 429)
        noted, seconds = caplog.text.count("nobody at"), time.monotonic() - begun
        assert 20 <= noted <= 21 + 10 * seconds
        eventually(lambda: Client(server, {"Authorization": "Bearer operating"}).ask("PATCH", "/jobs/x").status == 404)
        eventually(lambda: "operate at 127.0.0.1: PATCH /jobs/x -> 404" in caplog.text)
    finally:
        server.close()


def test_internal_errors_are_not_disclosed(
    client: Client, path: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(self: ShownJobs) -> list[object]:
        raise RuntimeError("internal detail")

    monkeypatch.setattr(ShownJobs, "all", broken)
    answer = client.get("/jobs")
    assert answer.status == 500
    assert re.fullmatch(r"internal error; for details, see the log of the driver under [0-9a-f]{8}", answer.errors)
    assert answer.errors.split()[-1] in caplog.text
    assert "internal detail" in caplog.text
    assert client.get(path).status == 200, "others are answered"
