"""Imports are rewritten where they are imports, and nowhere else."""

from __future__ import annotations

import pytest

from tidemill.ops.porting.imports import ported

REWRITTEN = {
    "a module": ("import pyflink.datastream\n", "import tidemill.datastream\n"),
    "several": ("import os, pyflink.common as c, pyflink\n", "import os, tidemill.common as c, tidemill\n"),
    "names": (
        "from pyflink.common import (\n    Types,\n    Row)\n",
        "from tidemill.common import (\n    Types,\n    Row)\n",
    ),
    "the package": ("from pyflink import datastream as ds\n", "from tidemill import datastream as ds\n"),
    "a continued line": ("from \\\n    pyflink.common import Row\n", "from \\\n    tidemill.common import Row\n"),
    "one line of two": ("import os; from pyflink.common import Row\n", "import os; from tidemill.common import Row\n"),
    "inside of a function": ("def f():\n    import pyflink as p\n", "def f():\n    import tidemill as p\n"),
    "uses": (
        "import pyflink.common\nx = pyflink.common.Row(1)  # pyflink.common\nprint('pyflink', x)\n",
        "import tidemill.common\nx = tidemill.common.Row(1)  # pyflink.common\nprint('pyflink', x)\n",
    ),
    "uses in functions": (
        "import pyflink.common\ndef f(x: pyflink.common.Row): return pyflink\ndef g(pyflink): return pyflink.a\n",
        "import tidemill.common\ndef f(x: tidemill.common.Row): return tidemill\ndef g(pyflink): return pyflink.a\n",
    ),
    "after other alphabets": (
        "s = 'größe'; import pyflink.common as c, os\n",
        "s = 'größe'; import tidemill.common as c, os\n",
    ),
    "other line ends": (
        "import os\r\nimport pyflink\r\npyflink.x\r\n",
        "import os\r\nimport tidemill\r\ntidemill.x\r\n",
    ),
    "after a form feed": ("x = 1\n\x0c\nimport pyflink.common\n", "x = 1\n\x0c\nimport tidemill.common\n"),
}
KEPT = {
    "strings": "name = 'from pyflink import x'\n'''import pyflink'''\n",
    "comments": "# import pyflink\n",
    "other packages": "import pyflinks\nfrom apache.pyflink import x\nfrom my_pyflink import y\n",
    "relative imports": "from . import pyflink\nfrom .pyflink import x\n",
    "a name of the program": "pyflink = 1\nprint(pyflink)\n",
    "an attribute": "import os\nos.pyflink.x()\n",
    "an alias": "import os as pyflink\nprint(pyflink.sep)\n",
}


@pytest.mark.parametrize("case", list(REWRITTEN))
def test_an_import_is_rewritten(case: str) -> None:
    before, after = REWRITTEN[case]
    assert ported(before.encode(), "job.py").text == after


@pytest.mark.parametrize("case", list(KEPT))
def test_what_is_no_import_is_kept(case: str) -> None:
    source = ported(KEPT[case].encode(), "job.py")
    assert (source.text, source.lines) == (KEPT[case], ())


def test_the_lines_that_changed_and_those_that_a_person_must_change() -> None:
    text = "import pyflink.common\n\nm = __import__('pyflink.datastream')\nlog = 'pyflink'\nx = pyflink.common.Row\n"
    source = ported(text.encode(), "job.py")
    assert (source.lines, source.strings) == ((1, 5), (3,))


@pytest.mark.parametrize("encoding", ["latin-1", "utf-8", "utf-8-sig"])
def test_the_encoding_is_kept(encoding: str) -> None:
    cookie = f"# coding: {encoding}\n" if encoding == "latin-1" else ""
    before = f"{cookie}name = 'Größe'; import pyflink.common\n"
    source = ported(before.encode(encoding), "job.py")
    assert source.content == before.replace("pyflink", "tidemill").encode(encoding)


@pytest.mark.parametrize("content", [b"print 'python 2'\n", b"x = '\xff'\n", b"# coding: nonsense\n"])
def test_what_is_not_a_program_is_an_error(content: bytes) -> None:
    with pytest.raises(SyntaxError):
        ported(content, "job.py")
