#!/bin/sh
# The tests that have a GPU to test: the same programs and scripts as make check, on the CUDA
# device, where what would be skipped fails. Run by make check-gpu; also by itself on a machine
# that has only the built tree:
#
#     tests/gpu/check_gpu.sh [-s] [BUILD]      -s: under compute-sanitizer as well
#     tests/gpu/check_gpu.sh -l [LIST]         prints a list: units (the default), kernels, e2e, memcheck or racecheck
#
# tests/gpu/first_light.sh runs the same lists, several programs at a time, where a GPU is there for minutes only.
set -u

kernels='cuda/test_kernels cuda/test_kernels_channels cuda/test_kernels_loss
    cuda/test_kernels_norm cuda/test_kernels_pool cuda/test_kernels_share cuda/test_kernels_step'
units="stage/test_device stage/test_device_events stage/test_slots $kernels
    compute/test_evaluation compute/test_layers compute/test_graph compute/test_groups compute/test_precisions
    compute/test_share compute/test_tower compute/test_tower_parts compute/test_update
    sync/test_halves sync/test_reduce sync/test_relaxed sync/test_servers sync/test_trainer cuda/test_timeline"
e2e='gpu batches slices threads towers'
racecheck=$kernels
memcheck="$kernels compute/test_layers"

if [ "${1-}" = -l ]; then
    case ${2-units} in
        units) list=$units ;;
        kernels) list=$kernels ;;
        e2e) list=$e2e ;;
        memcheck) list=$memcheck ;;
        racecheck) list=$racecheck ;;
        *) echo "$0: there is no list $2" >&2; exit 2 ;;
    esac
    printf '%s\n' $list
    exit 0
fi
sanitize=no
[ "${1-}" != -s ] || { sanitize=yes; shift; }
build=$(cd "${1:-.}" && pwd) || exit 99
tests=$(cd "$(dirname "$0")/.." && pwd)
passed=0 failed=0

export PIPETRAIN_BUILD="$build" PIPETRAIN_TEST_DEVICE=cuda PIPETRAIN_TEST_REQUIRED=1 PIPETRAIN_SANITIZER=no

# check NAME COMMAND...: passed when the exit code is 0; 77 (skipped) is a failure here.
check() {
    name=$1
    shift
    if "$@" >"$log" 2>&1; then
        passed=$((passed + 1))
        echo "passed  $name"
    else
        code=$?
        failed=$((failed + 1))
        echo "FAILED  $name (exit code $code)"
        tail -n 40 "$log" | sed 's/^/        /'
    fi
}

log=$(mktemp "${TMPDIR:-/tmp}/check-gpu.XXXXXX") || exit 99
trap 'rm -f "$log"' EXIT

if ! "$build/tests/stage/test_device" >"$log" 2>&1 && grep -q '^FAILED: no device' "$log"; then
    echo "check-gpu: $(sed -n 's/^FAILED: //p' "$log")"
    exit 1
fi
for name in $units; do
    check "$name" "$build/tests/$name"
done
for name in $e2e; do
    check "e2e_$name" sh "$tests/e2e/e2e_$name.sh"
done

if [ "$sanitize" = yes ]; then
    sanitizer=$(command -v compute-sanitizer) || { echo 'FAILED  there is no compute-sanitizer'; exit 1; }
    for name in $memcheck; do
        check "memcheck $name" "$sanitizer" --tool memcheck --error-exitcode 9 "$build/tests/$name"
    done
    for name in $racecheck; do
        check "racecheck $name" "$sanitizer" --tool racecheck --error-exitcode 9 "$build/tests/$name"
    done
fi

echo "check-gpu: $passed passed, $failed failed"
[ "$failed" -eq 0 ]
