#!/bin/sh
# What the oneDNN backend computes as it would on CPUs with less: there other kernels read other layouts.
test=$PIPETRAIN_BUILD/tests/compute/test_graph
[ "${PIPETRAIN_SANITIZER-no}" = no ] || { echo 'skipped: the same loops as on this CPU, and slow ones around them'; exit 77; }
for set in SSE41 AVX2 AVX512_CORE; do
    echo "== $set"
    ONEDNN_MAX_CPU_ISA=$set "$test" 2>&1 || exit 1
done
