#!/bin/sh
# e2e_predict_stream.sh on the simulated CUDA, as check_gpu.sh runs it on a GPU.
. "$(dirname "$0")/../sim.sh"
exec sh "$(dirname "$0")/e2e_predict_stream.sh"
