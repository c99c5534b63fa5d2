#!/bin/sh
# Everything that first_light.sh, check_gpu.sh and bench/gpu.sh need, in one archive, for a machine that has a GPU and
# Python with PyTorch but neither this tree nor its libraries:
#
#     tests/gpu/bundle.sh [-a] BUILD ARCHIVE.txz
#
# BUILD is a build folder after make and make check TESTS=, configured for the one architecture of that GPU, so that
# the archive is small (CUDA_ARCHS=90 ../configure); -a packs a build for several ones. CUDA's own libraries are taken
# there, from PyTorch's packages or from the system (library_path.sh); digits are drawn there.
set -eu

any=no
[ "${1-}" != -a ] || { any=yes; shift; }
[ $# -eq 2 ] || { sed -n '2,9s/^# \{0,1\}//p' "$0" >&2; exit 2; }
build=$(cd "$1" && pwd)
archive=$2
source_dir=$(cd "$(dirname "$0")/../.." && pwd)
command -v xz >/dev/null || { echo "$0: there is no xz to pack with" >&2; exit 2; }

archs=$(sed -n 's/^S\["CUDA_ARCHS"\]="\(.*\)"$/\1/p' "$build/config.status")
case $any,$archs in
    yes,*) ;;
    no,) echo "$0: $build is built without CUDA" >&2; exit 2 ;;
    no,*' '*)
        echo "$0: $build has kernels for $archs; configure one for the GPU that is there" \
            "(CUDA_ARCHS=90 ../configure), or pack them all with -a" >&2
        exit 2 ;;
esac

work=$(mktemp -d "${TMPDIR:-/tmp}/pipetrain-bundle.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 2' HUP INT TERM
bundle=$work/pipetrain-gpu

# What make check-gpu runs, and what its scripts and bench/gpu.sh call.
programs='pipetrain pipetrain-convert tests/e2e/json_value tests/e2e/resume/tensors_near tests/e2e/run_at
    tests/e2e/pipetrain_sim tests/e2e/shard_maker tests/e2e/limits/pipetrain_slow tests/e2e/use/jpeg_maker'
for list in units memcheck racecheck; do
    for name in $(sh "$source_dir/tests/gpu/check_gpu.sh" -l $list); do
        programs="$programs tests/$name"
    done
done
for program in $programs; do
    [ -x "$build/$program" ] || { echo "$0: not built: $build/$program (make && make check TESTS=)" >&2; exit 2; }
    mkdir -p "$bundle/$(dirname "$program")"
    strip -o "$bundle/$program" "$build/$program"
done

# Modules for ranks, and MPICH's launcher with its libraries: ranks can then share a GPU where there is no MPI. Open MPI
# has too many parts of its own to travel.
modules=$(cd "$build" && ls pipetrain-mpich.so pipetrain-openmpi.so 2>/dev/null || :)
for module in $modules; do
    strip -o "$bundle/$module" "$build/$module"
done
launcher=
if [ -e "$build/pipetrain-mpich.so" ]; then
    mkdir "$bundle/mpi"
    for program in mpiexec.hydra hydra_pmi_proxy; do
        found=$(command -v $program) || { echo "$0: there is no $program (Debian: mpich)" >&2; exit 2; }
        strip -o "$bundle/mpi/$program" "$found"
        launcher="$launcher $found"
    done
    launcher="$launcher $build/pipetrain-mpich.so"
fi

# Our libraries, but not the C library's, which are of the system, nor CUDA's.
of_system='libc|libm|libdl|librt|libpthread|libutil|libresolv|ld-linux[^/]*'
of_cuda='libcuda|libcudart|libcudnn|libnccl|libcublas[^/]*|libcupti|libnv[^/]*'
mkdir -p "$bundle/lib"
{
    for program in $programs; do
        ldd "$build/$program"
    done
    for program in $launcher; do
        ldd "$program"
    done
} | awk '$2 == "=>" && $3 ~ /^\// { print $3 }' | sort -u |
    grep -Ev "/($of_system|$of_cuda)\.so" |
    while read -r library; do
        strip -o "$bundle/lib/${library##*/}" "$library" 2>/dev/null || cp -L "$library" "$bundle/lib/"
    done

mkdir -p "$bundle/tests/gpu" "$bundle/bench"
cp "$source_dir"/tests/gpu/*.sh "$source_dir"/tests/gpu/*.py "$bundle/tests/gpu/"
cp "$source_dir"/tests/e2e/e2e.sh "$source_dir"/tests/e2e/sim.sh "$bundle/tests/e2e/"
for name in $(sh "$source_dir/tests/gpu/check_gpu.sh" -l e2e); do
    cp "$source_dir/tests/e2e/e2e_$name.sh" "$bundle/tests/e2e/"
done
cp "$source_dir"/bench/gpu.sh "$source_dir"/bench/*.py "$bundle/bench/"
[ ! -d "$build/mnist" ] || cp -R "$build/mnist" "$bundle/"

# Every program has the same kernels and much of the same code: with a window that reaches over several programs, and
# large files beside each other, they are packed once.
(cd "$work" && find pipetrain-gpu -type f | sort -t/ -k2 | tar -cf - -T - | xz --lzma2=preset=6,dict=64MiB) >"$archive"

bytes=$(wc -c <"$archive")
megabytes=$(((bytes + 999999) / 1000000))
unpacked=$(du -sm "$bundle" | cut -f1)
echo "$archive: $megabytes MB ($unpacked MiB unpacked), kernels for $archs. On the machine with the GPU:"
echo
echo "    python3 -c 'import tarfile; tarfile.open(\"${archive##*/}\").extractall()'"
echo "    sh pipetrain-gpu/tests/gpu/first_light.sh -n 575 pipetrain-gpu first"
[ $megabytes -le 40 ] || { echo "$0: larger than 40 MB" >&2; exit 1; }
