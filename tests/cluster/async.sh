#!/bin/sh
# sync.mode = async across ranks: whatever the ranks, it trains as one process does, within the bound of staleness; it is
# resumed by other ranks, and from and by one process.
. "${0%/*}/cluster.sh"
find_mpis
make_tiny
learns='--set sync.mode=async --set train.batch=24 --set train.epochs=4 --set train.optimizer=momentum --set train.learning_rate=0.02'

# ranked NAME MPI RANKS TOWERS OPTION...
ranked() {
    name=$1 mpi=$2 ranks=$3 towers=$4
    shift 4
    run timeout 200 $(mpi_command "$mpi" "$ranks") "$pipetrain" -c "$work/tiny.conf" --set "run.dir=$work/runs/$name" $learns \
        --set devices.towers="$towers" "$@"
    expect_code 0 "$name"
    expect_summary "$name" towers $((ranks * towers))
}

# learned NAME BOUND: as well as one process, with no batch more stale than that.
learned() {
    expect_summary "$1" steps 100
    expect_summary "$1" images 2400
    expect_near "$1" validation.correct "$(summary one validation.correct)" 0.3
    [ "$(summary "$1" staleness.max)" -le "$2" ] || fail "$1 is more stale than $2"
}

run "$pipetrain" -c "$work/tiny.conf" --set "run.dir=$work/runs/one" $learns --set devices.towers=4
expect_code 0 'one process'
[ "$(summary one validation.correct)" -ge 75 ] || fail 'one process learns nothing'
for mpi in $mpis; do
    ranked "two-$mpi" "$mpi" 2 1 --set sync.max_staleness=3
    learned "two-$mpi" 3
    ranked "wire-$mpi" "$mpi" 2 2 --set sync.wire=bf16 --set sync.staleness_rate=inverse --set sync.max_staleness=2
    learned "wire-$mpi" 2
    ranked "norm-$mpi" "$mpi" 3 1 --set train.clip_norm=1 --set sync.bucket=1KiB
    learned "norm-$mpi" 1

    # A run that ended after half of its epochs goes on.
    ranked "half-$mpi" "$mpi" 2 1 --set checkpoint.every=epoch --set train.epochs=2
    cp -r "$work/runs/half-$mpi" "$work/runs/alone-$mpi"
    ranked "half-$mpi" "$mpi" 3 1 --set checkpoint.every=epoch
    expect_out 'resume +at step 50 of 100'
    expect_near "half-$mpi" validation.correct "$(summary one validation.correct)" 0.3
    run "$pipetrain" -c "$work/tiny.conf" --set "run.dir=$work/runs/alone-$mpi" $learns --set devices.towers=2 \
        --set checkpoint.every=epoch
    expect_code 0 'one process goes on with a run of ranks'
    expect_out 'resume +at step 50 of 100'
    expect_near "alone-$mpi" validation.correct "$(summary one validation.correct)" 0.3
done
finish
