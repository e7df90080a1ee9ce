#!/bin/sh
# Prints where Chromium is, if it is on this machine or can be installed from the system's packages.
# Otherwise prints one line that says what to do, and exits with 1. Safe to run twice at the same time.

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

if command -v apt-get >/dev/null 2>&1; then
    if [ "$(id -u)" -eq 0 ]; then
        as_root=
    elif sudo -n true 2>/dev/null; then
        as_root="sudo -n"
    else
        as_root=no
    fi
    if [ "$as_root" != no ]; then
        # Two installers at once wait for each other (dpkg's lock).
        export DEBIAN_FRONTEND=noninteractive
        {
            $as_root apt-get -o DPkg::Lock::Timeout=300 update -qq &&
                $as_root apt-get -o DPkg::Lock::Timeout=300 install -y -qq --no-install-recommends chromium fonts-dejavu-core
        } >/dev/null 2>&1
        found && exit 0
    fi
fi
echo "the tests of the web page need Chromium: install it (Debian: apt install chromium; macOS: brew install --cask chromium), or name it in CHROMIUM"
exit 1
