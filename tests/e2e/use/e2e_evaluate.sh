#!/bin/sh
# pipetrain evaluate: its counts are those that training itself reports for the same weights, from any data, with any
# batch; nothing of the run changes; what is wrong is told before anything is computed.
. "$(dirname "$0")/../e2e.sh"
make_tiny
cd "$work" || exit 99

# evaluate NAME WORD... - of the run, on its own settings
evaluate() {
    name=$1
    shift
    run "$pipetrain" evaluate -c "$work/tiny.conf" --set "run.dir=$work/runs/$name" "$@"
}

result() {
    "$json_value" result.json "$1"
}

# Counts and loss of the evaluation in result.json are those of the run's last one.
expect_same_counts() {
    for pair in samples:images top1.correct:correct loss:loss; do
        expect_equal "$(result "${pair%:*}")" "$(summary "$1" "validation.${pair#*:}")" "$2: ${pair%:*}"
    done
}

state_of() {
    (cd "$1" && ls -la --full-time && cat ./* | cksum)
}

# Raw pixels, and JPEGs of another size, which are scaled.
train raw
expect_end 0 'a quiet evaluation' evaluate raw --quiet --set data.validation="$work/data/validation-*"
expect_equal "$(cut -c1-10 out | tr -s ' \n')" 'result ' 'what a quiet evaluation prints'
expect_err_lines 0
make_jpegs jpeg 10 60 0.25
grep -qa JFIF jpeg/validation-* || fail 'the images are no JPEGs'
jpeg="--set data.train=$work/jpeg/train-* --set data.validation=$work/jpeg/validation-*"
train jpeg $jpeg --set augment.crop=resized
state_of runs/raw >before
for name in raw jpeg; do
    [ $name = raw ] && data= || data=$jpeg
    expect_end 0 "the evaluation of $name" evaluate $name $data --json
    expect_err_lines 0
    cp out result.json
    expect_same_counts $name "$name"
    expect_equal "$(result samples)" 150 'samples'
done
state_of runs/raw >after
expect_same_file before after 'the run directory'

# No training set is needed.
grep -v '^train *=' "$work/tiny.conf" >untrained.conf
expect_end 0 'an evaluation without data.train' run "$pipetrain" evaluate -c untrained.conf -w runs/raw/weights.safetensors --json
cp out result.json
expect_same_counts raw 'without data.train'

# Part of the training set, and by default the file of the run's own configuration.
train split --set data.validation= --set data.validation_split=0.3
expect_end 0 'the evaluation of what was held out' run "$pipetrain" evaluate -c runs/split/run.conf --json
cp out result.json
expect_same_counts split 'held out'

# Other batches and several towers: the same counts.
train towers --set devices.towers=3 --set train.batch=63
for how in '--set train.batch=7' '--set train.batch=1000' '--set devices.towers=3' '--set data.shuffle=block'; do
    expect_end 0 "an evaluation with $how" evaluate towers $how --json
    cp out result.json
    expect_equal "$(result top1.correct)" "$(summary towers validation.correct)" "right with $how"
done

# For people, and as a table.
expect_end 0 'the report' evaluate raw --csv confusion.csv
expect_out "^result    150 samples, loss $(printf '%.4f' "$(summary raw validation.loss)"), top-1 "
expect_out '^speed '
run "$pipetrain" -c tiny.conf --set run.dir=runs/raw2
sed -n 's/^result .*accuracy \([0-9.]* % ([0-9]*\) of.*/\1/p' out >percent
evaluate raw
grep -qF "top-1 $(cat percent))" out || fail "the accuracy is not told as by training: $(cat percent)"
expect_out '^confusion matrix'
expect_narrow 'the report'
[ "$(wc -l <confusion.csv)" -eq 11 ] || fail 'a line for each class, and one for their names'
awk -F, -v correct="$(summary raw validation.correct)" \
    'NR > 1 { for (i = 2; i <= NF; i++) all += $i; right += $NR } END { exit !(all == 150 && right == correct) }' \
    confusion.csv || fail 'the table counts other samples'
expect_end 0 'weights that are named' evaluate raw --weights runs/raw/weights.safetensors --set run.dir=nothing

# Weights alone, and a checkpoint alone, say all but the data.
train saved --set checkpoint.every=epoch $jpeg --set augment.crop=resized
set -- runs/saved/checkpoint-*.safetensors
for weights in runs/saved/weights.safetensors "$1"; do
    run "$pipetrain" evaluate -w "$weights" --set "data.validation=$work/jpeg/validation-*" --set devices.kind=$kind --json
    expect_code 0 "an evaluation of $weights alone"
    cp out result.json
    expect_same_counts saved "$weights alone"
    expect_equal "$(result steps)" "$(summary saved steps)" 'steps'
    grep -q "\"steps\":$(summary saved steps)," result.json || fail 'steps are no number'
done
# The configuration alone means the best weights of its last run, and --last the last ones, which of a run that was killed
# are its newest checkpoint.
newest_run() {
    expect_end 0 'a run in the next directory' run "$pipetrain" -c tiny.conf "$@"
}
newest_run --set train.steps=3
newest_run --set train.steps=5
run "$pipetrain" evaluate -c tiny.conf --last
expect_out 'weights +runs/tiny-2/weights.safetensors, after 5 steps$'
run "$pipetrain" evaluate -c tiny.conf
expect_out_joined 'weights +runs/tiny-2/best.safetensors, after 5 steps: epoch 1, the best of 1 by validation accuracy'
newest_run --set train.steps=8 --set checkpoint.every=3
rm runs/tiny-3/weights.safetensors
expect_end 0 'an evaluation of a run that was killed' run "$pipetrain" evaluate -c tiny.conf --last
expect_err 'runs/tiny-3 has no weights.safetensors: using its newest checkpoint, runs/tiny-3/checkpoint-00000008'
expect_out 'after 8 steps'
flip runs/tiny-3/checkpoint-00000008.safetensors 5000
run "$pipetrain" predict -c tiny.conf --last "$work"/data/validation-*
expect_err 'using its newest checkpoint, runs/tiny-3/checkpoint-00000006'
# Where a run was removed, its number stays free: the newest run has the largest number.
rm -r runs/tiny
newest_run --set train.steps=2 --set run.resume=never
[ -f runs/tiny-4/weights.safetensors ] || fail 'a run after a gap has not the next number'
expect_end 0 'the last run after a gap' run "$pipetrain" evaluate -c tiny.conf
expect_out 'weights +runs/tiny-4/best.safetensors, after 2 steps'
# Another configuration may have a name that ends with a number.
mkdir runs/tiny-50 && sed 's/^name = tiny$/name = tiny-50/' runs/tiny-4/run.conf >runs/tiny-50/run.conf
expect_end 0 'a run of another name' run "$pipetrain" evaluate -c tiny.conf
expect_out 'weights +runs/tiny-4/best.safetensors, after 2 steps'
rm -r runs/tiny-*
expect_end 3 'no run at all' run "$pipetrain" evaluate -c tiny.conf
expect_err 'no run has weights in runs/tiny'

expect_end 2 'a checkpoint without data' run "$pipetrain" evaluate -w "$1" --set devices.kind=$kind
expect_err "there is no validation set: set data.validation, for example with --set data.validation='validation-\*'$"
expect_end 2 'a run without data' run "$pipetrain" evaluate -w "$(dirname "$1")" --last --set devices.kind=$kind
expect_err "set data.validation, for example with --set data.validation='validation-\*', or take that of the run: -c $(dirname "$1")/run.conf$"
expect_end 2 'a model and a configuration' run "$pipetrain" evaluate -w "$1" -m mnist_cnn -c tiny.conf

# A damaged record ends the evaluation or is skipped.
cp -r data damaged
shard=$(ls damaged/validation-* | head -n 1)
flip "$shard" 400
expect_end 3 'a damaged record' evaluate raw --set "data.validation=damaged/validation-*"
evaluate raw --set "data.validation=damaged/validation-*" --set data.on_corrupt=skip --json
expect_code 0 'a damaged record that is left out'
cp out result.json
expect_equal "$(result samples) $(result unreadable)" '149 1' 'samples and what is unreadable'

# A signal ends it between batches, without a result.
if [ $kind = cpu ]; then
    for request in TERM:75 INT:130; do
        at_command evaluating ${request%:*} "$pipetrain" evaluate -c tiny.conf --set run.dir=runs/raw --set train.batch=1 \
            --set devices.backend=reference --set "data.validation=$work/data/train-*"
        expect_code "${request#*:}" "a request by ${request%:*}"
        [ "$ended_ms" -le 1000 ] || [ "$sanitizer" != no ] || fail "the end took $ended_ms ms"
    done
fi

# Of several runs the last one that learned the data: neither one that computed nothing nor one on made-up images.
cp tiny.conf runs.conf
last_run() {
    expect_end 0 "a run in runs/runs, $*" run "$pipetrain" -c runs.conf "$@"
}
last_run
last_run --set devices.kind=null
last_run --set input.source=synthetic
expect_end 0 'the evaluation of the last of three runs' run "$pipetrain" evaluate -c runs.conf
expect_out '^weights   runs/runs/best.safetensors, after [0-9]+ steps:'
expect_err '^runs/runs-3/weights.safetensors learned made-up images and labels \(input.source = synthetic\): skipped '
expect_err '^runs/runs-2 has no weights$'
expect_err '^using the weights of an earlier run: runs/runs/best.safetensors$'
expect_err_lines 3
run "$pipetrain" evaluate -c runs.conf -w runs/runs-3/weights.safetensors
expect_code 0 'weights of made-up images that were named'
expect_err '^runs/runs-3/weights.safetensors: these weights learned made-up images and labels'
expect_err_lines 1
last_run --set data.shuffle=none
run "$pipetrain" evaluate -c runs.conf
expect_out '^weights   runs/runs-4/best.safetensors, after [0-9]+ steps:'
expect_err_lines 0
rm -r runs/runs runs/runs-4
mv runs/runs-3 runs/runs
expect_end 3 'runs of which none learned the data' run "$pipetrain" evaluate -c runs.conf
expect_err 'no run has weights in runs/runs: train the network with [^ ]*/pipetrain -c runs.conf'
cp runs.conf "it's (runs).conf"
expect_end 3 'a configuration with blanks and quotes' run "$pipetrain" evaluate -c "it's (runs).conf"
expect_err "train the network with [^ ]*/pipetrain -c 'it'..'s \(runs\).conf', or name"

# What is wrong.
expect_end 0 'the help' run "$pipetrain" evaluate --help
expect_out '^Usage: pipetrain evaluate '
expect_narrow 'the help'
expect_out_joined 'SECTION. is optional if only one section has KEY'
expect_end 2 'no configuration' run "$pipetrain" evaluate
expect_end 2 'an option without its value' run "$pipetrain" evaluate -c
expect_err '--config needs a value'
expect_end 2 'a misspelt option' run "$pipetrain" evaluate -c tiny.conf --weigths=x
expect_err "did you mean '--weights'"
expect_end 2 'a word too many' evaluate raw more
expect_end 2 'wrong settings' evaluate raw --set train.bacth=1 --set train.epochs=x
expect_err_lines 2
expect_end 3 'no weights' evaluate nothing
expect_err_lines 1
expect_err 'no run has weights in .*runs/nothing: train the network with [^ ]*/pipetrain -c .*tiny.conf, or name other weights with --weights FILE'
expect_end 3 'a text in place of weights' evaluate raw --weights tiny.conf
expect_err '^tiny.conf: is not a safetensors file$'
expect_end 2 'weights of another network' evaluate raw --set model.name=lenet
expect_err 'these are not weights of'
expect_end 2 'weights of other classes' evaluate raw --set data.classes=11
expect_err 'has 10 classes, and the network has 11 .*: set data.classes = 10$'
expect_end 2 'nothing to evaluate on' evaluate raw --set data.validation=
expect_err 'set data.validation'
expect_end 3 'data that are not there' evaluate raw --set data.validation=nothing
expect_end 2 'a device that computes nothing' evaluate raw --set devices.kind=null
expect_end 5 'a table that cannot be written' evaluate raw --csv nothing/confusion.csv
echo precious >victim
ln -s victim link.csv
for file in victim link.csv; do
    expect_end 5 "a table in the place of $file" evaluate raw --csv $file
    [ ! -s out ] || fail 'the evaluation was done before its table was refused'
done
expect_err 'link.csv: is a symbolic link: name a regular file'
expect_end 5 'a table through a link, by force' evaluate raw --csv link.csv --force
expect_equal "$(cat victim)" precious 'the file behind the link'
expect_end 0 'a table that replaces a file' evaluate raw --csv victim --force
expect_equal "$(head -c 6 victim)" class, 'the file that was replaced'
# Names act on no terminal that shows the table, and on no letters beside them.
printf 'z\033[31mero\none\342\200\256two\n' >odd_names
printf '%s\n' 2 3 4 5 6 7 8 9 >>odd_names
expect_end 0 'a table of odd names' evaluate raw --csv odd.csv --set data.class_names=odd_names
expect_equal "$(head -n 1 odd.csv | cut -d , -f 2,3)" '"z\x1b[31mero","one\xe2\x80\xaetwo"' 'odd names in the table'
LC_ALL=C grep -q "$(printf '\033\\|\342\200\256')" out odd.csv && fail 'odd names are raw'
if [ -w /dev/full ]; then
    run sh -c "'$pipetrain' evaluate -c tiny.conf --set run.dir=runs/raw >/dev/full"
    expect_code 5 'a report on a full disk'
    expect_err 'standard output: .*No space left'
fi

# The same label is another class in the validation set, or in what the weights were trained on.
mkdir named other
cp data/train-* named
cp data/validation-* other
printf '%s\n' zero one two three four five six seven eight nine >named/labels.txt
sed '/zero/d' named/labels.txt >other/labels.txt
run "$pipetrain" -c tiny.conf --set run.dir=runs/named --set data.train=named --set 'data.validation=other/v*' \
    --set train.steps=1
expect_code 3 'a validation set whose classes are others'
expect_err 'validation: its classes are not those of train: one, two, three, four, five, six, [.]{3}; train has zero, one, '
[ ! -e runs/named ] || fail 'a run whose sets differ has begun'
run "$pipetrain" -c tiny.conf --set run.dir=runs/named --set data.train=named --set train.steps=1
expect_code 0 'a validation set without names'
expect_end 0 'data without names' evaluate named
expect_out 'zero'
expect_end 3 'data whose classes are not those of the weights' evaluate named --set 'data.validation=other/v*'
expect_err 'best.safetensors was trained with other classes: zero, .*; those of other/v[*] are one, two'
evaluate named --set 'data.validation=other/v*' --set data.class_names=named/labels.txt
expect_code 0 'data whose classes are named'
head -n 3 named/labels.txt >other/labels.txt
expect_end 0 'data whose list is shorter' evaluate named --set 'data.validation=other/v*'

finish
