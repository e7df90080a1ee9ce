"""The Python blocks of README.md and docs/ run and print what the page says. The rules are in `markdown_blocks`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.child_process import run_python
from tests.docs.markdown_blocks import examples_of

ROOT = Path(__file__).parents[2]
SECONDS_PER_PAGE = 300

PAGES = sorted(
    page
    for page in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    if page.exists() and examples_of(page.read_text(encoding="utf-8"))
)


def run_page(page: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a page in a process and a folder of its own."""
    settings = {"PYTHONPATH": str(ROOT), "PYSPARK_PYTHON": sys.executable}
    module = "tests.docs.markdown_blocks"
    return run_python("-m", module, str(page), folder=folder, environment=settings, seconds=SECONDS_PER_PAGE)


@pytest.mark.timeout(SECONDS_PER_PAGE + 30)
@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_page(page: Path, tmp_path: Path) -> None:
    result = run_page(page, tmp_path)
    assert result.returncode == 0, result.stderr


GOOD = """
```python run
def double(x):
    return 2 * x
```

Left alone:

```python
raise RuntimeError("never run")
```

```sh
make nothing
```

```python
print(double(21))
```

```output
42
```
"""


def test_a_good_page_passes(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(GOOD)
    assert [example.code.line for example in examples_of(GOOD)] == [3, 18]
    result = run_page(page, tmp_path)
    assert (result.returncode, result.stderr.strip()) == (0, "")


def test_a_wrong_output_is_shown_with_its_line(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(GOOD.replace("\n42\n", "\n43\n"))
    result = run_page(page, tmp_path)
    assert result.returncode == 1
    assert f"--- {page}:22" in result.stderr
    assert "-43\n+42" in result.stderr


def test_an_exception_names_the_line_of_the_page(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(GOOD.replace("double(21)", "double(None)"))
    result = run_page(page, tmp_path)
    assert result.returncode == 1
    assert f'File "{page}", line 18' in result.stderr


@pytest.mark.parametrize("text", ["```python run\nprint(1)\n", "```sh\nls\n```\n```output\nfile\n```\n"])
def test_a_malformed_page_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="line"):
        examples_of(text)
