"""How the Java programs of tests are run."""

from __future__ import annotations

#: They live for seconds: they are best compiled quickly, and cleaned up after by one thread. It halves what they cost.
QUICK_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
