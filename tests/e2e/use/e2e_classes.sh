#!/bin/sh
# The number of classes comes from dataset.json unless it is set or the network comes from a file; a run resumes from a
# checkpoint only with data whose class names are those of the checkpoint.
. "$(dirname "$0")/../e2e.sh"
cd "$work" || exit 99
make_jpegs set 3 20 0.25
write_jpeg_conf three.conf set 'epochs = 1'

# outputs FILE: the classes of a file of weights, by the shape of its last layer
outputs() {
    grep -ao '"fc2.weight":{"dtype":"F32","shape":\[[0-9]*' "$1" | sed 's/.*\[//'
}

expect_end 0 'three classes of dataset.json' run "$pipetrain" -c three.conf --set run.dir=taken
expect_out_joined ', 3 classes as dataset.json says'
expect_equal "$(outputs taken/weights.safetensors)" 3 'outputs of the network'
grep -qx 'classes = 3' taken/run.conf || fail 'the run keeps another number'
expect_end 0 'evaluate by the same configuration' run "$pipetrain" evaluate -c three.conf --weights taken/weights.safetensors
run "$pipetrain" evaluate -w taken/weights.safetensors --set 'data.validation=set/validation-*'
expect_code 0 'evaluate by the weights'
"$build/tests/e2e/use/jpeg_maker" others 5 2 && "$convert" folder others -o others.set >/dev/null 2>&1 ||
    fail 'no set of other classes'
mkdir bare.set && cp others.set/train-* bare.set || fail 'no set without a description'
for set in others bare; do
    run "$pipetrain" evaluate -w taken/weights.safetensors --set "data.validation=$set.set/train-*"
    expect_code 3 "evaluate on the classes of $set"
    expect_err 'the weights are of a network with (3|fewer)'
done
for pattern in set set:train "$(echo set/train-00000-of-*)" 'set/train-*,set/none-*'; do
    run "$pipetrain" --describe -c three.conf --set "data.train=$pattern" --net
    expect_out '^classes 3$'
done

# Names of every script, wider or shorter than their bytes, with characters that combine and with an end of line: a table
# has whole characters, and its columns are straight on a terminal (as wc -L measures it).
mkdir named
set -- $(ls photos)
line=$(printf 'n\nl') cat=$(printf '\347\214\253\343\201\256\345\206\231\347\234\237\360\237\220\261\343\201\214\343\201\237\343\201\217\343\201\225\343\202\223')
cp -r "photos/$1" named/"$line" && cp -r "photos/$2" named/"$cat" &&
    cp -r "photos/$3" named/"$(printf 'U\314\210bergro\314\210\303\237e \303\244\303\266\303\274')" || fail 'no folders'
expect_end 0 'folders with odd names' run "$convert" folder named -o named.set --validation=0.25
# straight PROGRAM ROW: the part of a row that ROW, a regular expression, matches has the same width in all rows.
straight() {
    if printf '\303\244\n' | LC_ALL=C.UTF-8 wc -L | grep -qx 1; then
        sed -n "/^result/d; s/^\($2\).*/\1/p" "$work/out" | while IFS= read -r row; do
            printf '%s\n' "$row" | LC_ALL=C.UTF-8 wc -L
        done | sort -u >"$work/widths"
        expect_equal "$(wc -l <"$work/widths")" 1 "widths of rows of $1"
    fi
    if command -v iconv >/dev/null; then
        iconv -f UTF-8 -t UTF-8 "$work/out" >/dev/null 2>&1 || fail "$1: half a character"
    fi
}
expect_end 0 'odd names are learnt' run "$pipetrain" -c three.conf --set run.dir=odd --set 'data.train=named.set/train-*' \
    --set 'data.validation=named.set/validation-*'
expect_end 0 'odd names are evaluated' run "$pipetrain" evaluate -c three.conf --set 'data.validation=named.set/validation-*' \
    --set 'data.train=named.set/train-*' -w odd/weights.safetensors
