#!/bin/sh
# A run by a catalog is the run without one, with plain and compressed shards, and ends where a shard is not the one that
# the catalog describes; pipetrain-shards catalog replaces nothing unless it is told to.
. "$(dirname "$0")/e2e.sh"
shards=$build/pipetrain-shards
[ -x "$shards" ] || { echo "not built: $shards"; exit 99; }
make_tiny
set=$work/set
mkdir "$set"
for i in 0 1 2 3; do
    "$shard_maker" "$set/train-0000$i-of-00008" $((30 + i)) 28
done
run "$convert" tfrecord "$set/train-*" --compress=lz4 --shards=4 -o "$work/packed"
expect_code 0 'compressed shards'
for i in 0 1 2 3; do
    cp "$work/packed/train-0000$i-of-00004" "$set/train-0000$((4 + i))-of-00008"
done

catalog() {
    expect_end "$1" "$2" run "$shards" catalog "$3" "$set"
}
of_set="--set data.train=$set --set data.validation= --set data.label_offset=0 --set train.epochs=2"

train without $of_set
catalog 0 'a catalog' --force
expect_out "^$set/catalog.pipetrain: 8 shards, 252 records, "
train with $of_set
run "$pipetrain" -c "$work/tiny.conf" $of_set --check
expect_code 0 '--check of a set with a catalog'
expect_out_joined 'indexes of 8 shards from .*/set/catalog.pipetrain: a shard is opened when it is first read, 4 compressed ones now'
expect_same_file "$work/runs/without/weights.safetensors" "$work/runs/with/weights.safetensors" 'weights with a catalog'
catalog 0 'a catalog of the present set' --check

# The folder cannot be written: the catalog is in the cache folder. (Root writes everywhere.)
if [ "$(id -u)" -ne 0 ]; then
    mkdir "$work/fixed"
    cp "$set"/train-* "$work/fixed"
    chmod a-w "$work/fixed"
    run "$shards" catalog "$work/fixed"
    expect_code 0 'a catalog of a folder that cannot be written'
    expect_out "^$work/cache/pipetrain/[0-9a-f]*.pipetrain-catalog: 8 shards"
    train fixed $of_set --set "data.train=$work/fixed"
    chmod u+w "$work/fixed"
    run "$shards" catalog "$work/fixed"
    chmod a-w "$work/fixed"
    expect_code 0 'a catalog of a folder that can be written'
    rm "$work/cache/pipetrain"/*.pipetrain-catalog
    run "$shards" catalog --check "$work/fixed"
    expect_code 0 'the catalog of a folder that cannot be written'
    expect_out "^$work/fixed/catalog.pipetrain: 8 shards, .*, all right"
    chmod u+w "$work/fixed"
fi

# Another shard of the same size: the CRCs of its records are others, their lengths are not.
cp "$set/train-00002-of-00008" "$work/kept"
"$shard_maker" "$work/other" 33 28
bytes=$(($(wc -c <"$work/kept") / 32))
tail -c "+$((bytes + 1))" "$work/other" >"$set/train-00002-of-00008"
for how in on_corrupt=fail on_corrupt=skip shuffle=block; do
    try other $of_set --set "data.$how"
    expect_code 3 "another file of the same size, $how"
    expect_err 'train-00002-of-00008.* is another file than the one that .*/set/catalog.pipetrain describes, which is older than the file: restore it, or .* remove the catalog'
done
catalog 3 'a catalog of another set' --check
cp "$set/catalog.pipetrain" "$work/before"
run "$shards" catalog "$set"
expect_code 5 'a catalog that is not to be replaced'
expect_same_file "$set/catalog.pipetrain" "$work/before" 'a catalog that is not replaced'

# Another size is refused at the start, with both numbers; so is a shard that is not listed.
cp "$work/other" "$set/train-00002-of-00008"
try longer $of_set
expect_code 3 'a shard of another size'
expect_err "train-00002-of-00008: is $(wc -c <"$work/other") bytes long, .*/set/catalog.pipetrain says $(wc -c <"$work/kept")"
cp "$work/kept" "$set/train-00002-of-00008"
cp "$work/kept" "$set/train-more.tfrecord"
try more --set "data.train=$set/train-*" --set data.validation=
expect_code 3 'a shard that is not listed'
expect_err 'is one of 9 shards of this set, but none of the 8 that .*/set/catalog.pipetrain lists'
rm "$set/train-more.tfrecord"

# A glob for all files takes the shards and not the catalog; a file that no catalog takes for a shard is opened without it.
cp "$work/other" "$set/train-more"
train all --set "data.train=$set/*" --set data.validation= --set data.label_offset=0 --set train.epochs=1
catalog 0 'a catalog beside a file of another name' --check
run "$shards" check "$set/*"
expect_code 0 'a glob for all files beside a catalog'
expect_out '^9 shards, 285 records, .*: all right'
rm "$set/train-more"
mv "$set/train-00007-of-00008" "$work"
try missing $of_set
expect_code 0 'a shard that is missing'
expect_err 'catalog.pipetrain lists 8 shards, 1 of them is missing, such as train-00007-of-00008'
mv "$work/train-00007-of-00008" "$set"

# A byte of a gzip shard is damaged after the catalog was written: by the catalog all records have a place in the order;
# without it those that are lost have none. A run is not resumed as the other.
mkdir "$work/gzip"
for shard in "$work"/data/train-*; do
    gzip -c "$shard" >"$work/gzip/${shard##*/}"
done
run "$shards" catalog "$work/gzip"
expect_code 0 'a catalog of gzip shards'
bytes=$(($(wc -c <"$work/gzip/${shard##*/}") / 3))
printf XXXX | dd of="$work/gzip/${shard##*/}" bs=1 seek=$bytes conv=notrunc 2>/dev/null
skips="--set data.train=$work/gzip --set data.on_corrupt=skip --set data.max_corrupt=200 --set train.epochs=3"
train listed $skips --set train.steps=5
expect_out_joined '600 records in 4 shards .* 4 compressed ones now; damaged records keep their places in the order'
rm "$work/gzip/catalog.pipetrain"
try listed $skips --set train.steps=7
! grep -q '600 records' "$work/out" || fail 'records that are lost are counted'
expect_out_joined '[1-5][0-9][0-9] records in 4 shards'
! grep -q 'resume  *at step 5' "$work/out" || fail 'a run by a catalog is resumed without it'

# Without data.index_cache neither index files nor the catalog are read.
truncate -s 100 "$set/catalog.pipetrain"
try cut $of_set
expect_code 3 'a catalog that is cut'
expect_err 'catalog.pipetrain: is 100 bytes long, its counts say [0-9]+: make the catalog again'
try uncached $of_set --set data.index_cache=no
expect_code 0 'without stored indexes'
catalog 0 'a catalog that is replaced' --force
train again $of_set
finish
