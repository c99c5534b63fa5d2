#!/bin/sh
# libpipetrain-feed as built and as installed: what it exports and needs, and a program that is compiled with what
# pkg-config says of it.
. "$(dirname "$0")/../e2e/e2e.sh"
top_build=$(cd "$build" && pwd)
library=$top_build/libpipetrain-feed.so.0
header=$above/../tools/feed/pipetrain-feed.h
[ -f "$library" ] || { echo "not built: $library"; exit 99; }
for tool in readelf nm pkg-config; do
    command -v $tool >/dev/null 2>&1 || skip "no $tool here"
done

# ---- the file ----

# expect_none WHAT LINES: there are none.
expect_none() {
    [ -z "$2" ] || fail "$1: $(echo "$2" | tr '\n' ' ')"
}

nm -D --defined-only "$library" | awk '$2 != "A" {print $3}' | sort >"$work/exported"
grep -oE 'pipetrain_feed_[a-z_]+\(' "$header" | sed 's/($/@@PIPETRAIN_FEED_0/' | sort -u >"$work/declared"
[ "$(wc -l <"$work/exported")" -ge 15 ] || fail 'less than 15 functions are exported'
expect_none 'exported, and not in the header, or without a version' "$(comm -23 "$work/exported" "$work/declared")"
expect_none 'in the header, and not exported' "$(comm -13 "$work/exported" "$work/declared")"

dynamic=$(readelf -dW "$library")
segments=$(readelf -lW "$library")
echo "$dynamic" | grep -q 'SONAME.*\[libpipetrain-feed\.so\.0\]' || fail 'another SONAME'
echo "$dynamic" | grep -Eq 'BIND_NOW|FLAGS.*NOW' || fail 'relocations are not all done at load'
echo "$segments" | grep -q 'GNU_RELRO' || fail 'no relocation read-only segment'
echo "$segments" | grep -q 'GNU_STACK' || fail 'no stack segment'
expect_none 'relocations in the code' "$(echo "$dynamic" | grep TEXTREL)"
expect_none 'executable stack, or code that is writable' "$(echo "$segments" | grep -E '(GNU_STACK|LOAD).*RWE')"
expect_none 'needs what only training needs' \
    "$(echo "$dynamic" | grep NEEDED | grep -Ei 'cuda|cudnn|cublas|nccl|dnnl|gomp|libomp|libmpi|stdc\+\+')"
# A library does not end, print, fork or set handlers. Sanitizers call what they like.
if [ "$sanitizer" = no ]; then
    expect_none 'calls what a library must not' "$(nm -D --undefined-only "$library" | awk '{sub(/@.*/, "", $2); print $2}' |
        grep -xE 'exit|_exit|_Exit|quick_exit|abort|atexit|raise|kill|signal|sigaction|setrlimit|setenv|putenv|setlocale|chdir|umask|fork|vfork|system|popen|exec.*|posix_spawn.*|stdout|stderr|printf|puts|perror|__printf_chk')"
fi

# ---- installed ----

# A make of its own, which does not share the jobs of the one that runs the tests.
run env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL make -C "$top_build" -j1 install-feed DESTDIR="$work/root"
expect_code 0 'make install-feed'
[ "$code" -eq 0 ] || finish
config=$(find "$work/root" -name pipetrain-feed.pc)
[ -f "$config" ] || fail 'pipetrain-feed.pc is not installed'
PKG_CONFIG_PATH=$(dirname "$config") PKG_CONFIG_SYSROOT_DIR=$work/root
export PKG_CONFIG_PATH PKG_CONFIG_SYSROOT_DIR
[ "$(pkg-config --modversion pipetrain-feed)" = "$("$pipetrain" --version | awk 'NR == 1 {print $2}')" ] ||
    fail 'pipetrain-feed.pc has another version'
run ${PIPETRAIN_LINK:-${CC:-cc}} $(pkg-config --cflags pipetrain-feed) -o "$work/example" "$above/../examples/feed.c" \
    $(pkg-config --libs pipetrain-feed)
expect_code 0 'the example of doc/feed-library.md is compiled with what pkg-config says'
LD_LIBRARY_PATH=$(dirname "$(dirname "$config")")${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export LD_LIBRARY_PATH
run "$convert" digits --train 600 --validation 150 -o "$work/data"
expect_code 0 'a data set'
cd "$work" || exit 99
run ./example data
expect_code 0 'the example reads the training set'
grep -q '^epoch 2: 1800 images, mean pixel ' out || fail 'it got other samples'
[ ! -s err ] || fail 'something was printed'
run ./example nowhere
expect_code 1 'shards that do not exist'
grep -q '^DATA: .*nowhere' err || fail 'they are not named'
[ "$(wc -l <err)" -eq 1 ] || fail 'the library printed something, too'

run env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL make -C "$top_build" -j1 uninstall-feed DESTDIR="$work/root"
expect_code 0 'make uninstall-feed'
expect_none 'make uninstall-feed leaves' "$(find "$work/root" ! -type d)"
finish
