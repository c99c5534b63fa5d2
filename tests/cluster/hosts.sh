#!/bin/sh
# Ranks on two hosts with a network of 1 Gb/s leave the weights, metrics and checkpoints of one process with as many towers,
# with both MPIs, and what they tell each other goes through the network. When that fails, both sides end.
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

# Every step, each of two hosts sends at least half of the gradients: 2,326 numbers.
for ranks in 2 3 4; do
    train "one-$ranks" --set devices.towers=$ranks
    for mpi in $mpis; do
        name=$mpi-$ranks
        before=$(sent_by 1)
        run $(hosts_command "$mpi" $ranks) "$pipetrain" -c "$work/tiny.conf" --set "run.dir=$work/runs/$name" \
            --set sync.reduce=host
        expect_code 0 "$ranks ranks of $mpi on two hosts"
        expect_same_file "$work/runs/one-$ranks/weights.safetensors" "$work/runs/$name/weights.safetensors" "$name"
        expect_equal "$(numbers_of "$name")" "$(numbers_of "one-$ranks")" "metrics of $name"
        sent=$(($(sent_by 1) - before))
        [ $sent -ge 46520 ] || fail "a host has sent only $sent bytes in 10 steps of $name"
    done
done

# Simulated GPUs choose NCCL, which is simulated in memory and sends nothing through the network.
[ "$simulated" = no ] || for mpi in $mpis; do
    SIM_DEVICES=2 run $(hosts_command "$mpi" 4) "$pipetrain" -c "$work/tiny.conf" --set "run.dir=$work/runs/$mpi-auto"
    expect_code 0 "GPUs on two hosts of $mpi"
    expect_out 'summed by nccl'
    expect_same_file "$work/runs/one-4/weights.safetensors" "$work/runs/$mpi-auto/weights.safetensors" "$mpi, NCCL"
done

# With lanes each host reads its part of the set.
lanes='--set data.shuffle=block --set input.read_block=8KiB --set input.keep_shards=0 --set data.lanes=4'
train one-lanes --set devices.towers=2 $lanes
for mpi in $mpis; do
    run $(hosts_command "$mpi" 2) "$pipetrain" -c "$work/tiny.conf" --set "run.dir=$work/runs/$mpi-lanes" $lanes
    expect_code 0 "lanes on two hosts with $mpi"
    expect_out_joined 'each reads the records of its own lanes, [0-9.]+ KiB an epoch'
    expect_same_file "$work/runs/one-lanes/weights.safetensors" "$work/runs/$mpi-lanes/weights.safetensors" "$mpi-lanes"
done

# Two neighbouring ranks on each host sum first: a host then sends each step one time the gradients, 9,304 bytes, instead of
# twice. Packets and messages of other kinds come on top: runs of 50 and of 10 steps are compared. Without shared
# memory groups are the same, when they are named.
sent_in() {
    before=$(sent_by 1)
    run $(hosts_command "$mpi" 4 $each) "$pipetrain" -c "$work/tiny.conf" --set "run.dir=$work/runs/$mpi-$1" --set train.steps="$2" \
        --set train.epochs=100 --set sync.reduce=host --set "sync.group=$3"
    expect_code 0 "groups of $3 ranks of $mpi"
    sent=$(($(sent_by 1) - before))
}
train one-group --set devices.towers=4 --set train.steps=10 --set train.epochs=100
for mpi in $mpis; do
    each=2
    sent_in near 10 0
    expect_out_joined 'gradients summed by host, first in groups of 2 ranks'
    short=$sent
    sent_in near-long 50 0
    near=$(((sent - short) / 40))
    sent_in alone 10 1
    short=$sent
    sent_in alone-long 50 1
    alone=$(((sent - short) / 40))
    [ $((near + 6000)) -le "$alone" ] || fail "$mpi: a host sends $near bytes a step with groups, $alone without"
    each=
    sent_in named 10 2
    for name in near alone named; do
        expect_same_file "$work/runs/one-group/weights.safetensors" "$work/runs/$mpi-$name/weights.safetensors" "$mpi: $name"
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

