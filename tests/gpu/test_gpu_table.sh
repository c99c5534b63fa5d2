#!/bin/sh
# bench/gpu.sh rehearsed without a GPU: every row of every group is there, one that cannot run here says why, and without
# BENCH_DEVICE=cpu it asks for a GPU.
. "$(dirname "$0")/../e2e/e2e.sh"
[ "$sanitizer" = no ] || skip 'the script is the same without a sanitizer'
command -v python3 >/dev/null || skip 'there is no python3'
gpu_table=$(cd "$(dirname "$0")/../.." && pwd)/bench/gpu.sh
make_tiny
unset BENCH_DEVICE
export PEER_TORCH="$work/no-python"

# The real program, but every model is a small one.
mkdir -p "$work/folder/tests/e2e/use"
printf '#!/bin/sh\nexec "%s" "$@" --set "model.file=%s" --set model.name=\n' "$pipetrain" "$work/small.net" \
    >"$work/folder/pipetrain"
chmod +x "$work/folder/pipetrain"
cat >"$work/small.net" <<'END'
model small
image 28x28x1
classes 10
dense fc1 units classes
softmax_loss loss
END
for program in pipetrain-convert pipetrain-mpich.so tests/e2e/use/jpeg_maker; do
    [ ! -e "$build/$program" ] || ln -s "$build/$program" "$work/folder/$program"
done

# table GROUP...
table() { run sh "$gpu_table" -b "$work/folder" -d "$work/data/train-*" -n 1 -o "$work/table.md" "$@"; }
# rows PATTERN: how many rows have it.
rows() { grep '^| ' "$work/table.md" | grep -cE -- "$1"; }

if ! nvidia-smi >/dev/null 2>&1; then
    table towers
    expect_code 2 'no GPU'
    expect_err 'nvidia-smi finds no GPU here'
fi

export BENCH_DEVICE=cpu
table mnist graphs memory towers ranks slices
expect_code 0 'a rehearsal'
grep -q 'A rehearsal on the cpu: these numbers mean nothing' "$work/table.md" || fail 'the table says that it is a rehearsal'
expect_equal "$(rows 'not measured: there is no PyTorch')" 10 'rows that need PyTorch'
expect_equal "$(rows 'steps as graphs / queued \| [0-9]')" 2 'rows of graphs'
expect_equal "$(rows '2 towers on one GPU .* \| [0-9]')" 2 'rows of towers'
expect_equal "$(rows 'train.slices = 8 / without \| [0-9]')" 1 'rows of slices'
if [ -e "$build/pipetrain-mpich.so" ] && command -v mpiexec.hydra >/dev/null; then
    expect_equal "$(rows '2 ranks on one GPU .* \| [0-9]')" 3 'rows of ranks'
else
    expect_equal "$(rows '2 ranks on one GPU .*not measured: ')" 3 'rows of ranks'
fi
! grep -q '| failed |' "$work/table.md" || { cat "$work/table.md" "$work/err"; fail 'a row failed'; }

# On a simulated GPU the keys are kept.
if [ -x "$build/tests/e2e/pipetrain_sim" ]; then
    sed "s|exec \"[^\"]*\"|exec \"$build/tests/e2e/pipetrain_sim\"|" "$work/folder/pipetrain" >"$work/folder/tests/e2e/pipetrain_sim"
    chmod +x "$work/folder/tests/e2e/pipetrain_sim"
    BENCH_DEVICE=simulated table fused
    expect_code 0 'a rehearsal on a simulated GPU'
    expect_equal "$(rows 'devices.fuse = yes.* \| [0-9]')" 3 'rows of fused convolutions'
fi

# A row that fails is one, and the others are measured.
printf '#!/bin/sh\ncase "$*" in *train.slices=*) exit 3 ;; esac\nexec "%s" "$@"\n' "$pipetrain" >"$work/folder/pipetrain"
table slices
expect_code 0 'a row that fails'
expect_equal "$(rows 'failed')" 1 'rows that failed'

run sh "$gpu_table" -b "$work/folder" -o "$work/table.md" sight
expect_code 2 'a group that is not there'
expect_err 'there is no group sight'
finish
