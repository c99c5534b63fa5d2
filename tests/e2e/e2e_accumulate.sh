#!/bin/sh
# Steps made of several batches: the same samples, losses and weights as batches as large, on any number of towers and
# in every mode; counts are those of steps; a run that is killed goes on to the bit.
. "$(dirname "$0")/e2e.sh"
make_tiny
make_network
small='--set train.epochs=2 --set train.learning_rate=0.1'

train whole $small --set train.batch=120
for count in 1 2 3; do
    train microbatches-$count $small --set train.batch=24 --set train.accumulate=5 --set devices.towers=$count
    expect_out '^steps +batch 120 \(5 of 24, accumulated\), 5 steps an epoch, 10 in all$'
    expect_alike microbatches-$count whole
    expect_summary microbatches-$count batch 120
    expect_summary microbatches-$count accumulate 5
done
train per_tower $small --set train.batch_per_tower=8 --set train.accumulate=5 --set devices.towers=3
expect_alike per_tower whole

# Batches of an epoch that are too few for a step are a step; shares of towers need not be whole numbers.
train whole-rest $small --set train.batch=70
train rest $small --set train.batch=14 --set train.accumulate=5 --set devices.towers=3
expect_out '^steps +batch 70 \(5 of 14, accumulated\), 9 steps an epoch, 18 in all$'
expect_alike rest whole-rest
train dropped $small --set train.batch=14 --set train.accumulate=5 --set data.last_batch=drop
expect_summary dropped images 1120

# The rate is that of a step's samples.
train rate --set train.steps=1 --set train.batch=16 --set train.accumulate=4 --set train.rate_batch=32
expect_out '^rate +2 \(1 for a batch of 32\)'

for mode in independent averaging; do
    train $mode-whole $small --set sync.mode=$mode --set train.batch=120 --set devices.towers=2 --set sync.every=2
    train $mode $small --set sync.mode=$mode --set train.batch=40 --set train.accumulate=3 --set devices.towers=2 \
        --set sync.every=2
    expect_alike $mode $mode-whole
done
train clipped-whole $small --set train.batch=120 --set train.clip_norm=0.1
train clipped $small --set train.batch=40 --set train.accumulate=3 --set train.clip_norm=0.1
expect_alike clipped clipped-whole
train null $small --set train.batch=40 --set train.accumulate=3 --set devices.kind=null
expect_summary null images 1200

# ---- checkpoints ----

how="$small --set train.batch=10 --set train.accumulate=4 --set train.optimizer=momentum --set checkpoint.every=7"
for towers in 1 2; do
    train saved-$towers $how --set devices.towers=$towers
    train cut-$towers $how --set devices.towers=$towers --set train.steps=17
    train cut-$towers $how --set devices.towers=$towers
    expect_out 'resume +at step 17 of 30'
    expect_same_file "$work/runs/saved-$towers/weights.safetensors" "$work/runs/cut-$towers/weights.safetensors" weights
done
try cut-1 $how --set train.batch=20 --set train.accumulate=2
expect_code 2 'a state of other microbatches'
expect_err 'train.accumulate is 2, there 4'

# ---- the trained network is used in batches ----

run "$pipetrain" evaluate --last -c "$work/runs/saved-2/run.conf"
expect_code 0 'an evaluation'
expect_out 'batches of 5$'
expect_out "^result +150 samples, .*top-1 [0-9.]+ % \\($(summary saved-2 validation.correct)\\)"

try refused --set train.accumulate=0
expect_code 2 'no batch'
try refused --set train.batch=1024 --set train.accumulate=1025
expect_code 2 'too many samples'
expect_err 'accumulate: 1049600 samples of a step'
finish
