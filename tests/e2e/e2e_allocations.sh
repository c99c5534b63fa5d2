#!/bin/sh
# The steady state allocates nothing: twice the steps take no more allocations of the program.
# oneDNN makes a map of the arguments for every primitive it runs; those are gone after the
# step, and there are so many a step, not more.
. "$(dirname "$0")/e2e.sh"
source_dir=$(dirname "$0")
[ "$sanitizer" = no ] || skip 'a sanitizer has allocation functions of its own'
compiler=${CC:-cc}
$compiler --version >/dev/null 2>&1 || skip 'no compiler here'
$compiler -std=c11 -D_GNU_SOURCE -O2 -shared -fPIC -o "$work/allocations.so" "$source_dir/allocations.c" \
    >"$work/err" 2>&1 || { cat "$work/err"; skip 'the allocation functions cannot be replaced here'; }
make_tiny
make_network

# Sets $own, $other and $kept: allocations by the program and by libraries in a run of STEPS
# steps, and how many of them were not freed.
count() {
    steps=$1
    shift
    rm -f "$work/counted"
    run env "LD_PRELOAD=$work/allocations.so" "PIPETRAIN_ALLOCATIONS=$work/counted" "$pipetrain" \
        -c "$work/tiny.conf" --set "run.dir=$work/runs/counted" --set run.resume=never --set train.epochs=1000 \
        --set train.batch=12 \
        --set data.validation= --set report.interval=7 --set "train.steps=$steps" "$@"
    expect_code 0 'a counted run'
    own=0 other=0 kept=0
    [ -s "$work/counted" ] && read -r word own other kept <"$work/counted" || fail 'nothing was counted'
}

# check LIMIT OPTIONS: at most LIMIT more allocations of libraries in 30 more steps.
check() {
    limit=$1
    shift
    count 30 "$@"
    own_before=$own other_before=$other kept_before=$kept
    [ "$own" -gt 60 ] || fail "only $own allocations of the program counted"
    count 60 "$@"
    echo "$*: 30 more steps take $((own - own_before)) more allocations of the program," \
        "$((other - other_before)) of libraries; $((kept - kept_before)) more are kept"
    [ $((own - own_before)) -le 0 ] || fail 'the program allocates in its steps'
    [ $((other - other_before)) -le "$limit" ] || fail 'libraries allocate in the steps'
    [ $((kept - kept_before)) -le 3 ] || fail 'memory is kept in the steps'
}

check 3 --set devices.kind=null
check 3 --set devices.kind=null --set devices.towers=3 --set input.decode_threads=3
check 3 --set devices.kind=null --set input.keep_shards=0
check 3 --set devices.kind=null --set input.keep_shards=0 --set data.shuffle=block --set input.read_block=64KiB \
    --set data.shuffle_window=1MiB
check 3 --set devices.kind=null --set input.source=cached
check 3 --set devices.kind=null --set input.source=synthetic
check 3 --set devices.kind=null --set augment.crop=resized --set augment.flip=yes --set augment.colour=yes \
    --set augment.policy=trivial_augment_wide
# So many for each tower in 30 steps: oneDNN makes more of them where there are more layers.
libraries=1200 bucket=1KiB
[ -e "$work/quick.net" ] || libraries=3000 bucket=64KiB     # mnist_cnn
check $libraries --set devices.towers=1
check $libraries --set devices.towers=1 --set devices.threads_per_tower=2 --set model.dropout=no
check $((2 * libraries)) --set devices.towers=2 --set sync.bucket=$bucket
check $libraries --set devices.towers=1 --set report.tensorboard=yes --set report.histograms=5 --set train.clip_norm=1
check $((libraries + 100)) --set devices.towers=1 --set checkpoint.every=10 --set run.resume=never
check $((2 * libraries)) --set devices.towers=2 --set model.parts=2 --set train.slices=2 --set checkpoint.every=10 \
    --set report.tensorboard=yes --set report.histograms=5
finish