# So is one of a host that cannot use MPI.
mkdir "$work/without"
cp "$pipetrain" "$work/without"
for mpi in $mpis; do
    run timeout 60 $(hosts_command "$mpi" 2) sh -c '[ "$(hostname)" = h1 ] || set -- "$4" "$2" "$3"; exec "$1" -c "$2" --set "run.dir=$3"' \
        sh "$pipetrain" "$work/tiny.conf" "$work/runs/$mpi-without" "$work/without/pipetrain"
    expect_code 2 "a host without the module of $mpi"
    expect_err '^pipetrain: rank 1 .h2.: mpirun of .* started 2 processes, but pipetrain was built without'
done

# ---- a link that fails ----

# A command whose messages, exit code and end in milliseconds are in files of its host: the launcher no longer hears of them.
cat >"$work/noted" <<END
#!/bin/sh
host=\$(hostname)
"\$@" 2>"$work/err.\$host"
echo "\$? \$((\$(date +%s%N) / 1000000))" >"$work/new.\$host"
mv "$work/new.\$host" "$work/end.\$host"
END
chmod +x "$work/noted"
deadline=4
# After the deadline; on a busy machine it is an alarm.
end_ms=$([ "${CLUSTER_SOAK:-no}" = yes ] && echo 2000 || echo 30000)

has_steps() {
    [ "$(cat "$work/runs/$1/metrics.jsonl" 2>/dev/null | wc -l)" -ge 20 ]
}

both_ended() {
    [ -e "$work/end.h1" ] && [ -e "$work/end.h2" ]
}

# expect_silence HOST WORDS: the process there has ended in time, and said so.
expect_silence() {
    read -r code ended <"$work/end.$1"
    cp "$work/err.$1" "$work/err"
    expect_code 70 "$command_line on $1"
    expect_err "$2"
    [ $((ended - cut)) -le $((deadline * 1000 + end_ms)) ] || fail "$1 ended $((ended - cut)) ms after its link: $command_line"
}

for mpi in $mpis; do
    rm -f "$work"/end.*
    hosts_down
    hosts_up 2 1gbit
    command_line="ranks of $mpi on two hosts, whose link fails"
    $(hosts_command "$mpi" 2) "$work/noted" "$pipetrain" -c "$work/tiny.conf" --set "run.dir=$work/runs/$mpi-cut" \
        --set train.epochs=100000 --set sync.deadline=$deadline >"$work/out" 2>"$work/err" &
    await has_steps "$mpi-cut"
    has_steps "$mpi-cut" || fail 'it never trains'
    cut=$(($(date +%s%N) / 1000000))
    host_unplug 2
    await both_ended
    both_ended || { fail 'it does not end'; finish; }
    silent="has been silent for $deadline s .sync.deadline.; last heartbeat: .*here: .*, step [0-9]+"
    expect_silence h1 "rank 1 .h2. $silent"
    expect_silence h2 "rank 0 .h1. $silent"
done

# ---- two hosts that do not reach each other, but the first ----

# What h2 sends to h3 goes to an address that nobody has. MPICH connects all hosts when it starts.
hosts_down
hosts_up 3
"$work/on_host" 2 ip neigh replace 10.77.0.3 lladdr 02:00:00:00:00:99 dev eth0 nud permanent
for mpi in $mpis; do
    case $mpi in
        openmpi) words='nothing received from rank [12] (.h[23]. )?for 4 s .sync.deadline. in a sum that all ranks have begun' ;;
        mpich) words='MPI_Init has not returned for 4 s' ;;
    esac
    run timeout 60 $(hosts_command "$mpi" 3) "$pipetrain" -c "$work/tiny.conf" --set "run.dir=$work/runs/parted-$mpi" \
        --set sync.deadline=4
    expect_code 70 "two hosts that do not reach each other, ranks of $mpi"
    expect_err "$words"
done
finish
