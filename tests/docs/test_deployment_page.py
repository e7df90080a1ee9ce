"""`docs/deployment.md` and the files it names fit the command line, the options, the exit codes, and each other.

What is run of it is run by tests/spark/test_standalone_cluster.py.
"""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.main import get_command

from tests.docs.markdown_blocks import blocks_of
from tests.docs.test_pages import tables_of
from tidemill.common import Configuration, ExitCode
from tidemill.config import CheckpointingOptions, ExecutionOptions, RestOptions
from tidemill.ops.cli.app import app
from tidemill.ops.rest.settings import RestSettings

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "deployment.md"
KUBERNETES = ROOT / "examples" / "kubernetes"
COMMANDS = [
    line.partition(" # ")[0]  # what follows is for the reader
    for block in blocks_of(PAGE.read_text(encoding="utf-8"))
    if block.info.partition(" ")[0] == "sh"
    for line in block.text.replace("\\\n", "").splitlines()
]
#: After these another start is useless.
FOR_GOOD = [int(ExitCode.FENCED), int(ExitCode.UNFIT)]


@pytest.mark.parametrize("line", [line for line in COMMANDS if line.startswith("tidemill ")])
def test_the_command_line_understands_what_the_guide_says(line: str) -> None:
    understand(shlex.split(line)[1:])


def understand(arguments: list[str]) -> dict[str, Any]:
    """The parameters of a command as they are parsed; raises a usage error for what is not understood."""
    command: Any = get_command(app)
    while hasattr(command, "commands"):
        command, arguments = command.commands[arguments[0]], arguments[1:]
    parameters: dict[str, Any] = command.make_context("tidemill", arguments).params
    return parameters


def load(text: str, folder: Path) -> Configuration:
    """Settings as a program reads them: unknown keys and bad values are refused."""
    (folder / "settings.yaml").write_text(text)
    return Configuration.load_yaml(str(folder / "settings.yaml"))


def test_settings_are_known(tmp_path: Path) -> None:
    blocks = [block for block in blocks_of(PAGE.read_text(encoding="utf-8")) if block.info.startswith("yaml")]
    assert len(blocks) > 1
    for block in blocks:
        load(block.text, tmp_path)


def test_exit_codes_are_as_documented() -> None:
    tables = tables_of(PAGE, "What every place needs")
    (codes,) = (rows[2:] for rows in tables if rows[0][0] == "code")
    assert [(row[0], "no" in row[1].split(":")[0]) for row in codes] == [
        (str(ExitCode.FINISHED.value), True),
        (f"{ExitCode.FAILED.value}, or a signal", False),
        (str(ExitCode.FENCED.value), True),
        (str(ExitCode.UNFIT.value), True),
    ]


def test_a_unit_of_systemd_knows_when_to_stay_down() -> None:
    unit = (ROOT / "examples" / "tidemill.service").read_text(encoding="utf-8")
    (kept_down,) = re.findall(r"^RestartPreventExitStatus=(.*)$", unit, re.MULTILINE)
    assert [int(code) for code in kept_down.split()] == [int(ExitCode.FINISHED), *FOR_GOOD]
    (command,) = re.findall(r"^ExecStart=\S+/tidemill (.*)$", unit, re.MULTILINE)
    assert understand(shlex.split(command))["detached"] is False


class Manifest:
    """The objects of the manifest."""

    def __init__(self) -> None:
        text = (KUBERNETES / "tidemill.yaml").read_text(encoding="utf-8")
        self.objects: dict[tuple[str, str], dict[str, Any]] = {
            (one["kind"], one["metadata"]["name"]): one for one in yaml.safe_load_all(text)
        }
        self.driver = self.objects["Job", "orders"]["spec"]["template"]["spec"]
        self.settings: str = self.objects["ConfigMap", "orders"]["data"]["settings.yaml"]
        self.executor = yaml.safe_load(self.objects["ConfigMap", "orders"]["data"]["executor.yaml"])["spec"]


@pytest.fixture(scope="module")
def manifest() -> Manifest:
    return Manifest()


def test_the_driver_on_kubernetes_is_started_again_when_that_makes_sense(manifest: Manifest) -> None:
    rules = manifest.objects["Job", "orders"]["spec"]["podFailurePolicy"]["rules"]
    (codes,) = (rule["onExitCodes"] for rule in rules if rule["action"] == "FailJob")
    assert (codes["operator"], codes["values"]) == ("In", FOR_GOOD)
    assert codes["containerName"] in [container["name"] for container in manifest.driver["containers"]]
    assert manifest.driver["restartPolicy"] == "Never"  # else there is no policy for failures


