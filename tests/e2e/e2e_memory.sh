#!/bin/sh
# Memory: what does not fit is refused with the arithmetic before anything large is taken, and the
# limits of control groups count.
. "$(dirname "$0")/e2e.sh"
[ "$sanitizer" = no ] || skip 'a sanitizer takes memory of its own'
cat >"$work/resnet.conf" <<END
[input]
source = synthetic
[model]
name = resnet20_v1
[devices]
kind = cpu
[run]
dir = $work/run
resume = never
END

# Nothing large is taken: an address space of 2 GB is enough to refuse, however much the machine has.
# WHAT OPTION...: the last run's messages are left.
refused() {
    what=$1
    shift
    command_line="$pipetrain -c $work/resnet.conf $*"
    (ulimit -v 2000000 && exec timeout 60 "$pipetrain" -c "$work/resnet.conf" "$@") >"$work/out" 2>"$work/err"
    code=$?
    expect_code 4 "$what"
    expect_err '^pipetrain: (memory|\[input\] ram_budget): the run needs .* \(.*\), ([a-z ]+\(ulimit -v\) leaves|the budget is)'
    expect_err_lines 1
    [ ! -s "$work/out" ] || fail "$what printed results"
    [ ! -e "$work/run" ] || fail "$what made a run directory"
}

# A batch for about 90 GB, with the batch that would fit; that one is taken.
for backend in onednn reference; do
    "$pipetrain" --help=devices.backend | grep -q "$backend" || continue
    refused "60000 samples on $backend" --set train.batch=60000 --set input.ram_budget=8GiB \
        --set devices.backend=$backend
    expect_err 'needs [0-9.]+ GiB \(.*slots [0-9.]+ MiB, weights and states [0-9.]+ MiB, activations [0-9.]+ GiB'
    batch=$(sed -n 's/.* a batch of \([0-9]*\) would fit.*/\1/p' "$work/err")
    [ "${batch:-0}" -gt 1000 ] || fail 'no batch that would fit'
    budget=$([ "$(awk '/MemAvailable/ { print $2 }' /proc/meminfo)" -gt 9000000 ] && echo 8GiB || echo skip)
    [ "$budget" = skip ] && continue
    run "$pipetrain" -c "$work/resnet.conf" --set "train.batch=${batch:-1}" --set input.ram_budget=$budget \
        --set devices.backend=$backend --check
    expect_code 0 'the batch that is said to fit'
done

# More than any machine has, without a budget: terabytes of slots.
refused 'terabytes' --set train.batch=1048576 --set input.staging_depth=1024
expect_err '^pipetrain: memory: .*slots 3\.[0-9] TiB'
small='--set model.name=mnist_cnn --set train.batch=1048576 --set input.staging_depth=1024'
refused 'terabytes on eight towers' $small --set devices.towers=8 --set devices.threads_per_tower=1
refused 'terabytes, checked' $small --check
refused 'terabytes, dry' $small --dry-run

# Limits of the process: at each the run ends well or is refused, by one message that names memory or threads. Below
# the first of them the program cannot even be loaded.
make_tiny
under() {
    option=$1 limit=$2
    shift 2
    rm -rf "$work/run"
    command_line="ulimit $option $limit; $pipetrain $*"
    (ulimit "$option" "$limit" && exec timeout 60 "$pipetrain" "$@") >"$work/out" 2>"$work/err"
    code=$?
}
ends_well() {
    [ "$code" -ne 0 ] || return 0
    expect_code 4 'a limit of the process'
    expect_err_lines 1
    expect_err '[Mm]emory|a thread could not be started'
    [ ! -e "$work/run" ] || fail 'a refused run made a run directory'
}
# least FROM TO STEP TEST ARGUMENT...: in $kib the least limit, but for STEP, at which TEST ARGUMENT... is true; halved
# again and again, so that most limits that are tried lie around it.
least() {
    below=$1 kib=$2 step=$3
    shift 3
    while [ $((kib - below)) -gt "$step" ]; do
        middle=$(((below + kib) / 2))
        if "$@" $middle; then kib=$middle; else below=$middle; fi
    done
}
loads() {
    under "$1" "$2" --version 2>/dev/null
    [ "$code" -eq 0 ]
}
# Whether the run of $run_words goes through at the limit. When not, and with a batch named, that one goes through on
# request.
goes_through() {
    under "$walked" "$1" $run_words
    ends_well
    runs=$((runs + 1))
    [ "$code" -eq 0 ]
}
named_fits() {
    goes_through "$1" && return 0
    batch=$(sed -n 's/.* a batch of \([0-9]*\) would fit.*/\1/p' "$work/err")
    [ -n "$batch" ] || return 0
    named=$((named + 1))
    under "$walked" "$1" $run_words --set "train.batch=$batch"
    expect_code 0 "the batch of $batch that is said to fit"
}
# OPTION ARGUMENT...: limits from where the program can be loaded to where the batch fits that is asked for.
walk_limits() {
    walked=$1 runs=0 named=0
    shift
    run_words=$*
    least 1000 2000000 2000 loads "$walked"
    begins=$kib
    goes_through 2000000 || fail "ulimit $walked: no limit lets the run through"
    least "$begins" 2000000 500 goes_through
    edge=$kib
    goes_through $((edge + 1000)) || fail "ulimit $walked: $edge KiB let the run through, and 1000 more do not"
    # Around the edge, and a few of all below it.
    for less in 2000 20000 40000; do
        named_fits $((edge - less))
    done
    [ $named -gt 0 ] || fail "ulimit $walked: no batch that would fit is named"
    limits=6
    [ "$long" = no ] || limits=$(((edge - begins) / 2500))
    for part in $(seq $limits); do
        limit=$((begins + (edge - begins) * (part - 1) / limits))
        if [ "$long" = yes ] && [ $((part % 3)) -eq 0 ]; then named_fits $limit; else goes_through $limit; fi
    done
    echo "ulimit $walked: $runs limits, loaded from $begins KiB on, let through from $edge; $named batches that fit"
}
# Threads take stacks of the data, and two towers have more of them.
one='--set train.steps=2 --set train.batch=300'
two='--set train.steps=2 --set train.batch=300 --set devices.towers=2 --set devices.threads_per_tower=2'
tiny="-c $work/tiny.conf --set run.dir=$work/run --set run.resume=never"
walk_limits -v $tiny $two
walk_limits -d $tiny $one
if [ "$long" = yes ]; then
    walk_limits -v $tiny $one
    walk_limits -d $tiny $two
