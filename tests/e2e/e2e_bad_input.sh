#!/bin/sh
# Wrong input is answered before training, with all that is wrong, and with the exit code of
# its kind; damaged records are named, and skipped only when that is asked for.
. "$(dirname "$0")/e2e.sh"
make_tiny
make_smooth                     # what is shown does not depend on the network
printf '[model]\nfile = %s\n' "$work/smooth.net" >>"$work/tiny.conf"
quick='--set train.steps=4'

# Configuration: everything at once, with line and nearest name, nothing started.
cat >"$work/bad.conf" <<END
[data]
train = $work/data/train-*
[input]
prefetch_dept = 3
prefetch_depth = many
[tarin]
epochs = 2
[train]
batch = -5
learning_rate = 1,5
optimizer = adadelat
END
run "$pipetrain" -c "$work/bad.conf" --set "run.dir=$work/runs/bad" --set train.epocs=1 --set nonsense
expect_code 2 'configuration problems'
expect_err "bad.conf:4: unknown key 'prefetch_dept'.*did you mean 'prefetch_depth'"
expect_err 'bad.conf:5: .*prefetch_depth'
expect_err 'bad.conf:6: .*tarin.*train'
expect_err 'bad.conf:9: .*batch'
expect_err 'bad.conf:10: .*learning_rate'
expect_err 'bad.conf:11: .*optimizer.*adadelta'
expect_err 'epocs.*epochs'
expect_err 'nonsense'
[ ! -e "$work/runs/bad" ] || fail 'nothing is started with a bad configuration'

run "$pipetrain" -c "$work/missing.conf"
expect_code 2 'no such configuration'
expect_err 'missing.conf'
run "$pipetrain" -c "$work"
expect_code 2 'a directory as configuration'
try bad --set model.name=mnist_cn
expect_code 2 'unknown model'
expect_err "did you mean 'mnist_cnn'"

# Shards that are not there, or not shards: all named, exit 3, before training.
try bad $quick --set "data.train=$work/nothing-*"
expect_code 3 'a glob that matches nothing'
expect_err "$work/nothing-"
try bad $quick --set "data.train=$work/no1.tfrecord" --set "data.validation=$work/no2.tfrecord"
expect_code 3 'missing shards'
expect_err 'no1.tfrecord'
expect_err 'no2.tfrecord'
: >"$work/empty.tfrecord"
try bad $quick --set "data.train=$work/empty.tfrecord"
expect_code 3 'an empty shard'
expect_err 'empty.tfrecord'
printf 'a text file is no shard, however long it may be, and says so at once\n' >"$work/foreign.tfrecord"
try bad $quick --set "data.train=$work/foreign.tfrecord"
expect_code 3 'a foreign file'
expect_err 'foreign.tfrecord'
"$shard_maker" "$work/text.tfrecord" 5 text
try bad $quick --set "data.train=$work/text.tfrecord"
expect_code 3 'Examples without images'
expect_err 'text.tfrecord'
mkdir "$work/no_shards"
try bad $quick --set "data.train=$work/no_shards"
expect_code 3 'a directory without shards'
"$shard_maker" "$work/large.tfrecord" 5 32
try scaled $quick --set "data.train=$work/large.tfrecord"
expect_code 0 'images of another size, which are scaled'
try bad $quick --set data.image_key=picture
expect_code 3 'an image key that is not there'
expect_err picture
[ ! -e "$work/runs/bad" ] || fail 'nothing is started with bad data'

# What is trained on is not evaluated on: a folder without a validation set, shards of both, under any
# name, unless that is asked for. The first lines name the files of each set.
mkdir "$work/only"
ln "$work"/data/train-* "$work/only"
try bad $quick --set "data.train=$work/only" --set "data.validation=$work/only"
expect_code 3 'a folder of training shards for validation'
expect_err "^pipetrain: validation: $work/only: no shard here is called validation; .*train-00000-of-00004 and 3 more"
expect_err_lines 1
mkdir "$work/links"
ln -s "$work/data/train-00001-of-00004" "$work/links/one.tfrecord"
ln "$work/data/train-00002-of-00004" "$work/links/two.tfrecord"
for validation in "$work/links" "$work/data/../data/train-0000[12]*" "$work/only/train-0000[12]*"; do
    try bad $quick --set "data.validation=$validation"
    expect_code 3 'shards of both sets'
    expect_err '^pipetrain: validation: .*(one.tfrecord|00001-of-00004) is a training shard too, as 2 of these 2 shards'
    expect_err 'data.allow_overlap'
done
[ ! -e "$work/runs/bad" ] || fail 'nothing is started with shards of both sets'
train overlap $quick --set "data.validation=$work/links" --set data.allow_overlap=yes
expect_summary overlap validation.images 300
expect_out '^          train-00000-of-00004 \.\.\. train-00003-of-00004$'
expect_out '^          one.tfrecord \.\.\. two.tfrecord$'

