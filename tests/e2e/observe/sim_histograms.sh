#!/bin/sh
# e2e_histograms.sh on the simulated CUDA: what is shown comes from a device's memory.
. "$(dirname "$0")/../sim.sh"
exec sh "$(dirname "$0")/e2e_histograms.sh"
