#!/bin/sh
# data.lanes: the order of a run depends on the number of lanes, and on nothing else: 1, 2, 4 and 8 towers leave the same
# weights, with shards in memory or not, compressed, damaged or used in part; a run is resumed at any step with another
# number of towers; and what cannot be is refused. The same with several processes: tests/cluster/equal.sh.
. "$(dirname "$0")/e2e.sh"
make_tiny
cat >"$work/lanes.net" <<'END'
model lanes
image 28x28x1
classes 10
conv2d conv1 filters 4 kernel 5 stride 3
relu relu1
dropout dropout1 rate 0.25
dense fc1 units classes
softmax_loss loss
END
cat >>"$work/tiny.conf" <<END
[model]
file = $work/lanes.net
[augment]
flip = yes
[checkpoint]
every = 5
keep = 100
END
# 600 records: 13 batches of 44 and one of 28. A block is 9 records, a window 8 blocks with one lane, 2 with 4 lanes.
blocks='--set data.shuffle=block --set input.read_block=8KiB --set data.shuffle_window=64KiB --set train.batch=44'
length='--set train.epochs=4 --set train.steps=32'
slices='--set train.slices=8 --set devices.threads_per_tower=1'

# lanes NAME TOWERS OPTION...
lanes() {
    name=$1 towers=$2
    shift 2
    train "$name" $blocks $length $slices --set devices.towers="$towers" "$@"
}

# expect_same_run ONE OTHER
expect_same_run() {
    expect_same_file "$work/runs/$1/weights.safetensors" "$work/runs/$2/weights.safetensors" "weights of $2"
    expect_equal "$(numbers_of "$2")" "$(numbers_of "$1")" "metrics of $2"
    expect_summary "$2" sample_order_hash "$(summary "$1" sample_order_hash)"
}

expect_other_order() {
    [ "$(summary "$1" sample_order_hash)" != "$(summary "$2" sample_order_hash)" ] || fail "$2 has the order of $1"
}

lanes one 1 --set data.lanes=4
for towers in 2 4 8; do
    lanes "towers-$towers" $towers --set data.lanes=4 --set input.keep_shards=0 --set input.decode_threads=3
    expect_same_run one "towers-$towers"
done
lanes three 1 --set data.lanes=3 --set input.keep_shards=0 --set input.chunk=5
lanes three-4 4 --set data.lanes=3
expect_same_run three three-4
expect_other_order one three

# One lane is the order of a run without lanes.
lanes plain 1
lanes plain-1 2 --set data.lanes=1
expect_same_run plain plain-1
expect_other_order plain one

# Samples that are mixed in pairs, and part of the set; the last batch has 3 samples for 4 lanes.
lanes mixed 1 --set data.lanes=4 --set augment.mixup=0.2 --set data.limit=267
lanes mixed-4 4 --set data.lanes=4 --set augment.mixup=0.2 --set data.limit=267 --set input.keep_shards=0
expect_same_run mixed mixed-4

# Compressed shards have the same records; a damaged one has another in its place, which does not depend on the towers.
mkdir "$work/packed" "$work/damaged"
for shard in "$work"/data/train-*; do
    gzip -c "$shard" >"$work/packed/${shard##*/}.gz"
done
lanes packed 2 --set data.lanes=4 --set input.keep_shards=0 --set "data.train=$work/packed/*.gz"
expect_same_file "$work/runs/one/weights.safetensors" "$work/runs/packed/weights.safetensors" 'compressed shards'
cp "$work"/data/train-* "$work/damaged"
for shard in "$work"/damaged/train-*; do
    printf X | dd of="$shard" bs=1 seek=5000 conv=notrunc 2>/dev/null
done
for towers in 1 4; do
    lanes "damaged-$towers" $towers --set data.lanes=4 --set input.keep_shards=0 --set data.on_corrupt=skip \
        --set data.max_corrupt=9 --set "data.train=$work/damaged/train-*"
done
expect_same_run damaged-1 damaged-4
[ -s "$work/runs/damaged-4/quarantine.jsonl" ] || fail 'no record was damaged'

# resumed STEP FROM TO: the run with FROM goes on with TO towers.
resumed() {
    rm -rf "$work/runs/resumed"
    mkdir "$work/runs/resumed"
    cp "$work/runs/$2/checkpoint-000000$1.safetensors" "$work/runs/$2/run.conf" "$work/runs/$2/metrics.jsonl" \
        "$work/runs/resumed"
    lanes resumed "$3" --set data.lanes=4 --set input.keep_shards=$((16777216 * ($3 % 2)))
    grep -q "step $((${1#0}))" "$work/out" "$work/err" || fail "step $1 of $2 is not resumed"
    expect_err 'with train.slices the weights do not depend on the number of towers'
    expect_same_file "$work/runs/one/weights.safetensors" "$work/runs/resumed/weights.safetensors" \
        "step $1 of $2, resumed with $3 towers"
}
resumed 05 towers-4 2
resumed 15 towers-2 1
resumed 25 one 8
run "$pipetrain" -c "$work/tiny.conf" --set "run.dir=$work/runs/resumed" $blocks $length $slices --set data.lanes=2 \
    --set train.epochs=5 --set train.steps=40
expect_code 2 'a checkpoint of another number of lanes'
expect_err 'data.lanes is 2, there 4'

# Without slices the towers decide the bits.
train towers $blocks --set train.steps=5
train towers $blocks --set train.steps=8 --set devices.towers=2
expect_err 'with another number of towers, .* the weights will differ .* \(only with train.slices they do not\)'

# ---- what is printed, and refused ----

try check $blocks --set data.lanes=4 --check
expect_code 0 '--check with lanes'
expect_out_joined 'order 67 blocks of 9 records in 4 lanes, windows of 2; mixing (0\.[89]|1\.0)[0-9]'

# refused WORDS OPTION...
refused() {
    words=$1
    shift
    try refused "$@"
    expect_code 2 "$words"
    expect_err "$words"
}
refused 'data\.lanes: lanes are parts of an order of blocks: set data\.shuffle = block' --set data.lanes=4
refused 'data\.lanes: lanes are parts of' --set data.lanes=4 --set data.shuffle=none
refused 'data\.lanes: a balanced order .* has no lanes' --set data.lanes=4 --set data.balance=yes --set data.shuffle=block
refused 'lanes: 601 lanes are more than the 600 records .*--set data.lanes=600' --set data.lanes=601 --set data.shuffle=block
refused '--set data.lanes: 0 is out of range' --set data.lanes=0 --set data.shuffle=block
refused '--set data.lanes: 65537 is out of range' --set data.lanes=65537 --set data.shuffle=block
finish
