#!/bin/sh
# Succeeds silently if the Java that Spark would use (JAVA_HOME first, then PATH) is version 17 or newer.
# Otherwise prints one line that says what to do, and exits with 1.

oldest=17

if [ -n "${JAVA_HOME:-}" ]; then
    java="$JAVA_HOME/bin/java"
    place="in JAVA_HOME ($JAVA_HOME)"
else
    java=$(command -v java || true)
    place="on the PATH"
fi

# `java -version` prints e.g. `openjdk version "17.0.15" 2025-04-15`, on old ones `"1.8.0_292"`; a launcher without a JDK fails.
found=
if [ -n "$java" ] && [ -x "$java" ] && report=$("$java" -version 2>&1); then
    found=$(printf '%s\n' "$report" | sed -n 's/.* version "\(1\.\)\{0,1\}\([0-9][0-9]*\).*/\2/p' | sed 1q)
fi

if [ -n "$found" ] && [ "$found" -ge "$oldest" ]; then
    exit 0
fi
if [ -n "$found" ]; then
    problem="Java $found was found $place"
else
    problem="no Java was found $place"
fi
echo "Spark needs Java $oldest or newer, and $problem: install a JDK (Debian, Ubuntu: apt install openjdk-17-jre-headless; macOS: brew install openjdk@17) or set JAVA_HOME to one"
exit 1
