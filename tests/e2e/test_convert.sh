#!/bin/sh
# pipetrain-convert from end to end: what it writes, what it refuses, what it leaves behind.
. "$(dirname "$0")/convert.sh"
shards=$(dirname "$program")/pipetrain-shards

# big_endian NUMBER - four bytes
big_endian() {
    printf "\\000\\000\\$(printf %03o $(($1 / 256)))\\$(printf %03o $(($1 % 256)))"
}

# make_images COUNT FIRST - images of 2x3; pixel p of image i is FIRST + 10 i + p
make_images() {
    printf '\000\000\010\003'
    big_endian "$1"
    big_endian 2
    big_endian 3
    i=0
    while [ $i -lt "$1" ]; do
        for p in 0 1 2 3 4 5; do
            printf "\\$(printf %03o $(($2 + 10 * i + p)))"
        done
        i=$((i + 1))
    done
}

# make_labels COUNT - label i is (3 i + 1) mod 10
make_labels() {
    printf '\000\000\010\001'
    big_endian "$1"
    i=0
    while [ $i -lt "$1" ]; do
        printf "\\$(printf %03o $(((3 * i + 1) % 10)))"
        i=$((i + 1))
    done
}

# make_set DIRECTORY - 11 training and 3 test images
make_set() {
    mkdir -p "$1"
    make_images 11 1 >"$1/train-images-idx3-ubyte"
    make_labels 11 >"$1/train-labels-idx1-ubyte"
    make_images 3 130 >"$1/t10k-images-idx3-ubyte"
    make_labels 3 >"$1/t10k-labels-idx1-ubyte"
}

# bytes_at FILE OFFSET COUNT - as decimal numbers
bytes_at() {
    od -An -v -tu1 -j "$2" -N "$3" "$1" | tr -s ' \n' '  ' | sed 's/^ //; s/ $//'
}

# list_records FILE... - a line "label: pixels" for each record; the words that name a
# feature do not occur among the pixels
list_records() {
    for file in "$@"; do
        set -- $(grep -abo image_raw "$file" | cut -d: -f1)
        for label_at in $(grep -abo label "$file" | cut -d: -f1); do
            echo "$(bytes_at "$file" $((label_at + 11)) 1): $(bytes_at "$file" $(($1 + 15)) 6)"
            shift
        done
    done
}

# expected_records COUNT FIRST - what list_records says of the set made above
expected_records() {
    i=0
    while [ $i -lt "$1" ]; do
        f=$(($2 + 10 * i))
        echo "$(((3 * i + 1) % 10)): $f $((f + 1)) $((f + 2)) $((f + 3)) $((f + 4)) $((f + 5))"
        i=$((i + 1))
    done
}

writes_every_image_with_its_label_once() {
    answers 0 "not the MNIST original" mnist set -o plain
    list_records plain/train-0000?-of-00004 | sort >found
    expected_records 11 1 | sort >wanted
    cmp -s found wanted || failed "training records differ"
    list_records plain/validation-00000-of-00001 | sort >found
    expected_records 3 130 | sort >wanted
    cmp -s found wanted || failed "validation records differ"
    [ "$(ls -A plain | wc -l)" -eq 6 ] || failed "other files than shards and manifest: $(ls -A plain)"
    grep -q '"records": 11,' plain/dataset.json || failed "no count in dataset.json"
}

# The training images have the values i + 10 j + 1 with i to 5 and j to 10: mean 53.5, variance 35/12 + 1000.
tells_mean_and_deviation_of_training_pixels() {
    tr -d ' \n' <plain/dataset.json | grep -qF '"depth":1,"mean":[53.5],"deviation":[31.66885' ||
        failed "mean or deviation: $(grep -A 6 depth plain/dataset.json)"
}

shuffles_by_seed() {
    expect 0 mnist set -o seed2 --shuffle 2
    list_records plain/train-* >found
    list_records seed2/train-* >found2
    cmp -s found found2 && failed "another seed gives the same order"
    expected_records 11 1 >wanted
    cmp -s found wanted && failed "records are not shuffled"
    sort found >found.sorted
    sort found2 | cmp -s - found.sorted || failed "another seed gives other records"
}

says_nothing_when_it_is_to_be_quiet() {
    expect 0 digits -o quiet --quiet --train 60 --validation 20
    [ ! -s output ] && [ ! -s messages ] || failed "--quiet says: $(cat output messages)"
    expect 0 digits -o quick -q --train 60 --validation 20
    [ ! -s output ] && [ ! -s messages ] || failed "-q says: $(cat output messages)"
    expect 2 digits -o loud --progress=loud --train 60 --validation 20
    expect 0 digits -o calm --progress=none --train 60 --validation 20
    [ -s output ] || failed "--progress=none leaves out the result"
    expect 0 digits -o lines --progress=json --train 60 --validation 20
    ! grep -q "$(printf '[\r\033]')" output messages || failed "control characters where there is no terminal"
}

