#!/bin/sh
# How long a step takes on two hosts at 1 Gb/s, and what it sends, with the dense layers divided between them (model.parts)
# and without. It is no test: it prints pairs of runs that follow each other, in some minutes, and wants an idle machine.
#
#     PIPETRAIN_BUILD=BUILD tests/cluster/parts_times.sh [PAIRS [MODEL BATCH]]
. "${0%/*}/cluster.sh"
find_mpis
need_hosts
pairs=${1-3} model=${2-imagenet_alexnet} batch=${3-128}
hosts_up 2 1gbit
cat >"$work/timed.conf" <<END
[model]
name = $model
[input]
source = synthetic
[train]
batch = $batch
slices = 2
[devices]
threads_per_tower = 1
[checkpoint]
on_stop = no
[report]
progress = none
END

# timed PARTS STEPS: a run. Its step in ms is the median.
timed() {
    run $(hosts_command "$mpi" 2) "$pipetrain" -c "$work/timed.conf" --set "model.parts=$1" --set "train.steps=$2" \
        --set "run.dir=$work/runs/timed" --set run.resume=never
    expect_code 0 "$mpi: $1 parts"
    summary timed step_ms.p50
    rm -rf "$work/runs/timed"
}

# traffic PARTS: the megabytes that a host sends in a step, without those of the start and the end.
traffic() {
    first=$(sent)
    timed "$1" 2 >/dev/null
    second=$(sent)
    timed "$1" 6 >/dev/null
    awk -v few="$((second - first))" -v more="$(($(sent) - second))" 'BEGIN { print (more - few) / 4e6 }'
}

# The bytes that the second host has sent so far.
sent() {
    ip netns exec "pt$$-h2" cat /sys/class/net/eth0/statistics/tx_bytes
}

uptime
for mpi in $mpis; do
    echo "$mpi: a host sends $(traffic 0) MB a step, with parts $(traffic 2) MB"
    for pair in $(seq "$pairs"); do
        if [ $((pair % 2)) = 0 ]; then
            parts=$(timed 2 8) whole=$(timed 0 8)
        else
            whole=$(timed 0 8) parts=$(timed 2 8)
        fi
        echo "$mpi $whole $parts" | awk '{ printf "%s: whole %.0f ms, parts %.0f ms, whole / parts %.2f\n", $1, $2, $3, $2 / $3 }'
    done
done
