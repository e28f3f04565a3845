# shellcheck shell=bash
# Debian's kernels: unpacks the newest version of each series, builds siw for it, puts the modules that scenarios need into
# guest/, and makes the initial file system. Debian's kernels have rdma_rxe and rpcrdma as modules, but not siw.

set -euo pipefail
lab=$1 scripts=$2

# The first is the one that scenarios boot if they do not name one.
all_series=(7.2 6.12)

# Folders of modules that guests use; all others stay out of the image.
module_folders=(
    arch/x86/crypto crypto fs kernel lib mm net
    drivers/block drivers/char/hw_random drivers/dax drivers/infiniband/core drivers/infiniband/sw drivers/virtio
)
module_files=(drivers/net/virtio_net drivers/net/net_failover)

# Those that the scripts load, each with all that it needs.
wanted=(
    virtio_net virtio_rng loop xfs
    rdma_rxe siw ib_uverbs rdma_cm rdma_ucm rpcrdma
    nfs nfsv3 nfsv4 nfsd rpcsec_gss_krb5 sch_netem
)

timed() { echo "=== $1: $SECONDS s"; }
is_there() { apt-cache pkgnames "$1" | grep -xF "$1" > /dev/null; }

# newest_kernel SERIES: the version of the newest kernel of the series that siw can be built for; nothing if there is none.
newest_kernel() {
    is_there "linux-source-$1" || return 0
    local version
    for version in $(apt-cache pkgnames "linux-image-$1." | sed -n 's/^linux-image-\([0-9.]*+deb[0-9]*\)-amd64$/\1/p' | sort -rV); do
        if is_there "linux-headers-$version-amd64"; then
            echo "$version"
            return
        fi
    done
}

# The newest series that there is, for when the mirror has gone on to another.
newest_series() { apt-cache pkgnames linux-source- | sed -n 's/^linux-source-\([0-9.]*\)$/\1/p' | sort -V | tail -n 1; }

# fetch VERSION SERIES: all packages of a kernel, into the working folder. A kernel is one package in Debian 13, and several in
# its backports.
fetch() {
    local kernel=$1-amd64 packages name debian
    packages=("linux-image-$kernel" "linux-headers-$kernel" "linux-headers-$1-common" "linux-kbuild-$1")
    for name in binary modules base; do
        if is_there "linux-$name-$kernel"; then packages+=("linux-$name-$kernel"); fi
    done
    debian=$(apt-cache show "linux-image-$kernel" | awk '$1 == "Version:" && !seen++ { print $2 }')
    apt-get -qq -o APT::Sandbox::User=root download "${packages[@]}" "linux-source-$2=$debian"
}

# unpack: the kernel to unpacked/, what a module is built with to where its Makefiles look for it, the source of siw to siw/.
unpack() {
    local package
    for package in linux-*.deb; do
        case $package in
        linux-source-*) ;;
        linux-headers-* | linux-kbuild-*) dpkg-deb -x "$package" / ;;
        *) dpkg-deb -x "$package" unpacked ;;
        esac
    done
    mkdir siw
    dpkg-deb --fsys-tarfile linux-source-*.deb | tar -xO --wildcards '*/linux-source-*.tar.xz' | xz -dc |
        tar -x -C siw --strip-components 5 --wildcards '*/drivers/infiniband/sw/siw/*'
    rm ./*.deb
}

# build_siw KERNEL RESULT: builds the module in siw/.
build_siw() {
    make -j "$(nproc)" -C "/usr/src/linux-headers-$1" M="$PWD/siw" CONFIG_RDMA_SIW=m CONFIG_DEBUG_INFO_BTF_MODULES= modules
    strip --strip-debug siw/siw.ko
    cp siw/siw.ko "$2"
}

# require_crc: makes siw demand the CRC of MPA, for which it has no setting.
require_crc() {
    sed -i 's/^\(const bool mpa_crc_required\);/\1 = true;/' siw/siw_main.c
    grep '^const bool mpa_crc_required = true;' siw/siw_main.c
}

# install_modules KERNEL: those of the folders above and siw into guest/, unpacked, since xz is slow without KVM.
install_modules() {
    local from=unpacked/usr/lib/modules/$1 to=$lab/guest/usr/lib/modules/$1 one
    mkdir -p "$to/kernel" "$to/extra"
    cp "$from"/modules.{builtin,builtin.modinfo,order} "$to/"
    for one in "${module_folders[@]}" "${module_files[@]/%/.ko.xz}"; do
        [ -e "$from/kernel/$one" ] || continue
        mkdir -p "$to/kernel/$(dirname "$one")"
        cp -a "$from/kernel/$one" "$to/kernel/$(dirname "$one")/"
    done
    cp siw.ko "$to/extra/"
    find "$to" -name '*.ko.xz' -print0 | xargs -0 -r -P "$(nproc)" -n 64 xz -d
    depmod -b "$lab/guest" -e -E "/usr/src/linux-headers-$1/Module.symvers" "$1" 2>&1 | sort -u > unknown
    local file
    for file in $(files_of "$1" "${wanted[@]}"); do
        # Else it would fail in the guest only.
        if grep -F "${file##*/} needs unknown" unknown; then return 1; fi
    done
}

# files_of KERNEL MODULE...: the files of the modules and of what they need, in the order in which they are loaded.
files_of() {
    local kernel=$1 module
    shift
    for module; do
        modprobe -d "$lab/guest" -S "$kernel" -D --ignore-install "$module"
    done | awk '$1 == "insmod" && !seen[$2]++ { print $2 }'
}

# initial_file_system KERNEL: busybox, and the modules that find the disk and the shared folders.
initial_file_system() {
    local file
    mkdir -p root/bin root/modules root/new
    cp /usr/bin/busybox root/bin/
    for file in $(files_of "$1" virtio_blk ext4 9pnet_virtio 9p); do
        cp "$file" root/modules/
        basename "$file" >> root/modules/order
    done
    cp "$scripts/image/initramfs" root/init
    chmod +x root/init
    (cd root && find . | cpio -o -H newc --quiet) | zstd -q -3 -o initrd
}

# kernel SERIES: all of one.
kernel() {
    local series=$1 version kernel
    version=$(newest_kernel "$series")
    if [ -z "$version" ]; then
        series=$(newest_series)
        version=$(newest_kernel "$series")
        echo "the mirror has no kernel $1 any more: $version is in its place"
    fi
    kernel=$version-amd64
    mkdir -p "$lab/kernels/$1"
    cd "$lab/kernels/$1"
    echo "$kernel" > version
    fetch "$version" "$series"
    timed "packages of $kernel"
    unpack
    timed unpacked
    build_siw "$kernel" siw.ko
    require_crc
    build_siw "$kernel" siw-crc.ko
    timed siw
    install_modules "$kernel"
    initial_file_system "$kernel"
    # Debian 13 has the kernel in /boot, its backports have it beside the modules.
    cp "$(find unpacked -name 'vmlinuz*' | head -n 1)" vmlinuz
    rm -rf unpacked siw root "/usr/src/linux-headers-$kernel"
    timed modules
}

rm -rf "$lab/kernels" "$lab"/guest/usr/lib/modules/*
mkdir "$lab/kernels"
for one in "${all_series[@]}"; do kernel "$one"; done
echo "${all_series[0]}" > "$lab/kernels/default"
