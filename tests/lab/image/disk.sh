# shellcheck shell=bash
# root.img: guest/ as an ext4 file system, written by mke2fs itself, so that nothing is mounted.
set -euo pipefail
lab=$1
rm -f "$lab/root.img"
mke2fs -q -t ext4 -O ^has_journal,^metadata_csum -m 0 -d "$lab/guest" "$lab/root.img" 2G
