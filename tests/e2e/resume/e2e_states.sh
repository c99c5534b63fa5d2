#!/bin/sh
# States that earlier versions saved are read by this one: a run goes on from each, with the losses that it had then.
# states/checkpoint-VERSION-00000004.safetensors is of the run of states/golden.conf; VERSION is that of the keys
# (doc/checkpoints.md). One is added where these change, or what they hold; none is made anew.
. "$(dirname "$0")/../e2e.sh"
states=$(cd "$(dirname "$0")/states" && pwd)

# losses NAME: of every step, and of the epoch up to the last.
losses() {
    sed -n 's/.*"kind":"\([a-z]*\)".*"step":\([0-9]*\),.*"loss":\([0-9.]*\),.*/\1 \2 \3/p' "$work/$1/metrics.jsonl"
}

cd "$states" || exit 99
for state in checkpoint-*.safetensors; do
    run "$pipetrain" -c golden.conf --set train.steps=7 --set "run.dir=$work/$state" --set "run.resume=$states/$state"
    expect_code 0 "going on from $state"
    expect_out_joined 'resume +at step 4 of 7, from '
    losses "$state" >"$work/losses"
    expect_equal "$(awk '
        { wanted["train 5"] = 0.551035; wanted["train 6"] = 0.336369; wanted["train 7"] = 0.353219
          wanted["epoch 7"] = 0.707503; away = $3 - wanted[$1 " " $2]
          near += away < 1e-3 && away > -1e-3 }
        END { print near " of " NR }' "$work/losses")" '4 of 4' "losses behind $state"
    [ $failures -eq 0 ] || cat "$work/losses"

    # Every byte counts, as in states of today.
    cp "$state" "$work/checkpoint-00000004.safetensors"
    flip "$work/checkpoint-00000004.safetensors" 12000
    run "$pipetrain" -c golden.conf --set train.steps=7 --set "run.dir=$work/bad" --set \
        "run.resume=$work/checkpoint-00000004.safetensors"
    expect_code 3 "a byte of $state changed"
    expect_err 'is damaged'
done
finish