def test_the_driver_on_kubernetes_can_be_reached(
    manifest: Manifest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = load(manifest.settings, tmp_path)
    (container,) = manifest.driver["containers"]
    variables = {one["name"] for one in container["env"]}
    monkeypatch.setenv("TIDEMILL_TOKEN", "secret")
    rest = RestSettings.of(settings)
    ports = {one["name"]: one["containerPort"] for one in container["ports"]}
    reporter = settings.to_dict()
    assert (rest.host, list(rest.ports), rest.needs_token) == ("0.0.0.0", [ports["rest"]], True)  # noqa: S104
    assert reporter["metrics.reporter.prom.port"] == str(ports["metrics"])
    assert settings.get(RestOptions.OPERATE_TOKEN) == "env:TIDEMILL_TOKEN"
    assert "TIDEMILL_TOKEN" in variables
    service = manifest.objects["Service", "orders"]["spec"]
    assert {one["port"]: ports[one["targetPort"]] for one in service["ports"]} == {8081: 8081, 9249: 9249}
    labels = manifest.objects["Job", "orders"]["spec"]["template"]["metadata"]["labels"]
    assert service["selector"].items() <= labels.items()
    assert (reporter["spark.driver.port"], reporter["spark.driver.blockManager.port"]) == (
        str(ports["driver"]),
        str(ports["blocks"]),
    )

    command = understand(container["args"][1:])
    assert command["detached"] is False
    named = {re.sub(r"\W", "", name) for option in command["defined"] for name in re.findall(r"\$\(\w+\)", option)}
    assert named <= variables
    assert str(command["config"]) == "/etc/tidemill/settings.yaml"


def test_driver_and_executors_on_kubernetes_see_the_same_files(manifest: Manifest, tmp_path: Path) -> None:
    settings = load(manifest.settings, tmp_path)
    (driver,), (executor,) = manifest.driver["containers"], manifest.executor["containers"]
    mounts = [{one["name"]: one["mountPath"] for one in container["volumeMounts"]} for container in (driver, executor)]
    assert mounts[0]["checkpoints"] == mounts[1]["checkpoints"]
    for option in (CheckpointingOptions.DIRECTORY, CheckpointingOptions.SAVEPOINT_DIRECTORY):
        assert str(settings.get(option)).startswith(mounts[0]["checkpoints"] + "/")
    assert settings.to_dict()["state.backend.rocksdb.localdir"] == mounts[1]["local-state"]
    assert settings.get(ExecutionOptions.JOB_ID) == "orders"
    assert settings.to_dict()["spark.kubernetes.container.image"] == driver["image"]
    assert settings.to_dict()["spark.kubernetes.namespace"] == "streams"

    for pod in (manifest.driver, manifest.executor):
        volumes = {one["name"]: one for one in pod["volumes"]}
        assert volumes["checkpoints"]["persistentVolumeClaim"]["claimName"] == "checkpoints"
        assert pod["securityContext"] == manifest.driver["securityContext"]
    assert manifest.objects["PersistentVolumeClaim", "checkpoints"]["spec"]["accessModes"] == ["ReadWriteMany"]
    assert ("ServiceAccount", manifest.driver["serviceAccountName"]) in manifest.objects
    assert all(one["metadata"].get("namespace") in (None, "streams") for one in manifest.objects.values())


def test_the_image_has_what_pods_ask_for(manifest: Manifest) -> None:
    recipe = (KUBERNETES / "Dockerfile").read_text(encoding="utf-8")
    copied = re.findall(r"^COPY (?:--\S+ )*(\S+) \S+$", recipe, re.MULTILINE)
    assert copied
    assert all((KUBERNETES / source).exists() for source in copied)
    user = manifest.driver["securityContext"]["runAsUser"]
    assert f"--uid {user} " in recipe
    assert f"\nUSER {user}\n" in recipe
    program, output = manifest.driver["containers"][0]["args"][-2:]
    assert (KUBERNETES / Path(program).relative_to("/opt")).is_file()
    assert output.startswith("/shared/")
    subprocess.run(["sh", "-n", str(KUBERNETES / "entrypoint.sh")], check=True)
