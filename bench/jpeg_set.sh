#!/bin/sh
# The same photographs for every side of the comparisons of images: as files in folders of classes, as shards, and
# with the indexes that DALI wants.
#
#     bench/jpeg_set.sh BUILD PHOTOGRAPHS OUT [COPIES]
#
# PHOTOGRAPHS is a folder of JPEG files, whose names up to the first _ are their classes, or of folders of classes with
# such files. COPIES of each (default 10) make epochs of a useful length. OUT becomes OUT/folder, OUT/shards and OUT/index.
set -eu

[ $# -ge 3 ] || { sed -n '2,9s/^# \{0,1\}//p' "$0" >&2; exit 2; }
build=$1
photographs=$2
out=$3
copies=${4:-10}

[ ! -e "$out" ] || { echo "$0: $out is there already" >&2; exit 2; }
mkdir -p "$out/folder" "$out/index"
for path in "$photographs"/*.[jJ]* "$photographs"/*/*.[jJ]*; do
    [ -f "$path" ] || continue
    name=${path##*/}
    class=${path%/*}
    class=${class##*/}
    [ -d "$photographs/$class" ] || class=${name%%_*}
    mkdir -p "$out/folder/$class"
    copy=0
    while [ "$copy" -lt "$copies" ]; do
        cp "$path" "$out/folder/$class/$copy-$name"
        copy=$((copy + 1))
    done
done
"$build/pipetrain-convert" folder "$out/folder" -o "$out/shards"
for shard in "$out/shards"/train-*; do
    "$build/pipetrain-shards" index "$shard" --output="$out/index/${shard##*/}"
done
