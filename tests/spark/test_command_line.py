"""`tidemill run` on a cluster: the program's code goes to workers that do not have it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.spark.processes import child_environment
from tests.spark.standalone import SETTINGS, StandaloneCluster
from tests.thorough import WHEN_THOROUGH

PACKAGE = {
    "shop/__init__.py": "",
    "shop/prices.py": "def with_tax(price):\n    return price * 2\n",
    "shop/job.py": """
from shop.prices import with_tax
from tidemill.datastream import StreamExecutionEnvironment

def main():
    env = StreamExecutionEnvironment.get_execution_environment()
    prices = env.from_collection([1, 2, 3]).map(with_tax).key_by(lambda price: price).max(0)
    print("prices:", sorted(prices.execute_and_collect()))
""",
}


@WHEN_THOROUGH  # otherwise a job on a cluster brings its modules and packages along: test_standalone_cluster
@pytest.mark.timeout(400)
def test_a_function_of_a_module_brings_its_package_along(tmp_path: Path, cluster: StandaloneCluster) -> None:
    for name, text in PACKAGE.items():
        (tmp_path / "code" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "code" / name).write_text(text)
    settings = {**SETTINGS, "execution.checkpointing.dir": str(tmp_path / "checkpoints")}
    defined = [argument for key, value in settings.items() for argument in ("-D", f"{key}={value}")]
    environment = {**child_environment(), "XDG_STATE_HOME": str(tmp_path / "state")}
    ended = subprocess.run(
        [sys.executable, "-m", "tidemill", "run", "--master", cluster.url, *defined, "shop.job:main"],
        cwd=tmp_path / "code",
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == os.EX_OK, ended.stderr
    assert "prices: [2, 4, 6]" in ended.stdout