gives_the_same_bytes_for_any_number_of_jobs() {
    for jobs in 1 2 7; do
        expect 0 mnist set -o "jobs$jobs" --jobs $jobs
        diff -r plain "jobs$jobs" >&2 || failed "--jobs $jobs gives other bytes"
        expect 0 digits -o "digits$jobs" --jobs $jobs --train 60 --validation 20 --shards 5
        diff -r digits1 "digits$jobs" >&2 || failed "digits --jobs $jobs gives other bytes"
    done
    expect 0 digits -o digits_seed --train 60 --validation 20 --shards 5 --shuffle 2
    cmp -s digits1/validation-00000-of-00001 digits_seed/validation-00000-of-00001 && failed "the seed changes nothing"
    expect 0 digits -o none --train 10 --validation 0
    absent none/validation-00000-of-00001
}

takes_gzip_and_names_with_a_dot() {
    make_set dots
    for file in dots/*; do
        gzip -n "$file"
        mv "$file.gz" "$(echo "$file" | sed 's/-idx/.idx/').gz"
    done
    expect 0 mnist dots -o from_dots
    diff -r plain from_dots >&2 || failed "gzip gives other bytes"
}

# refuses_input WORDS - ./bad is refused with exit 3 and nothing is left
refuses_input() {
    answers 3 "$1" mnist bad -o bad_out
    absent bad_out
    rm -rf bad
    make_set bad
}

# A folder may hold each file under several names, with the same data only.
refuses_other_data_under_another_name() {
    make_set bad
    for name in train-images-idx3 train-labels-idx1 t10k-images-idx3 t10k-labels-idx1; do
        for other in "$name-ubyte.gz" "$(echo $name | sed 's/-idx/.idx/')-ubyte"; do
            case $other in *.gz) pack="gzip -n" ;; *) pack=cat ;; esac
            $pack <bad/$name-ubyte >bad/$other
            expect 0 mnist bad -o bad_out
            rm -r bad_out
            case $name in *images*) make_images 11 2 ;; *) make_labels 12 ;; esac | $pack >bad/$other
            refuses_input "bad/$name-ubyte and bad/$other hold different data"
        done
    done
    for name in emnist my-EMNIST femnist; do
        cp -r bad $name
        expect 0 mnist $name -o bad_out
        grep -q "$name: EMNIST as downloaded has rows and columns of its images exchanged" messages && reported=yes || reported=no
        [ $reported = no ] && [ $name != femnist ] && failed "$name: not reported: $(cat messages)"
        [ $reported = yes ] && [ $name = femnist ] && failed "$name: upright: $(cat messages)"
        rm -r bad_out $name
    done
    rm -r bad
}

# says_emnist NAME INPUT - a conversion of INPUT reports that NAME is of EMNIST
says_emnist() {
    expect 0 mnist "$2" -o bad_out
    says "$1: EMNIST as downloaded has rows and columns of its images exchanged"
    rm -r bad_out
}

# EMNIST's own files, whatever they are called where they are converted from.
knows_the_files_of_emnist() {
    make_set bad
    mkdir letters gzip links renamed mixed
    for file in train-images-idx3 train-labels-idx1 t10k-images-idx3 t10k-labels-idx1; do
        name=emnist-digits-$(echo $file | sed s/t10k/test/)-ubyte
        mv bad/$file-ubyte $name
        ln -s ../$name links/$file-ubyte
        cp $name letters/
        gzip -k $name
        cp $name.gz gzip/
        mv $name.gz renamed/$file-ubyte.gz
        cp $name mixed/
        : >mixed/$(echo $name | sed s/digits/mnist/)
    done
    says_emnist letters/emnist-digits-train-images-idx3-ubyte letters
    says_emnist gzip/emnist-digits-train-images-idx3-ubyte.gz gzip
    says_emnist "links/train-images-idx3-ubyte ($(pwd -P)/emnist-digits-train-images-idx3-ubyte)" links
    says_emnist "renamed/train-images-idx3-ubyte.gz (emnist-digits-train-images-idx3-ubyte)" renamed
    expect 0 mnist gzip -o from_gzip
    diff -r plain from_gzip >&2 || failed "other names give other records"
    for part in "train 240000 \003\251\200" "t10k 40000 \000\234\100"; do
        set -- $part
        { printf "\000\000\010\003\000$3\000\000\000\001\000\000\000\001"; head -c $2 /dev/zero; } >bad/$1-images-idx3-ubyte
        { printf "\000\000\010\001\000$3"; head -c $2 /dev/zero; } >bad/$1-labels-idx1-ubyte
    done
    says_emnist bad bad
    rm letters/*test-labels*
    answers 3 "letters: files are missing: emnist-digits-test-labels-idx1-ubyte" mnist letters -o bad_out
    answers 3 "mixed: has files of several sets of EMNIST" mnist mixed -o bad_out
    rm -r bad letters gzip links renamed mixed from_gzip
}

refuses_damaged_input() {
    make_set bad
    printf '\001' | dd of=bad/train-images-idx3-ubyte conv=notrunc 2>/dev/null
    refuses_input "bad/train-images-idx3-ubyte: not an IDX file"
    printf '\000\000\015\003' | dd of=bad/train-images-idx3-ubyte conv=notrunc 2>/dev/null
    refuses_input "unsigned bytes"
    cp bad/train-labels-idx1-ubyte bad/train-images-idx3-ubyte
    refuses_input "bad/train-images-idx3-ubyte: is no file of images"
    cp bad/train-images-idx3-ubyte bad/t10k-labels-idx1-ubyte
    refuses_input "bad/t10k-labels-idx1-ubyte: is no file of labels"
    make_labels 10 >bad/train-labels-idx1-ubyte
    refuses_input "11 images"
    printf x >>bad/t10k-images-idx3-ubyte
    refuses_input "more bytes"
    printf '\012' | dd of=bad/train-labels-idx1-ubyte bs=1 seek=10 conv=notrunc 2>/dev/null
    refuses_input "label 10 of image 2 is not in 0..9, as in MNIST"
    rm bad/train-labels-idx1-ubyte bad/t10k-images-idx3-ubyte
    refuses_input "train-labels-idx1-ubyte[.gz], t10k-images-idx3-ubyte[.gz]"
    rm bad/train-images-idx3-ubyte
    mkdir bad/train-images-idx3-ubyte
    refuses_input "bad/train-images-idx3-ubyte: cannot read it"
    make_images 0 1 >bad/t10k-images-idx3-ubyte
    make_labels 0 >bad/t10k-labels-idx1-ubyte
    refuses_input "holds no pixels"
    { printf '\000\000\010\003'; big_endian 3; big_endian 1; big_endian 1; printf abc; } >bad/t10k-images-idx3-ubyte
    refuses_input "1x1"
    : >bad/train-images-idx3-ubyte
    refuses_input "shorter than its magic"
    gzip -n bad/train-images-idx3-ubyte
    size=$(wc -c <bad/train-images-idx3-ubyte.gz)
    head -c $((size - 5)) bad/train-images-idx3-ubyte.gz >cut && mv cut bad/train-images-idx3-ubyte.gz
    refuses_input "damaged or cut short"
    answers 3 "pipetrain-convert: nowhere: files are missing" mnist nowhere -o bad_out
    says "t10k-labels-idx1-ubyte[.gz]; those of other data sets have to be called so (EMNIST's may keep their names)"
    mkdir -p data/MNIST data/other
    mv set data/MNIST/raw
    answers 3 "files are missing" mnist data -o bad_out
    says "; there are such files in data/MNIST/raw"
    mv data/MNIST/raw set
    rm -r data
    answers 3 "is a file: give the folder" mnist bad/t10k-labels-idx1-ubyte -o bad_out
}

refuses_files_cut_at_any_byte() {
    make_set bad
    for name in train-images-idx3-ubyte t10k-labels-idx1-ubyte; do
        size=$(wc -c <"set/$name")
        cut=0
        while [ $cut -lt "$size" ]; do
            head -c $cut "set/$name" >"bad/$name"
            answers 3 "bad/$name" mnist bad -o bad_out
            cut=$((cut + 3))
        done
        cp "set/$name" "bad/$name"
    done
    absent bad_out
}

answers_wrong_usage() {
    expect 2
    expect 2 mnist
    expect 2 mnist set
    expect 2 mnist set more -o out
    expect 2 mnits set -o out
    expect 2 digits -o out --sharts 3
    expect 2 digits -o out --shards 0
    expect 2 digits -o out --shards -1
    expect 2 digits -o out --jobs 2x
    expect 2 digits -o out --train 0
    expect 2 digits -o out --shuffle 18446744073709551616
    expect 2 digits -o
    answers 2 "--train does not apply" mnist set -o out --train 5
    answers 2 "has a validation set already (a test set becomes one" mnist set -o out --validation 0.1
    for share in 0,1 10% 1/10 .; do
        answers 2 "'$share' is neither a whole number nor a fraction between 0 and 1, such as 0.1" mnist set -o out --validation=$share
    done
    expect 2 digits -o out --validation 0.1
    answers 2 "a fraction between 0 and 1" digits -o out --validation 1.0
    answers 2 "only 11" mnist set -o out --shards 12
    absent out
    expect 0 --help
    grep -q "^Usage: " output || failed "--help shows no usage"
    [ -z "$(awk 'length > 80' output)" ] || failed "lines of --help over 80 columns: $(awk 'length > 80' output)"
    expect 0 --version
    grep -q "^pipetrain-convert " output || failed "--version shows no version"
}

replaces_a_set_when_forced_only() {
    expect 0 mnist set -o again
    answers 5 "again/dataset.json: there is a data set already" mnist set -o again --shuffle 2
    says "--force"
    diff -r again plain >&2 || failed "a refused run changed something"
    expect 0 mnist set -o again --shuffle 2 --force
    diff -r again seed2 >&2 || failed "the second run did not replace the first"
    expect 0 mnist set -o again --shards 3 --force
    [ "$(ls again | wc -l)" -eq 5 ] || failed "shards of two sets: $(ls again)"
    expect 0 digits -o again --train 20 --validation 0 --force
    absent again/validation-00000-of-00001
    mkdir foreign
    : >foreign/train-00000-of-00002
    answers 5 "foreign/train-00000-of-00002: there is a data set already" mnist set -o foreign
}

# What a run leaves that is killed before it begins to give the shards their names, in the place of another set.
clears_up_after_a_run_cut_short() {
    cp -r seed2 cut
    cp plain/dataset.json cut/.dataset.json.tmp
    cp plain/train-00003-of-00004 cut/.train-00003-of-00004.tmp
    answers 5 "cut/dataset.json: there is a data set already" mnist set -o cut --shards 2
    expect 0 mnist set -o cut --force
    diff -r plain cut >&2 || failed "something of the dead run is left: $(ls -A cut)"
    rm -r cut
}

# cut_commit - ./cut as a run leaves it that is killed while it puts ./plain in the place of a set of two shards
cut_commit() {
    rm -rf cut
    cp -r plain cut
    mv cut/dataset.json cut/.dataset.json.commit
    mv cut/train-00003-of-00004 cut/.train-00003-of-00004.tmp
    cp plain/train-00000-of-00004 cut/train-00000-of-00002
}

finishes_a_renaming_cut_short() {
    cut_commit
    answers 5 "cut: finished the commit of a data set that an earlier run had begun" mnist set -o cut --shuffle 2
    says "cut/dataset.json: there is a data set already"
    diff -r plain cut >&2 || failed "it is not finished"
    cut_commit
    expect 0 mnist set -o cut --shuffle 2 --force
    diff -r seed2 cut >&2 || failed "the set that came later is not there"
    cut_commit
    expect 0 tfrecord cut -o cut --shuffle none --shards 4 --force
    list_records plain/train-* >found
    list_records cut/train-* | cmp - found >&2 || failed "records were lost"
    cut_commit
    expect 0 tfrecord cut -o other --shuffle none
    diff -r plain cut >&2 || failed "what was read is not finished"
    rm -r other
}

# A mixture of two sets is neither read nor built from.
refuses_a_mixture_of_two_sets() {
    cut_commit
    cp -r cut before
    for words in cut 'cut/train-*' cut/train-00000-of-00002; do
        for command in check list stats; do
            "$shards" $command "$words" >output 2>messages
            status=$?
            [ $status -eq 3 ] || failed "exit $status, not 3: $command $words"
            says "a data set was being put in place in this directory"
        done
    done
    answers 3 "a data set was being put in place in this directory" tfrecord 'cut/train-*' -o out
    echo cut short >cut/.train-00003-of-00004.tmp
    answers 5 "train-00003-of-00004 is missing or has another length" mnist set -o cut --force
    cp before/.train-00003-of-00004.tmp cut
    diff -r before cut >&2 || failed "something was changed"
    absent out
    rm -r cut before
}

leaves_a_set_whole_that_cannot_be_replaced() {
    for name in train-00001-of-00004 train-00001-of-00009; do
        expect 0 mnist set -o kept --shards 2
        cp -r kept before
        mkdir kept/$name
        answers 5 "kept/$name: is a directory in the place of a file of the data set" mnist set -o kept --force
        rmdir kept/$name
        diff -r before kept >&2 || failed "the set is not as it was"
        rm -r kept before
    done
}

makes_directories_and_takes_them_back() {
    expect 0 mnist set -o made/for//it/
    diff -r plain made/for/it >&2 || failed "the shards differ"
    expect 2 mnist set -o made/in/vain --shards 12
    absent made/in
    (ulimit -f 8 && "$program" digits -o made/too/large --train 200 --validation 10 2>messages) && failed "exit 0"
    absent made/too
}

shares_out_by_bytes() {
    expect 0 digits -o sized --train 100 --validation 30 --shard-size 20KiB
    [ "$(ls sized/train-* | wc -l)" -eq 5 ] || failed "shards of 20 KiB: $(ls -l sized)"
    [ "$(ls sized/validation-* | wc -l)" -eq 2 ] || failed "validation in shards of 20 KiB: $(ls -l sized)"
    expect 2 digits -o out --shards 2 --shard-size 20KiB
    expect 2 digits -o out --shard-size 0
    expect 2 digits -o out --shard-size 20Kx
    expect 2 digits -o out --shard-size 20000000TiB
    answers 2 "larger --shard-size" digits -o out --shard-size 1 --train 200000
    expect 0 digits -o single --shard-size 1 --train 11 --validation 0
    [ "$(ls single/train-* | wc -l)" -eq 11 ] || failed "a shard a record: $(ls single)"
}

leaves_others_files_alone() {
    mkdir links
    echo precious >precious
    ln -s ../precious links/.train-00000-of-00004.tmp
    ln -s ../precious links/train-00001-of-00004
    echo other >links/train.txt
    echo stale >links/.train-00000-of-00009.tmp
    expect 0 mnist set -o links --force
    [ "$(cat precious)" = precious ] || failed "a link was followed"
    [ -L links/train-00001-of-00004 ] && failed "a link was left in place of a shard"
    [ "$(cat links/train.txt)" = other ] || failed "a file of others was touched"
    absent links/.train-00000-of-00009.tmp
    rm links/train.txt
    diff -r plain links >&2 || failed "the shards differ"
    (umask 077 && "$program" mnist set -o private 2>/dev/null >&2)
    [ -z "$(find private -type f ! -perm 600)" ] || failed "umask was not followed"
}

ends_with_5_when_it_cannot_write() {
    : >file
    expect 5 mnist set -o file
    expect 5 mnist set -o file/out
    (ulimit -f 8 && "$program" digits -o limited --train 200 --validation 10 >output 2>messages)
    status=$?
    [ $status -eq 5 ] || failed "exit $status when files cannot grow"
    says "cannot write"
    absent limited
}

# What nobody reads is no error of a set that is complete; what cannot be written is one.
ends_with_the_reader_of_its_last_lines() {
    for what in "digits -o unread --train 200" --help; do
        { "$program" $what 2>messages; echo $? >status; } | true
        case $(cat status) in 0 | 141) ;; *) failed "exit $(cat status): $what | true" ;; esac
        ! grep -q "standard output" messages || failed "$what | true: $(cat messages)"
    done
    "$shards" check unread >output 2>messages || failed "the set is not complete: $(cat messages)"
    "$program" digits -o full --train 200 >/dev/full 2>messages
    status=$?
    [ $status -eq 5 ] || failed "exit $status on a full device"
    says "standard output: not all could be written"
}

# A second converter in the same directory is refused and leaves what the first one has begun.
leaves_anothers_set_alone() {
    "$program" digits -o shared --train 3000000 >/dev/null 2>&1 &
    process=$!
    tries=0
    while [ ! -e shared/.train-00000-of-00004.tmp ] && [ $tries -lt 2400 ]; do
        sleep 0.05
        tries=$((tries + 1))
    done
    answers 5 "another pipetrain-convert is writing there" digits -o shared --train 100
    [ -e shared/.train-00000-of-00004.tmp ] || failed "another's files are gone"
    kill $process
    wait $process
}

leaves_nothing_when_stopped() {
    for signal in TERM INT HUP USR1; do
        # INT is ignored in background jobs of a shell without job control, HUP under nohup: env puts them back.
        env --default-signal=INT,HUP,TERM,USR1 "$program" digits -o stopped --train 3000000 >/dev/null 2>messages &
        process=$!
        tries=0
        while [ ! -e stopped/.train-00000-of-00004.tmp ] && [ $tries -lt 2400 ]; do
            sleep 0.05
            tries=$((tries + 1))
        done
        kill -$signal $process
        wait $process
        status=$?
        case $signal in INT) wanted=130 ;; *) wanted=75 ;; esac
        [ $status -eq $wanted ] || failed "exit $status after $signal"
        case $signal in INT) says "interrupted: nothing" ;; *) says "stopped by SIG$signal: nothing" ;; esac
        absent stopped
    done
}

# planes RED GREEN BLUE - 3072 bytes: three octal values, 1024 times each
planes() {
    for value in "$@"; do
        head -c 1024 /dev/zero | tr '\000' "\\$value"
    done
}

# list_pixels FILE - a line "label: RED GREEN BLUE" for each record of 3072 bytes, of the first pixel
list_pixels() {
    list_records "$1" | sed 's/: 10 128 24 /: /'    # a field of 3072 bytes
}

# make_cifar10 DIRECTORY - six parts of one image, that of part i of class i - 1, and names
make_cifar10() {
    mkdir -p "$1"
    for i in 1 2 3 4 5; do
        { printf "\\00$((i - 1))"; planes 00$i 02$i 04$i; } >"$1/data_batch_$i.bin"
    done
    { printf '\003'; planes 101 102 103; } >"$1/test_batch.bin"
    printf 'plane\ncar\nbird\ncat\ndeer\ndog\nfrog\nhorse\nship\ntruck\n\n' >"$1/batches.meta.txt"
}

makes_shards_of_cifar10() {
    make_cifar10 cifar/cifar-10-batches-bin
    expect 0 cifar10 cifar -o out10 --shards 1
    says "5 of 10 classes have no training sample, such as "
    list_pixels out10/train-00000-of-00001 | sort >found
    for i in 1 2 3 4 5; do
        echo "$((i - 1)): $i $((16 + i)) $((32 + i))"
    done >wanted
    cmp -s found wanted || failed "planes were not turned into pixels: $(cat found)"
    [ "$(list_pixels out10/validation-00000-of-00001)" = "3: 65 66 67" ] || failed "validation differs"
    tr -d ' \n' <out10/dataset.json | grep -qF '"class_names":["plane","car","bird"' || failed "no class names"
    expect 0 cifar10 cifar/cifar-10-batches-bin -o out10b --shards 1 --jobs 1
    diff -r out10 out10b >&2 || failed "the inner folder gives other bytes"
    tar -czf cifar.tar.gz -C cifar cifar-10-batches-bin
    expect 0 cifar10 cifar.tar.gz -o out10c --shards 1
    diff -r out10 out10c >&2 || failed "the archive gives other bytes"
    head -c 200 cifar.tar.gz >cut.tar.gz
    answers 3 "cut.tar.gz: " cifar10 cut.tar.gz -o bad_out
    tar -cf part.tar -C cifar cifar-10-batches-bin/data_batch_1.bin
    answers 3 "part.tar/data_batch_2.bin: cannot read it: No such file" cifar10 part.tar -o bad_out
    mkdir hostile
    ln -s /etc/passwd hostile/data_batch_1.bin
    tar -czf hostile.tar.gz -C hostile data_batch_1.bin
    answers 3 "hostile.tar.gz: data_batch_1.bin: is a symbolic link" cifar10 hostile.tar.gz -o bad_out
    tar -cPf hostile.tar --transform='s|^|../|' -C cifar cifar-10-batches-bin
    answers 3 "hostile.tar: ../cifar-10-batches-bin" cifar10 hostile.tar -o bad_out
    mkdir -p python/cifar-10-batches-py
    echo pickles >python/cifar-10-batches-py/data_batch_1
    tar -czf python.tar.gz -C python cifar-10-batches-py
    mkdir matlab
    echo matrices >matlab/data_batch_1.mat
    for input in python python/cifar-10-batches-py python.tar.gz; do
        answers 3 "$input: is the Python version (pickles): get cifar-10-binary.tar.gz" cifar10 $input -o bad_out
    done
    answers 3 "matlab: is the MATLAB version: get cifar-10-binary.tar.gz" cifar10 matlab -o bad_out
    mkdir packed pictures
    cp python.tar.gz packed/cifar-10-python.tar.gz
    answers 3 "packed: is the Python version (pickles): get cifar-10-binary.tar.gz" cifar10 packed -o bad_out
    cp cifar.tar.gz packed/cifar-10-binary.tar.gz
    expect 3 cifar10 packed -o bad_out
    says "packed: contains cifar-10-binary.tar.gz, which is not unpacked: convert packed/cifar-10-binary.tar.gz"
    echo picture >pictures/1.jpg
    expect 3 cifar10 pictures -o bad_out
    says "get cifar-10-binary.tar.gz (images in folders are converted by pipetrain-convert folder)"
    tar -cf pictures.tar pictures
    expect 3 cifar10 pictures.tar -o bad_out
    says "get cifar-10-binary.tar.gz (images in an archive are converted by pipetrain-convert tar)"
    part=cifar/cifar-10-batches-bin/data_batch_4.bin
    printf '\012' | dd of=$part conv=notrunc 2>/dev/null
    answers 3 "data_batch_4.bin: class label 10 of image 0 is not in 0..9" cifar10 cifar -o bad_out
    printf x >>$part
    answers 3 "data_batch_4.bin: 3074 bytes are not a whole number of records" cifar10 cifar -o bad_out
    rm $part
    answers 3 "data_batch_4.bin: cannot read it: No such file" cifar10 cifar -o bad_out
    absent bad_out
    make_cifar10 cifar/cifar-10-batches-bin
    printf 'plane\ncar\n' >cifar/cifar-10-batches-bin/batches.meta.txt
    answers 3 "names 2 classes, not 10" cifar10 cifar -o bad_out
    rm cifar/cifar-10-batches-bin/batches.meta.txt
    answers 0 "the classes have no names" cifar10 cifar -o unnamed
    grep -q class_names unnamed/dataset.json && failed "names of classes from nowhere"
}

makes_shards_of_cifar100_by_either_label() {
    mkdir cifar100
    { printf '\021\143'; planes 001 002 003; } >cifar100/train.bin
    { printf '\021\143'; planes 004 005 006; } >cifar100/test.bin
    expect 0 cifar100 cifar100 -o fine
    [ "$(list_pixels fine/train-00000-of-00001)" = "99: 1 2 3" ] || failed "not the fine label"
    grep -q '"classes": 100,' fine/dataset.json || failed "not 100 classes"
    tar -czf cifar100.tar.gz cifar100
    expect 0 cifar100 cifar100.tar.gz -o fine_packed
    diff -r fine fine_packed >&2 || failed "the archive gives other bytes"
    expect 0 cifar100 cifar100 -o coarse --label coarse
    [ "$(list_pixels coarse/train-00000-of-00001)" = "17: 1 2 3" ] || failed "not the coarse label"
    grep -q '"classes": 20,' coarse/dataset.json || failed "not 20 classes"
    expect 2 cifar100 cifar100 -o out --label middling
    answers 2 "--label does not apply" cifar10 cifar -o out --label fine
    { printf '\024\143'; planes 001 002 003; } >cifar100/train.bin
    answers 3 "coarse label 20 of image 0" cifar100 cifar100 -o out
}

# Two images of 1x2 pixels, one of them for validation.
makes_shards_of_numpys_arrays() {
    { printf '\223NUMPY\001\000\073\000'
      printf "{'descr': '|u1', 'fortran_order': False, 'shape': (2,1,2)} "; printf 'abcd'; } >x.npy
    { printf '\223NUMPY\001\000\073\000'
      printf "{'descr': '<u2', 'fortran_order': False, 'shape': (2, ), } "; printf '\005\000\005\000'; } >y.npy
    expect 0 npy x.npy y.npy -o arrays --validation 0.5
    grep -q '"classes": 6,' arrays/dataset.json || failed "not 6 classes"
    cat arrays/train-00000-of-00001 arrays/validation-00000-of-00001 >both
    grep -aq 'ab' both && grep -aq 'cd' both || failed "an image is missing"
    expect 2 npy x.npy -o out
    expect 2 npy x.npy y.npy x.npy -o out
    expect 2 npy x.npy y.npy x.npy y.npy -o out --validation 1
    expect 0 npy x.npy y.npy x.npy y.npy -o four
    expect 2 npy x.npy y.npy x.npy y.npy x.npy -o out
    answers 3 "y.npy: has the shape (2,): is not that of images" npy y.npy x.npy -o out
    answers 3 "x.npz: No such file" npy x.npz -o out
    absent out
}

# npy TYPE SHAPE BYTES - a file of NumPy's
npy() {
    printf '\223NUMPY\001\000\166\000%-117s\n' "{'descr': '$1', 'fortran_order': False, 'shape': $2, }"
    printf "$3"
}

warns_of_images_that_are_nearly_black() {
    npy '<i8' '(2,)' '\0\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0' >y.npy
    npy '|u1' '(2, 2, 2)' '\0\1\1\0\1\0\0\1' >x.npy
    expect 0 npy x.npy y.npy -o black
    says "black: the train images are nearly black: pixels in 0 ... 255 have a mean of 0.5 and a standard deviation of 0.5; if"
    npy '|u1' '(2, 2, 2)' '\372\372\373\373\372\372\373\373' >x.npy
    answers 0 "flat: the train images are nearly of one colour: " npy x.npy y.npy -o flat
    npy '|b1' '(2, 2, 2)' '\0\1\1\0\1\0\0\1' >x.npy
    answers 0 "x.npy: 2x2x1, bool, numbers taken as 0 (False) and 255 (True)" npy x.npy y.npy -o truths
    grep -q nearly messages && failed "black where True is white: $(cat messages)"
    npy '<i8' '(8,)' "$(printf '%64s' '' | sed 's/ /\\0/g')" >y.npy
    npy '<i2' '(8, 1, 2)' "$(printf '%8s' '' | sed 's/ /\\0\\0\\20\\0/g')" >x.npy
    answers 0 "x.npy: 1x2x1, int16, numbers from 0 to 16 taken as 0..255" npy x.npy y.npy -o dark
    says "dark: the train images are dark: their brightest pixel is 16 of 255; if that is white"
    says "all samples are of one class: "
    npy '<i2' '(8, 1, 2)' "$(printf '%8s' '' | sed 's/ /\\0\\0\\377\\0/g')" >white.npy
    expect 0 npy white.npy y.npy x.npy y.npy -o dark --force
    says "dark: the validation images are dark: their brightest pixel is 16 of 255"
    grep -q "train images" messages && failed "white images are dark: $(cat messages)"
    rm -r black flat truths dark
}

says_that_a_file_is_a_web_page() {
    mkdir page
    for file in train-images-idx3-ubyte train-labels-idx1-ubyte t10k-images-idx3-ubyte t10k-labels-idx1-ubyte x.npy y.npy x.npz x.csv x.tar; do
        printf '\357\273\277\r\n<!DOCTYPE html>\n<html>Quota exceeded</html>\n' >page/$file
    done
    gzip -k page/x.tar page/x.csv
    for input in "mnist page" "npy page/x.npy page/y.npy" "npy page/x.npz" "csv page/x.csv" "csv page/x.csv.gz" \
        "tar page/x.tar" "cifar10 page/x.tar"; do
        answers 3 "is HTML, not a" $input -o bad_out
        says "download it again"
    done
    absent bad_out
    rm -r page
}

# Units end where records do, so what tools unpack is the plain shard.
compresses_what_others_unpack() {
    expect 0 digits -o unpacked --train 3000 --validation 10 --shards 2
    for how in gzip lz4; do
        command -v $how >tool || continue
        expect 0 digits -o $how --train 3000 --validation 10 --shards 2 --compress $how
        for shard in train-00000-of-00002 train-00001-of-00002 validation-00000-of-00001; do
            $how -dc <"$how/$shard" | cmp - "unpacked/$shard" >&2 || failed "$how gives other records in $shard"
        done
        size=$(wc -c <"$how/train-00000-of-00002")
        [ "$size" -lt $(wc -c <unpacked/train-00000-of-00002) ] || failed "$how is no smaller: $size"
        grep -q "\"bytes\": $size," $how/dataset.json || failed "dataset.json does not tell the size of the file"
        expect 0 digits -o again_$how --train 3000 --validation 10 --shards 2 --compress $how --jobs 1
        diff -r $how again_$how >&2 || failed "$how: --jobs 1 gives other bytes"
    done
    expect 2 digits -o out --compress zstd
}

# Whatever a set goes through, its records stay, and in their order where it is asked for.
shares_out_shards_anew() {
    expect 0 tfrecord unpacked -o anew --shuffle none
    cat anew/train-* >found
    cat unpacked/train-* | cmp - found >&2 || failed "the order did not stay"
    cmp anew/validation-00000-of-00001 unpacked/validation-00000-of-00001 || failed "validation differs"
    for how in gzip lz4; do
        expect 0 tfrecord 'unpacked/train-*' -o packed_$how --compress $how --shard-size 500KiB --shuffle none
        expect 0 tfrecord packed_$how -o back_$how --shards 2 --shuffle none
        cmp back_$how/train-00001-of-00002 unpacked/train-00001-of-00002 || failed "$how and back: other records"
        absent back_$how/validation-00000-of-00001
        expect 0 tfrecord packed_$how -o mixed_$how --shards 1 --shuffle 3
    done
    expect 0 tfrecord 'unpacked/train-*' unpacked/validation-00000-of-00001 -o other --shards 1 --shuffle 3
    cmp -s other/train-00000-of-00001 found && failed "the order stayed"
    cmp mixed_gzip/train-00000-of-00001 other/train-00000-of-00001 || failed "gzip gives another order"
    cmp mixed_lz4/train-00000-of-00001 other/train-00000-of-00001 || failed "lz4 gives another order"
    [ $(wc -c <other/train-00000-of-00001) -eq $(wc -c <found) ] || failed "records are missing"
    expect 0 digits -o forty --train 40 --validation 1
    expect 0 tfrecord 'forty/train-*' -o held --validation 0.25 --shuffle none --shards 1
    list_records forty/train-* >found
    { list_records held/train-*; list_records held/validation-*; } | sort >found2
    sort found | cmp - found2 >&2 || failed "records are missing when some are held out"
    [ $(list_records held/validation-* | wc -l) -eq 10 ] || failed "not 10 of 40 records are held out"
    [ $(list_records held/validation-* | cut -d: -f1 | sort -u | wc -l) -eq 10 ] || failed "not one record of each class"
}

keeps_what_is_known_of_shards() {
    expect 0 tfrecord out10 -o known --shards 2
    tr -d ' \n' <known/dataset.json | grep -qF '"class_names":["plane","car","bird"' || failed "no class names"
    grep -q '"label_key": "label"' known/dataset.json || failed "no key of labels"
    mkdir unlisted
    cp out10/dataset.json unlisted
    cp out10/train-00000-of-00001 unlisted/records.tfrecord
    expect 0 tfrecord unlisted -o unknown --shards 1
    grep -q 'class_names\|label_key' unknown/dataset.json && failed "a manifest of other shards was believed"
}

# What is not converted does not go with what is.
converts_a_set_in_its_place_wholly_or_not_at_all() {
    cp -r plain place
    echo 0:zero >place/labels.txt
    cp -r place before
    for input in 'place/train-*' place/train-00001-of-00004; do
        for force in --force --shards=2; do
            expect 2 tfrecord "$input" -o ./place $force
            says "is not an input, and would be removed with the shards next to it that are"
        done
    done
    says "./place/train-00000-of-00004: is not an input"
    answers 2 "place/validation-00000-of-00001: is not an input" tfrecord 'place/train-*' -o place --force
    diff -r before place >&2 || failed "a set was changed that could not be converted"
    expect 0 tfrecord 'place/train-*' 'place/validation-*' -o place --force --shuffle none --shards 2
    for split in train validation; do
        list_records before/$split-* >found
        list_records place/$split-* | cmp - found >&2 || failed "records of $split are lost"
    done
    cmp before/labels.txt place/labels.txt || failed "labels.txt is another"
    sed s/train-/other-/g place/dataset.json >described
    cp described place/dataset.json
    expect 2 tfrecord place -o place --force
    says "place/dataset.json: does not describe the shards next to it, and would be replaced"
    cmp described place/dataset.json || failed "a foreign dataset.json was replaced"
    rm -r place before described
    cp -r out10 place
    expect 0 tfrecord place -o place --force
    tr -d ' \n' <place/dataset.json | grep -qF '"class_names":["plane","car","bird"' || failed "class names are lost"
    rm -r place
}

refuses_shards_that_are_damaged() {
    mkdir damaged
    cp plain/train-* damaged
    printf X | dd of=damaged/train-00002-of-00004 bs=1 seek=40 conv=notrunc 2>/dev/null
    answers 3 "damaged/train-00002-of-00004: record 0 at byte 0: payload checksum differs" tfrecord damaged -o out
    head -c 50 plain/train-00001-of-00004 >damaged/train-00002-of-00004
    answers 3 "damaged/train-00002-of-00004" tfrecord damaged -o out
    answers 3 "nowhere" tfrecord nowhere -o out
    expect 5 tfrecord plain -o plain
    absent out
}

make_set set
writes_every_image_with_its_label_once
tells_mean_and_deviation_of_training_pixels
shuffles_by_seed
says_nothing_when_it_is_to_be_quiet
gives_the_same_bytes_for_any_number_of_jobs
takes_gzip_and_names_with_a_dot
refuses_other_data_under_another_name
knows_the_files_of_emnist
refuses_damaged_input
refuses_files_cut_at_any_byte
answers_wrong_usage
replaces_a_set_when_forced_only
clears_up_after_a_run_cut_short
finishes_a_renaming_cut_short
refuses_a_mixture_of_two_sets
leaves_a_set_whole_that_cannot_be_replaced
makes_directories_and_takes_them_back
shares_out_by_bytes
leaves_others_files_alone
ends_with_5_when_it_cannot_write
ends_with_the_reader_of_its_last_lines
leaves_anothers_set_alone
leaves_nothing_when_stopped
makes_shards_of_cifar10
makes_shards_of_cifar100_by_either_label
makes_shards_of_numpys_arrays
warns_of_images_that_are_nearly_black
says_that_a_file_is_a_web_page
compresses_what_others_unpack
shares_out_shards_anew
keeps_what_is_known_of_shards
converts_a_set_in_its_place_wholly_or_not_at_all
refuses_shards_that_are_damaged
[ $failures -eq 0 ]
