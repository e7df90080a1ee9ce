#!/bin/sh
# The steps of the Dockerfile. Packages have the versions of requirements.lock.
#     tools/image.sh build WHEELS           make the wheel from the current directory
#     tools/image.sh install WHEELS VENV    install it into a new environment; EXTRAS selects what comes with it
set -eu

constraints() {
    # Without hashes, which pip wants for all packages or none.
    sed -E '/^ +--hash=/d; s/ \\$//' requirements.lock
}

case "${1:-}" in
build)
    constraints > "$2.constraints"
    PIP_CONSTRAINT="$2.constraints" python -m pip wheel --quiet --no-deps --wheel-dir "$2" .
    ;;
install)
    python -m venv "$3"
    # The wheel by its path: by its name, pip would prefer a newer version from elsewhere.
    for wheel in "$2"/tidemill-*.whl; do
        "$3/bin/python" -m pip install --quiet --no-cache-dir --constraint "$2.constraints" \
            "$wheel[${EXTRAS:-ops,spark}]"
    done
    ;;
*)
    echo "usage: tools/image.sh build WHEELS | install WHEELS VENV" >&2
    exit 2
    ;;
esac
