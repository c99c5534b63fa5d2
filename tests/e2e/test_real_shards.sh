#!/bin/sh
# Shards that other programs wrote, as they are found on the net: each is read with the keys that a user would name, or
# refused with words that tell why. PIPETRAIN_REAL_DATA names a folder with them in tfrecord/; doc/conformance.md says
# where they come from, and none is part of this project.
. "$(dirname "$0")/e2e.sh"

data=${PIPETRAIN_REAL_DATA:-}
[ -n "$data" ] || skip 'PIPETRAIN_REAL_DATA names no folder of real files'
shards=$build/pipetrain-shards
: >"$work/empty.conf"

# settings SHARD KEY=VALUE... - what to set of the section data for this shard, in $words
settings() {
    words="--set data.train=$data/tfrecord/$1 --set data.index_cache=no"
    shift
    for setting; do
        words="$words --set data.$setting"
    done
}

# holds SHARD RECORDS - all checksums are right, and what looks like an image can be decoded
holds() {
    run "$shards" check "$data/tfrecord/$1"
    expect_code 0 "$1 is whole"
    expect_out "1 shard, $2 records, .*: all right"
}

# shows SHARD WORDS - how pipetrain-shards head shows a feature of the first record
shows() {
    run "$shards" head "$data/tfrecord/$1" -n 1
    expect_code 0 "the first record of $1"
    expect_out "$2"
}

# reads SHARD RECORDS WORDS [KEY=VALUE...] - what --check says, and an epoch in which every record becomes a sample
reads() {
    shard=$1 records=$2 said=$3
    shift 3
    settings "$shard" "$@"
    run "$pipetrain" -c "$work/empty.conf" $words --check
    expect_code 0 "$shard can be trained on"
    expect_out_joined "$said"
    expect_narrow "a check of $shard"
    rm -rf "$work/runs/real"
    run "$pipetrain" -c "$work/empty.conf" $words --set "run.dir=$work/runs/real" --set devices.kind=null \
        --set train.epochs=1 --set train.batch=4 --set report.progress=none
    expect_code 0 "an epoch of $shard"
    expect_summary real images "$records"
    expect_summary real corrupt_records 0
}

# refuses SHARD WORDS [KEY=VALUE...]
refuses() {
    shard=$1 said=$2
    shift 2
    settings "$shard" "$@"
    run "$pipetrain" -c "$work/empty.conf" $words --check
    expect_code 3 "$shard cannot be trained on"
    expect_err "$shard: record 0 at byte 0: $said|train: $said"
}

# Written by TensorFlow: floats of -0.5 to 0.5 under names of their own.
holds tfx-mnist.tfrecord 1000
refuses tfx-mnist.tfrecord 'has no feature known as image, .*it has: image_class \(1 integer\) image_floats \(784 floats\)'
refuses tfx-mnist.tfrecord "has no feature known as label" image_key=image_floats
reads tfx-mnist.tfrecord 1000 "image 'image_floats': floats \(H, W, C\) of -0.5..0.5; label 'image_class': integers" \
    image_key=image_floats label_key=image_class
refuses tfx-mnist.tfrecord "feature 'image_floats' holds -0.5: of its floats 683 are not in 0..1" \
    image_key=image_floats label_key=image_class image_range=0..1

# Tables, not images, in gzip; of some features the kind is not set, which is to lack them.
for table in 'tfx-taxi-data_tfrecord-00000-of-00002.gz 9988' 'tfx-taxi-data_tfrecord-00001-of-00002.gz 5012'; do
    set -- $table
    holds "$1" "$2"
    shows "$1" 'pickup_census_tract +nothing +0'
    refuses "$1" 'has no feature known as image, name one with image_key; it has: company \(bytes\)'
    refuses "$1" "has no feature 'pickup_census_tract' for the label" image_key=company label_key=pickup_census_tract
    refuses "$1" "feature 'company' holds a text" image_key=company label_key=pickup_community_area
done
holds tfx-penguin-train-00000-of-00001.gz 234
refuses tfx-penguin-train-00000-of-00001.gz 'has no feature known as image, .*flipper_length_mm \(1 float\)'
refuses tfx-penguin-train-00000-of-00001.gz 'has 1 floats, the network wants 784 \(28x28x1\)' \
    image_key=body_mass_g label_key=species

# Lists of ten numbers and a text.
holds torchdata-example.tfrecord 4
shows torchdata-example.tfrecord 'x_int +int64 +10  0 10 20 30'
refuses torchdata-example.tfrecord 'has no feature known as image, .*x_int \(10 integers\) x_float \(10 floats\)'
refuses torchdata-example.tfrecord "feature 'x_int' holds 10 integers, as many as classes, but not one 1 and zeros" \
    image_key=x_float label_key=x_int

# Objects in photographs: a record has as many labels as objects.
holds user-objdet-jpeg-eval.tfrecords 4
shows user-objdet-jpeg-eval.tfrecords 'image/encoded +bytes +1  JPEG 320x240x3'
refuses user-objdet-jpeg-eval.tfrecords 'has no feature known as label, .*image/object/class/label \(3 integers\)'
refuses user-objdet-jpeg-eval.tfrecords \
    "feature 'image/object/class/label' holds 3 integers, one integer label is needed" label_key=image/object/class/label

# Where the images are instead of the images.
holds user-path-label.tfrecords 946
refuses user-path-label.tfrecords 'has no feature known as image, .*it has: x \(bytes\) y \(1 integer\)'
refuses user-path-label.tfrecords "feature 'x' holds a text, perhaps the path of a file: .*pipetrain-convert csv" \
    image_key=x label_key=y

# Raw pixels of a size that the record says: scaled to the network's.
holds user-raw-227px.tfrecords 17
refuses user-raw-227px.tfrecords 'labels are 0 to 16 as stored, which span more than the 10 classes of the network'
reads user-raw-227px.tfrecords 17 "image 'image': raw bytes \(H, W, C\), layout as neighbouring pixels show; label 'label': integers" classes=17

# Raw pixels of two sizes, none of which the records say.
holds user-raw-28px.tfrecords 20
refuses user-raw-28px.tfrecords 'has 2352 bytes of pixels, the network wants 784 \(28x28x1\)'
finish
