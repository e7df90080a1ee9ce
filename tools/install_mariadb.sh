#!/bin/sh
# Succeeds silently if MariaDB's server program is on this machine, or can be installed from the system's packages.
# Otherwise prints one line that says what to do, and exits with 1. Safe to run twice at the same time.

. "$(dirname "$0")/debian.sh"

found() {
    for server in /usr/sbin/mariadbd /usr/libexec/mariadbd /opt/homebrew/opt/mariadb*/bin/mariadbd; do
        [ -x "$server" ] && return 0
    done
    command -v mariadbd >/dev/null 2>&1
}

found && exit 0

if can_install; then
    # The package would start a server of its own, which nobody wants here, unless this says that it may not.
    policy=/usr/sbin/policy-rc.d
    if [ ! -e "$policy" ]; then
        printf '#!/bin/sh\nexit 101\n' | as_root tee "$policy" >/dev/null
        as_root chmod +x "$policy"
        install_packages mariadb-server
        as_root rm -f "$policy"
    else
        install_packages mariadb-server
    fi
    found && exit 0
fi
echo "the tests of the database connectors need MariaDB's server: install it (Debian, Ubuntu: apt install mariadb-server; macOS: brew install mariadb)"
exit 1
