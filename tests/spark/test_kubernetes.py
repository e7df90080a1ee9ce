"""examples/kubernetes as far as it can be run without Kubernetes: driver, settings, entry point, pods that are lost.

The driver is started with the arguments of the manifest, and has its executors as pods of an API server of ours.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.docs.markdown_blocks import blocks_of
from tests.java import QUICK_JAVA
from tests.spark.kubernetes import FakeKubernetes, serving
from tests.spark.processes import ROOT, child_environment, tail
from tests.thorough import WHEN_THOROUGH
from tests.waiting import eventually

FOLDER = ROOT / "examples" / "kubernetes"
GUIDE = (ROOT / "docs" / "deployment.md").read_text(encoding="utf-8")
DRIVER = "orders-x7k2p"
SECONDS = 300.0


class Pod:
    """Where the driver runs: the manifest's container, with directories of a test in place of its volumes."""

    def __init__(self, folder: Path, api: str) -> None:
        text = (FOLDER / "tidemill.yaml").read_text(encoding="utf-8")
        objects: dict[str, Any] = {one["kind"]: one for one in yaml.safe_load_all(text)}
        container = objects["Job"]["spec"]["template"]["spec"]["containers"][0]
        self.output = folder / "shared" / "orders"
        places = {
            "/shared": str(folder / "shared"),
            "/etc/tidemill": str(folder),
            "/opt/job": str(FOLDER / "job"),
            "/var/lib/tidemill": str(folder / "local"),
            "k8s://https://kubernetes.default.svc:443": f"k8s://{api}",
        }
        for name, content in objects["ConfigMap"]["data"].items():
            (folder / name).write_text(replaced(content, places))
        settings = yaml.safe_load((folder / "settings.yaml").read_text())
        settings |= {
            "parallelism.default": 2,
            "rest.bind-port": "0",
            "metrics.reporter.prom.port": "0",
            "spark.driver.port": "0",
            "spark.driver.blockManager.port": "0",
            "spark.executor.cores": 1,
            "spark.executor.memory": "512m",
            "spark.executor.extraJavaOptions": QUICK_JAVA,
            # Nothing is watched here, only polled.
            "spark.kubernetes.executor.enableApiWatcher": "false",
            "spark.kubernetes.executor.apiPollingInterval": "1s",
        }
        (folder / "settings.yaml").write_text(yaml.safe_dump(settings))
        variables = {"$(POD_IP)": "127.0.0.1", "$(POD_NAME)": DRIVER}
        self.command = [replaced(argument, {**places, **variables}) for argument in container["args"]]


def replaced(text: str, words: dict[str, str]) -> str:
    for word, other in words.items():
        text = text.replace(word, other)
    return text


def counts(output: Path) -> dict[str, list[int]]:
    """What is counted for each customer, in order."""
    found: dict[str, list[int]] = defaultdict(list)
    for path in output.glob("part-*"):
        for line in path.read_text().splitlines():
            customer, count = line.strip("()").split(",")
            found[customer].append(int(count))
    return {customer: sorted(numbers) for customer, numbers in found.items()}


@WHEN_THOROUGH
@pytest.mark.timeout(900)
def test_a_driver_has_executors_in_pods_and_another_one_for_each_that_is_lost(tmp_path: Path) -> None:
    shims = tmp_path / "shims"
    shims.mkdir()
    (shims / "tini").write_text('#!/bin/sh\nshift\nexec "$@"\n')
    (shims / "tini").chmod(0o755)
    environment = {
        **child_environment(),
        "PATH": os.pathsep.join([str(shims), str(Path(sys.executable).parent), os.environ["PATH"]]),
        "TIDEMILL_TOKEN": "a-token-of-the-secret",
        "XDG_STATE_HOME": str(tmp_path / "state"),
        # Spark is to know of no other cluster than ours.
        "KUBECONFIG": str(tmp_path / "none"),
        "KUBERNETES_AUTH_TRYKUBECONFIG": "false",
        "KUBERNETES_AUTH_TRYSERVICEACCOUNT": "false",
    }
    of_pods = {name: value for name, value in environment.items() if name in ("PATH", "PYTHONPATH", "HOME", "LANG")}
    cluster = FakeKubernetes(tmp_path, FOLDER / "entrypoint.sh", of_pods, DRIVER)
    log = tmp_path / "driver.log"
    with serving(cluster) as api, log.open("wb") as output:
        pod = Pod(tmp_path, api)
        driver = subprocess.Popen(
            [str(FOLDER / "entrypoint.sh"), *pod.command],
            env=environment,
            cwd=tmp_path,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        try:
            eventually(lambda: bool(counts(pod.output)), SECONDS, shown=lambda: tail(log))
            first, second = cluster.running()
            cluster.kill(first)
            eventually(lambda: len(cluster.running()) == 2, SECONDS, shown=lambda: tail(log))
            seen = sum(map(len, counts(pod.output).values()))
            eventually(
                lambda: sum(map(len, counts(pod.output).values())) > seen + 500, SECONDS, shown=lambda: tail(log)
            )
            assert second in cluster.running()

            rest = re.search(r"http://[\w.]+:(\d+)", log.read_text())
            assert rest is not None, tail(log)
            (stop,) = (
                line
                for block in blocks_of(GUIDE)
                for line in block.text.splitlines()
                if line.startswith("tidemill stop") and "env:TIDEMILL_TOKEN" in line
            )
            command = shlex.split(stop.replace(":8081", f":{rest[1]}"))
            subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, check=True, timeout=SECONDS)
            assert driver.wait(SECONDS) == os.EX_OK, tail(log)
        finally:
            driver.kill()
            driver.wait()
        assert cluster.running() == [], "executors outlive their driver"
    assert all(numbers == list(range(1, len(numbers) + 1)) for numbers in counts(pod.output).values())
    check_pods(cluster.asked_for)


def check_pods(pods: list[dict[str, Any]]) -> None:
    """Pods are as the settings and the template say."""
    names = [pod["metadata"]["name"] for pod in pods]
    assert len(set(names)) == len(names) == 3
    assert all(name.startswith("orders-") and "-exec-" in name for name in names)
    for pod in pods:
        (owner,) = pod["metadata"]["ownerReferences"]
        assert owner["name"] == DRIVER
        assert pod["spec"]["securityContext"]["runAsUser"] == 1000
        (container,) = pod["spec"]["containers"]
        assert container["image"] == "registry.example.org/orders:1"
        assert container["resources"]["limits"]["memory"] == f"{512 + 3 * 1024}Mi"
        assert {"checkpoints", "local-state"} <= {mount["name"] for mount in container["volumeMounts"]}