straight evaluate '.* [01]\.[0-9]\{4\}  [01]\.[0-9]\{4\}'
expect_out 'n\\x0al'
cp "$(find photos -name '*.jp*g' | head -n 1)" "$(printf '\344\275\240\345\245\275')".jpg 2>/dev/null
cp "$(find photos -name '*.jp*g' | head -n 1)" "$cat.jpg" && cp "$cat.jpg" b.jpg
expect_end 0 'odd names are predicted' run "$pipetrain" predict -w odd/weights.safetensors --top 3 b.jpg "$cat.jpg"
straight predict '[^%]* %'
expect_out 'n\\x0al'
grep -q "$cat" "$work/out" || fail 'predict: a name that fits is whole'
run "$pipetrain" -c three.conf --set run.dir=odd --set 'data.train=named.set/train-*' --set train.epochs=2 \
    --set 'data.validation=named.set/validation-*' --set "model.weights=odd/weights.safetensors" --set run.dir=odd2 --check
expect_code 0 'names with ends of lines are those of the weights'

# Labels that are counted from elsewhere, and a list that is not of these classes.
expect_end 0 'classes and an offset' run "$pipetrain" -c three.conf --check --set data.label_offset=1
expect_out_joined ', 4 classes: dataset.json says 3, data.label_offset is 1'
expect_err_lines 0
printf 'a\nb\n' >two
run "$pipetrain" -c three.conf --check --set data.class_names=two
expect_err '^train: two names 2 classes, the network has 3$'

# What is said goes before; what a file fixes stays.
expect_end 0 'ten classes' run "$pipetrain" -c three.conf --set run.dir=ten --set data.classes=10
expect_equal "$(outputs ten/weights.safetensors)" 10 'outputs that were asked for'
expect_end 0 'the classes of the model' run "$pipetrain" -c three.conf --set run.dir=own --set data.classes=0
expect_equal "$(outputs own/weights.safetensors)" 10 "the model's own outputs"
expect_err 'dataset.json says 3 classes, the network has 10'
run "$pipetrain" -c three.conf --set run.dir=first --set model.weights=ten/weights.safetensors
expect_code 2 'weights of ten classes'
expect_err_lines 1
expect_err '^ten/weights.safetensors: has 10 classes, and the network has 3 .*: set model.skip = fc2.\* to start with a new'
run "$pipetrain" -c three.conf --set run.dir=head --set model.weights=ten/weights.safetensors --set 'model.skip=fc2.*'
expect_code 0 'a head of its own'
expect_equal "$(outputs head/weights.safetensors)" 3 'outputs of a new head'
run "$pipetrain" --describe=mnist_cnn --net
expect_out '^classes 10$'
run "$pipetrain" -c three.conf --set input.source=synthetic --set train.steps=2 --set run.dir=drawn
expect_code 0 'synthetic images'
expect_equal "$(outputs drawn/weights.safetensors)" 3 'outputs of a run beside which real input is compared'

# All folders of a list are looked at, wherever the list is.
shards=$build/pipetrain-shards
# renamed SET SED: a copy of the set with other names
renamed() {
    rm -rf "$1" && cp -r set "$1" && sed "$2" set/dataset.json >"$1/dataset.json"
}
renamed swapped 's/class0/classX/; s/class1/class0/; s/classX/class1/'
renamed longer 's/"class2"/"class2", "class3"/; s/"classes": 3/"classes": 4/'
renamed fewer '/"class2"/d; s/"class1",/"class1"/; s/"classes": 3/"classes": 2/'
renamed other 's/class1/other/'
tr -d '\n' <set/dataset.json | sed 's/"class_names": *\[[^]]*\],//' >unnamed.json
renamed unnamed '' && cp unnamed.json unnamed/dataset.json
renamed fewer_unnamed '' && sed 's/"classes": 3/"classes": 2/' unnamed.json >fewer_unnamed/dataset.json
renamed listed '' && rm listed/dataset.json && printf 'class0\nother\nclass2\n' >listed/labels.txt
mkdir linked && for shard in other/*; do ln -s "../$shard" "linked/o-${shard##*/}"; done
bare() { # no description at all: nothing is compared
    rm -rf bare && mkdir bare && cp set/train-* set/validation-* bare
}
bare
for pair in swapped:3 other:3 linked:3 listed:3 fewer_unnamed:3 longer:0 fewer:0 unnamed:0 bare:0; do
    second=${pair%:*} wanted=${pair#*:} glob='train-*'
    [ "$second" = linked ] && glob='o-train-*'
    for list in "set/train-*, $second/$glob" "$second/$glob, set/train-*" "set/train-*, bare/train-*, $second/$glob"; do
        case $list in "set/train-*, bare/train-*, bare/train-*") continue ;; esac
        run "$pipetrain" -c three.conf --check --set "data.train=$list" --set data.validation=
        expect_code "$wanted" "train on $list"
        [ "$wanted" = 0 ] || expect_err 'classes are not those of .*(class0|2 classes without names)'
    done
    run "$pipetrain" -c three.conf --check --set "data.validation=$second/$(echo "$glob" | sed s/train/validation/)"
    expect_code "$wanted" "validation on $second"
    [ "$wanted" = 0 ] || expect_err 'validation: its classes are not those of train: '
    [ "$second" = longer ] ||           # which has a class more than the weights
        expect_end "$wanted" "evaluate on $second" run "$pipetrain" evaluate -w taken/weights.safetensors \
            --set "data.validation=set/train-*, $second/$glob"
    expect_end "$wanted" "convert $second" run "$convert" tfrecord set/train-00000-of-* "$second/$glob" -o both.set --force
    rm -rf both.set
    run "$shards" stats set/train-* "$second"
    expect_code "$wanted" "statistics of $second"
