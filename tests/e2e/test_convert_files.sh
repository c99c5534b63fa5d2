#!/bin/sh
# pipetrain-convert folder, tar and csv from end to end: the same images in any wrapping and with any number of
# threads are the same shards, and what is refused leaves nothing behind.
examples=$(cd "$(dirname "$0")/../../examples" && pwd)
. "$(dirname "$0")/convert.sh"

make_set() {
    for class in cat dog "big bird"; do
        mkdir -p "set/train/$class" "set/val/$class"
        for i in 1 2 3 4 5 6 7; do
            image "$class-$i" >"set/train/$class/$i.png"
        done
        image "$class-validation" >"set/val/$class/1.png"
    done
}

# same_shards DIRECTORY - its shards are those of ./plain, and so is all of dataset.json but how the input came
same_shards() {
    for file in plain/*-of-*; do
        cmp "$file" "$1/${file#plain/}" >&2 || failed "$1: ${file#plain/} differs"
    done
    grep -Ev '"(name|origin)"' plain/dataset.json >wanted
    grep -Ev '"(name|origin)"' "$1/dataset.json" | cmp -s - wanted || failed "$1: dataset.json differs"
}

stores_every_image_as_it_is_once() {
    expect 0 folder set -o plain
    find set -type f | while read -r file; do
        grep -qaF "$(tail -c +74 "$file")" plain/*-of-* || echo "$file"
    done >missing
    [ ! -s missing ] || failed "not in any shard: $(cat missing)"
    [ "$(cat plain/*-of-* | grep -ao IHDR | wc -l)" -eq 24 ] || failed "images were stored twice"
    for words in '"classes": 3' '"big bird"' '"image/encoded"' '"image/class/label"' '"height": 2' '"records": 21,'; do
        grep -qF "$words" plain/dataset.json || failed "no $words in dataset.json"
    done
}

gives_the_same_bytes_for_any_wrapping_and_number_of_jobs() {
    for jobs in 1 2 7; do
        expect 0 folder set -o "jobs$jobs" --jobs=$jobs
        same_shards "jobs$jobs"
    done
    tar cf set.tar set
    tar czf set.tar.gz -C set train val
    tar cf train.tar -C set train
    tar czf val.tar.gz -C set val
    expect 0 tar set.tar -o from_tar --jobs=2
    same_shards from_tar
    expect 0 tar set.tar.gz -o from_gzip --jobs=1
    same_shards from_gzip
    expect 0 tar val.tar.gz train.tar -o from_two
    same_shards from_two
    mkdir -p halves/entrenamiento/cat halves/entrenamiento/dog halves/prueba/cat
    image 1 >halves/entrenamiento/cat/1.png; image 2 >halves/entrenamiento/dog/2.png; image 3 >halves/prueba/cat/3.png
    for half in entrenamiento prueba; do tar cf $half.tar -C halves/$half .; done
    answers 0 "entrenamiento.tar, prueba.tar are joined into one set: call archives of other sets val* and test*" \
        tar entrenamiento.tar prueba.tar -o joined
}

holds_out_validation_images() {
    expect 0 folder set/train -o split --validation=0.25
    grep -q '16 train records.* 5 validation records' output || failed "not 16 and 5: $(cat output)"
    [ "$(cat split/*-of-* | grep -ao IHDR | wc -l)" -eq 21 ] || failed "not every image once"
    for class in 0 1 2; do
        "$(dirname "$program")/pipetrain-shards" stats split/validation-* | grep -q "  $class  " ||
            failed "no validation image of class $class"
    done
    expect 2 folder set -o split2 --validation=0.25
    absent split2
}

keeps_all_splits_of_shards() {
    mkdir set/test
    cp -r set/val/* set/test
    expect 0 folder set -o three
    expect 0 tfrecord three -o three_again
    for split in train validation test; do
        grep -q "\"$split\"" three_again/dataset.json || failed "$split is no set of it any more"
    done
    [ "$(cat three_again/test-*-of-* | grep -ao IHDR | wc -l)" -eq 3 ] || failed "not 3 images to test with"
    expect 0 tfrecord three -o three --force
    [ "$(cat three/*-of-* | grep -ao IHDR | wc -l)" -eq 27 ] || failed "not 27 images"
    rm -r set/test
}

takes_tables() {
    (cd set/train && for class in cat dog; do for i in 1 2 3; do echo "$class/$i.png,$class"; done; done) >set/train/all.csv
    expect 0 csv set/train/all.csv -o table
    grep -q '6 train records' output || failed "not 6 records: $(cat output)"
    rm set/train/all.csv
    { echo label,pixel0,pixel1,pixel2,pixel3; echo 1,0,255,3,4; echo 0,9,8,7,6; } >pixels.csv
    answers 0 "pixels.csv and ./pixels.csv are the same: if one is for validation" csv pixels.csv ./pixels.csv -o pixels
    grep -aoq image_raw pixels/validation-00000-of-00001 || failed "no raw images"
    grep -q '"height": 2' pixels/dataset.json || failed "not 2x2"
}

lets_options_choose_columns() {
    { echo label,a,b,c,d; echo 1,0,255,3,4; echo 0,9,8,7,6; } >letters.csv
    answers 2 "--pixels-column" csv letters.csv -o out
    for how in "--label-column=label --pixels-column=a" "--label-column=1 --pixels-column=2"; do
        expect 0 csv letters.csv -o letters --force $how
        for file in pixels/train-*; do cmp "$file" "letters/${file#pixels/}" >&2 || failed "$how: other records"; done
    done
    answers 2 "--label-column=breed: the first row has no such name, and the table has 5 columns" \
        csv letters.csv -o out --label-column=breed
    { echo 5,0,0,1,9; echo 4,7,3,2,1; echo 3,7,3,1,1; } >numbers.csv
    answers 0 "3 rows of 4 pixels, the label is column 1" csv numbers.csv -o numbers --label-column=1 --pixels-column=2
    answers 2 "--label-column=0: the first row has no such name" csv numbers.csv -o out --label-column=0 --pixels-column=2
    { echo 0,1,2,3,4; echo 7,0,255,3,4; echo 8,9,8,7,6; } >counted.csv
    answers 0 "2 rows of 4 pixels, the label is column 1, with a header row" \
        csv counted.csv -o counted --label-column=0 --pixels-column=1
    { seq -s, 0 64; seq -s, 2 66; seq -s, 3 67; } >counted.csv
    answers 2 "has no column of classes" csv counted.csv -o out
    answers 2 "not both" csv letters.csv -o out --path-column=1 --pixels-column=2
    answers 2 "--split-column does not apply" digits -o out --split-column=x
    (cd set/train && echo path,label,split && for class in cat dog; do for i in 1 2 3; do
        echo "$class/$i.png,$class,$([ $i = 3 ] && echo test || echo train)"; done; done) >set/train/all.csv
    answers 0 "the file is column 1, the label column 2, the split column 3, with a header row" \
        csv set/train/all.csv -o followed
    says "4 rows are for training, 0 for validation, 2 for testing (used for validation)"
    grep -q '4 train records.* 2 validation records' output || failed "not 4 and 2: $(cat output)"
    answers 0 "not used: split" csv set/train/all.csv -o followed --force --split-column=none
    grep -q '6 train records' output || failed "not 6: $(cat output)"
    answers 2 "is for test by its column of splits, but the table is the train set" \
        csv set/train/all.csv set/train/all.csv -o out
    rm set/train/all.csv
    absent out
}

refuses_a_class_that_only_validation_has() {
    { echo label,pixel0,pixel1,pixel2,pixel3; echo 1,0,255,3,4; echo 0,9,8,7,6; echo 2,9,8,7,6; } >more.csv
    answers 3 "label 2 is not a class of the training set: 1 validation sample" csv pixels.csv more.csv -o out
    expect 0 csv more.csv -o more-set --shards=1
    rm more-set/dataset.json pixels/dataset.json    # which say 3 and 2 classes
    answers 3 "is not a class of the training set: 1 validation sample" tfrecord 'pixels/train-*' 'more-set/train-*' -o out
    expect 0 tfrecord more-set 'pixels/validation-*' -o fewer-set
    absent out
}

# grey - a whole PNG of 2 x 2 grey pixels: 16, 48, 80 and 112, or so
grey() {
    printf '\211PNG\r\n\032\n\000\000\000\rIHDR\000\000\000\002\000\000\000\002\010\000\000\000\000W\335R\370'
    printf '\000\000\000\016IDATx\234c\020P`0p\000\000\001v\000\241\3540\212\364\000\000\000\000IEND\256B`\202'
}

changes_images_the_same_way_for_any_number_of_jobs() {
    mkdir -p grey/a grey/b
    for i in 1 2 3 4 5 6 7 8 9; do
        grey >"grey/a/$i.png"
        grey >"grey/b/$i.png"
    done
    for how in --raw "--raw --resize-short=1" --resize-short=1; do
        rm -rf one
        expect 0 folder grey -o one --shards=1 $how --jobs=1
        for jobs in 2 7; do
            expect 0 folder grey -o "grey$jobs" --force --shards=1 $how --jobs=$jobs
            for file in one/*; do
                cmp "$file" "grey$jobs/${file#one/}" >&2 || failed "$how: ${file#one/} differs for $jobs jobs"
            done
        done
    done
    [ "$(grep -ao JFIF one/train-00000-of-00001 | wc -l)" -eq 18 ] || failed "not every image became a JPEG"
    expect 0 folder grey -o raw --raw
    for words in '"key": "image_raw"' '"encoding": "raw"' '"height": 2' '"depth": 1' '"mean"'; do
        grep -qF "$words" raw/dataset.json || failed "no $words in dataset.json"
    done
    expect 0 tfrecord raw -o smaller --raw --resize-short=1
    grep -qF '"height": 1' smaller/dataset.json || failed "the pixels are as many as before"
    expect 0 folder grey -o kept --resize-short=2
    [ "$(cat kept/*-of-* | grep -ao IHDR | wc -l)" -eq 18 ] || failed "small images were changed"
}

makes_what_the_example_trains_on() {
    for class in airplane automobile bird cat deer dog frog horse ship truck; do
        mkdir -p cifar/train/$class cifar/test/$class
        grey >cifar/train/$class/0001.png
        grey >cifar/test/$class/0001.png
    done
    for how in '' --resize-short=1; do
        expect 0 folder cifar -o cifar10 --force $how
        "$(dirname "$program")/pipetrain" -c "$examples/cifar10.conf" --check >output 2>messages ||
            failed "the example does not take the shards: $(cat messages)"
        for words in 'resnet20_v1, 269,722 parameters' '4 pixels of zero padding' 'JPEG or PNG files' 'train      10 of 10 records' \
            'validation 10 of 10 records' \
            '10 of 10 images are among 10 of train,'; do
            grep -qF "$words" output || failed "no '$words' in: $(cat output)"
        done
    done
    grep -aq JFIF cifar10/train-* || failed "the images did not become JPEG"
}

refuses_to_change_what_it_cannot_read() {
    cp -r set broken
    grey | head -c 50 >broken/train/cat/8.png
    answers 3 "image/encoded" folder broken -o out --raw
    says "broken: train/cat/8.png: "
    rm -r broken
    expect 2 folder grey -o out --quality=80
    expect 2 folder grey -o out --quality=80 --resize-short=1 --raw
    expect 2 digits -o out --resize-short=8
    answers 2 "--raw does not apply" digits -o out --raw
    answers 2 "--label-key does not apply" folder set -o out --label-key=x
    absent out
}

refuses_classes_that_become_one() {
    mkdir names
    for class in "caf$(printf '\351')" "th$(printf '\351')" "$(printf '\376')"; do
        mkdir "names/$class"
        image x >"names/$class/1.png"
    done
    expect 0 folder names -o names-set
    mkdir "names/$(printf '\377')"
    image x >"names/$(printf '\377')/1.png"
    answers 3 "two class names are the same in UTF-8" folder names -o out
    absent out
}

says_that_files_could_not_be_opened() {
    [ "${PIPETRAIN_SANITIZER:-no}" = no ] || return 0
    (ulimit -n 6 && exec "$program" folder set -o out) >output 2>messages
    [ $? -eq 4 ] || failed "not exit 4 for want of open files"
    says "Too many open files (see ulimit -n)"
    absent out
    printf 'file,label\nset/train/cat/1.png,cat\nset/train/dog/1.png,dog\n' >few.csv
    (ulimit -n 4 && exec "$program" csv few.csv -o out) >output 2>messages
    [ $? -eq 4 ] || failed "not exit 4 for want of open files for a table"
    says "Too many open files (see ulimit -n)"
    grep -q "remove" messages && failed "files are to be removed for want of open files"
    absent out
}

writes_nothing_into_its_input() {
    for output in set set/ set/new/er set/../set/x "$PWD/set/x" ./set/train; do
        answers 2 "$output: is inside set, which is converted: choose a folder outside" folder set -o "$output"
    done
    (cd set/train && "$program" folder . -o shards 2>../../messages) && failed "wrote into the current folder"
    says "shards: is inside ., which is converted"
    absent set/new
    absent set/train/shards
    expect 0 folder set/train -o set-beside
    mkdir set/made
    expect 0 folder set/train -o set/made/shards
    rm -r set/made
}

skips_what_is_hidden_and_counts_the_rest_by_kind() {
    cp -r set/train mac
    mkdir -p mac/__MACOSX/cat mac/.git mac/dog/__MACOSX
    image x >mac/__MACOSX/cat/._1.png
    image x >mac/.git/1.png
    image x >mac/dog/__MACOSX/1.png
    echo text >mac/dog/._1.png
    for file in notes.txt cat/list.csv; do echo words >"mac/$file"; done
    printf '%%PDF-1.4' >mac/about.pdf
    tar cf mac.tar mac
    for input in "folder mac" "tar mac.tar"; do
        rm -rf out
        expect 0 $input -o out
        grep -q '21 train records' output || failed "$input: not 21 records: $(cat output)"
        says "left out 3 files that are no JPEG or PNG: "
        says "1 a PDF ("
        says "2 no image (the first "
        says "skipped 2 folders of a file server or an operating system (the first "
    done
    printf 'P6\n1 1\n255\n000' >mac/cat/p.pgm
    answers 3 "cat/p.pgm: is a PNM" folder mac -o out --force
    rm -r out mac
}

takes_tables_as_others_write_them() {
    mkdir ids
    for i in 0a1b 2c3d 4e5f; do image $i >ids/$i.png; done
    printf 'id,breed\n0a1b,pug\n2c3d,beagle\n4e5f,pug\n' >ids/labels.csv
    answers 0 "3 rows, the file is column 1, the label column 2, with a header row" csv ids/labels.csv -o ids-set
    says "3 paths have no extension: using the files with one, such as 0a1b.png"
    grep -q '3 train records' output || failed "not 3 records: $(cat output)"
    tr -d ' \n' <ids-set/dataset.json | grep -qF '"class_names":["beagle","pug"]' || failed "breed is a class"
    printf 'id,breed\n0a1b,pug\n2c3d,beagle\nnothing,pug\n' >ids/labels.csv
    answers 3 "nothing: No such file" csv ids/labels.csv -o out
    printf 'path,label\n2c3d.png,a\n0a1b,b\n4e5f,a\n' >ids/one.csv
    printf 'path,label\n4e5f,a\n' >ids/other.csv
    expect 0 csv ids/one.csv ids/other.csv -o two
    says "one.csv: 2 paths have no extension: using the files with one, such as 0a1b.png"
    says "other.csv: 1 path has no extension: using the files with one, such as 4e5f.png"
    echo text >ids/bad.png; echo text >ids/ill.png
    printf 'path,label\nbad,a\nill,b\n' >ids/one.csv
    answers 3 "bad.png: is no image" csv ids/one.csv -o out
    rm -r two
    printf 'path,label\n0a1b.png,1.0\n2c3d.png,2.000\n4e5f.png,10.0\n' >ids/labels.csv
    expect 0 csv ids/labels.csv -o floats
    grep -q '"classes": 11,' floats/dataset.json || failed "labels 1.0, 2.0, 10.0 are not 1, 2, 10"
    grep -q class_names floats/dataset.json && failed "1.0 is a name"
    printf 'path,label\n0a1b.png,1.0\n2c3d.png,x\n4e5f.png,10.5\n' >ids/labels.csv
    expect 0 csv ids/labels.csv -o named
    says "line 3: label 'x' is not a whole number: all labels are names, numbered in bytewise order"
    printf 'path,label\n0a1b.png,%s\n2c3d.png,%s\n4e5f.png,%s\n' x 1 2  1e0 2e0 2e0  0.5 1 1 | split -l 4 - ids/mixed-
    for table in ids/mixed-*; do
        cp $table ids/labels.csv
        expect 0 csv ids/labels.csv -o named --force
        says "is not a whole number: all labels are names"
    done
    while read -r one two three; do
        printf 'path,label\n0a1b.png,"%s"\n2c3d.png,"%s"\n4e5f.png,"%s"\n' "$one" "$two" "$three" | tr '~' ' ' >ids/labels.csv
        answers 3 "1 of 3 labels lists several classes, such as" csv ids/labels.csv -o lists
        says "(line 3): an image has one class, so keep one of them; choosing the labels with --label-column"
        absent lists
        answers 0 "1 of 3 labels lists several classes" csv ids/labels.csv -o named --force --label-column=label
        says "(line 3), and is a class of its own"
    done <<'end'
cat cat|dog dog
a b|c d
cat ['cat',~'dog'] dog
cat cat,dog dog
cat cat;dog dog
cat cat~dog dog
5 16~0 7
5 7,1,2 7
end
    while read -r one two; do
        printf 'path,label\n0a1b.png,"%s"\n2c3d.png,"%s"\n4e5f.png,other\n' "$one" "$two" | tr '~' ' ' >ids/labels.csv
        expect 0 csv ids/labels.csv -o named --force
        says "are two classes: write one name if they are one"
    done <<'end'
cat Cat
big~bird Big_Bird
True TRUE
cat 'cat'
end
    printf 'path,label\n0a1b.png,None\n2c3d.png,hot dog\n4e5f.png,hot\n' >ids/labels.csv
    answers 0 "line 2: label 'None' is a class: remove its rows if it is a missing value" csv ids/labels.csv -o named --force
    ! grep -qE 'several|are two classes' messages || failed "hot dog is no list: $(cat messages)"
    printf 'path,label\n0a1b.png,1\n2c3d.png,2\n4e5f.png,3\n' >ids/labels.csv
    answers 0 "1 of 4 labels have no training sample, such as 0, and each is an output" \
        csv ids/labels.csv -o named --force
    says "these begin at 1, so subtract 1"
    printf 'path,label\n0a1b.png,0\n2c3d.png,90\n4e5f.png,1\n' >ids/labels.csv
    answers 0 "88 of 91 labels have no training sample, such as 2, and each" csv ids/labels.csv -o named --force
    printf 'sep=|\r\npath|label\r\n0a1b.png|0\r\n2c3d.png|1\r\n' >ids/labels.csv
    answers 0 "2 rows, the file is column 1" csv ids/labels.csv -o named --force
    ! grep -q 'no training sample' messages || failed "there are no gaps: $(cat messages)"
    printf 'path,label\n0a1b.png,0\n0a1b.png,0\n' >ids/empty.csv
    answers 0 "all 2 validation samples have the same class: are their labels placeholders" \
        csv ids/labels.csv ids/empty.csv -o named --force
    printf '# by a program\npath,label\nids\\0a1b.png,0\nids\\2c3d,1\n' >turned.csv
    answers 0 "2 paths have backslashes: reading them as slashes, such as ids/0a1b.png" csv turned.csv -o named --force
    for scheme in https:// gs://bucket/ "file://$PWD/"; do
        printf "path,label\n${scheme}ids/0a1b.png,0\n${scheme}ids/2c3d.png,1\n" >addresses.csv
        answers 3 "addresses are not opened: download the images" csv addresses.csv -o out
    done
    answers 2 "a column split with train, validation and test makes three sets" csv a.csv b.csv c.csv -o out
    printf 'path,label\r0a1b.png,0\r2c3d.png,1\r' >ids/labels.csv
    answers 3 "lines that end with CR alone" csv ids/labels.csv -o out
    printf '\377\376p\0a\0t\0h\0\n\0' >ids/labels.csv
    answers 3 "UTF-16" csv ids/labels.csv -o out
    printf 'path,label,split\n0a1b.png,a,train\n2c3d.png,b,train\n0a1b.png,a,train\n2c3d.png,b,test\n' >ids/labels.csv
    answers 0 "1 row repeats an image and class that another row has, such as lines 2 and 4" csv ids/labels.csv -o again
    says "1 image is in two sets, such as 2c3d.png for train (ids/labels.csv, line 3) and validation"
    mkdir ids/train ids/val ids/testament
    for folder in train val testament; do image $folder >ids/$folder/1.png; done
    printf 'path,label\ntrain/1.png,a\n0a1b.png,b\nval/1.png,a\ntestament/1.png,b\n' >ids/labels.csv
    answers 0 "1 image is trained on, as there is no column of splits, in folders called validation" \
        csv ids/labels.csv -o again --force
    says "val/1.png (line 4)"
    expect 0 csv ids/labels.csv -o again --force --split-column=none
    ! grep -q 'column of splits' messages || failed "warned of what was decided: $(cat messages)"
    rm -r ids ids-set floats named again
}

# copies_are_said WORDS ARGUMENT... - of the set that these arguments convert, with any number of threads
copies_are_said() {
    words=$1
    shift
    for jobs in 1 5; do
        answers 0 "$words" "$@" -o copied --force --jobs=$jobs
        [ "$(grep -c 'validation images .* in the training set, too' messages)" -eq 1 ] || failed "not one line: $* ($(cat messages))"
    done
}

says_that_images_are_trained_on() {
    expect 0 folder set -o copied
    ! grep -q 'training set, too' messages || failed "copies where none are: $(cat messages)"
    cp -r set copies
    cp -r copies/val copies/test
    cp copies/train/cat/3.png copies/val/cat/2.png
    image other >copies/test/dog/1.png; image other >copies/train/dog/0.png
    copies_are_said "1 of 4 validation images is in the training set, too, such as copies: val/cat/2.png and \
copies: train/cat/3.png: what is trained on cannot validate" folder copies --no-decode
    sed -n 's/.*\(1 of 3 test .*\)/\1/p' messages | grep -q 'test/dog/1.png and copies: train/dog/0.png: .* cannot test' ||
        failed "test: $(cat messages)"
    rm -r copies/test
    cp copies/train/cat/3.png copies/val/dog/2.png
    copies_are_said "2 of 5 validation images are in the training set, too, 1 of them with another label, such as \
copies: val/dog/2.png and copies: train/cat/3.png: what" folder copies
    "$(dirname "$program")/pipetrain" -c /dev/null --set model.name=small_cifar --set data.train=copied \
        --set data.validation=copied --check 2>&1 | tr -s ' \n' ' ' >checked
    grep -q 'of train, too, 1 of them with another label (2 in record [0-9]* of validation-[^,]*, 1 in record' checked ||
        failed "--check: $(cat checked)"
    tar cf copies.tar copies
    copies_are_said "2 of 5 validation images are in the training set, too, 1 of them" tar copies.tar
    copies_are_said "2 of 5 validation images are in the training set, too, 1 of them" tfrecord copied
    cp copies/train/cat/3.png copies/train/dog/9.png
    copies_are_said "2 of 5 validation images are in the training set, too, 2 of them with another label, such as \
copies: val/cat/2.png and copies: train/dog/9.png: what" folder copies
    rm -r copies copies.tar
    for class in 1 2; do
        mkdir -p copies/$class
        for i in 1 2 3 4 5 6; do image "$class" >copies/$class/$i.png; done
    done
    copies_are_said "4 of 4 validation images are in the training set, too, such as" folder copies --validation=4
    { echo label,pixel0,pixel1,pixel2,pixel3; for i in 1 2 3; do echo 1,0,255,3,4; echo 0,9,8,7,$i; done; } >same.csv
    head -n 3 same.csv >some.csv
    copies_are_said "2 of 2 validation images are in the training set, too, such as validation sample 0 and \
train sample 0: what" csv same.csv some.csv
    rm -r copies copied same.csv some.csv
}

# contradictions_are_said WORDS ARGUMENT... - in one line of these arguments' conversion, with any number of threads
contradictions_are_said() {
    words=$1
    shift
    for jobs in 1 5; do
        answers 0 "$words" "$@" -o labelled --force --jobs=$jobs
        [ "$(grep -c 'of another class' messages)" -eq 1 ] || failed "not one line: $* ($(cat messages))"
    done
}

says_that_equal_images_of_a_set_have_two_classes() {
    cp -r set alike
    cp alike/train/cat/3.png alike/train/cat/8.png
    cp alike/val/dog/1.png alike/val/dog/2.png
    for input in set alike; do
        expect 0 folder $input -o labelled --force
        ! grep -q 'of another class' messages || failed "$input has no such images: $(cat messages)"
    done
    cp alike/train/cat/3.png alike/train/dog/9.png
    image gone >gone.png
    for name in "big bird/a" cat/b dog/c dog/d; do cp gone.png "alike/train/$name.png"; done
    contradictions_are_said "7 of 27 train images are equal to one of another class, such as alike: train/big bird/a.png and \
alike: train/cat/b.png: an image has one class" folder alike
    tar cf alike.tar alike
    contradictions_are_said "7 of 27 train images are equal to one of another class, such as" tar alike.tar
    contradictions_are_said "7 of 27 train images are equal to one of another class, such as" tfrecord labelled
    contradictions_are_said "7 of 27 train images are equal to one of another class, such as alike/train: big bird/a.png and \
alike/train: cat/b.png" folder alike/train
    rm alike/train/*/[a-d].png alike/train/dog/9.png
    for name in cat/8 dog/9; do cp gone.png "alike/val/$name.png"; done
    contradictions_are_said "2 of 6 validation images are equal to one of another class, such as alike: val/cat/8.png and \
alike: val/dog/9.png" folder alike
    { echo label,pixel0,pixel1,pixel2,pixel3; for i in 0 1 1; do echo $i,9,8,7,6; echo 0,1,2,3,4; done; } >alike.csv
    contradictions_are_said "3 of 6 train images are equal to one of another class, such as train sample 0 and train sample 2" \
        csv alike.csv
    rm -r alike alike.tar alike.csv labelled gone.png
}

