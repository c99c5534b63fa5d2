#!/bin/sh
# Run fuzz targets with clang's libFuzzer: run.sh SECONDS TARGET..., in a build folder that was configured with
# CC=clang --with-sanitizer=address,undefined CFLAGS='-g -O1 -fsanitize=fuzzer-no-link'; make check-fuzz does both.
# Targets run one after the other, each from its seeds and what earlier runs kept in fuzz/TARGET/corpus. An input
# that ends one stays in fuzz/TARGET; tests/fuzz/TARGET with its name as argument shows why.
set -u

seconds=${1:?usage: run.sh SECONDS TARGET...}
shift
failed=0

# link TARGET FLAGS: where libFuzzer brings a main, that of our driver stays in its archive.
link() {
    rm -f "tests/fuzz/$1"
    ${MAKE:-make} "tests/fuzz/$1" "LDFLAGS=$2" >"fuzz/$1/build.log" 2>&1 || { cat "fuzz/$1/build.log" >&2; exit 1; }
}

for target; do
    mkdir -p "fuzz/$target/corpus"
    link "$target" ''
    "tests/fuzz/$target" -s "fuzz/$target/corpus" || exit 1
    link "$target" -fsanitize=fuzzer
    "tests/fuzz/$target" -max_total_time="$seconds" -max_len=8192 -timeout=20 -rss_limit_mb=4096 -print_final_stats=1 \
        -artifact_prefix="fuzz/$target/" "fuzz/$target/corpus" >"fuzz/$target/log" 2>&1
    rc=$?
    inputs=$(sed -n 's/^stat::number_of_executed_units: *//p' "fuzz/$target/log")
    if [ $rc -eq 0 ]; then
        echo "$target: $inputs inputs in $seconds s, nothing found"
    else
        echo "$target: found something after ${inputs:-some} inputs: see fuzz/$target/log"
        failed=1
    fi
done
exit $failed
