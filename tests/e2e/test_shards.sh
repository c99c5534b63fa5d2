#!/bin/sh
# pipetrain-shards from end to end: what it finds in whole and damaged shards, what it writes and what it
# refuses, with which exit code.
. "$(dirname "$0")/e2e.sh"
shards=$build/pipetrain-shards
[ -x "$shards" ] || { echo "not built: $shards"; exit 99; }

# shards CODE WHAT WORD... - run pipetrain-shards, which ends with this code
shards() {
    shards_code=$1 shards_what=$2
    shift 2
    expect_end "$shards_code" "$shards_what" run "$shards" "$@"
}

# Three shards of 10, 10 and 5 records with images of 4x4 and labels 0 to 9, and where their records lie.
make_shards() {
    rm -rf "$work/set"
    mkdir "$work/set"
    "$shard_maker" "$work/set/train-00000-of-00002" 10 4
    "$shard_maker" "$work/set/train-00001-of-00002" 10 4
    "$shard_maker" "$work/set/validation-00000-of-00001" 5 4
    first=$work/set/train-00000-of-00002
    shards 0 'an index' index --force "$first" -o "$work/index"
    record_bytes=$(sed -n '1s/.* //p' "$work/index")
}

make_shards
shards 0 'listing a directory' list "$work/set"
expect_out '^ +10 +[0-9]+  plain +.*/train-00001-of-00002$'
expect_out '^ +25 +[0-9]+  in 3 shards$'
run "$shards" list "$work/set/train-*" "$first"
expect_out '^ +20 +[0-9]+  in 2 shards$'
run "$shards" list --json "$work/set"
cp "$work/out" "$work/list.json"
expect_equal "$("$json_value" "$work/list.json" records)" 25 'records in JSON'

shards 0 'checking whole shards' check "$work/set"
expect_out "^3 shards, 25 records, [0-9]+ bytes: all right$"

# Compressed shards are as others, but that their records lie at no bytes of the file.
gzip -c "$first" >"$work/packed.gz"
shards 0 'checking a compressed shard' check "$work/packed.gz"
expect_out '^1 shard, 10 records, '
run "$shards" list "$work/packed.gz"
expect_out '^ +10 +[0-9]+  gzip  '
shards 3 'an index of a compressed shard' index "$work/packed.gz"
expect_err 'is compressed'
shards 0 'extracting from a compressed shard' extract "$work/packed.gz" 9 -o "$work/9.pgm"
truncate -s -30 "$work/packed.gz"
shards 3 'checking a compressed shard that was cut' check "$work/packed.gz"
expect_out 'packed.gz: record [0-9]+ at byte [0-9]+: the gzip data are damaged near compressed byte'
gzip -c "$first" >"$work/longer.gz"
packed_bytes=$(wc -c <"$work/longer.gz")
printf abc >>"$work/longer.gz"
shards 3 'checking a compressed shard with more behind it' check "$work/longer.gz"
expect_out "longer.gz: record 10 at byte $((10 * record_bytes)): the gzip data end at compressed byte $packed_bytes, and 3 bytes after them are not gzip: cut them off, or get the file again if records are missing$"

# Damaged compressed data give wrong bytes before the damage is detected; both are reported.
for at in 3 5 7 9; do
    gzip -c "$first" >"$work/flipped.gz"
    flip "$work/flipped.gz" $((packed_bytes * at / 10))
    shards 3 'checking a compressed shard with a flipped bit' check "$work/flipped.gz"
    expect_out 'flipped.gz: record [0-9]+ at byte [0-9]+: the gzip data are damaged near compressed byte [0-9]+'
    shards 3 'statistics of a compressed shard with a flipped bit' stats "$work/flipped.gz"
    expect_err 'flipped.gz: record [0-9]+ at byte [0-9]+: the gzip data are damaged near compressed byte [0-9]+'
done

# A payload, a length, the end: each is one line, and the check continues after it.
flip "$first" $((4 * record_bytes + 30))
flip "$work/set/train-00001-of-00002" $((2 * record_bytes + 1))
truncate -s -7 "$work/set/validation-00000-of-00001"
for jobs in 1 3; do
    shards 3 'checking damaged shards' check --jobs=$jobs "$work/set"
    expect_out "00000-of-00002: record 4 at byte $((4 * record_bytes)): payload checksum differs \(stored [0-9a-f]{8}, computed [0-9a-f]{8}\); a second read agrees: it is not memory$"
    expect_out "00001-of-00002: record 2 at byte $((2 * record_bytes)): length checksum differs .*: no record was found in $record_bytes bytes$"
    expect_out "record 4 at byte $((4 * record_bytes)): record is cut short \(needs $record_bytes bytes, $((record_bytes - 7)) are left\)"
    expect_out '^3 shards, 23 records, [0-9]+ bytes: 3 damages in 3 shards$'
    expect_equal "$(wc -l <"$work/out")" 4 'lines'
