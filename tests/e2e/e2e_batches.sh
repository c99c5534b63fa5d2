#!/bin/sh
# Every batch and set size gives a defined result or a clear refusal.
. "$(dirname "$0")/e2e.sh"
make_tiny
make_network

# name, settings, steps, images, validation images
expect_run() {
    name=$1 settings=$2 steps=$3 images=$4 validation=$5
    train "$name" $settings
    expect_summary "$name" steps "$steps"
    expect_summary "$name" images "$images"
    expect_summary "$name" validation.images "$validation"
}

expect_run partial '--set train.batch=64 --set train.epochs=2' 20 1200 150
expect_run drop '--set train.batch=64 --set train.epochs=2 --set data.last_batch=drop' 18 1152 150
expect_run partial_towers '--set train.batch=64 --set devices.towers=3' 10 600 150
expect_run uneven '--set train.batch=599 --set devices.towers=5' 2 600 150
expect_run larger '--set train.batch=1000 --set devices.towers=2' 1 600 150
expect_err '^train.batch: a batch of 1000 is more than the 600 records of an epoch: every step uses all 600 of them'
expect_err_lines 1
expect_out '^steps +batch 1000, 1 step an epoch, 1 in all$'
expect_out '^speed +[0-9,.]+ images/s'
try larger_check --set train.batch_per_tower=500 --set devices.towers=2 --check
expect_err '^train.batch_per_tower: a batch of 1000 is more than the 600 records'
expect_run whole '--set train.batch=600' 1 600 150
expect_err_lines 0
expect_run per_tower '--set train.batch_per_tower=50 --set devices.towers=3' 4 600 150
expect_run small_steps '--set train.batch=7 --set train.steps=11 --set devices.towers=7' 11 77 150
expect_run beyond '--set train.batch=100 --set train.epochs=2 --set train.steps=7' 7 700 150
expect_run none '--set data.validation= --set train.batch=200' 3 600 0

"$shard_maker" "$work/single.tfrecord" 1 28
"$shard_maker" "$work/three.tfrecord" 3 28
expect_run single "--set data.train=$work/single.tfrecord --set data.validation=$work/single.tfrecord --set data.allow_overlap=yes --set train.epochs=3" 3 3 1
expect_run ones "--set data.train=$work/three.tfrecord --set train.batch=1 --set train.epochs=2" 6 6 150
expect_run single_towers "--set data.train=$work/single.tfrecord --set data.validation=$work/three.tfrecord --set devices.towers=3" 1 1 3

# Partial batches and few records are averaged over what they hold.
expect_summary single batch 64
expect_equal "$(grep -c . "$work/runs/single/metrics.jsonl")" 9 'lines of metrics'

# Towers without a sample take part: five of them learn from batches of 3, and evaluate 2 records
# in one batch, as one tower does. The learning rate is that of e2e_towers.sh, for its reasons.
"$shard_maker" "$work/two.tfrecord" 2 28
few="--set train.batch=3 --set train.steps=6 --set train.learning_rate=0.1 --set data.validation=$work/two.tfrecord"
for count in 1 5; do
    expect_run idle-$count "$few --set devices.towers=$count" 6 18 2
done
expect_near idle-5 loss "$(summary idle-1 loss)" 1e-5
expect_near idle-5 validation.loss "$(summary idle-1 validation.loss)" 1e-5
expect_summary idle-5 sample_order_hash "$(summary idle-1 sample_order_hash)"
expect_run idle-alone "$few --set devices.towers=5 --set sync.mode=independent" 6 18 2
if [ $kind = cpu ]; then
    expect_run idle-reference "$few --set devices.towers=5 --set devices.backend=reference" 6 18 2
    expect_near idle-reference loss "$(summary idle-1 loss)" 1e-5
fi
expect_run idle-null "$few --set devices.towers=5 --set devices.kind=null" 6 18 2

try refused --set train.batch=1000 --set data.last_batch=drop
expect_code 2 'nothing left of the only batch'
expect_err 'larger than the training set of 600 records'
try refused --set train.batch=64 --set train.batch_per_tower=64
expect_code 2 'two batch sizes'
[ ! -e "$work/runs/refused" ] || fail 'a refused run leaves a directory'

# Synthetic input and the null device know the same arithmetic.
expect_run synthetic '--set input.source=synthetic --set data.train= --set data.validation= --set train.steps=3' 3 192 0
expect_run null_device '--set devices.kind=null --set train.epochs=3 --set devices.towers=2' 30 1800 150
[ ! -e "$work/runs/null_device/weights.safetensors" ] || fail 'the null device has no weights to save'
finish
