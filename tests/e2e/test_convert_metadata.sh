#!/bin/sh
# pipetrain-convert folder with metadata.csv or metadata.jsonl beside images, and csv with names as others write them.
doc=$(cd "$(dirname "$0")/../../doc" && pwd)
. "$(dirname "$0")/convert.sh"

# fresh - nothing is there
fresh() {
    rm -rf -- * 2>/dev/null
}

# images FOLDER NAME... - an image for each name
images() {
    folder=$1
    shift
    mkdir -p "$folder"
    for name in "$@"; do image "$folder/$name" >"$folder/$name"; done
}

# counts WORDS - the last conversion's numbers of records
counts() {
    grep -q "$1" output || failed "not $1: $(cat output) ($(cat messages))"
}

takes_classes_from_a_table_beside_the_images() {
    fresh
    images d 1.png 2.png 3.png
    printf 'file_name,label\n1.png,cat\n2.png,dog\n3.png,cat\n' >d/metadata.csv
    answers 0 "d/metadata.csv: 3 rows, the file is column 1, the label column 2" folder d -o csv --shuffle=none
    counts 'csv: 2 classes: cat, dog'
    rm d/metadata.csv
    printf '{"file_name": "1.png", "label": "cat"}\n\n{"label": "dog", "file_name": "2.png", "size": [3, 2]}\n' >d/metadata.jsonl
    printf '{"file_name": "3.png", "label": "cat", "text": "a \\"cat\\",\\nblack"}\n' >>d/metadata.jsonl
    answers 0 "d/metadata.jsonl: 3 rows, the file is column 1, the label column 2, members of JSON Lines" folder d -o jsonl --shuffle=none
    for file in csv/*-of-*; do cmp "$file" "jsonl/${file#csv/}" || failed "JSON Lines give other records"; done
    cp d/metadata.jsonl d/list.ndjson
    expect 0 csv d/list.ndjson -o again --shuffle=none
    for file in csv/*-of-*; do cmp "$file" "again/${file#csv/}" || failed "csv of JSON Lines gives other records"; done
    mkdir -p around/data && mv d around/data/set && touch around/README.md
    expect 0 folder around -o wrapped --shuffle=none
    for file in csv/*-of-*; do cmp "$file" "wrapped/${file#csv/}" || failed "wrapped: other records"; done
}

takes_a_table_in_the_folder_of_each_split() {
    fresh
    for split in train validation test; do
        images d/$split 1.png 2.png
        printf 'file_name,label\n1.png,0\n2.png,1\n' >d/$split/metadata.csv
    done
    expect 0 folder d -o out
    counts '2 train records.* 2 validation records.* 2 test records'
    rm -r d/validation
    expect 0 folder d -o out --force
    counts '2 train records.* 2 validation records'
    rm d/test/metadata.csv
    answers 0 "d: left out 2 images that no metadata.csv lists, such as test/1.png" folder d -o out --force
    counts 'out: 2 train records in 2 shards$'
    mv d/train/metadata.csv d/test/metadata.csv
    answers 3 "d/test/metadata.csv: is for test by its folder, and no table is for training" folder d -o no
    printf 'file_name,label\ntrain/1.png,0\ntrain/2.png,1\ntest/1.png,1\n' >d/metadata.csv
    answers 0 "2 rows are for training, 0 for validation, 1 for testing (used for validation)" folder d -o out --force
    says "left out 1 image that no metadata.csv lists, such as test/2.png"
    printf 'file_name,label,split\ntrain/1.png,0,train\ntrain/2.png,1,train\ntest/1.png,1,val\n' >d/metadata.csv
    answers 0 "2 rows are for training, 1 for validation" folder d -o out --force
    absent no
}

says_what_is_not_listed_or_not_there() {
    fresh
    images d 1.png 2.png 3.png sub/4.png 2>/dev/null; mkdir -p d/sub; image 4 >d/sub/4.png
    printf 'file_name,label\n1.png,0\n2.png,1\n5.png,1\n' >d/metadata.csv
    answers 3 "5.png: No such file" folder d -o no
    sed -i /5.png/d d/metadata.csv
    answers 0 "d: left out 2 images that no metadata.csv lists, such as 3.png" folder d -o out
    counts '2 train records'
    image x >outside.png
    for name in ../outside.png "$PWD/outside.png" sub/../../outside.png; do
        printf 'file_name,label\n1.png,0\n2.png,1\n%s,1\n' "$name" >d/metadata.csv
        answers 3 "is outside the folder of its table" folder d -o no
    done
    cp d/metadata.csv d/train.csv
    printf '{"file_name": "1.png", "label": 0}\n{"file_name": "2.png", "label": 1\n' >d/metadata.jsonl
    answers 3 "d/metadata.csv and d/metadata.jsonl are both there" folder d -o no
    rm d/metadata.csv
    answers 3 "d/metadata.jsonl: line 2: is no JSON object" folder d -o no
    printf '{"file_name": "1.png", "label": 0}\n{"file_name": "2.png"}\n' >d/metadata.jsonl
    answers 3 "d/metadata.jsonl: line 2: has no class" folder d -o no
    printf '{"file_name": "1.png", "label": ["a", "b"]}\n{"file_name": "2.png", "label": "a"}\n' >d/metadata.jsonl
    answers 3 "1 of 2 labels lists several classes" folder d -o no
    absent no
}

a_table_without_labels_leaves_the_folders() {
    fresh
    images d/cat 1.png; images d/dog 2.png
    printf 'file_name,text\ncat/1.png,a cat\ndog/2.png,a dog\n' >d/metadata.csv
    answers 0 "d/metadata.csv: has no column with the name of a label" folder d -o out
    counts 'out: 2 classes: cat, dog'
    expect 0 folder d -o out --force --label-column=text
    counts 'out: 2 classes: a cat, a dog'
    images flat 1.png 2.png
    printf 'file_name,text\n1.png,a cat\n2.png,a dog\n' >flat/metadata.csv
    answers 3 "contains 2 images and no folders of classes" folder flat -o no
    answers 2 "flat/metadata.csv: has no column of classes" csv flat/metadata.csv -o no
    rm d/metadata.csv
    answers 2 "options of columns are for a metadata.csv or metadata.jsonl, which is not there" \
        folder d -o no --label-column=x
    absent no
}

says_that_folders_and_table_disagree() {
    fresh
    images d/cat 1.png 2.png; images d/dog 3.png 4.png
    printf 'file_name,label\ncat/1.png,cat\ncat/2.png,dog\ndog/3.png,dog\ndog/4.png,dog\n' >d/metadata.csv
    answers 0 "1 image is in a folder called like another class, such as cat/2.png, which has the class dog (line 3)" \
        folder d -o out
    expect 0 folder d -o folders --folders-are-classes
    ! grep -q metadata messages || ! grep -q 'the file is column' messages || failed "the table was read"
    printf 'file_name,label\ncat/1.png,cat\ndog/../cat/1.png,dog\n' >d/metadata.csv
    answers 3 "is outside the folder" folder d -o no
    printf 'file_name,label\ncat/1.png,cat\n./cat/1.png,dog\n' >d/metadata.csv
    answers 3 "an image has one class, keep one row of it" folder d -o no
    absent no
}

archives_with_such_a_table_are_named() {
    fresh
    images d 1.png 2.png
    printf 'file_name,label\n1.png,0\n2.png,1\n' >d/metadata.csv
    tar cf d.tar d
    answers 3 "d/metadata.csv is not read from an archive: if it has the classes, unpack the archive, and convert the folder" \
        tar d.tar -o no
    absent no
}

names_what_reads_parquet() {
    fresh
    mkdir -p d/data
    printf PAR1 >d/data/train-0.parquet
    answers 3 "such as data/train-0.parquet: write the images in them as a tar archive, with python3 examples/parquet_to_tar.py" \
        folder d -o no
    answers 3 "examples/parquet_to_tar.py takes images out of it" csv d/data/train-0.parquet -o no
    absent no
}

names_files_that_are_meant() {
    fresh
    images i 007.png 012.png 3b.png
    printf 'id,breed\n007,pug\n012,beagle\n3b,pug\n' >t.csv
    expect 0 csv t.csv --images=i -o out
    counts '3 train records'
    printf 'id,breed\n7,pug\n12,beagle\n' >t.csv
    answers 3 "007.png is there: write names in the table as the files have them, ids with their leading zeros" \
        csv t.csv --images=i -o no
    printf 'id,label\n7,0\n12,1\n' >t.csv
    answers 3 "i: is a folder, not a table: give the table, and the folder of its images with --images=DIR" csv i -o no
    answers 3 "007.png is there" csv t.csv --images=i -o no
    printf 'id,label\n7.0,0\n12.0,1\n' >t.csv
    answers 3 "007.png is there" csv t.csv --images=i -o no
    printf 'image,label\n3B.png,0\n007.png,1\n' >t.csv
    answers 3 "3b.png is there" csv t.csv --images=i -o no
    printf 'image,label\n3b.jpg,0\n007.png,1\n' >t.csv
    answers 3 "3b.png is there" csv t.csv --images=i -o no
    printf 'image,label\n3b,cat|dog\n007,cat\n012,dog\n' >t.csv
    answers 3 "t.csv: 1 of 3 labels lists several classes, such as 'cat|dog' (line 2): an image has one class" \
        csv t.csv --images=i -o no
    printf 'image,label\n3b,cat\n007,dog\n3b,dog\n' >t.csv
    answers 3 "an image has one class, keep one row of it" csv t.csv --images=i -o no
    printf '\357\273\277"image";"label"\r\n"3b";"cat, black"\r\n"007";"dog"\r\n' >t.csv
    expect 0 csv t.csv --images=i -o out --force
    counts 'out: 2 classes: cat, black, dog'
    absent no
}

the_commands_of_the_documentation_run() {
    fresh
    ln -s "$program" pipetrain-convert
    images photos 1.jpg 2.jpg
    sed -n '/^### A table beside the images/,/^### Samples/p' "$doc/data.md" | grep '^    ' >commands
    [ "$(grep -c . commands)" -eq 2 ] || failed "not 2 commands: $(cat commands)"
    sh -e ./commands >output 2>messages || failed "$(cat messages)"
    counts 'shards: 2 classes: cat, dog'
}

the_commands_of_the_documentation_run
takes_classes_from_a_table_beside_the_images
takes_a_table_in_the_folder_of_each_split
says_what_is_not_listed_or_not_there
a_table_without_labels_leaves_the_folders
says_that_folders_and_table_disagree
archives_with_such_a_table_are_named
names_what_reads_parquet
names_files_that_are_meant
[ "$failures" -eq 0 ]
