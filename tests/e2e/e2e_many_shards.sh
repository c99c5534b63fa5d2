#!/bin/sh
# A set of 10,000 shards, of every ten three plain, three gzip and four LZ4, where 64 files may be open: a run and
# pipetrain-shards read every record of it.
. "$(dirname "$0")/e2e.sh"
shards=$build/pipetrain-shards
[ -x "$shards" ] || { echo "not built: $shards"; exit 99; }
make_tiny

"$shard_maker" "$work/train.tfrecord" 2 28
mkdir "$work/1"
for how in none gzip lz4; do
    run "$convert" tfrecord "$work/train.tfrecord" --compress=$how --shards=1 -o "$work/$how"
    expect_code 0 "a shard compressed with $how"
    for i in 1 2 3; do
        ln -s "../$how/train-00000-of-00001" "$work/1/train-$how-$i"
    done
done
ln -s ../lz4/train-00000-of-00001 "$work/1/train-lz4-4"

# Ten times as many with each level of links: other names of the same files, which a glob does not take for one.
levels='2 3 4' count=10000 glob="$work/4/*/*/*/train-*"
[ "$sanitizer" = no ] || levels='2 3' count=1000 glob="$work/3/*/*/train-*"
for level in $levels; do
    mkdir "$work/$level"
    for i in 0 1 2 3 4 5 6 7 8 9; do
        ln -s "../$((level - 1))" "$work/$level/$i"
    done
done

ulimit -n 64
train many --set "data.train=$glob" --set data.validation= --set data.index_cache=no --set devices.kind=null \
    --set input.keep_shards=0
expect_summary many images $((2 * count))
run "$shards" check "$glob"
expect_code 0 'checking many shards'
expect_out "^$count shards, $((2 * count)) records, .*: all right$"
finish