done
shards 3 'checking damaged shards' check --json "$work/set"
cp "$work/out" "$work/check.json"
expect_equal "$("$json_value" "$work/check.json" damages)" 3 'damages in JSON'
shards 3 'listing damaged shards' list "$work/set"
expect_out '00001-of-00002: 1 damage$'
shards 3 'an index of a damaged shard' index "$work/set/train-00001-of-00002"
shards 3 'statistics of damaged shards' stats "$work/set"
expect_out '^22 records in 3 shards$'
shards 3 'the head of a damaged shard' head -n 6 "$first"
expect_err 'record 4 at byte .*payload checksum differs'
expect_out '^record 5 at byte'
shards 3 'extracting a damaged record' extract "$first" 4 -o "$work/damaged.pgm"
[ ! -e "$work/damaged.pgm" ] || fail 'a damaged image was written'

# One of several shards is as good as all.
run "$shards" list "$work/set/train-00000-of-00002"
expect_err_lines 0

# Files that are no shards, and none at all.
echo 'a text that is no shard at all' >"$work/text"
: >"$work/empty"
shards 3 'checking what is no shard' check "$work/text" "$work/empty"
expect_out 'text: record 0 at byte 0: .*: not a TFRecord shard: '
expect_out 'empty: is empty: 0 bytes'
for command in list check head stats index; do
    shards 3 "$command of a shard that is not there" $command "$work/absent"
    expect_err 'pipetrain-shards: .*absent.*No such file'
done
shards 3 'checking what matches nothing' check "$work/absent-*"

# Pixels of a size that no feature says cannot be decoded, but are no damage.
"$shard_maker" "$work/bare" 10 12 bare
shards 0 'decoding pixels without a size' check --decode "$work/bare"
expect_out '^10 images were not decoded: no feature of the record says height and width; the number of bytes is that of the shard.s first image$'
run "$shards" check --decode --json "$work/bare"
expect_out '"undecoded": 10'
"$shard_maker" "$work/smaller" 1 11 bare
cat "$work/smaller" >>"$work/bare"
shards 3 'decoding pixels of two sizes' check --decode "$work/bare"
expect_out 'record 10 at byte [0-9]+: its image has 121 bytes, the first one of the shard 144, and no feature says its size$'
expect_out ': 1 damage in 1 shard$'

# A shard that is whole to itself, but holds less than its manifest says.
run "$convert" digits --train 40 --validation 10 --shards 2 -o "$work/digits"
shards 0 'checking what was converted' check "$work/digits"
cp "$work/digits/train-00001-of-00002" "$work/digits/train.tfrecord.bak"
shards 0 'checking a set with a shard that it does not list' check "$work/digits"
expect_err 'train.tfrecord.bak is not among the [0-9]* shards that dataset.json lists'
mv "$work/digits/train.tfrecord.bak" "$work/digits/train-00000-of-00099"
shards 3 'checking shards of two conversions' check "$work/digits"
expect_err 'is of another conversion than train-00000-of-00099 beside it'
rm "$work/digits/train-00000-of-00099"
run "$shards" index "$work/digits/train-00000-of-00002" -o "$work/digits.idx"
truncate -s "$(sed -n '15s/ .*//p' "$work/digits.idx")" "$work/digits/train-00000-of-00002"
shards 3 'checking a shard that lost whole records' check "$work/digits"
expect_out 'holds 14 records, dataset.json says 20'

# Shards that are whole to themselves, and not those of the set.
run "$convert" digits --force --train 40 --validation 10 --shards 2 -o "$work/digits"
for jobs in 1 3; do
    shards 0 'comparing hashes' check --hashes --jobs=$jobs "$work/digits"
done
mv "$work/digits/train-00000-of-00002" "$work/other"
shards 3 'checking a set that lacks a shard' check "$work/digits"
expect_out 'digits/train-00000-of-00002: is missing: dataset.json says 20 records$'
expect_out '^3 shards, 30 records, [0-9]+ bytes: 1 damage in 1 shard$'
shards 3 'checking a set that lacks a shard' check --json "$work/digits/"
expect_out '"problem": "is missing: dataset.json says 20 records"'
shards 0 'a glob means what is there' check "$work/digits/train-*"
cp "$work/digits/train-00001-of-00002" "$work/digits/train-00000-of-00002"
shards 0 'checking a set with a shard in the place of another' check "$work/digits"
shards 3 'comparing the hashes of such a set' check --hashes "$work/digits"
expect_out 'train-00000-of-00002: has other records: their xxh3 is [0-9a-f]{16}, but dataset.json says [0-9a-f]{16}$'

