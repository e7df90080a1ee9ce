# Functions for the other scripts in this folder, which source it.

# Runs a command as root. Fails if that requires a password.
as_root() {
    if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo -n "$@" 2>/dev/null; fi
}

# Whether packages can be installed here.
can_install() {
    command -v apt-get >/dev/null 2>&1 && as_root true
}

# Installs Debian packages. Installers run one after the other: apt waits for another one that installs, but not for one
# that fetches its lists. It continues if some lists cannot be fetched.
install_packages() {
    as_root flock /var/lib/dpkg env DEBIAN_FRONTEND=noninteractive sh -c '
        apt-get -o DPkg::Lock::Timeout=300 update -qq
        apt-get -o DPkg::Lock::Timeout=300 install -y -qq --no-install-recommends "$@"
    ' install "$@" >/dev/null 2>&1
}