done
run "$pipetrain" -c three.conf --describe --set 'data.train=set/train-*, longer/train-*' --net
expect_out '^classes 4$'
# Names that are numbers, beside a set of labels without names.
for names in '2 0 1:3' '0 2 1:3' '00 02 01:3' '0 1 2:0' '00 01 02:0' '1 2 3:0' '0 50 7:0' '0 b 1:0'; do
    set -- ${names%:*}
    renamed numbers "s/class0/$1/; s/class1/$2/; s/class2/$3/"
    for sets in 'numbers unnamed' 'unnamed numbers'; do
        run "$pipetrain" -c three.conf --check --set "data.train=${sets% *}/train-*" \
            --set "data.validation=${sets#* }/validation-*" --set train.steps=1
        expect_code "${names#*:}" "validation of $sets with the names $names"
        run "$shards" stats ${sets% *} ${sets#* }
        expect_code "${names#*:}" "statistics of $sets with the names $names"
        [ "${names#*:}" = 0 ] || expect_err 'numbers that are not their labels: name folders 00, 01'
    done
done
printf 'class0\nother\nclass2\n' >list
expect_end 0 'names by hand' run "$pipetrain" -c three.conf --check --set 'data.train=set/train-*, other/train-*' \
    --set data.class_names=list
expect_err 'set/dataset.json has other class names than list, which are used: class0, other, class2; there class0, class1'
expect_end 0 'names and numbers go with converted shards' run "$convert" tfrecord listed -o listed.out
tr -d ' \n' <listed.out/dataset.json | grep -qF '"class_names":["class0","other","class2"]' || fail 'names of a list are lost'
expect_end 0 'a number without names' run "$convert" tfrecord unnamed -o unnamed.out
grep -q '"classes": 3' unnamed.out/dataset.json || fail 'the number of classes is lost'

# Records say the name of their class, too.
# permuted FOLDER LIST...: a copy of the set with this list alone
permuted() {
    rm -rf "$1" && cp -r set "$1" && rm "$1/dataset.json" && printf '%s\n' $2 >"$1/labels.txt"
}
for list in 'class1 class2 class0:3' 'class2 class1 class0:3' 'CLASS1 Class2,two x:3' 'class0 class1 class2:0' 'ant cat owl:0' \
    'CLASS0 class1,b class2:0' 'class0 class2 class5:0'; do
    wanted=${list#*:}
    permuted texts.set "${list%:*}"
    run "$pipetrain" -c three.conf --check --set 'data.train=texts.set/train-*' --set 'data.validation=' --set data.classes=3
    expect_code "$wanted" "train with the names $list"
    [ "$wanted" = 0 ] ||
        expect_err 'train: label [012] is .* in texts.set/labels.txt, but class[012] in .*: record [0-9]* .[0-9]* of [0-9]* records name'
    run "$pipetrain" -c three.conf --set data.class_names=texts.set/labels.txt --set run.dir=unused --check
    expect_code "$wanted" "configured names $list"
    run "$shards" stats texts.set
    expect_code "$wanted" "statistics with the names $list"
    run "$convert" tfrecord texts.set -o texts.out --force
    expect_code "$wanted" "convert with the names $list"
done
permuted texts.set 'class1 class2 class0'
run "$pipetrain" evaluate -w taken/weights.safetensors --set 'data.validation=texts.set/validation-*' \
    --set data.class_names=texts.set/labels.txt
expect_code 2 'evaluate with names in another order than those of the weights'
run "$pipetrain" evaluate -w taken/weights.safetensors --set 'data.validation=texts.set/validation-*' \
    --set data.class_names=texts.set/labels.txt --set model.weights_differ=yes
expect_code 3 'evaluate with names that records contradict'
rm -rf texts.set texts.out
# said NAME...: a set without a list whose records name the classes 0, 1 and 2 so
said() {
    rm -rf said said.set && mkdir said && cp -r photos/class0 "said/$1" && cp -r photos/class1 "said/$2" &&
        cp -r photos/class2 "said/$3" && "$convert" folder said -o said.set --validation=0.25 >/dev/null 2>&1 &&
        rm said.set/dataset.json || fail 'no set of other names'
}
bare
expect_end 0 'weights without names' run "$pipetrain" -c three.conf --set 'data.train=bare/train-*' --set data.validation= \
    --set data.classes=3 --set run.dir=unnamed.run
# Then a set of fewer classes, with names or without, is told, and data.train of a configuration is compared as in training.
expect_end 0 'ten outputs without names' run "$pipetrain" -c three.conf --set 'data.train=bare/train-*' \
    --set data.validation= --set run.dir=ten.run --set train.steps=1 --set data.classes=10
nameless() { # WEIGHTS ARGUMENT...
    weights=$1 && shift
    run "$pipetrain" evaluate -w "$weights.run/weights.safetensors" --set devices.kind="$kind" "$@"
}
for case in 'ten set 1' 'ten unnamed 1' 'ten bare 0' 'unnamed set 0' 'unnamed unnamed 0' 'unnamed bare 0'; do
    set -- $case
    nameless $1 --set "data.validation=$2/validation-*"
    expect_code 0 "weights $1 on $2"
    expect_err_lines "$3"
    [ "$3" = 0 ] || expect_err '^validation: dataset.json says 3 classes, the weights are of a network with 10'
    [ "$case" != 'ten set 1' ] || expect_err '10 and do not name them: right only if label k of the set is output k$'
done
nameless ten --set 'data.validation=set/validation-*' --set data.class_names=list
grep -q 'only if label' err && fail 'classes that are named are told'
nameless ten -c three.conf --set data.validation= --set data.validation_split=0.3 --set data.classes=10 \
    --set model.weights_differ=yes
expect_code 0 'a part that is held out'
expect_err '^train: dataset.json says 3 classes, .* right only if label k of the set is output k$'
for pair in 'set other 3' 'other set 3' 'unnamed fewer_unnamed 3' 'set set/validation-* 0' 'unnamed set 0' 'bare set 0' \
    'nowhere set 0' 'set bare 0' 'set,other/train-* other 3' 'linked/o-train-* set 3'; do
    set -f && set -- $pair && set +f
    nameless unnamed -c three.conf --set "data.train=$1" --set "data.validation=$2" --set data.classes=3
    expect_code "$3" "data.train=$1, evaluated on $2"
    [ "$3" = 0 ] || expect_err '^pipetrain: validation: its classes are not those of train: .*; train has (class0|3 classes)'
    nameless unnamed -c three.conf --set "data.train=$1" --set "data.validation=$2" --set data.classes=3 \
        --set model.weights_differ=yes
    expect_code 0 "data.train=$1, evaluated on $2 all the same"
done
for names in 'class1 class2 class3:3' 'class0 class1 class2:0' 'ant cat owl:0'; do
    said ${names%:*}
    run "$pipetrain" -c three.conf --check --set 'data.train=bare/train-*' --set 'data.validation=said.set/validation-*' \
        --set data.classes=3
    expect_code "${names#*:}" "records that say ${names%:*}"
    [ "${names#*:}" = 0 ] || expect_err 'validation: label [01] is class[01] in records of train, but class[12] in said.set/.*: record'
    run "$pipetrain" -c three.conf --check --set 'data.train=bare/train-*, said.set/train-*' --set data.validation= \
        --set data.classes=3
    expect_code "${names#*:}" "sets of several sources that say ${names%:*}"
    case $names in
        *:3) expect_err 'train: label [012] is class[0-3] in .*/train.*: record [0-9]*, but class[0-3] in .*/train.*: record' ;;
        ant*) expect_err 'train: label [012] is (class[012]|ant|cat|owl) in .*, but .* records name another class than most' ;;
        *) grep -q 'another class' "$work/err" && fail 'texts that are right' ;;
    esac
    run "$shards" stats bare/train-* said.set/train-*
    expect_code "${names#*:}" "statistics of several sources that say ${names%:*}"
    rm -rf said.in said.out && mkdir said.in || fail 'no folder'
    for part in bare said.set; do
        for shard in "$part"/train-*; do cp "$shard" "said.in/${part%.set}.${shard##*/}.tfrecord"; done
    done
    run "$convert" tfrecord 'said.in/*' -o said.out
    expect_code "${names#*:}" "convert several sources that say ${names%:*}"
    run "$pipetrain" evaluate -w unnamed.run/weights.safetensors --set 'data.validation=bare/train-*, said.set/train-*'
    expect_code "${names#*:}" "evaluate on several sources that say ${names%:*}"
    run "$pipetrain" -c three.conf --check --set 'data.validation=said.set/validation-*'
    expect_code "${names#*:}" "records that say ${names%:*} beside a list"
    case $names in ant*) expect_err 'validation: its records name no class of set/dataset.json' ;; esac
