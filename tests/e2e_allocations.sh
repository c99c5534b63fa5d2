#!/bin/sh
# The steady state allocates nothing: three times the steps take no more allocations of the
# program, with every backend and number of towers, real or synthetic input.
. "$(dirname "$0")/e2e.sh"
source_dir=$(dirname "$0")
[ "$sanitizer" = no ] || skip 'a sanitizer has allocation functions of its own'
compiler=${CC:-cc}
$compiler --version >/dev/null 2>&1 || skip 'no compiler here'
$compiler -std=c11 -D_GNU_SOURCE -O2 -shared -fPIC -o "$work/allocations.so" "$source_dir/allocations.c" >"$work/err" 2>&1 ||
    { cat "$work/err"; skip 'no replacement of the allocation functions can be built here'; }
make_tiny

# Sets $own and $other: allocations by the program and by libraries in a run of STEPS steps.
count() {
    steps=$1
    shift
    run env "LD_PRELOAD=$work/allocations.so" "PIPETRAIN_ALLOCATIONS=$work/counted" "$pipetrain" \
        -c "$work/tiny.conf" --set "run.dir=$work/runs/counted" --set train.epochs=1000 --set train.batch=30 \
        --set data.validation= --set report.interval=7 --set "train.steps=$steps" "$@"
    expect_code 0 'a counted run'
    own=0
    other=0
    [ -s "$work/counted" ] && read -r word own other <"$work/counted" && [ "$word" = allocations ] ||
        fail 'nothing was counted'
    rm -f "$work/counted"
}

check() {
    count 30 "$@"
    own_short=$own other_short=$other
    [ "$own" -gt 100 ] || fail "only $own allocations counted: the count cannot be right"
    count 90 "$@"
    echo "$*: program $own_short and $own, libraries $other_short and $other allocations in 30 and 90 steps"
    [ $((own - own_short)) -le 0 ] || fail "60 more steps: $((own - own_short)) more allocations of the program"
    [ $((other - other_short)) -le "$allowed" ] ||
        fail "60 more steps: $((other - other_short)) more allocations in libraries"
}

allowed=3
check --set devices.backend=reference --set input.source=synthetic --set train.batch=4
check --set devices.kind=null
check --set devices.kind=null --set devices.towers=3 --set input.decode_threads=3
check --set devices.kind=null --set input.source=cached

check --set devices.towers=1
check --set devices.towers=2 --set devices.threads_per_tower=1
finish