make_shards
shards 0 'indexes of a directory' index --force "$work/set"
expect_equal "$(ls "$work/set" | grep -c 'idx$')" 3 'indexes'
shards 0 'comparing the indexes of a directory' index --check "$work/set"
shards 2 'one index of a directory' index "$work/set" -o "$work/one"
rm "$work/set"/*.idx
shards 0 'the head of a directory' head -n 1 "$work/set"
expect_out 'train-00000-of-00002, the first of 3 shards:$'
expect_out '^record 0 at byte 0'
shards 3 'statistics of what is no shard' stats "$work/text"
grep -q 'images' "$work/out" && fail 'a heading with nothing under it'
run "$shards" stats "$work/set" --label-key=nothing
expect_out '^labels: no record has an integer as its label; --label-key names the feature'
shards 0 'the head of a shard' head -n 2 "$first"
expect_out "^record 1 at byte $record_bytes: [0-9]+ bytes of payload$"
expect_out '^    label +int64 +1  1$'
expect_out '^    image_raw +bytes +1  16 bytes: 00 3e 7c ba f8 3b 79 b7 \.\.\.$'
expect_equal "$(grep -c ^record "$work/out")" 2 'records shown'

shards 0 'statistics' stats "$work/set" --classes=10
expect_out '^25 records in 3 shards$'
expect_out '^ +25  raw pixels 4x4x1$'
expect_out '^labels: 10 different ones, 0 to 9$'
expect_out '^ +3  4$'
expect_out '^ +2  5$'
expect_out '^for 10 classes: label_offset = 0$'
"$shard_maker" "$work/from1" 10 4 0 10
run "$shards" stats "$work/from1" --classes=10
expect_out '^for 10 classes: label_offset = -1$'
run "$shards" stats --json "$work/set"
cp "$work/out" "$work/stats.json"
expect_equal "$("$json_value" "$work/stats.json" labels.9)" 2 'labels in JSON'

echo '{"splits": {}, "class_names": ["zero", "one", "two\u009b"]}' >"$work/set/dataset.json"
run "$shards" stats "$work/set"
expect_out '^ +3  1  one$'
expect_out '^ +3  2  two.xc2.x9b$'
expect_out '^ +3  3$'
rm "$work/set/dataset.json"
printf '0:daisy\n3:tulip\n' >"$work/set/labels.txt"
run "$shards" stats "$work/set"
expect_out '^ +3  0  daisy$'
expect_out '^ +3  3  tulip$'
rm "$work/set/labels.txt"

# The index next to a shard never replaces another file, and any other file differs from it.
shards 0 'an index beside the shard' index "$first"
expect_equal "$(tail -n 1 "$first.idx")" "$((9 * record_bytes)) $record_bytes" 'the last line'
shards 0 'checking the index' index --check "$first.idx"
shards 5 'an index that is there' index "$first"
expect_err '--force'
shards 0 'an index that is replaced' index --force "$first"
shards 3 "another shard's index" index --check "$work/set/validation-00000-of-00001" -o "$first.idx"
expect_err 'has more lines than the shard has records \(5\)'
"$shard_maker" "$work/more" 1 4
cat "$work/more" >>"$first"
shards 3 'a stale index' index --check "$first.idx"
expect_err 'has fewer lines'
mkfifo "$work/pipe"
shards 5 'an index over a pipe' index --force "$first" -o "$work/pipe"
shards 2 'two indexes in one file' index "$first" "$work/more" -o "$work/both"

# Raw pixels become a PGM.
make_shards
shards 0 'extracting' extract "$first" 0 -o "$work/0.pgm"
expect_out '0.pgm: raw bytes \(H, W, C\), 4x4x1, 16 bytes, label 0$'
expect_equal "$(head -n 3 "$work/0.pgm" | tr '\n' ' ')" 'P5 4 4 255 ' 'the head of a PGM'
expect_equal "$(tail -c 16 "$work/0.pgm" | od -An -tu1 -N3 | tr -s ' ')" ' 0 31 62' 'its pixels'
shards 0 'a PNG of raw pixels' extract "$first" 0 -o "$work/0.png"
[ "$(head -c 8 "$work/0.png" | od -An -tx1 | tr -d ' \n')" = 89504e470d0a1a0a ] || fail 'the PNG is none'
mkdir -p "$work/png/a" "$work/png/b"
cp "$work/0.png" "$work/png/a"
cp "$work/0.png" "$work/png/b"
"$build/pipetrain-convert" folder "$work/png" -o "$work/png-set" --raw >/dev/null 2>&1 || fail 'the PNG cannot be decoded'
run "$shards" extract "$work/png-set/train-00000-of-00002" 0 -o "$work/again.pgm"
expect_same_file "$work/0.pgm" "$work/again.pgm" 'the pixels of the PNG'
shards 3 'raw pixels as a JPEG' extract "$first" 0 -o "$work/0.jpg"
expect_err 'record 0 at byte 0: its image is raw pixels: call the file .pgm or .png, not .jpg$'
[ ! -e "$work/0.jpg" ] || fail 'a file that is no JPEG'
shards 5 'extracting over a file' extract "$first" 1 -o "$work/0.pgm"
shards 0 'extracting over a file with --force' extract "$first" 1 -fo "$work/0.pgm"
shards 3 'extracting a record that is not there' extract "$first" 10 -o "$work/10.pgm"
expect_err 'has no record 10: it has 10'
"$shard_maker" "$work/sentences" 2 text
shards 3 'extracting where there is no image' extract "$work/sentences" 1 -o "$work/no.pgm"
shards 0 'extracting what is named' extract --image-key=sentence "$work/sentences" 1 -o "$work/sentence"
expect_equal "$(cat "$work/sentence")" 'no image' 'a feature that is named'

# The command line.
for command in list check head stats index extract; do
    shards 0 "$command --help" $command --help
    expect_out "^Usage: pipetrain-shards $command "
    expect_out "^  pipetrain-shards $command "
    expect_equal "$(awk 'length > 80' "$work/out")" '' "lines of $command --help over 80 columns"
    shards 2 "$command of nothing" $command
    expect_err 'no shards given'
done
shards 0 'help' --help
expect_equal "$(awk 'length > 80' "$work/out")" '' 'lines of --help over 80 columns'
for wrong in '' 'lst x' '--jobs=2' 'check --jobs=0 x' 'check --force x' 'list --jobs=2 x' 'extract x 1' 'extract x y -o z' 'head a b'; do
    shards 2 "'$wrong'" $wrong
    expect_err '^(pipetrain-shards|.*/pipetrain-shards): '
