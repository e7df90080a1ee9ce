"""The Python blocks of README.md and docs/ run and print what the page says. The rules are in `markdown_blocks`."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.markdown_blocks import examples_of
from tests.docs.page_process import PageProcess, page_process

ROOT = Path(__file__).parents[2]
SECONDS_PER_PAGE = 300

PAGES = sorted(
    page
    for page in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    if page.exists() and examples_of(page.read_text(encoding="utf-8"))
)


@pytest.fixture(scope="module")
def pages() -> Iterator[PageProcess]:
    """Runs each page in a process of its own."""
    with page_process({"PYTHONPATH": str(ROOT), "PYSPARK_PYTHON": sys.executable}) as running:
        yield running


@pytest.mark.timeout(SECONDS_PER_PAGE + 30)
@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_page(page: Path, pages: PageProcess, tmp_path: Path) -> None:
    code, errors = pages.run(page, tmp_path, SECONDS_PER_PAGE)
    assert code == 0, errors


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


def test_a_good_page_passes(pages: PageProcess, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(GOOD)
    assert [example.code.line for example in examples_of(GOOD)] == [3, 18]
    code, errors = pages.run(page, tmp_path, SECONDS_PER_PAGE)
    assert (code, errors.strip()) == (0, "")


def test_a_wrong_output_is_shown_with_its_line(pages: PageProcess, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(GOOD.replace("\n42\n", "\n43\n"))
    code, errors = pages.run(page, tmp_path, SECONDS_PER_PAGE)
    assert code == 1
    assert f"--- {page}:22" in errors
    assert "-43\n+42" in errors


def test_an_exception_names_the_line_of_the_page(pages: PageProcess, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(GOOD.replace("double(21)", "double(None)"))
    code, errors = pages.run(page, tmp_path, SECONDS_PER_PAGE)
    assert code == 1
    assert f'File "{page}", line 18' in errors


def test_a_page_that_takes_too_long_is_ended(pages: PageProcess, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("```python run\nimport time\ntime.sleep(600)\n```\n")
    assert pages.run(page, tmp_path, 1)[0] == -signal.SIGALRM


@pytest.mark.parametrize("text", ["```python run\nprint(1)\n", "```sh\nls\n```\n```output\nfile\n```\n"])
def test_a_malformed_page_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="line"):
        examples_of(text)
