#!/bin/sh
# How long a step takes on hosts with a slow network, and how long it takes by the formula of doc/cluster.md. It is no test:
# it prints a Markdown table, in some minutes, and wants an idle machine.
#
#     PIPETRAIN_BUILD=BUILD tests/cluster/step_times.sh [MODEL:BATCH...]
. "${0%/*}/cluster.sh"
find_mpis
need_hosts
[ $# -gt 0 ] || set -- mnist_cnn:128 cifar10_cnn:128
make_quick

# timed NAME STEPS COMMAND...: a run of a network with synthetic images. Its step in ms is the median.
timed() {
    name=$1 steps=$2
    shift 2
    run "$@" -c "$work/timed.conf" --set "train.steps=$steps" --set "run.dir=$work/runs/$name" --set run.resume=never
    expect_code 0 "$name"
    step_ms=$(summary "$name" step_ms.p50)
}

# settings LINE...: of the runs.
settings() {
    cat >"$work/timed.conf" <<END
[input]
source = synthetic
[devices]
threads_per_tower = 1
[checkpoint]
on_stop = no
[report]
progress = none
END
    printf '%s\n' "$@" >>"$work/timed.conf"
}

# Every host at RATE. With a long burst, the first bytes of a sum would pass at once.
set_rate() {
    for host in $(seq "$hosts"); do
        "$work/on_host" "$host" tc qdisc replace dev eth0 root tbf rate "$1" burst 64kb latency 100ms
    done
}

# Compute and the time of backward: as many towers in one process, which do not wait for each other.
time_compute() {
    timed compute "$2" "$pipetrain" --set "devices.towers=$1" --set sync.mode=independent
    compute_ms=$step_ms
    backward_ms=$(awk -v step="$step_ms" -v share="$(summary compute fractions.backward)" 'BEGIN { print step * share }')
}

# The formula, from a list of layers (--describe). In the order of backward, their gradients fill buckets (sync.bucket = auto);
# a bucket is summed when its gradients are there and the bucket before it is summed. Prints ms: a step, one of
# which nothing is hidden, and bytes on the wire.
cat >"$work/formula.awk" <<'END'
function sum_bucket() {
    sum = 2 * (ranks - 1) / ranks * filled / rate * 1000 + 2 * message_ms
    sums += sum
    summed = (summed > computed ? summed : computed) + sum
    filled = 0
}
BEGIN {
    rate = bits / 8 * 1448 / 1514       # without the headers of Ethernet, IP and TCP
    least = 1048576
}
$2 ~ /^(conv2d|dense|batch_norm)$/ {
    gsub(",", "")
    has_macs = $NF ~ /\./
    macs[++layers] = has_macs ? $NF : 0
    bytes[layers] = 4 * (has_macs ? $(NF - 1) : $NF)
    all_macs += macs[layers]
    all_bytes += bytes[layers]
}
END {
    for (i = layers; i > 0; i--) {
        computed += backward_ms * macs[i] / all_macs
        filled += bytes[i]
        if (all_bytes > 2097152 && filled >= least) {
            sum_bucket()
            least *= least < 16777216 ? 2 : 1
        }
    }
    if (filled > 0)
        sum_bucket()
    printf "%.1f %.1f %.1f\n", compute_ms + summed - backward_ms, compute_ms + sums, 2 * (ranks - 1) / ranks * all_bytes / rate * 1000
}
END

print_row() {
    "$pipetrain" --describe "$model" | awk -v ranks="$ranks" -v bits="$bits" -v message_ms="$message_ms" \
        -v compute_ms="$compute_ms" -v backward_ms="$backward_ms" -f "$work/formula.awk" >"$work/predicted"
    read -r predicted_ms unhidden_ms wire_ms <"$work/predicted"
    awk -v measured="$step_ms" -v predicted="$predicted_ms" -v unhidden="$unhidden_ms" -v wire="$wire_ms" -v compute="$compute_ms" \
        -v row="$model, $batch | $mpi | $ranks | $rate" 'BEGIN {
            printf "| %s | %.1f | %.1f | %.1f | %.1f | %.1f | %+.0f %% | %+.0f %% |\n", row, compute, wire, predicted, unhidden,
                   measured, 100 * (predicted / measured - 1), 100 * (unhidden / measured - 1) }'
}

# Half of what a step of a tiny network waits for two rounds of messages.
time_message() {
    settings '[model]' "file = $work/quick.net" '[train]' 'batch = 64'
    time_compute "$1" 1000
    timed message 1000 $(hosts_command "$mpi" "$1") "$pipetrain"
    message_ms=$(awk -v step="$step_ms" -v compute="$compute_ms" 'BEGIN { print (step - compute) / 2 }')
}

uptime
echo '| network, batch | MPI | hosts | link | compute, ms | bytes on the wire, ms | step by the formula, ms | nothing hidden, ms | measured, ms | formula | nothing hidden |'
echo '|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|'
for ranks in 2 4; do
    hosts_up $ranks
    for mpi in $mpis; do
        time_message $ranks
        echo "latency with $ranks hosts, $mpi: $message_ms ms" >&2
        for network in "$@"; do
            model=${network%:*} batch=${network#*:}
            settings '[model]' "name = $model" '[train]' "batch = $batch"
            time_compute $ranks 60
            for rate in 100mbit 1gbit; do
                case $rate in 100mbit) bits=100000000 steps=20 ;; *) bits=1000000000 steps=60 ;; esac
                set_rate $rate
                timed hosts $steps $(hosts_command "$mpi" $ranks) "$pipetrain"
                print_row
            done
        done
    done
    hosts_down
done
uptime
finish
