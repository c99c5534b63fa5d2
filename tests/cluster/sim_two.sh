#!/bin/sh
# Two ranks on simulated GPUs leave the weights of one process with two towers, in every reduction: the part of sim_equal.sh
# that takes seconds, with one of the MPIs.
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
finish
