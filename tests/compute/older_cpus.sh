#!/bin/sh
# The oneDNN backend as it is on CPUs with less: there other kernels read other layouts. What it computes, and that
# `devices.layout = auto` finds layouts in which those kernels are. Sets of instructions that this CPU does not have are
# left out, since oneDNN then takes those that it has; what it has itself, the other tests compute with.
graphs=$PIPETRAIN_BUILD/tests/compute/onednn/few_graphs
convolutions=$PIPETRAIN_BUILD/tests/compute/onednn/test_convolutions
pipetrain=$PIPETRAIN_BUILD/pipetrain
[ "${PIPETRAIN_SANITIZER-no}" = no ] || { echo 'skipped: the same loops as on this CPU, and slow ones around them'; exit 77; }
long=${PIPETRAIN_TEST_LONG:-no}
models='resnet20_v2 densenet40_k12'
if [ "$long" = yes ]; then
    graphs=$PIPETRAIN_BUILD/tests/compute/test_graph
    models="$models resnet50_v1 torchvision_resnet18 googlenet"
fi

# is_there FLAG: of the CPU.
is_there() {
    grep -Eqm 1 "^flags.* ($1)( |\$)" /proc/cpuinfo
}
older= planned=DEFAULT
is_there avx2 && older=SSE41 planned=AVX2
is_there avx512bw && older="$older AVX2" planned="$planned AVX512_CORE"
is_there 'avx512_vnni|avx512_bf16|amx_tile' && older="$older AVX512_CORE" planned="$planned DEFAULT"
amx=no
is_there amx_tile && amx=yes older="$older AVX512_CORE_BF16"

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
for set in $older; do
    echo "== $set"
    ONEDNN_MAX_CPU_ISA=$set "$graphs" 2>&1 || exit 1
    ONEDNN_MAX_CPU_ISA=$set "$convolutions" 2>&1 || exit 1
done

# Values between layers lie as the kernels want them: the image alone may be as it comes. Where densely connected
# blocks may have all channels together, they do, and grow in place. In bf16 with AMX all have all channels together.
failed=0
for set in $planned; do
    for model in $models; do
        for precision in fp32 bf16; do
            ONEDNN_MAX_CPU_ISA=$set "$pipetrain" -c /dev/null --set input.source=synthetic --set model.name=$model \
                --set train.batch=4 --set train.steps=1 --set devices.kind=cpu --set devices.precision=$precision \
                --set run.dir="$folder/run" --dry-run > "$folder/plan" 2> "$folder/error" ||
                { grep -q 'computes in fp32 only' "$folder/error" && continue; cat "$folder/error"; exit 1; }
            awk -v words="$set $model $precision" -v has_amx="$amx" '
                /: (nchw|nhwc|nChw[0-9]*c) -> / { layers++; plain += / nchw -> /; together += / nhwc -> / }
                END {
                    printf "%s: %d of %d layers read nchw, %d nhwc\n", words, plain, layers, together
                    apart = words ~ /^AVX2 densenet/ && together < layers
                    amx = words ~ /^DEFAULT .* bf16$/ && has_amx == "yes" && together < layers
                    exit layers < 20 || plain > 1 || apart || amx
                }
                ' "$folder/plan" || failed=1
        done
    done
done
exit $failed
