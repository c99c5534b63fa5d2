#!/bin/sh
# Any number of towers sees the same samples, and learns the same from them: the loss curves
# of 1, 2, 3 and 5 towers agree, with and without dropout. The learning rate is small because
# the order of a sum shows in its last bit, now and then a bit decides whether a ReLU is on,
# and a large step makes much of that.
. "$(dirname "$0")/e2e.sh"
make_tiny
make_network

steps=24
towers='1 2 3 5'
options='--set train.epochs=4 --set train.batch=40 --set train.learning_rate=0.1'

# Largest relative difference between the losses of two runs, step by step and in validation.
difference() {
    "$json_value" --lines "$work/runs/$1/metrics.jsonl" kind step loss >"$work/curve1"
    "$json_value" --lines "$work/runs/$2/metrics.jsonl" kind step loss >"$work/curve2"
    paste -d ' ' "$work/curve1" "$work/curve2" | awk '
        $1 != $4 || $2 != $5 { print "lines differ"; bad = 1; exit }
        { d = ($3 - $6) / $3; if (d < 0) d = -d; if (d > most) most = d }
        END { if (!bad) printf "%.3g\n", most }'
}

for dropout in yes no; do
    for count in $towers; do
        run_name=$dropout-$count
        train "$run_name" $options --set train.steps=$steps --set devices.towers=$count \
            --set model.dropout=$dropout
        expect_summary "$run_name" steps $steps
        expect_summary "$run_name" towers "$count"
        expect_summary "$run_name" images $((15 * 40 + 9 * 40))
        expect_summary "$run_name" validation.images 150
        expect_summary "$run_name" sample_order_hash "$(summary "$dropout-1" sample_order_hash)"
        lines=$(grep -c '"kind":"train"' "$work/runs/$run_name/metrics.jsonl")
        expect_equal "$lines" "$steps" "reports of run $run_name"
        largest=$(difference "$dropout-1" "$run_name")
        echo "dropout $dropout, towers $count: losses differ by at most $largest of their size"
        awk -v most="$largest" 'BEGIN { exit !(most ~ /^[0-9.e+-]+$/ && most <= 1e-5) }' ||
            fail "loss curves of 1 and $count towers differ by $largest"
    done
done

# The curves would show it if dropout did nothing, or if towers trained alone.
awk -v most="$(difference yes-1 no-1)" 'BEGIN { exit !(most > 1e-4) }' || fail 'dropout changes nothing'
train alone $options --set train.steps=$steps --set devices.towers=2 --set sync.mode=independent
awk -v most="$(difference yes-1 alone)" 'BEGIN { exit !(most > 1e-4) }' || fail 'independent towers act as one'

# Towers on two devices of one kind choose the same algorithms, measured by one of them, kept, and used again.
if [ "$kind" = cuda ]; then
    for measured in first again; do
        train "measured-$measured" $options --set train.steps=4 --set devices.towers=2 --set devices.time_plans=yes
    done
fi

# A mean at every step is what replicated towers do, with rules that are linear in the gradient, but
# for the bits that decide about a ReLU; means further apart are something else.
options="$options --set train.steps=$steps --set devices.towers=3 --set train.optimizer=sgd --set train.learning_rate=0.01"
train gradients $options
train every-1 $options --set sync.mode=averaging --set sync.every=1
train every-7 $options --set sync.mode=averaging --set sync.every=7
expect_out_joined 'averaging every 7 steps, weights summed by (host|peer) '
often=$(difference gradients every-1)
seldom=$(difference gradients every-7)
echo "a mean at every step: losses differ by at most $often of their size, at every 7th: $seldom"
awk -v most="$often" 'BEGIN { exit !(most <= 3e-4) }' || fail 'a mean at every step differs'
awk -v most="$seldom" 'BEGIN { exit !(most > 1e-3) }' || fail 'every 7th step is every step'
expect_summary every-7 sample_order_hash "$(summary every-1 sample_order_hash)"
finish