done
shards 0 --version --version
command_line='pipetrain-shards list >/dev/full'
"$shards" list "$work/set" >/dev/full 2>"$work/err"
code=$?
expect_code 5 'results that cannot be written'

# Images that are lists of numbers, under a name of their own.
"$shard_maker" "$work/lists" 70 integers
run "$shards" stats "$work/lists" --image-key=dots
expect_out '^ +70  integers 28x28x1$'
shards 0 'extracting a list of integers' extract "$work/lists" 65 -o "$work/65.pgm" --image-key dots
expect_out '65.pgm: integers \(H, W, C\) of 0..255, 28x28x1$'
expect_equal "$(tail -c 784 "$work/65.pgm" | tr -d A | wc -c)" 0 'pixels that differ'
run "$convert" tfrecord "$work/lists" -o "$work/repacked" --image-key=dots --label-key=kind
expect_code 0 'converting with keys that are named'
expect_equal "$("$json_value" "$work/repacked/dataset.json" label_key)" kind 'the key that was named'
run "$convert" tfrecord "$work/lists" -o "$work/raw" --image-key=dots --raw
expect_code 3 'changing a list of integers'
expect_err 'its image is a list of integers, which cannot be changed'
run "$convert" tfrecord "$work/lists" -o "$work/raw" --raw
expect_code 3 'an image of no usual name'
expect_err 'name one with --image-key'
run "$convert" mnist "$work" -o "$work/raw" --image-key=dots
expect_code 2 'keys of what is no shard'

# Asked to end while it looks for a record in much that is none.
truncate -s 4G "$first"
env --default-signal=INT "$shards" check "$first" >"$work/out" 2>"$work/err" &
pid=$! tries=0
until ls -l "/proc/$pid/fd" 2>/dev/null | grep -qF -- "-> $first" || [ $tries -eq 1200 ]; do
    sleep 0.05
    tries=$((tries + 1))
done
kill -s INT $pid
wait $pid
code=$?
expect_code 130 'a check that is interrupted'
expect_err '^interrupted: not all shards were read$'
finish
