#!/bin/sh
# Succeeds silently if PostgreSQL's server programs are on this machine, or can be installed from the system's packages.
# Otherwise prints one line that says what to do, and exits with 1. Safe to run twice at the same time.

. "$(dirname "$0")/debian.sh"

found() {
    for server in /usr/lib/postgresql/*/bin/postgres /usr/libexec/postgresql*/postgres /opt/homebrew/opt/postgresql*/bin/postgres; do
        [ -x "$server" ] && return 0
    done
    command -v postgres >/dev/null 2>&1
}

found && exit 0

if can_install; then
    # The package would create and start a database, which is not needed here.
    as_root mkdir -p /etc/postgresql-common
    [ -e /etc/postgresql-common/createcluster.conf ] ||
        echo "create_main_cluster = false" | as_root tee /etc/postgresql-common/createcluster.conf >/dev/null
    install_packages postgresql
    found && exit 0
fi
echo "the tests of the database connectors need PostgreSQL's server: install it (Debian, Ubuntu: apt install postgresql; macOS: brew install postgresql)"
exit 1
