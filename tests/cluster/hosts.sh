#!/bin/sh
# Ranks on two hosts with a network of 1 Gb/s leave the weights, metrics and checkpoints of one process with as many towers,
# with both MPIs, and what they tell each other goes through the network.
. "${0%/*}/cluster.sh"
find_mpis
need_hosts
make_tiny
make_quick
hosts_up 2 1gbit

# The bytes that a host has sent.
sent_by() {
    "$work/on_host" "$1" cat /sys/class/net/eth0/statistics/tx_bytes
}

# The numbers of every report and evaluation, without times.
numbers_of() {
    "$json_value" --lines "$work/runs/$1/metrics.jsonl" kind step loss accuracy
}

# Every step, each of two hosts sends at least half of the gradients: 2,326 numbers.
for ranks in 2 3 4; do
    train "one-$ranks" --set devices.towers=$ranks
    for mpi in $mpis; do
        name=$mpi-$ranks
        before=$(sent_by 1)
        run $(hosts_command "$mpi" $ranks) "$pipetrain" -c "$work/tiny.conf" --set "run.dir=$work/runs/$name"
        expect_code 0 "$ranks ranks of $mpi on two hosts"
        expect_same_file "$work/runs/one-$ranks/weights.safetensors" "$work/runs/$name/weights.safetensors" "$name"
        expect_equal "$(numbers_of "$name")" "$(numbers_of "one-$ranks")" "metrics of $name"
        sent=$(($(sent_by 1) - before))
        [ $sent -ge 46520 ] || fail "a host has sent only $sent bytes in 10 steps of $name"
    done
done

# A refusal on one host is one on all.
for mpi in $mpis; do
    run $(hosts_command "$mpi" 2) sh -c 'exec "$1" -c "$2" --set run.dir=$3 --set "run.seed=$(hostname | tr -d h)"' sh \
        "$pipetrain" "$work/tiny.conf" "$work/runs/$mpi-seeds"
    expect_code 2 'seeds that differ'
    expect_err 'seed'
    expect_err 'h2'
done
finish
