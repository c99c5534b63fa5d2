#!/bin/sh
# e2e_histograms.sh on the simulated CUDA: what is shown comes from a device's memory.
PIPETRAIN_PROGRAM=${PIPETRAIN_BUILD:-$PWD}/tests/e2e/pipetrain_sim
[ -x "$PIPETRAIN_PROGRAM" ] || { echo 'skipped: built without CUDA'; exit 77; }
export PIPETRAIN_PROGRAM PIPETRAIN_TEST_DEVICE=cuda
exec sh "$(dirname "$0")/e2e_histograms.sh"