says_that_no_set_is_made_of_a_split_without_classes() {
    for split in val test; do
        cp -r set flat
        rm -r flat/val
        mkdir flat/$split
        for i in 1 2; do image $i >flat/$split/$i.png; done
        expect 0 folder flat -o flat-set
        grep -q 'validation' output && failed "a validation set from nowhere: $(cat output)"
        says "flat: $split contains 2 images and no class: no validation set is made: put them into a folder for each class"
        rm -r flat flat-set
    done
}

names_the_classes_and_says_what_looks_like_another_split() {
    expect 0 folder set -o named
    grep -qx 'named: 3 classes: big bird, cat, dog' output || failed "no classes in: $(cat output)"
    mkdir many
    for i in $(seq 100 199); do mkdir many/class-$i; image $i >many/class-$i/a.png; image $i >many/class-$i/b.png; done
    expect 0 folder many -o many-set
    grep -q 'many-set: 100 classes: class-100, class-101, .* and 7. more$' output || failed "not shortened: $(cat output)"
    for name in test "Test Data" my-val; do
        cp -r set/val "$name"
        mkdir -p outer/; cp -r set/val "outer/$name"
        answers 0 "is called" folder "$name" -o other-set --force
        [ "$name" = my-val ] && answers 0 "folder my-val is called validation" folder outer -o other-set --force
        rm -rf "$name" outer
    done
    mkdir test-set
    (cd set/train && for class in cat dog; do for i in 1 2 3; do echo "$class/$i.png,$class"; done; done) >set/train/test.csv
    cp set/train/test.csv set/train/train.csv
    answers 2 "name the training set first" csv set/train/test.csv set/train/train.csv -o out
    answers 0 "set/train/test.csv: is called test" csv set/train/test.csv -o test-set
    rm set/train/test.csv set/train/train.csv
    absent out
    mkdir -p kinds/test kinds/cat kinds/dog
    for kind in test cat dog; do image $kind >kinds/$kind/1.png; done
    answers 3 "--folders-are-classes" folder kinds -o out
    expect 0 folder kinds -o kinds-set --folders-are-classes
    grep -qx 'kinds-set: 3 classes: cat, dog, test' output || failed "not three classes: $(cat output)"
    for kind in prueba/cat prueba/dog datos/cat datos/dog; do mkdir -p es/$kind; image $kind >es/$kind/1.png; done
    answers 3 "the folders datos, prueba, ... hold the same folders cat, dog" folder es -o out
    expect 0 folder es -o es-set --folders-are-classes
    grep -qx 'es-set: 2 classes: datos, prueba' output || failed "not two classes: $(cat output)"
    answers 2 "--folders-are-classes does not apply" csv x.csv -o out --folders-are-classes
}

