#!/bin/sh
# Everything that make check-gpu and bench/gpu.sh run, in one folder, for a machine that has a
# GPU and Python with PyTorch but neither this tree nor its libraries:
#
#     tests/gpu/bundle.sh BUILD FOLDER         here, after make check TESTS= in BUILD
#     sh FOLDER/run.sh [RESULTS]              there: tests, compute-sanitizer, comparisons
#
# CUDA's own libraries are taken there, from PyTorch's packages or from the system.
set -eu

[ $# -eq 2 ] || { sed -n '2,9s/^# \{0,1\}//p' "$0" >&2; exit 2; }
build=$(cd "$1" && pwd)
source_dir=$(cd "$(dirname "$0")/../.." && pwd)
for folder in tests/gpu tests/stage tests/compute tests/sync tests/cuda tests/e2e/limits tests/e2e/resume bench lib data; do mkdir -p "$2/$folder"; done
bundle=$(cd "$2" && pwd)

tests=$(sh "$source_dir/tests/gpu/check_gpu.sh" -l)
programs='pipetrain pipetrain-convert tests/e2e/json_value tests/e2e/resume/tensors_near tests/e2e/run_at
    tests/e2e/shard_maker tests/e2e/limits/pipetrain_slow'
for name in $tests; do
    programs="$programs tests/$name"
done

for program in $programs; do
    cp "$build/$program" "$bundle/$program"
    strip "$bundle/$program"
done
for program in $programs; do
    ldd "$build/$program" | awk '$2 == "=>" && $3 ~ /^\// { print $3 }'
done | sort -u | grep -Ev '/(libc|libm|libdl|librt|libpthread|ld-linux[^/]*|libcuda[^/]*|libcudart|libcudnn|libnccl|libcublas[^/]*|libcupti)\.so' |
    while read -r library; do
        cp -L "$library" "$bundle/lib/"
    done

cp "$source_dir"/tests/gpu/check_gpu.sh "$bundle/tests/gpu/"
cp "$source_dir"/tests/e2e/e2e.sh "$source_dir"/tests/e2e/e2e_*.sh "$bundle/tests/e2e/"
cp "$source_dir"/bench/gpu.sh "$source_dir"/bench/*.py "$bundle/bench/"
cp -R "$build/data/digits" "$bundle/data/"
[ ! -d "$build/mnist" ] || cp -R "$build/mnist" "$bundle/"

cat >"$bundle/run.sh" <<'END'
#!/bin/sh
# Tests and comparisons on this machine's GPU; see tests/gpu/bundle.sh of pipetrain.
here=$(cd "$(dirname "$0")" && pwd)
python=${PEER_TORCH:-python3}
results=${1:-$here/results.md}
packages=$($python -c 'import os, torch; print(os.path.dirname(os.path.dirname(torch.__file__)))' 2>/dev/null)
path=$here/lib
for library in libcudart.so.13 libcudnn.so.9 libnccl.so.2 libcublasLt.so.13 libcupti.so.13; do
    for place in "$packages/nvidia" /usr/local/cuda /usr/lib; do
        found=$(find "$place" -name $library 2>/dev/null | head -n 1)
        [ -z "$found" ] || { path=$path:$(dirname "$found"); break; }
    done
    [ -n "$found" ] || echo "run.sh: there is no $library"
done
export LD_LIBRARY_PATH="$path${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
sh "$here/tests/gpu/check_gpu.sh" -s "$here"
code=$?
PEER_TORCH=$python sh "$here/bench/gpu.sh" -b "$here" -o "$results" || code=1
exit $code
END
du -sh "$bundle" | awk '{ print $2 ": " $1 ", now run there: sh run.sh" }'
