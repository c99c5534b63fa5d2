#!/bin/sh
# The torture driver detects each kind of broken promise: a script breaks one after the other.
[ "${PIPETRAIN_SANITIZER:-no}" = no ] || { echo 'the driver itself is tested without a sanitizer'; exit 77; }
build=${PIPETRAIN_BUILD:-$PWD}
work=$(mktemp -d "${TMPDIR:-/tmp}/pipetrain-test-torture.XXXXXX") || exit 99
trap 'rm -rf "$work"' EXIT
failures=0
mkdir -p "$work/build/tests/torture" "$work/build/tests/e2e/use" "$work/temporary"
for loaded in faults.so recorder.so; do
    ln -s "$build/tests/torture/$loaded" "$work/build/tests/torture/$loaded"
done
for program in pipetrain-convert pipetrain-report tests/e2e/use/jpeg_maker; do
    ln -s "$build/$program" "$work/build/$program"
done

fail() {
    failures=$((failures + 1))
    echo "FAILED: $1"
    sed 's/^/    /' "$work/said" | tail -n 12
}

# try_program COMMANDS: run the driver with a program that executes these shell commands in the folder of a trial.
try_program() {
    cat >"$work/build/pipetrain" <<END
#!/bin/sh
case \$PWD in */try/*)
$1
;; esac
exec "$build/pipetrain" "\$@"
END
    chmod +x "$work/build/pipetrain"
    TMPDIR=$work/temporary "$build/tests/torture/torture" -b "$work/build" -s 1 -d $deadline -c "${tried%%:*}" \
        -t "$tried" streams >"$work/said" 2>&1
    code=$?
}

tried='train: streams: output a file, errors a file'
deadline=60
finds() {
    try_program "$1"
    [ $code -eq 1 ] || fail "exit code $code, 1 expected where: $2"
    grep -q -- "$2" "$work/said" || fail "not found: $2"
}

try_program 'exec "'"$build"'/pipetrain" "$@"'
[ $code -eq 0 ] || fail "exit code $code for a program that keeps its promises"
grep -q '^1 trials, 1 held, 0 did not' "$work/said" || fail 'it does not count its trials'
deadline=1
finds 'exec sleep 100' 'did not end in time'
deadline=60
finds 'kill -s SEGV $$' 'died by signal 11'
finds 'echo "pipetrain: no" >&2; exit 1' 'exit code 1'
finds 'exit 5' 'exit code 5 without a message'
finds 'echo "pipetrain: it failed" >&2; exit 5' "no word of 'standard output'"
finds 'exit 0' 'exit code 0, but run/.* is not as it should be'
finds 'rm run/weights.safetensors' 'the earlier run/weights.safetensors is gone'
finds '"'"$build"'/pipetrain" "$@"; truncate -s -1 run/weights.safetensors; exit 0' 'neither as before nor as promised'
finds '"'"$build"'/pipetrain" "$@"; truncate -s -9 run/summary.json; exit 0' 'run/summary.json is not whole'
finds '"'"$build"'/pipetrain" "$@"; truncate -s -9 run/metrics.jsonl; exit 0' 'a line is damaged'
finds '"'"$build"'/pipetrain" "$@"; touch run/.weights.safetensors.tmp.1; exit 0' 'is left behind'
finds '"'"$build"'/pipetrain" "$@"; echo >>data/train-00000-of-00002; exit 0' 'neither as before nor as promised'
tried='train-save: streams: output a file, errors a file'
finds '"'"$build"'/pipetrain" "$@"; rm saved/checkpoint-*; exit 0' 'no checkpoint is left'
finds '"'"$build"'/pipetrain" "$@"; printf x | dd of=saved/checkpoint-00000003.safetensors bs=1 seek=90000 conv=notrunc
    exit 0' 'checkpoint-00000003.safetensors is not whole'
finds 'echo "pipetrain: saved/checkpoint-2: standard output: the run continues, and earlier checkpoints stay" >&2
    exit 5' 'exit code 5 though the last checkpoint is there'
finds '"'"$build"'/pipetrain" "$@"
    echo "pipetrain: saved: the checkpoint of the last step could not be saved" >&2; exit 0' 'without the last checkpoint'

# power SHARE NAME=VALUE...: power cuts, with these variables in the environment of the program.
power() {
    share=$1
    shift
    env "$@" TMPDIR="$work/temporary" "$build/tests/torture/torture" -b "$build" \
        -s 1 -n $share -c train-save power >"$work/said" 2>&1
    code=$?
}
power $([ "${PIPETRAIN_TEST_LONG:-no}" = yes ] && echo 2 || echo 1) IS_SYNCED=yes
[ $code -eq 0 ] || fail 'power cuts'
tail -n 2 "$work/said"
power 2 PIPETRAIN_OMIT_SYNCS=yes
[ $code -eq 1 ] || fail "exit code $code, 1 expected of a program that syncs nothing"
grep -q '^- train-save: power cut.*checkpoint-.* is not whole' "$work/said" || fail 'no torn checkpoint where nothing is synced'
[ $failures -eq 0 ] || exit 1
echo 'all as expected'