says_what_numbers_and_tables_beside_folders_mean() {
    for i in 0 1 2 3 10 11; do mkdir -p digits/$i; for k in 1 2; do image $i-$k >digits/$i/$k.png; done; done
    answers 0 "digits: the folders are numbers, and classes are in bytewise order: the label of folder 2 is 4" \
        folder digits -o digits-set
    rm -r digits/1? digits-set
    printf 'image,label\n0/1.png,cat\n1/1.png,dog\n' >digits/labels.csv
    answers 0 "if the table beside them has the classes: pipetrain-convert csv digits/labels.csv" folder digits -o digits-set
    ! grep -q 'bytewise' messages || failed "numbers are in order: $(cat messages)"
    rm -r digits digits-set
}

# turned ORIENTATION - a JPEG of 3 x 2 pixels, all but its data, with EXIF data
turned() {
    printf '\377\330\377\341\000\042Exif\000\000MM\000*\000\000\000\010\000\001\001\022\000\003\000\000\000\001\000%b\000\000' "\\00$1"
    printf '\000\000\000\000\377\300\000\013\010\000\002\000\003\001\001\021\000\377\332\000\010\001\001\000\000\077\000abc'
}

counts_images_that_are_to_be_turned_and_names_those_cut_short() {
    mkdir -p phone/a phone/b
    for i in 1 3 6; do
        { turned $i; printf '\377\331'; } >phone/a/$i.jpg
    done
    turned 1 >phone/b/cut.jpg
    grey >phone/b/whole.png
    grey | head -c 60 >phone/b/cut.png
    tar cf phone.tar -C phone a b
    for input in "folder phone" "tar phone.tar"; do
        rm -rf out
        expect 0 $input -o out --no-decode
        says ": 2 images have an EXIF orientation (the first a/3.jpg): training and prediction apply it with augment.orientation = exif only"
        says ": b/cut.jpg: is cut short: the end of the JPEG is missing"
        says ": b/cut.png: is cut short: the end of the PNG is missing"
        says "2 damaged images are stored: training decodes them as far as possible"
        [ "$(grep -c . messages)" -eq 4 ] || failed "$input: not 4 lines: $(cat messages)"
    done
    "$(dirname "$program")/pipetrain-shards" stats out >output
    grep -q '^  *2  are rotated by their EXIF orientation' output || failed "stats: $(cat output)"
    rm -rf grey/cut
    mkdir grey/cut
    grey | head -c 50 >grey/cut/1.png
    answers 3 "grey: cut/1.png: holds a PNG image that cannot be decoded" folder grey -o cut-set
    absent cut-set
    expect 0 folder grey -o cut-set --no-decode
    "$(dirname "$program")/pipetrain-shards" check --decode cut-set >output
    [ $? -eq 3 ] || failed "an image that is cut short is no damage"
    grep -q ': 1.png: feature .image/encoded. holds a PNG image' output || failed "not named: $(cat output)"
    grep -q ': 1 damage in 1 shard$' output || failed "more than one is damaged: $(cat output)"
    rm -r out grey/cut
}

