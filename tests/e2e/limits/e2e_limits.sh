#!/bin/sh
# Whichever stage is slow, the verdict names it and the key that helps; and the key does help.
. "$(dirname "$0")/../e2e.sh"
[ -x "$slow" ] || { echo "not built: $slow"; exit 99; }
[ "$sanitizer" = no ] || skip 'with a sanitizer computing is what is slow'
make_tiny
make_smooth
pipetrain=$slow
export PIPETRAIN_SLOW

# Descriptors for the results are looked for before the first step, not when the weights are to be saved.
run sh -c "ulimit -n 14; exec '$build/pipetrain' -c '$work/tiny.conf' --set 'run.dir=$work/runs/files'"
expect_code 4 'a limit of 14 open files'
expect_err '^pipetrain: open files: this process may have 14, and a run needs [0-9]*: raise the limit, ulimit -n'
[ ! -e "$work/runs/files" ] || fail 'a run that was refused left a directory'
needed=$(sed -n 's/.*ulimit -n //p' "$work/err")
run sh -c "ulimit -n $needed; exec '$build/pipetrain' -c '$work/tiny.conf' --set 'run.dir=$work/runs/files'"
expect_code 0 "a limit of $needed open files"

# A step computes for less than a millisecond, so that what is made slow is what takes the time; records come from
# files.
tiny="--set model.file=$work/smooth.net --set train.batch=8 --set train.steps=25 --set data.validation=
    --set input.keep_shards=0 --set input.read_threads=1 --set input.decode_threads=1 --set devices.bind=no"

# limited STAGE "CALL MICROSECONDS [EVERY]" [OPTION]...: the stage is named; the run is $work/runs/limited. On a machine
# that is busy otherwise, too, computing is slow by itself: then the delay has to be longer, twice at most.
limited() {
    stage=$1
    delay=$2
    shift 2
    options=$*
    for factor in 1 4 16; do
        PIPETRAIN_SLOW=$(echo "$delay" | awk -v factor=$factor \
            '{ for (i = 2; i <= NF; i++) if ($(i - 1) ~ /^[a-z]/) $i *= factor; print }')
        rm -rf "$work/runs/limited"
        train limited $tiny "$@"
        found=$(summary limited limit.stage)
        # Made slow it sleeps: where other programs have the cores, that is what waiting for one looks like.
        [ "$found" != others ] || found=compute
        [ "$found" != "$stage" ] || break
    done
    expect_equal "$found" "$stage" "what limits with $PIPETRAIN_SLOW us, $options"
    cases=$((cases + 1))
}

expect_key() {
    expect_summary limited limit.key "$1"
    expect_out_joined "verdict .*$1"
}

# helps ASSIGNMENT KEY: by it a number of the summary becomes smaller by a fifth at least.
helps() {
    train helped $tiny $options --set "$1"
    awk -v before="$(summary limited "$2")" -v after="$(summary helped "$2")" \
        'BEGIN { exit !(before > 0 && after < 0.8 * before) }' ||
        fail "$1: $2 was $(summary limited "$2"), then $(summary helped "$2")"
    rm -rf "$work/runs/helped"
}

cases=0
for towers in 1 2; do
    with="--set devices.towers=$towers"
    limited reading 'read 8000' $with
    expect_key input.read_threads
    expect_out_joined 'most of it waiting for files'
    limited copying 'copy 8000' $with
    awk -v hidden="$(summary limited copy.hidden)" 'BEGIN { exit !(hidden ~ /^[0-9]/ && hidden < 0.5) }' ||
        fail "towers wait for copies of which $(summary limited copy.hidden) are hidden"
    limited compute 'backward 8000' $with
    limited states 'fsync 10000' $with --set checkpoint.every=1
    expect_key checkpoint.every
    [ "$towers" -eq 1 ] || [ "$long" = yes ] || continue
    limited reading 'read-busy 8000' $with --set data.shuffle=none
    limited decoding 'decode 1000' $with
    expect_key input.decode_threads
    limited decoding 'decode-busy 1000' $with
    limited compute 'forward 8000' $with
    limited update 'update 8000' $with
    expect_key train.batch
    limited reports 'reports 8000' $with
    expect_key report.interval
    limited reading 'read 8000' $with --set devices.kind=null
    limited decoding 'decode 1000' $with --set devices.kind=null
    limited copying 'copy 4000' $with --set devices.kind=null
    limited reports 'reports 4000' $with --set devices.kind=null
done
limited compute 'forward 3000'
limited reduction 'reduce 6000' --set devices.towers=2
expect_key train.batch

limited reading 'read 60000'
helps input.read_threads=2 seconds
limited decoding 'decode 6000'
helps input.decode_threads=2 seconds
limited reports 'reports 60000'
helps report.interval=30 seconds
# Two decoders stop for 40 ms once in ten steps, which by themselves take 100 ms: eight batches ahead outlast that.
limited bursts 'decode 40000 40; forward 10000' --set input.prefetch_depth=1 --set input.staging_depth=1 \
    --set input.decode_threads=2 --set train.steps=70
expect_key input.prefetch_depth
helps input.prefetch_depth=8 fractions.input_wait
[ "$cases" -eq $([ "$long" = yes ] && echo 34 || echo 24) ] || fail "$cases limits were tried"
finish
