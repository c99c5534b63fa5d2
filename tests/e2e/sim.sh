# Sourced by scripts that run another one with its programs on the simulated CUDA: a device that acts as a GPU and
# computes on the CPU.
PIPETRAIN_PROGRAM=${PIPETRAIN_BUILD:-$PWD}/tests/e2e/pipetrain_sim
[ -x "$PIPETRAIN_PROGRAM" ] || { echo 'skipped: built without CUDA'; exit 77; }
export PIPETRAIN_PROGRAM PIPETRAIN_TEST_DEVICE=cuda PIPETRAIN_TEST_SIMULATED=yes
