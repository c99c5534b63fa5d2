#!/bin/sh
# A feed hands out the samples of a training run with the same settings: the program's own sum of hashes over epochs,
# positions and records is that of 1, 2 and 3 ranks that are fed. And the example of doc/feed-library.md runs.
. "$(dirname "$0")/../e2e/e2e.sh"
make_tiny

# same NAME WORLDS SETTING...
same() {
    name=$1 worlds=$2
    shift 2
    text='' sets=''
    for setting; do
        text="$text$setting
" sets="$sets --set $setting"
    done
    train "$name" --set devices.kind=null --set train.epochs=2 --set run.seed=7 $sets
    for world in $worlds; do
        expect_equal "$("$build/tests/feed/order_hash" "$work/data/train-*" 64 2 7 "$world" "$text")" \
            "$(summary "$name" sample_order_hash)" "order of $name with $world ranks"
    done
}
blocks='data.shuffle=block input.read_block=8KiB data.shuffle_window=64KiB'
same full '1 2 3'
same mixed '2 3' augment.mixup=0.2 augment.cutmix=1
same lanes '1 2' $blocks data.lanes=2 input.keep_shards=0
same balanced 3 data.balance=yes data.last_batch=drop
same limited 2 data.limit=77 data.shuffle=none

# ---- the example ----

cd "$work" || exit 99
run "$build/examples/feed" data
expect_code 0 'the example'
expect_equal "$(grep -o '^epoch [0-2]: [0-9]* images' out | tr '\n' ';')" \
    'epoch 0: 600 images;epoch 1: 1200 images;epoch 2: 1800 images;' 'output of the example'
expect_equal "$(tail -n 1 out | grep -c 'takes waited')" 0 'words of a verdict after 15 batches'
# What the page shows is in the example.
awk '/^```c/ {inside = 1; next} /^```/ {inside = 0} inside' "$(dirname "$above")/doc/feed-library.md" >shown
[ -s shown ] || fail 'no example in doc/feed-library.md'
grep -vxF -f "$(dirname "$above")/examples/feed.c" shown && fail 'these lines of doc/feed-library.md are not in examples/feed.c'
finish