done
rm -rf said said.set

# A list beside dataset.json, and one that is alone.
renamed beside ''
for list in 'class1\nclass0\nclass2\n' 'class0\n' '1:class0\n2:class1\n3:class2\n' 'class0\nclass1\nclass2\nclass3\n'; do
    printf "$list" >beside/labels.txt
    run "$pipetrain" -c three.conf --check --set 'data.train=beside/train-*' --set data.validation=
    expect_code 0 "a list beside dataset.json: $list"
    expect_err 'beside/labels.txt has other class names than beside/dataset.json, which are used: class0, class1, class2'
done
for list in 'class0\nclass1\nclass2\n' '0:class0\n1:class1\n2:class2\n' '0 class0\n1 class1\n2 class2\n'; do
    printf "$list" >beside/labels.txt
    run "$pipetrain" -c three.conf --check --set 'data.train=beside/train-*' --set data.validation=
    expect_err_lines 0
done
printf '1:a\n2:b\n3:c\n' >listed/labels.txt
run "$pipetrain" -c three.conf --check --set 'data.train=listed/train-*' --set data.validation= --set data.classes=3
expect_err 'labels.txt counts its classes from 1 to 3, where 3 counted from 0 are wanted'
run "$pipetrain" -c three.conf --check --set data.class_names=listed/labels.txt
expect_code 3 'a list that counts from 1'
expect_end 0 'a list of the numbers that are stored' run "$pipetrain" -c three.conf --set run.dir=shifted \
    --set data.label_offset=1 --set data.classes=4 --set data.validation=
