#!/bin/sh
# Training images mixed in pairs: the same on any number of towers, in microbatches and after a kill; nothing else of a
# run changes.
. "$(dirname "$0")/e2e.sh"
make_tiny
make_network
small='--set train.epochs=2 --set train.learning_rate=0.1 --set augment.mixup=0.4 --set augment.cutmix=1'

# Batches of 70 on three towers are local batches of 24, 24 and 22; on one tower in microbatches of five.
train one $small --set train.batch=70
expect_out_joined 'images +train +unchanged.*, mixed by mixup 0\.4 or CutMix 1'
for towers in 2 3; do
    train towers-$towers $small --set train.batch=70 --set devices.towers=$towers
    expect_alike towers-$towers one epoch_rows.1.accuracy
done
train microbatches $small --set train.batch=5 --set train.accumulate=14
expect_alike microbatches one epoch_rows.1.accuracy

# What is mixed with probability 0 is what is not mixed; mixed samples are learnt less by heart.
train plain --set train.epochs=2 --set train.learning_rate=0.1 --set train.batch=70
train never $small --set train.batch=70 --set augment.mixed=0
for key in loss validation.loss epoch_rows.1.accuracy; do
    expect_summary never $key "$(summary plain $key)"
done
[ "$(summary one loss)" != "$(summary plain loss)" ] || fail 'nothing was mixed'
awk "BEGIN { exit !($(summary one loss) > $(summary plain loss)) }" || fail 'mixed samples are learnt faster'
expect_summary one sample_order_hash "$(summary plain sample_order_hash)"

# One of both, and a share of the images.
train mixup --set train.steps=3 --set augment.mixup=0.2
expect_out_joined ', mixed by mixup 0\.2 v'
train cutmix --set train.steps=3 --set augment.cutmix=1 --set augment.mixed=0.5
expect_out_joined ', 50 % of images mixed by CutMix 1 v'
train null $small --set devices.kind=null
expect_summary null images 1200

# ---- checkpoints ----

how="$small --set train.batch=30 --set train.optimizer=momentum --set checkpoint.every=7"
for towers in 1 2; do
    train saved-$towers $how --set devices.towers=$towers
    train cut-$towers $how --set devices.towers=$towers --set train.steps=17
    train cut-$towers $how --set devices.towers=$towers
    expect_out 'resume +at step 17 of 40'
    expect_same_file "$work/runs/saved-$towers/weights.safetensors" "$work/runs/cut-$towers/weights.safetensors" weights
done
try cut-1 $how --set augment.mixup=0.3
expect_code 2 'a state of other shares'
expect_err 'augment.mixup is 0.3, there 0.4'

# ---- the trained network is used as others are ----

run "$pipetrain" evaluate --last -c "$work/runs/one/run.conf"
expect_code 0 'an evaluation'
expect_out "^result +150 samples, .*top-1 [0-9.]+ % \\($(summary one validation.correct)\\)"

try refused --set augment.mixup=-1
expect_code 2 'a negative number'
try refused --set augment.mixed=2
expect_code 2 'more than all'
finish