# Numbers of 12 bits in a PNG of 16, and a picture in the opacity of black.
levels() {
    printf '\211PNG\015\012\032\012\000\000\000\015IHDR\000\000\000\002\000\000\000\002\020\000\000\000\000\007M\216\273'
    printf '\000\000\000\022IDATx\332c``\340\377\317\314~\341\007#\000\012\371\002\342]\001|\010\000\000\000\000IEND\256B`\202'
}

opacity() {
    printf '\211PNG\015\012\032\012\000\000\000\015IHDR\000\000\000\002\000\000\000\002\010\006\000\000\000r\266\015$'
    printf '\000\000\000\020IDATx\332c```\370\317\200\004\222\001\016g\001cI$q\307\000\000\000\000IEND\256B`\202'
}

says_that_images_show_little() {
    mkdir -p little/a little/b
    for i in 1 2 3 4; do
        levels | tee little/a/$i.png >little/b/$i.png
    done
    answers 0 "out: the train images are dark: their brightest pixel is 15 of 255; if that is white, " folder little -o out
    grep -q "one colour" messages && failed "not of one colour: $(cat messages)"
    for change in "" --raw; do
        opacity >little/b/3.png
        answers 0 "1 image is nearly of one colour: little: b/3.png" folder little -o out --force $change
        opacity >little/a/2.png
        answers 0 "2 images are nearly of one colour: the first is little: a/2.png" folder little -o out --force $change
        says "without its opacity"
        "$(dirname "$program")/pipetrain" -c /dev/null --set model.name=small_cifar --set data.train=out --check >checked 2>&1
        grep -q '^ *2 of them are nearly of one colour: the first is record' checked || failed "--check: $(cat checked)"
        says "is 15 of 255"
        levels >little/a/2.png
    done
    rm -r little out checked
}

