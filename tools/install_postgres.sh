#!/bin/sh
# Succeeds silently if PostgreSQL's server programs are on this machine, or can be installed from the system's packages.
# Otherwise prints one line that says what to do, and exits with 1. Safe to run twice at the same time.

found() {
    for server in /usr/lib/postgresql/*/bin/postgres /usr/libexec/postgresql*/postgres /opt/homebrew/opt/postgresql*/bin/postgres; do
        [ -x "$server" ] && return 0
    done
    command -v postgres >/dev/null 2>&1
}

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
        # The package would set up and start a database of its own, which nobody wants here.
        $as_root mkdir -p /etc/postgresql-common
        [ -e /etc/postgresql-common/createcluster.conf ] ||
            echo "create_main_cluster = false" | $as_root tee /etc/postgresql-common/createcluster.conf >/dev/null
        # One after the other: apt waits for another one that installs, but not for one that fetches its lists. Lists that
        # cannot all be fetched may do.
        $as_root flock /etc/postgresql-common env DEBIAN_FRONTEND=noninteractive sh -c "
            [ -x /usr/lib/postgresql/*/bin/postgres ] && exit
            apt-get -o DPkg::Lock::Timeout=300 update -qq
            apt-get -o DPkg::Lock::Timeout=300 install -y -qq --no-install-recommends postgresql
        " >/dev/null 2>&1
        found && exit 0
    fi
fi
echo "the tests of the database connectors need PostgreSQL's server: install it (Debian, Ubuntu: apt install postgresql; macOS: brew install postgresql)"
exit 1
