#!/bin/sh
# pipetrain-convert webdataset from end to end: which files are samples, what the labels are, and what is refused.
doc=$(cd "$(dirname "$0")/../../doc" && pwd)
. "$(dirname "$0")/convert.sh"

# sample KEY LABEL [EXTENSION] - an image and its label in ./s
sample() {
    mkdir -p "s/$(dirname "$1")"
    image "$1" >"s/$1.${3:-jpg}"
    printf '%s\n' "$2" >"s/$1.cls"
}

# pack NAME - ./s as an archive in the order of names, and an empty ./s
pack() {
    case $1 in *gz) how=czf ;; *) how=cf ;; esac
    (cd s && find . -type f | LC_ALL=C sort | tar --no-recursion -T - -$how "../$1")
    rm -rf s
    mkdir s
}

# fresh - nothing but an empty ./s
fresh() {
    rm -rf -- *
    mkdir s
}

# json KEY TEXT - an image and a JSON document beside it
json() {
    image "$1" >"s/$1.jpg"
    printf '%s' "$2" >"s/$1.json"
}

# has_labels FILE:LABEL... - these are the records of ./out
has_labels() {
    for file in out/*-of-*; do
        "$(dirname "$program")/pipetrain-shards" head -n 1000 "$file"
    done | awk '$1 == "image/class/label" { label = $4 }
                $1 == "image/filename" { gsub("\"", "", $4); printf "%s:%s ", $4, label }' >found
    [ "$(cat found)" = "$* " ] || failed "not $*: $(cat found) ($(cat messages))"
}

takes_an_image_and_a_label_of_each_key() {
    fresh
    sample 000 1; sample 001 0 PNG; sample a.b/002 1 jpeg; sample 003 0 image.jpg
    pack one.tar
    expect 0 webdataset one.tar -o out --shuffle=none --shards=1
    has_labels 000.jpg:1 001.PNG:0 003.image.jpg:0 a.b/002.jpeg:1
    grep -q '"classes": 2' out/dataset.json || failed "not two classes: $(cat out/dataset.json)"
    gzip -k one.tar
    expect 0 webdataset one.tar.gz -o gz --shuffle=none --shards=1
    for file in out/*-of-*; do cmp "$file" "gz/${file#out/}" || failed "compressed shards give other records"; done
    for jobs in 1 5; do
        expect 0 webdataset one.tar -o jobs$jobs --jobs=$jobs
        cmp jobs1/train-00000-of-00004 jobs$jobs/train-00000-of-00004 || failed "$jobs jobs give other records"
    done
}

takes_ranges_patterns_and_folders_of_shards() {
    fresh
    mkdir data
    for i in 8 9 10; do sample 0 0; sample 1 1; pack data/train-0$(printf %02d $i).tar; done
    sample 0 0; sample 1 1; pack data/val-000.tar.gz
    answers 0 "" webdataset 'data/train-{008..010}.tar' 'data/val-{000..000}.tar.gz' -o out
    grep -q '6 train records.* 2 validation records' output || failed "not 6 and 2: $(cat output)"
    for what in data 'data/*' "data/train-008.tar data/train-009.tar data/train-010.tar data/val-000.tar.gz"; do
        set -f; expect 0 webdataset $what -o again --force; set +f
        cmp out/train-00000-of-00004 again/train-00000-of-00004 || failed "$what gives other records"
    done
    answers 3 "data/train-011.tar: cannot open the shard: No such file" webdataset 'data/train-{008..011}.tar' -o no
    answers 3 "no/*.tar: no file matches this pattern" webdataset 'no/*.tar' -o no
    answers 2 "the range {5..2} is empty" webdataset 'a-{5..2}.tar' -o no
    answers 3 "addresses and commands are not opened" webdataset 'https://x/a-{0..2}.tar' -o no
    mkdir none
    answers 3 "contains no .tar file" webdataset none -o no
    rm data/train-009.tar
    answers 0 "1 number is missing between those of the shards, such as the one after data/train-008.tar" \
        webdataset data -o again --force
    ln data/train-008.tar data/train-009.tar
    answers 2 "are the same shard: give it once" webdataset data -o no
    rm data/train-009.tar
    gzip -k data/train-008.tar
    answers 2 "are the same shard by their names: remove one of them" webdataset data -o no
    rm data/train-008.tar.gz
    mkdir s/e; pack data/train-009.tar
    answers 0 "data/train-009.tar: has no sample" webdataset data -o again --force
    absent no
}

splits_are_the_names_of_shards_or_folders() {
    fresh
    mkdir train valid
    for split in train valid; do sample 0 0; sample 1 1; pack $split/00000.tar; done
    expect 0 webdataset train/00000.tar valid/00000.tar -o out
    grep -q '2 train records.* 2 validation records' output || failed "not 2 and 2: $(cat output)"
    says "2 of 2 validation images are in the training set, too"
    mv valid/00000.tar other.tar
    answers 2 "train/00000.tar is a split by its name (train), and other.tar is none" \
        webdataset train/00000.tar other.tar -o no
    mv train/00000.tar test-0.tar
    answers 0 "test-0.tar: is called test: the shards become the training set" webdataset test-0.tar -o out --force
    cp other.tar val-0.tar
    answers 2 "no shard is for training" webdataset test-0.tar val-0.tar -o no
    absent no
}

reads_labels_of_json() {
    fresh
    json 0 '{"label": "cat", "width": 3}'; json 1 '{"width": 3, "label": "dog"}'; json 2 '{"label": "cat"}'
    pack a.tar
    expect 0 webdataset a.tar -o out --shuffle=none --shards=1
    has_labels 0.jpg:0 1.jpg:1 2.jpg:0
    tr -d ' \n' <out/dataset.json | grep -qF '"class_names":["cat","dog"]' || failed "no names"
    json 0 '{"label": 3, "class": "x"}'; json 1 '{"label": 1.0, "class": "y"}'; pack b.tar
    answers 3 "label, class, which may all be the class: choose one with --label-key" webdataset b.tar -o no
    expect 0 webdataset b.tar -o out --force --shuffle=none --shards=1 --label-key=label
    has_labels 0.jpg:3 1.jpg:1
    says "2 of 4 labels have no training sample"
    expect 0 webdataset b.tar -o out --force --label-key=class
    answers 3 "none of 2 samples can be used: 0: its .json has no member breed" webdataset b.tar -o no --label-key=breed
    for text in '[1,0]' '{"a":1}' 1.5 'null' '""' "\"$(seq -s, 400)\""; do
        json 0 '{"label": 0}'; json 1 "{\"label\": $text}"; json 2 '{"label": 1}'; pack c.tar
        answers 3 "c.tar: 1 file cannot be used: remove or replace it, or give --skip-unreadable to leave it out: 1: " webdataset c.tar -o no
    done
    for i in 0 1; do
        image $i >s/0$i.input.jpg; echo '{"fps": 3}' >s/0$i.mp4.json; echo "{\"class\": \"c$i\"}" >s/0$i.info.json
    done; cp -r s t; pack c.tar
    expect 0 webdataset c.tar -o out --force --shuffle=none --shards=1
    has_labels 00.input.jpg:0 01.input.jpg:1
    rm -r s; mv t s
    for i in 0 1; do echo '{"class": "same"}' >s/0$i.mp4.json; done; pack c.tar
    answers 3 "has labels in .info.json and .mp4.json: choose one with --label-key" webdataset c.tar -o no
    expect 0 webdataset c.tar -o out --force --label-key=info.json
    grep -qx 'out: 2 classes: c0, c1' output || failed "not of .info.json: $(cat output)"
    json 0 '{"label": 0}'; json 1 '{"label": '; json 2 '{"label": 1, "label": 2}'; pack c.tar
    answers 3 "2 files cannot be used" webdataset c.tar -o no
    says "its .json is no JSON: "
    sample 0 1; json 0 '{"label": 0}'; sample 1 0; json 1 '{"label": 0}'; pack d.tar
    answers 0 "d.tar: .cls and .json member label of 1 sample hold different numbers, such as those of 0" \
        webdataset d.tar -o out --force --shuffle=none --shards=1
    has_labels 0.jpg:1 1.jpg:0
    sample 0 1; json 1 '{"label": 0}'; sample 2 0; pack e.tar
    answers 3 "1: has its label in .json, and samples before it in a file of their own" webdataset e.tar -o no
    absent no
}

refuses_samples_that_say_nothing() {
    fresh
    sample 0 0; sample 1 1; image 2 >s/2.jpg; pack a.tar
    answers 3 "1 file cannot be used: remove or replace it, or give --skip-unreadable to leave it out: 2: has no label" webdataset a.tar -o no
    sample 0 0; sample 1 1; echo 1 >s/2.cls; pack a.tar
    answers 3 "2: has no image (jpg, jpeg or png)" webdataset a.tar -o no
    sample 0 0; sample 1 1; image 1b >s/1.right.jpg; pack a.tar
    answers 3 "1: has several images, .jpg and .right.jpg: choose one with --image-key" webdataset a.tar -o no
    expect 0 webdataset a.tar -o out --image-key=jpg
    sample 22.05 0; sample 23.05 1; pack a.tar
    expect 0 webdataset a.tar -o out --force
    sample img_0.5 0; sample img_0.7 1; pack a.tar
    answers 3 "(a key ends at the first dot of the file's name)" webdataset a.tar -o no
    sample 0 ""; sample 1 1; sample 2 "$(printf '1\n2')"; sample 3 "$(seq 900)"; sample 4 0; pack a.tar
    answers 3 "0: its .cls is empty" webdataset a.tar -o no
    says "2: its .cls has several lines"; says "bytes, too many for a label"; says "3 files cannot be used"
    sample 0 0; sample 1 1; printf 'RIFF0000WEBPVP8 ' >s/2.webp; echo 1 >s/2.cls; pack a.tar
    answers 3 "2.webp: " webdataset a.tar -o no
    for end in pyd pickle npy; do
        sample 0 0; sample 1 1; image 2 >s/2.jpg; echo 'cos
system
(S"touch ran"
tR.' >s/2.$end; pack a.tar
        answers 3 "has no label but in .$end, perhaps, which is not read (pickled files run any command)" webdataset a.tar -o no
    done
    absent ran
    for i in 0 1 2; do image $i >s/$i.jpg; echo "a photo of $i" >s/$i.txt; done; pack a.tar
    answers 3 "none of 3 samples can be used: 0: has no label but a .txt, perhaps (--label-key=txt)" webdataset a.tar -o no
    expect 0 webdataset a.tar -o out --force --label-key=txt
    for i in 0 1 2 3 4 5 6 7 8 9; do image $i >s/$i.jpg; echo "a photo of $i" >s/$i.txt; done; pack a.tar
    answers 2 "each training sample has another label, as ids and captions are" webdataset a.tar -o no --label-key=txt
    sample 0 0; sample 1 1; sample 2 nan; pack a.tar
    answers 3 "a.tar: 2.jpg: label 'nan' is the word for a missing value" webdataset a.tar -o no
    sample 0 1; sample 1 2; pack a.tar
    answers 0 "these begin at 1, so subtract 1" webdataset a.tar -o out --force
    sample 0 1; sample 1 1; pack a.tar
    answers 3 "all training samples have the same class" webdataset a.tar -o no
    sample 0 0; sample 1 1; pack train-0.tar; sample 0 2; pack val-0.tar
    answers 3 "label 2 is not a class of the training set" webdataset train-0.tar val-0.tar -o no
    sample 0 0; sample 1 1; pack a.tar; head -c 2000 a.tar >cut.tar
    answers 3 "cut.tar: " webdataset cut.tar -o no
    mkdir -p s/cat; image 1 >s/cat/1.jpg; pack a.tar
    answers 3 "1: has no label" webdataset a.tar -o no
    echo x >s/notes.md; pack a.tar
    answers 3 "convert archives with a folder for each class with 'tar'" webdataset a.tar -o no
    absent no
}

joins_what_is_not_in_order_and_refuses_what_is_there_twice() {
    fresh
    sample 0 0; sample 1 1
    (cd s && tar cf ../a.tar 0.jpg 1.jpg 0.cls 1.cls)
    answers 0 "a.tar: the files of 2 samples are not neighbours, such as those of 0: joined by their key" \
        webdataset a.tar -o out --shuffle=none --shards=1
    has_labels 0.jpg:0 1.jpg:1
    (cd s && tar --hard-dereference -cf ../a.tar 0.jpg 0.cls 1.jpg 1.cls 0.cls)
    answers 3 "0: has two files .cls" webdataset a.tar -o no
    absent no
}

leaves_out_what_is_no_sample() {
    fresh
    sample 0 0; sample 1 1; echo x >s/README; echo '{"name": "set"}' >s/dataset.json; printf x >s/._0.jpg; pack a.tar
    expect 0 webdataset a.tar -o out
    grep -q '2 train records' output || failed "not 2: $(cat output)"
}

is_named_by_tar_and_folder() {
    fresh
    for i in 0 1 2; do mkdir -p s/000$i; sample 000$i/a 1; sample 000$i/b 0; done
    cp -r s folder
    pack a.tar
    answers 3 "labels of the images are in files beside them (.cls, .label), as in WebDataset: pipetrain-convert webdataset a.tar" \
        tar a.tar -o no
    answers 3 "tar --sort=name -cf samples.tar -C folder . && pipetrain-convert webdataset samples.tar" folder folder -o no
    sample 0 0; sample 1 1; pack b.tar
    answers 3 "labels of samples of WebDataset: pipetrain-convert webdataset b.tar" tar b.tar -o no
    json 0 '{"label": 0}'; json 1 '{"label": 1}'; pack c.tar
    answers 3 "as in WebDataset: pipetrain-convert webdataset c.tar; or put the images into" tar c.tar -o no
    mkdir shards
    mv b.tar c.tar shards
    answers 3 "shards: contains shards of WebDataset, such as b.tar: pipetrain-convert webdataset shards" folder shards -o no
    answers 2 "'wds' is no converter: use 'webdataset'" wds a.tar -o no
    absent no
}

the_commands_of_the_documentation_run() {
    fresh
    ln -s "$program" pipetrain-convert
    mkdir shards.d
    sample 0 0; sample 1 1; pack shards.d/0.tar
    for i in $(seq 0 99); do cp shards.d/0.tar train-$(printf %06d $i).tar; done
    cp shards.d/0.tar val-0.tar
    for i in 0 1; do image $i-side >s/$i.side.jpg; json $i "{\"breed\": \"b$i\", \"label\": 0}"; done; pack a.tar
    sed -n '/^### Samples of WebDataset/,/^### Large/p' "$doc/data.md" | grep '^    \./pipetrain-convert' | grep -v test.tar >commands
    [ "$(grep -c . commands)" -eq 3 ] || failed "not 3 commands: $(cat commands)"
    while read -r command; do
        rm -rf shards
        sh -c "$command" >output 2>messages </dev/null || failed "$command: $(cat messages)"
    done <commands
    grep -qx 'shards: 2 classes: b0, b1' output || failed "the last command: $(cat output)"
}

the_commands_of_the_documentation_run
takes_an_image_and_a_label_of_each_key
takes_ranges_patterns_and_folders_of_shards
splits_are_the_names_of_shards_or_folders
reads_labels_of_json
refuses_samples_that_say_nothing
joins_what_is_not_in_order_and_refuses_what_is_there_twice
leaves_out_what_is_no_sample
is_named_by_tar_and_folder
[ "$failures" -eq 0 ]
