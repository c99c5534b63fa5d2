#!/bin/sh
# debian.sh SUITE ROOT [ARGUMENT...]: make check, with these arguments, on another Debian than this one, whose compiler
# and oneDNN are others: as root, of the commit that is checked out, in the folder ROOT. It is made by debootstrap
# (DEBIAN_MIRROR says from where) where there is none, and kept for the next time.
#     sh tests/debian.sh trixie /var/tmp/trixie
set -eu
[ $# -ge 2 ] || { echo 'usage: tests/debian.sh SUITE ROOT [ARGUMENT...]' >&2; exit 2; }
suite=$1 root=$2
shift 2
[ -x "$root/bin/sh" ] ||
    debootstrap --variant=minbase "$suite" "$root" "${DEBIAN_MIRROR:-http://deb.debian.org/debian}"
cp /etc/resolv.conf "$root/etc/resolv.conf"
mkdir -p "$root/pipetrain"
git -C "$(dirname "$0")/.." archive HEAD | tar -x -C "$root/pipetrain"
# The mounts are gone with the last process in there.
exec unshare --mount --fork sh -ec '
    root=$1
    shift
    mount -t proc proc "$root/proc"
    mount --rbind /sys "$root/sys"
    mount --rbind /dev "$root/dev"
    exec chroot "$root" /usr/bin/env -i HOME=/root LANG=C.UTF-8 PATH=/usr/sbin:/usr/bin:/sbin:/bin sh -ec "
        cd /pipetrain
        ./bootstrap --install
        mkdir -p build
        cd build
        ../configure --enable-werror
        make
        exec make check \"\$@\"
    " sh "$@"
' sh "$root" "$@"
