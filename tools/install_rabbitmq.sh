#!/bin/sh
# Succeeds silently if RabbitMQ's server is on this machine, or can be installed from the system's packages. Otherwise
# prints one line that says what to do, and exits with 1. Safe to run twice at the same time.

. "$(dirname "$0")/debian.sh"

found() {
    [ -x /usr/lib/rabbitmq/bin/rabbitmq-server ] || [ -x /opt/homebrew/opt/rabbitmq/sbin/rabbitmq-server ] ||
        command -v rabbitmq-server >/dev/null 2>&1
}

found && exit 0

if can_install; then
    # The package would start a broker of its own, which nobody wants here: a policy of the system forbids it meanwhile.
    policy=/usr/sbin/policy-rc.d
    if [ ! -e "$policy" ]; then
        printf '#!/bin/sh\n[ "$1" != rabbitmq-server ] || exit 101\n' | as_root tee "$policy" >/dev/null
        as_root chmod 755 "$policy"
        added=yes
    fi
    install_packages rabbitmq-server
    [ -z "$added" ] || as_root rm -f "$policy"
    found && exit 0
fi
echo "the tests of the RabbitMQ connector need its server: install it (Debian, Ubuntu: apt install rabbitmq-server; macOS: brew install rabbitmq)"
exit 1
