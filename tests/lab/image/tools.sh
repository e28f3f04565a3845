# shellcheck shell=bash
# Debian with what works for the laboratory, so that the host needs none of it, and it is the same everywhere.
set -euo pipefail
lab=$1 scripts=$2
packages=(
    qemu-system-x86                                              # the machines
    e2fsprogs cpio zstd xz-utils kmod busybox-static             # the disk and the initial file system
    make gcc-14 gcc-14-for-host libc6-dev libelf1t64 libssl3t64  # siw.ko
)
rm -rf "$lab/tools"
cp -a "$lab/base" "$lab/tools"
"$scripts/inside" "$lab/tools" -- sh -c 'apt-get -qq install --no-install-recommends -y "$@" && apt-get clean' sh "${packages[@]}"