# Images that are trained on, in shards of their own; the records of a set written twice.
mkdir "$work/twice"
cat "$work"/data/train-00000-of-* "$work"/data/validation-* >"$work/twice/validation.tfrecord"
cat "$work"/data/train-* "$work"/data/train-* >"$work/twice/train.tfrecord"
copied='images are among [0-9,]* of train, too: record [0-9]* of .* is record [0-9]* of .*: what is trained on cannot'
train copied $quick --set "data.validation=$work/twice"
expect_err "^validation: [0-9]* of [0-9]* $copied"
train held_out $quick --set "data.train=$work/twice/train.tfrecord" --set data.validation= --set data.validation_split=0.25
expect_err "^validation: [0-9]* of [0-9]* $copied"
for intended in "data.validation=$work/twice --set data.allow_overlap=yes" "data.validation=$work/data"; do
    train intended $quick --set $intended
    ! grep -q 'of train, too' "$work/err" || fail "told of images that are no copies, or are intended: $intended"
done

# expect_listed RUN INDEX SET PATH RECORD OFFSET: damage as the summary lists it.
expect_listed() {
    expect_summary "$1" "damage.records.$2.set" "$3"
    expect_summary "$1" "damage.records.$2.path" "$4"
    expect_summary "$1" "damage.records.$2.record" "$5"
    expect_summary "$1" "damage.records.$2.offset" "$6"
}

# expect_quarantined RUN LINES: so many lines, each whole, no place twice.
expect_quarantined() {
    lines=$work/runs/$1/quarantine.jsonl
    "$json_value" --lines "$lines" set path offset >"$work/places" || fail "$1: quarantine.jsonl"
    expect_equal "$(grep -c . "$work/places")" "$2" "$1: lines of quarantine.jsonl"
    expect_equal "$(sort -u "$work/places" | grep -c .)" "$2" "$1: places in quarantine.jsonl"
    expect_summary "$1" damage.file quarantine.jsonl
    expect_out "^          all are listed in $lines$"
    expect_out_joined " files [^ ]*runs/$1/[{]summary.json, .*, quarantine.jsonl[}] "
}

# Damage inside: file, record and byte are named.
"$shard_maker" "$work/label.tfrecord" 200 28 150 10
try label $quick --set "data.train=$work/label.tfrecord"
expect_code 3 'a label out of range'
expect_err 'label.tfrecord.*record 150.*label'
try label $quick --set "data.train=$work/label.tfrecord" --set data.label_offset=-1
expect_code 3 'labels that do not begin at 1'
expect_err 'label.*-1'

first=$(ls "$work"/data/train-* | head -n 1)
record_bytes=$(($(wc -c <"$first") / 150))
cp "$first" "$work/cut.tfrecord"
dd if="$first" of="$work/cut.tfrecord" bs=1 count=$((record_bytes * 100 + 400)) 2>/dev/null
try cut $quick --set "data.train=$work/cut.tfrecord"
expect_code 3 'a truncated shard'
expect_err 'cut.tfrecord.*record 100.*byte '

for place in 3 9 500; do        # length, its checksum, payload of record 70
    cp "$first" "$work/flip$place.tfrecord"
    flip "$work/flip$place.tfrecord" $((record_bytes * 70 + place))
    try flip $quick --set "data.train=$work/flip$place.tfrecord" --set train.batch=150 --set train.steps=1
    expect_code 3 "a flipped bit at byte $place of a record"
    expect_err "flip$place.tfrecord.*record 70.*byte $((record_bytes * 70))"
    expect_err_lines 1

    name=skip$place
    train "$name" $quick --set "data.train=$work/flip$place.tfrecord" --set train.batch=50 \
        --set data.on_corrupt=skip --set data.max_corrupt=1
    expect_summary "$name" corrupt_records 1
    expect_listed "$name" 0 train "$work/flip$place.tfrecord" 70 $((record_bytes * 70))
    expect_summary "$name" damage.unlisted 0
    expect_quarantined "$name" 1
    stored=$(summary "$name" damage.records.0.stored_crc)
    computed=$(summary "$name" damage.records.0.computed_crc)
    [ "$stored" != "$computed" ] || fail 'the sums of a damaged record differ'
    expect_out '^damage +1 damaged record skipped:'
    expect_out "^ +$work/flip$place.tfrecord: record 70 at byte $((record_bytes * 70)): .* \(stored $stored, computed $computed\)"
    try refused $quick --set "data.train=$work/flip$place.tfrecord" --set train.batch=150 \
        --set data.on_corrupt=skip --set data.max_corrupt=0
    expect_code 3 'more damage than max_corrupt'
done

# What is skipped does not depend on threads; a cut shard loses its last record only.
train skip_threads $quick --set "data.train=$work/flip500.tfrecord" --set train.batch=50 \
    --set data.on_corrupt=skip --set data.max_corrupt=1 --set input.decode_threads=5
expect_same_file "$work/runs/skip500/weights.safetensors" "$work/runs/skip_threads/weights.safetensors" 'skipping'
train skip_cut $quick --set "data.train=$work/cut.tfrecord" --set data.on_corrupt=skip --set data.max_corrupt=0.1 \
    --set train.steps=0 --set train.batch=10
expect_summary skip_cut images 100

