#!/bin/sh
# e2e_gpu.sh on the simulated CUDA: the whole program, its device a CPU that acts as a GPU.
PIPETRAIN_PROGRAM=${PIPETRAIN_BUILD:-$PWD}/tests/e2e/pipetrain_sim
[ -x "$PIPETRAIN_PROGRAM" ] || { echo 'skipped: built without CUDA'; exit 77; }
export PIPETRAIN_PROGRAM PIPETRAIN_TEST_DEVICE=cuda PIPETRAIN_TEST_SIMULATED=yes
exec sh "$(dirname "$0")/e2e_gpu.sh"