fi
for kib in 112 160 208 256 512 1024; do
    [ "$long" = yes ] || [ $kib -le 256 ] || continue
    under -s $kib $tiny --set train.steps=1
    ends_well
    [ $kib -lt 256 ] || expect_code 0 "a stack of $kib KiB"
done

# What towers need, by purpose.
run "$pipetrain" -c "$work/resnet.conf" --set devices.towers=2 --set devices.threads_per_tower=1 --set train.batch=16 \
    --dry-run
expect_code 0 'a dry run'
expect_out_joined ' tower 0: 8 samples, [0-9.]+ MiB: weights and states [0-9.]+ MiB, activations [0-9.]+ MiB'
expect_out '^ +tower 1: 8 samples'
run "$pipetrain" --describe resnet20_v1
expect_code 0 'a description'
expect_out '^activations  [0-9.]+ MiB with gradients, training at batch 128 on the CPU in fp32$'
# What a description tells is what a run plans.
for batch in 6 16; do
    set -- --set devices.threads_per_tower=1 --set train.batch=$batch
    run "$pipetrain" -c "$work/resnet.conf" "$@" --dry-run
    expect_code 0 'a dry run'
    planned=$(tr '\n' ' ' <"$work/out" | sed -n 's/.* activations \([0-9.]* [KMG]iB\)[,; ].*/\1/p')
    run "$pipetrain" -c "$work/resnet.conf" --describe "$@"
    expect_out "^activations  $planned with gradients, training at batch $batch on the CPU in fp32\$"
    run "$pipetrain" --describe=resnet20_v1 "$@"
    expect_out "^activations  [0-9.]+ [KM]iB with gradients, training at batch $batch on the CPU in fp32\$"
done
run "$pipetrain" --describe resnet20_v1
expect_narrow 'a description'

# A control group's limit, in a mount namespace whose /sys/fs/cgroup is made here.
group=$(sed -n 's/^[0-9]*:\(.*,\)\{0,1\}memory\(,.*\)\{0,1\}:/memory/p' /proc/self/cgroup)
version=1
if [ -z "$group" ]; then
    group=$(sed -n 's/^0:://p' /proc/self/cgroup)
    version=2
fi
cat >"$work/limited.sh" <<'END'
set -e
mount -t tmpfs tmpfs /sys/fs/cgroup
folder=/sys/fs/cgroup/$1
mkdir -p "$folder"
if [ "$2" -eq 2 ]; then
    echo "$3" >"$folder/memory.max"
    echo 100000000 >"$folder/memory.current"
else
    echo "$3" >"$folder/memory.limit_in_bytes"
    echo 100000000 >"$folder/memory.usage_in_bytes"
fi
shift 3
exec "$@"
END
limited() {
    limit=$1
    shift
    run unshare -rm sh "$work/limited.sh" "$group" $version "$limit" \
        "$pipetrain" -c "$work/resnet.conf" --set devices.threads_per_tower=1 --set train.steps=1 \
        --set checkpoint.on_stop=no "$@"
}
finish_note=
unshare -rm mount -t tmpfs tmpfs /sys/fs/cgroup 2>/dev/null || finish_note='no control group could be made'
if [ -z "$finish_note" ]; then
    limited 300000000
    expect_code 4 'a batch larger than the control group'
    expect_err '^pipetrain: memory: the run needs (19|20)[0-9]\.[0-9] MiB .* the control group leaves 186\.7 MiB: a batch of 1[12][0-9] would fit'
    limited 500000000
    expect_code 0 'a batch as large as the control group'
    limited max
    expect_code 0 'a control group without a limit'
fi
[ "$failures" -gt 0 ] || [ -z "$finish_note" ] || skip "$finish_note; the rest is as expected"
finish
