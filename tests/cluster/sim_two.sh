#!/bin/sh
# Two ranks on simulated GPUs leave the weights of one process with two towers, in every reduction and from owners of buckets,
# and train asynchronously: the parts of sim_equal.sh and sim_async.sh that take seconds, with one of the MPIs.
. "${0%/*}/../e2e/sim.sh"
. "${0%/*}/cluster.sh"
[ "$sanitizer" = no ] || skip 'the libraries of MPI are not made for sanitizers'
find_mpis
make_tiny
make_quick
mpi=${mpis##* }

train one --set devices.towers=2
for reduce in $gpu_reductions; do
    run mpi_run "$mpi" 2 "$pipetrain" -c "$work/tiny.conf" --set "run.dir=$work/runs/$reduce" --set sync.reduce=$reduce
    expect_code 0 "two ranks of $mpi, sync.reduce = $reduce"
    expect_same_file "$work/runs/one/weights.safetensors" "$work/runs/$reduce/weights.safetensors" "weights with $reduce"
    expect_equal "$(numbers_of "$reduce")" "$(numbers_of one)" "metrics with $reduce"
done
run mpi_run "$mpi" 2 "$pipetrain" -c "$work/tiny.conf" --set "run.dir=$work/runs/served" --set sync.mode=parameter_server \
    --set sync.bucket=1KiB --set sync.reduce=host
expect_code 0 "two ranks of $mpi, parameter_server"
expect_same_file "$work/runs/one/weights.safetensors" "$work/runs/served/weights.safetensors" 'weights of parameter_server'
run mpi_run "$mpi" 2 "$pipetrain" -c "$work/tiny.conf" --set "run.dir=$work/runs/async" --set sync.mode=async
expect_code 0 "two ranks of $mpi, async"
expect_summary async steps "$(summary one steps)"
[ "$(summary async staleness.max)" -le 1 ] || fail 'async is more stale than allowed'
finish
