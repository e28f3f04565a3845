# shellcheck shell=bash
# The least Debian 13, with the lists of its packages and of its backports.
set -euo pipefail
base=$1/base scripts=$2
mirror=$("$scripts/image/mirror")
eval "$(apt-config shell http_proxy Acquire::http::Proxy https_proxy Acquire::https::Proxy 2>/dev/null)"
export http_proxy https_proxy

rm -rf "$base"
# It mounts in the tree, and who ends it must not leave that to this machine.
unshare --mount debootstrap --variant=minbase --force-check-gpg trixie "$base" "$mirror"

cat > "$base/etc/apt/sources.list" <<END
deb $mirror trixie main
deb $mirror trixie-backports main
END
cat > "$base/etc/dpkg/dpkg.cfg.d/laboratory" <<END
force-unsafe-io
path-exclude=/usr/share/doc/*
path-exclude=/usr/share/man/*
path-exclude=/usr/share/locale/*
END
rm -rf "$base"/usr/share/{doc,man,locale}/*
# No service shall start in the trees.
printf '#!/bin/sh\nexit 101\n' > "$base/usr/sbin/policy-rc.d"
chmod +x "$base/usr/sbin/policy-rc.d"
"$scripts/inside" "$base" -- sh -c 'apt-get -q update && apt-get clean'
