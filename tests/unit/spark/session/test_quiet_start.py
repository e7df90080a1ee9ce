"""The notices of a JVM that starts do not reach the terminal; everything else does, at once."""

from __future__ import annotations

import os
import subprocess
import sys

from hypothesis import given
from hypothesis import strategies as st

from tidemill.spark.session.quiet_start import NoticeFilter

NOTICE = b"WARNING: Using incubator modules: jdk.incubator.vector\n"


@given(st.lists(st.sampled_from([NOTICE, b"WARNING: other\n", b"text", b"\n", NOTICE[:20]]), max_size=8), st.data())
def test_complete_notices_are_removed_however_the_stream_is_cut(parts: list[bytes], data: st.DataObject) -> None:
    stream = b"".join(parts)
    expected = b"".join(line for line in stream.splitlines(keepends=True) if line != NOTICE)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=5)))
    notices, written, begun = NoticeFilter(), b"", 0
    for cut in [*cuts, len(stream)]:
        written += notices.passed(stream[begun:cut])
        begun = cut
    assert written + notices.rest() == expected


def test_text_without_an_end_of_line_is_not_delayed() -> None:
    notices = NoticeFilter()
    assert notices.passed(b"50 %") == b"50 %"
    assert notices.passed(NOTICE) == NOTICE, "it does not begin a line"


def test_children_started_in_the_block_are_filtered_until_they_end_and_this_process_is_not() -> None:
    program = f"""
import os, subprocess
from tidemill.spark.session.quiet_start import without_notices
with without_notices():
    child = subprocess.Popen(["sh", "-c", "cat >&2; echo last >&2"], stdin=subprocess.PIPE)
child.stdin.write({NOTICE!r} + b"from the child\\n")
os.write(2, b"from here\\n")
child.communicate()
"""
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, env=dict(os.environ))
    assert sorted(result.stderr.splitlines()) == [b"from here", b"from the child", b"last"]
