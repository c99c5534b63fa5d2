#!/bin/sh
# pipetrain-convert --skip-unreadable: what is left out is named, counted and in dataset.json, and the rest is the set
# without it; without the option all bad files are named at once, and nothing is written.
. "$(dirname "$0")/convert.sh"

# undecodable TEXT - a PNG whose header is right and whose pixels are not
undecodable() {
    image "$1" | head -c 45
    printf 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxx'
}

# make_set - ./good has 12 images, ./bad five more that cannot be read
make_set() {
    for class in cat dog; do
        mkdir -p good/train/$class good/val/$class
        for i in 1 2 3 4 5; do image $class-$i >good/train/$class/$i.png; done
        image $class-val >good/val/$class/1.png
    done
    cp -r good bad
    : >bad/train/cat/0.jpg
    image x | head -c 20 >bad/train/cat/9.png
    undecodable 1 >bad/train/dog/3b.png
    undecodable 2 >bad/val/dog/0.png
    printf 'RIFF0000WEBPVP8 ' >bad/train/dog/7.jpg
}

same_records() {
    for file in "$1"/*-of-*; do
        cmp "$file" "$2/${file#"$1/"}" >&2 || failed "$2: other records than $1"
    done
}

# lists DIRECTORY COUNT - what was left out, in dataset.json and on standard output
lists() {
    tr -d ' \n' <"$1/dataset.json" | grep -qF "\"left_out\":{\"images\":$2," || failed "$1: not $2 left out"
    grep -qx "$1: left out $2 images that cannot be read" output || failed "no count in: $(cat output)"
}

all_bad_files_are_named_at_once() {
    answers 3 "bad: 5 files cannot be used" folder bad -o no
    for name in train/cat/0.jpg train/cat/9.png train/dog/3b.png val/dog/0.png train/dog/7.jpg; do says "$name: "; done
    absent no
}

leaves_out_and_lists_what_cannot_be_read() {
    expect 0 folder good -o plain
    tar cf bad.tar bad; tar czf bad.tar.gz -C bad train val
    for input in "folder bad" "tar bad.tar" "tar bad.tar.gz"; do
        rm -rf out
        for jobs in 1 4; do
            expect 0 $input -o out --skip-unreadable --force --jobs=$jobs
            same_records plain out
            lists out 5
        done
        for name in train/cat/0.jpg train/cat/9.png train/dog/3b.png val/dog/0.png train/dog/7.jpg; do
            grep -q "left out .*$name: " messages || failed "$input: $name is not named: $(cat messages)"
            grep -q "$name: " out/dataset.json || failed "$input: $name is not listed"
        done
    done
    expect 0 folder good -o out --skip-unreadable --force
    ! grep -q left_out out/dataset.json || failed "nothing was left out"
    expect 0 folder bad -o out --skip-unreadable --force --raw --resize-short=2
    lists out 5
    answers 2 "--skip-unreadable does not apply" digits -o no --skip-unreadable
    expect 0 folder bad -o out --skip-unreadable --no-decode --force
    lists out 3
    expect 0 tfrecord out -o again --skip-unreadable
    lists again 2
    expect 0 folder bad/train -o held --skip-unreadable --validation=2
    grep -q '8 train records.* 2 validation records' output || failed "not 8 and 2: $(cat output)"
}

tables_and_samples_too() {
    (cd bad/train && { echo path,label,split; for f in */*; do echo "$f,${f%%/*},train"; done; echo gone.png,cat,train
        echo ../val/cat/1.png,cat,val; echo ../val/dog/1.png,dog,val; }) >table.csv
    answers 3 "5 files cannot be used" csv table.csv --images=bad/train -o no
    expect 0 csv table.csv --images=bad/train -o table --skip-unreadable
    lists table 5
    grep -q '10 train records.* 2 validation records' output || failed "not 10 and 2: $(cat output)"
    says "left out table.csv: gone.png: No such file"
    for f in good/train/*/*; do
        key=$(echo "$f" | tr / _); key=${key%.png}
        mkdir -p s; cp "$f" "s/$key.png"
        case $f in *cat*) echo 0 ;; *) echo 1 ;; esac >"s/$key.cls"
    done
    undecodable 1 >s/bad1.png; echo 0 >s/bad1.cls; image 2 >s/bad2.png
    tar --sort=name -cf s.tar -C s .
    answers 3 "2 files cannot be used" webdataset s.tar -o no
    expect 0 webdataset s.tar -o samples --skip-unreadable
    lists samples 2
    says "left out s.tar: bad2: has no label"
    absent no
}

a_set_of_which_nothing_is_left_is_refused() {
    mkdir -p worse/cat worse/dog
    for class in cat dog; do undecodable 1 >worse/$class/1.png; done
    answers 3 "none of the 2 train images can be decoded" folder worse -o no --skip-unreadable
    for class in cat dog; do : >worse/$class/1.png; done
    answers 3 "2 files cannot be used" folder worse -o no --skip-unreadable
    image 1 >worse/cat/2.png
    answers 3 "folder 'dog' has no training image" folder worse -o no --skip-unreadable
    undecodable 1 >worse/dog/1.png
    answers 0 "1 of 2 classes have no training sample, such as dog" folder worse -o gap --skip-unreadable
    rm -r bad/val; mkdir -p bad/val/cat; undecodable 1 >bad/val/cat/1.png
    answers 3 "none of the 1 validation images can be decoded" folder bad -o no --skip-unreadable
    absent no
}

many_are_counted_after_the_first_hundred() {
    cp -r good many
    for i in $(seq 150); do : >many/train/cat/e$i.png; undecodable $i >many/train/dog/u$i.png; done
    answers 3 "many: 300 files cannot be used" folder many -o no
    says "many: and 200 more"
    expect 0 folder many -o many-set --skip-unreadable
    lists many-set 300
    [ "$(grep -c 'left out' messages)" -eq 102 ] || failed "not 102 lines: $(grep -c 'left out' messages)"
    same_records plain many-set
    rm -r many/train/cat/e*
    answers 3 "150 images cannot be decoded (the first ones are listed): nothing was written" folder many -o no
    absent no
}

make_set
all_bad_files_are_named_at_once
leaves_out_and_lists_what_cannot_be_read
tables_and_samples_too
a_set_of_which_nothing_is_left_is_refused
many_are_counted_after_the_first_hundred
[ "$failures" -eq 0 ]