grep -ao '0:[a-z0-9]*.n1:class0' shifted/weights.safetensors && fail 'class 0 has no name'
grep -aq '1:class0.n2:class1' shifted/weights.safetensors || fail 'names are not moved by label_offset'
printf 'only\n' >listed/labels.txt
run "$pipetrain" -c three.conf --check --set 'data.train=listed/train-*' --set data.validation= --set data.classes=3
expect_err 'listed/labels.txt names 1 class, the network has 3'

# TensorFlow Datasets say how many classes each label has in features.json or in its own list.
# tfds FOLDER WHERE COUNT: a set with the labels 0 to 9 of which features.json, a list (of names a0, a1, ... or b0, ...), or
# nothing says the classes of `label`, and that 20 are those of another one
tfds() {
    mkdir "$1" && "$shard_maker" "$1/d-train.tfrecord-00000-of-00001" 40 28 &&
        "$shard_maker" "$1/d-test.tfrecord-00000-of-00001" 20 28 || fail "no set $1"
    keys='"supervisedKeys":{"input":"image_raw","output":"label"}'
    [ "$2" = features ] && keys='"supervisedKeys":null'
    printf '{"name":"d","splits":[{"name":"train","shardLengths":[40]},{"name":"test","shardLengths":[20]}],%s}' "$keys" \
        >"$1/dataset_info.json"
    case $2 in
        features) printf '{"featuresDict":{"features":{"image_raw":{"image":{}},"label":{"classLabel":{"numClasses":"%d"}},%s' \
            "$3" '"wide":{"classLabel":{"numClasses":"20"}}}}}' >"$1/features.json" ;;
        none) ;;
        *) for k in $(seq 0 $(($3 - 1))); do echo "$2$k"; done >"$1/label.labels.txt" ;;
    esac
    seq 20 29 >"$1/wide.labels.txt"
}
tfds f10 features 10 && tfds f12 features 12 && tfds a10 a 10 && tfds a12 a 12 && tfds b10 b 10 && tfds n10 none 0
for case in f10:features.json:10 f12:features.json:12 a10:label.labels.txt:10 a12:label.labels.txt:12; do
    set=${case%%:*} rest=${case#*:}
    run "$pipetrain" --describe -c three.conf --set "data.train=$set" --net
    expect_out "^classes ${case##*:}\$"
    [ "${case##*:}" = 10 ] || { run "$pipetrain" -c three.conf --set "data.train=$set" --set data.validation= --check
        expect_out_joined "12 classes as ${rest%:*} says"; }
    run "$pipetrain" -c three.conf --set "data.train=$set" --set data.validation= --set data.classes=9 --set run.dir=unused
    expect_code 3 "fewer classes than $set has"
    expect_err "train: ${rest%:*} says ${case##*:} classes, the network has 9"
done
for pair in f10:f12:3 f12:f10:3 f10:a10:0 a10:f10:0 a10:f12:3 f12:a10:3 a10:a12:0 a12:a10:0 a10:b10:3 f10:n10:0 n10:f12:0; do
    first=${pair%%:*} second=${pair#*:}
    run "$pipetrain" -c three.conf --check --set "data.train=$first" --set "data.validation=${second%:*}" --set data.classes=12
    expect_code "${pair##*:}" "train and validation on $pair"
    run "$pipetrain" -c three.conf --check --set "data.train=$first, ${second%:*}" --set data.validation= --set data.classes=12
    expect_code "${pair##*:}" "train on both of $pair"
    run "$build/pipetrain-shards" stats "$first/d-train*" "${second%:*}/d-train*"
    expect_code "${pair##*:}" "statistics of $pair"
done
expect_end 0 'weights of ten classes of a TensorFlow Dataset' run "$pipetrain" -c three.conf --set data.train=f10 \
    --set data.validation=f10 --set run.dir=tf10
run "$pipetrain" evaluate -w tf10/weights.safetensors --set data.validation=f12
expect_code 3 'evaluate on more classes'
expect_err 'validation: features.json says 12 classes, the weights are of a network with 10'
sed 's/"10"/"7"/' f10/features.json >f10/fewer && mv f10/fewer f10/features.json
run "$pipetrain" evaluate -w tf10/weights.safetensors --set data.validation=f10 --set data.limit=7
expect_err 'validation: features.json says 7 classes, the weights are of a network with 10'
expect_end 0 'the number goes with converted shards' run "$convert" tfrecord f12 -o f12.out
grep -q '"classes": 12' f12.out/dataset.json || fail 'the number of classes of features.json is lost'
run "$pipetrain" -c three.conf --check --set data.train=f12.out --set data.validation= --set data.label_key=height
expect_out_joined '; label .height.: integers'
grep -q '12 classes' "$work/out" && fail 'another label has the classes of the converted one'

# What is evaluated was trained on, whatever the files are called.
mkdir copied && for shard in set/train-*; do cp "$shard" "copied/other-${shard##*-of-}-${shard#set/train-}"; done
for case in 'set/train-*:1' 'copied/other-*:1' "$(echo set/train-00001-of-*):1" 'set/validation-*, copied/other-*-00002-of-*:1' \
    'set/validation-*:0'; do
    run "$pipetrain" evaluate -w taken/weights.safetensors --set "data.validation=${case%:*}"
    expect_code 0 "evaluate on ${case%:*}"
    expect_equal "$(grep -c '^taken/weights.safetensors was trained on shards of this set, such as .*0000[0-9]-of-' "$work/err")" \
        "${case##*:}" "what is said of ${case%:*}"
done
run "$pipetrain" evaluate -w taken/weights.safetensors --set 'data.validation=set/train-*' --set data.allow_overlap=yes
expect_err_lines 0
run "$pipetrain" -c three.conf --check --set 'data.validation=set/validation-*, copied/other-*-00002-of-*'
expect_code 0 'a copy of a training shard in validation'
expect_err 'validation: 1 of [0-9]* shards, such as copied/other-.*-00002-of-.*, hold the same records as training shards'
expect_end 0 'a part that is held out' run "$pipetrain" -c three.conf --set data.validation= --set data.validation_split=0.3 \
    --set run.dir=parted
run "$pipetrain" evaluate -c three.conf -w parted/weights.safetensors --set data.validation= --set data.validation_split=0.3
expect_code 0 'evaluate a part that is held out'
expect_err_lines 0

# The same records and numbers, and other names.
expect_end 0 'a run that saves' run "$pipetrain" -c three.conf --set run.dir=named --set checkpoint.every=epoch
cp set/dataset.json kept.json
sed 's/class1/other/' kept.json >set/dataset.json
cmp -s kept.json set/dataset.json && fail 'the names are the same'
run "$pipetrain" -c three.conf --set run.dir=named --set checkpoint.every=epoch --set train.epochs=2
expect_code 3 'a state of other names'
expect_err 'was trained on other classes: class0, class1, class2; those of set/train-\* are class0, other, class2: '
run "$pipetrain" -c three.conf --set run.dir=named --set checkpoint.every=epoch --set train.epochs=2 --check
expect_code 3 'a check of a state of other names'
run "$pipetrain" -c three.conf --set run.dir=begun --set model.weights=taken/weights.safetensors
expect_code 2 'weights of other names'
expect_err '^taken/weights.safetensors: trained on other classes: class0, class1, class2; the data has class0, other, .*: set '
expect_err 'model.skip = fc2.\* to start with a new last layer, or model.weights_differ = yes to load this one'
run "$pipetrain" -c three.conf --set run.dir=begun --set model.weights=taken/weights.safetensors \
    --set model.weights_differ=yes
expect_code 0 'weights of other names that are accepted'
expect_err 'trained on other classes: class0, class1, class2; the data has class0, other, '
run "$pipetrain" -c three.conf --set run.dir=headless --set model.weights=taken/weights.safetensors \
    --set 'model.skip=fc2.*'
expect_err_lines 0
printf 'a\nb\nc\n' >names
run "$pipetrain" -c three.conf --set run.dir=named --set checkpoint.every=epoch --set train.epochs=2 \
    --set data.class_names=names
expect_code 0 'names that are given by hand'
cp kept.json set/dataset.json

# Where labels are stored as names, another order of the names is other labels.
printf 'class0\nclass1\nclass2\n' >in-order
printf 'class2\nclass0\nclass1\n' >permuted
by_name='--set data.label_key=image/class/text --set checkpoint.every=epoch'
run "$pipetrain" -c three.conf --set run.dir=texts $by_name --set data.class_names=in-order
expect_code 0 'labels that are names'
run "$pipetrain" -c three.conf --set run.dir=texts $by_name --set data.class_names=permuted --set train.epochs=2
expect_code 3 'names of labels in another order'
expect_err 'was trained on other classes: class0, class1, class2; those of .* are class2, class0, class1: restore the list'
run "$pipetrain" -c three.conf --set run.dir=texts $by_name --set data.class_names=in-order --set train.epochs=2
expect_code 0 'names of labels in the same order'

# A class of which every record is held out.
"$build/tests/e2e/use/jpeg_maker" rare 3 40 && find rare/class1 -type f | sed 1d | xargs rm &&
    "$convert" folder rare -o rare.set --shards=1 --shuffle=none >/dev/null 2>&1 || fail 'no set with a rare class'
for split in 0.1 0.6; do
    run "$pipetrain" -c three.conf --check --set 'data.train=rare.set/train-*' --set data.validation= \
        --set "data.validation_split=$split"
    expect_code 0 "hold out $split"
    grep -c 'leaves 1 class without a training record, such as label 1, class1' "$work/err" >>told
done
expect_equal "$(sort told | tr -d '\n')" 01 'a class without records for training is named'
finish