# flip FILE BIT - with one bit changed
flip() {
    at=$(($2 / 8))
    old=$(od -An -tu1 -j $at -N 1 "$1" | tr -d ' ')
    new=$(printf %03o $(((old & ~(1 << $2 % 8)) | (~old & (1 << $2 % 8)))))
    printf "\\$new" | dd of="$1" bs=1 seek=$at conv=notrunc 2>/dev/null
}

decodes_what_it_stores_and_names_all_that_is_damaged() {
    mkdir -p flips/a flips/b
    grey >flips/a/whole.png
    bytes=$(wc -c <flips/a/whole.png)
    bit=3 count=0
    while [ $bit -lt $((8 * bytes)) ]; do
        grey >flips/b/$bit.png
        flip flips/b/$bit.png $bit
        bit=$((bit + 13)) count=$((count + 1))
    done
    (cd flips && for i in b/*.png; do echo "$i,b"; done && echo a/whole.png,a) >flips/list.csv
    tar cf flips.tar -C flips a b
    for input in "folder flips" "tar flips.tar" "csv flips/list.csv"; do
        answers 3 ": $count files cannot be used: remove or replace them" $input -o out --jobs=2
        absent out
        [ "$(grep -c ': b/[0-9]*\.png: ' messages)" -eq $count ] || failed "$input: not all $count are named: $(cat messages)"
        grep -q whole messages && failed "$input: $(cat messages)"
    done
    rm flips/b/*.png
    for where in 30 45 50; do
        grey >flips/b/$where.png
        flip flips/b/$where.png $((8 * where))
    done
    rm -f flips/list.csv
    expect 0 folder flips -o unseen --no-decode
    answers 3 "3 images cannot be decoded: nothing was written: replace or remove them" tfrecord unseen -o out
    absent out
    expect 0 tfrecord unseen -o out --no-decode
    expect 2 tfrecord unseen -o out2 --no-decode --raw
    expect 3 tfrecord unseen -o out2 --raw
    [ "$(grep -c cannot.be.decoded: messages)" -eq 4 ] || failed "not all three: $(cat messages)"
    rm -r out flips unseen
}

says_what_was_meant() {
    for name in zip 7z archive ZIP; do answers 2 "use 'tar'" $name x.zip -o out; done
    answers 2 "use 'folder'" images x -o out
    answers 2 "use 'csv'" tsv x -o out
    : >x.tar.gz
    answers 3 "x.tar.gz: is a file, not a folder: convert it with 'tar' if it is an archive" folder x.tar.gz -o out
    : >all.csv
    answers 3 "all.csv: is a file, not a folder: convert it with 'csv'" folder all.csv -o out
    nfc=$(printf 'caf\303\251') nfd=$(printf 'cafe\314\201')
    for class in tea "$nfc"; do mkdir -p "accents/train/$class"; image x >"accents/train/$class/1.png"; done
    mkdir -p "accents/val/$nfd"
    image y >"accents/val/$nfd/1.png"
    answers 3 "'$nfc' there looks the same" folder accents -o out
    mv "accents/val/$nfd" "accents/val/tea "
    answers 3 "folder 'tea ' is not a class of the training set: 'tea' there looks the same, but differs in blanks" folder accents -o out
    mv "accents/val/tea " accents/train/Tea
    expect 0 folder accents/train -o out
    says "1 class differs from another only in capitals, such as '"
    for class in tea Tea "$nfc"; do
        echo 1 >"accents/train/$class/1.json"
        for part in b c; do
            mkdir "accents/train/$class/$part-$class"
            cp "accents/train/$class/1.png" "accents/train/$class/$part-$class"
        done
        mv "accents/train/$class/1.json" "accents/train/$class/b-$class"
        echo 2 >"accents/train/$class/2.json"
        rm "accents/train/$class/1.png"
    done
    mkdir accents/train/tea/tea
    cp accents/train/tea/b-tea/1.png accents/train/tea/tea/1.png
    echo 3 >accents/train/tea/tea/1.json
    expect 0 folder accents/train -o out --force
    says "1 class contains a folder of the same name beside other images, such as tea/tea: remove it if it is a copy"
    says "3 of 3 classes consist of folders, such as Tea of b-Tea and c-Tea: if these are the classes"
    says "there are about as many other files as images: if these hold the classes"
    rm -r out
    absent out
    rm -r accents
}

# The commands in messages run as they are printed.
prints_commands_that_can_be_pasted() {
    path=$(dirname "$program"):$PATH
    mkdir -p "it's a/train" "it's a/val"
    for i in 1 2; do image $i >"it's a/train/$i.png"; image $i >"it's a/val/$i.png"; done
    for split in train val; do printf 'file,class\n1.png,cat\n2.png,dog\n' >"it's a/$split/meta.csv"; done
    expect 3 folder "it's a" -o out
    command=$(sed -n 's/.*(\(pipetrain-convert csv .*\)).*/\1/p' messages)
    [ -n "$command" ] || failed "no command: $(cat messages)"
    (PATH=$path && eval "$command -o pasted") >output 2>&1 || failed "cannot be pasted: $command: $(cat output)"
    grep -q '2 train records in 2 shards, 2 validation' output || failed "$command: $(cat output)"
    mkdir "it's a/my photos"
    for i in 1 2; do image $i >"it's a/my photos/t$i.png"; done
    printf 'file,class\nt1.png,cat\nt2.png,dog\n' >"it's a/all.csv"
    expect 3 csv "it's a/all.csv" -o out
    option=$(sed -n 's/.*: add \(--images=.*\)): t1.png.*/\1/p' messages)
    (PATH=$path && eval "pipetrain-convert csv \"it's a/all.csv\" -o pasted --force $option") >output 2>&1 ||
        failed "cannot be pasted: $option: $(cat output messages)"
    absent out
    rm -r "it's a" pasted
}

# sized BYTES - the header of a PNG with so many bytes for width and height
sized() {
    printf '\211PNG\r\n\032\n\000\000\000\rIHDR%b\010\002\000\000\000pixels' "$1"
}

refuses_images_too_large_to_train_with() {
    mkdir -p large/a large/b
    sized '\000\000\040\000\000\000\040\000' >large/a/8192.png
    image x >large/b/1.png
    expect 0 folder large -o large-set --no-decode
    sized '\000\001\206\240\000\001\206\240' >large/b/100000.png
    sized '\000\000\040\001\000\000\040\000' >large/b/8193.png
    (cd large && printf 'file,label\nb/100000.png,a\na/8192.png,b\n') >large/list.csv
    tar cf large.tar -C large a b
    for input in "folder large" "tar large.tar" "csv large/list.csv"; do
        answers 3 "b/100000.png: has more than 64 Mi pixels by its header, which training refuses" $input -o out
        absent out
    done
    rm large/a/8192.png
    image x >large/a/1.png
    answers 3 "2 files cannot be used" folder large -o out
}

refuses_and_leaves_nothing() {
    mkdir -p bad/a bad/b
    image x >bad/a/1.png
    : >bad/b/1.png
    answers 3 "pipetrain-convert: bad: 1 file cannot be used: remove or replace it, or give --skip-unreadable to leave it out: b/1.png: is empty" folder bad -o out
    ln -s /etc/passwd bad/b/2.png
    tar cf bad.tar -C bad b/2.png
    answers 3 "b/2.png: is a symbolic link" tar bad.tar -o out
    answers 3 "nowhere" folder nowhere -o out
    expect 3 csv set/train/cat/1.png -o out
    expect 2 folder -o out
    expect 2 folder set set -o out
    expect 2 csv a b c -o out
    absent out
}

make_set
stores_every_image_as_it_is_once
gives_the_same_bytes_for_any_wrapping_and_number_of_jobs
holds_out_validation_images
keeps_all_splits_of_shards
takes_tables
lets_options_choose_columns
refuses_a_class_that_only_validation_has
changes_images_the_same_way_for_any_number_of_jobs
makes_what_the_example_trains_on
refuses_to_change_what_it_cannot_read
refuses_classes_that_become_one
says_that_files_could_not_be_opened
writes_nothing_into_its_input
skips_what_is_hidden_and_counts_the_rest_by_kind
counts_images_that_are_to_be_turned_and_names_those_cut_short
says_that_images_show_little
takes_tables_as_others_write_them
names_the_classes_and_says_what_looks_like_another_split
says_what_numbers_and_tables_beside_folders_mean
says_that_images_are_trained_on
says_that_equal_images_of_a_set_have_two_classes
says_that_no_set_is_made_of_a_split_without_classes
decodes_what_it_stores_and_names_all_that_is_damaged
says_what_was_meant
prints_commands_that_can_be_pasted
refuses_images_too_large_to_train_with
refuses_and_leaves_nothing
[ $failures -eq 0 ]
