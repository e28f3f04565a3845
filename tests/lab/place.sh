# shellcheck shell=bash
# Where the laboratory keeps what it makes: image, kernels, runs. Sourced by its commands.

lab_scripts=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
project=$(cd "$lab_scripts/../.." && pwd)
built=${CARGO_TARGET_DIR:-$project/target}
# Several checkouts may share one: it is some gigabytes.
lab=${NFSRDMA_LAB:-$built/lab}

say() { echo "lab: $*" >&2; }

die() {
    say "$*"
    exit 1
}

{ mkdir -p "$lab" && [ -w "$lab" ]; } 2> /dev/null || die "cannot write in $lab; NFSRDMA_LAB names another folder"
lab=$(cd "$lab" && pwd)
