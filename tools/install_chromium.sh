#!/bin/sh
# Prints where Chromium is, if it is on this machine or can be installed from the system's packages.
# Otherwise prints one line that says what to do, and exits with 1. Safe to run twice at the same time.

. "$(dirname "$0")/debian.sh"

found() {
    for name in chromium chromium-browser google-chrome; do
        command -v "$name" 2>/dev/null && return 0
    done
    for place in "/Applications/Chromium.app/Contents/MacOS/Chromium" "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome"; do
        [ -x "$place" ] && echo "$place" && return 0
    done
    return 1
}

if [ -n "${CHROMIUM:-}" ]; then
    [ -x "$CHROMIUM" ] && echo "$CHROMIUM" && exit 0
    echo "CHROMIUM names $CHROMIUM, which is no program"
    exit 1
fi

found && exit 0

if can_install; then
    install_packages chromium fonts-dejavu-core
    found && exit 0
fi
echo "the tests of the web page need Chromium: install it (Debian: apt install chromium; macOS: brew install --cask chromium), or name it in CHROMIUM"
exit 1