# Damage in validation is left out of the count, not replaced.
train skip_validation $quick --set "data.validation=$work/flip500.tfrecord" --set data.on_corrupt=skip \
    --set data.max_corrupt=1
expect_summary skip_validation validation.images 149
expect_listed skip_validation 0 validation "$work/flip500.tfrecord" 70 $((record_bytes * 70))

# A shard cut between two records is whole to itself: dataset.json tells. What is missing counts.
cp -r "$work/data" "$work/short"
truncate -s $((record_bytes * 100)) "$work/short/train-00002-of-00004"
try bad $quick --set "data.train=$work/short"
expect_code 3 'a shard cut between two records'
expect_err 'short/train-00002-of-00004: holds 100 records, dataset.json says 150'
expect_err_lines 1
skip50="--set data.train=$work/short --set data.on_corrupt=skip --set data.max_corrupt"
try bad $quick $skip50=49
expect_code 3 'more missing records than max_corrupt'
expect_err '50 of 750 records are damaged, more than the 49 that data.max_corrupt accepts; the first: .*record 100 at '
expect_err '; in each file: .*/short/train-00002-of-00004 50 of 150$'
try bad $quick $skip50=49 --check
expect_code 3 'a check of what would be refused'
expect_out_joined ' data train 550 records in 4 shards, 50 lost \('
train short $quick $skip50=50
expect_summary short corrupt_records 50
expect_listed short 0 train "$work/short/train-00002-of-00004" 100 $((record_bytes * 100))
expect_summary short damage.records.0.count 50
expect_summary short damage.unlisted 0
expect_out '^damage +50 damaged records skipped:'
expect_out '50 records are missing from here on: dataset.json says 150$'
mkdir "$work/cuts"
for file in a b c; do
    cp "$first" "$work/cuts/$file.tfrecord"
done
truncate -s $((record_bytes * 147)) "$work/cuts/a.tfrecord"
truncate -s -1 "$work/cuts/a.tfrecord" "$work/cuts/c.tfrecord"
try cuts $quick --set "data.train=$work/cuts" --set data.on_corrupt=skip --set data.max_corrupt=1
expect_code 3 'files with damage in two places'
expect_err '; in each file: [^ ]*/cuts/a.tfrecord 1 of 147, [^ ]*/cuts/c.tfrecord 1 of 150$'
mkdir "$work/hollow"
cp "$first" "$work/hollow/a.tfrecord"
: >"$work/hollow/b.tfrecord"
try bad $quick --set "data.train=$work/hollow" --set data.on_corrupt=skip --set data.max_corrupt=0
expect_code 3 'an empty shard where nothing may be damaged'
expect_err 'b.tfrecord: record 0 at byte 0: is empty: 0 bytes'
printf '{"splits": ' >"$work/hollow/dataset.json"
train foreign_manifest $quick --set "data.train=$work/hollow/a.tfrecord"
expect_err 'hollow/dataset.json: line 1: .*: shards are not compared with it'

# Of more damage than there is room for, the first records are listed, whatever the threads.
cp "$first" "$work/worn.tfrecord"
for record in 149 3 20 41 62 83 104 125 146 7 66 99; do
    flip "$work/worn.tfrecord" $((record_bytes * record + 500))
done
train worn $quick --set "data.train=$work/worn.tfrecord" --set train.batch=150 --set data.on_corrupt=skip \
    --set data.max_corrupt=20 --set input.decode_threads=3 --set input.chunk=7
expect_summary worn corrupt_records 12
expect_quarantined worn 12
expect_listed worn 0 train "$work/worn.tfrecord" 3 $((record_bytes * 3))
expect_listed worn 1 train "$work/worn.tfrecord" 7 $((record_bytes * 7))
expect_listed worn 11 train "$work/worn.tfrecord" 149 $((record_bytes * 149))
expect_out '^damage +12 damaged records skipped:'
expect_out '^ +and 2 more$'

# Too much of it, and nothing but damage: how much of how many, the first, and that is the last word.
try worn_more --set "data.train=$work/worn.tfrecord" --set train.batch=150 --set data.on_corrupt=skip \
    --set data.max_corrupt=5 --set input.decode_threads=3 --set input.chunk=7
expect_code 3 'more damage than max_corrupt'
expect_err '^pipetrain: more than 5 of 300 records are damaged, .*data.max_corrupt.*; the first: .*: record [0-9]+ at byte '
expect_equal "$(tail -n 1 "$work/err" | cut -c -10)" 'pipetrain:' 'the last word'
"$shard_maker" "$work/ruined.tfrecord" 5 28
for record in 0 1 2 3 4; do
    flip "$work/ruined.tfrecord" $(($(wc -c <"$work/ruined.tfrecord") / 5 * record + 500))
done
try ruined --set "data.train=$work/ruined.tfrecord" --set data.on_corrupt=skip --set data.max_corrupt=1
expect_code 3 'nothing but damage'
expect_err '^pipetrain: train: no readable record is left, all 5 are damaged; the first: .*: record 0 at byte 0: payload ch'
expect_err_lines 1
finish
