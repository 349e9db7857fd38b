#!/bin/sh
# Installs locked packages into an environment: install.sh PYTHON runtime|build
#
# pip compares each file with the sums in the lock. CHECK_HASHES=no installs the same versions from
# an index with other files. torch for CPUs has other sums than torch of the default index: if
# PIP_EXTRA_INDEX_URL or PIP_FIND_LINKS is set, pip chooses the build by its version alone.
# TORCH_HASHES lists the accepted sums of that build: "sha256:... sha256:...".
set -eu
python=$1
locks=$(dirname "$0")
versions=$(mktemp)

install() {
    pip --python "$python" install "$@"
}

write_versions() {
    sed '/--hash=/d; s/ \\$//' "$locks/$1.lock" >"$versions"
}

install_lock() {
    if [ "${CHECK_HASHES:-yes}" = no ]; then
        write_versions "$1"
        install --no-deps -r "$versions"
    else
        install --no-deps --require-hashes -r "$locks/$1.lock"
    fi
}

install_torch() {
    torch=$(grep -o '^torch==[^ ]*' "$locks/torch.lock")
    if [ -n "${TORCH_HASHES:-}" ]; then
        for sum in $TORCH_HASHES; do torch="$torch --hash=$sum"; done
        echo "$torch" >"$versions"
        install --no-deps --require-hashes -r "$versions"
    elif [ -n "${PIP_EXTRA_INDEX_URL:-}${PIP_FIND_LINKS:-}" ]; then
        write_versions torch
        install -c "$versions" "$torch"
    else
        install_lock torch
    fi
}

install_lock "$2"
[ "$2" != runtime ] || install_torch
rm "$versions"
