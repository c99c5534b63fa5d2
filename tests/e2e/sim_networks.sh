#!/bin/sh
# e2e_networks.sh on the simulated CUDA.
. "$(dirname "$0")/sim.sh"
exec sh "$(dirname "$0")/e2e_networks.sh"
