#!/bin/sh
# Measures by class of a run's evaluations: those that evaluate finds, the same for any number of towers and slices and
# after a stop, and what may decide over the best weights and the end (train.best_by).
. "$(dirname "$0")/../e2e.sh"
make_tiny
make_quick

. "$(dirname "$0")/../resume/resume.sh"
settings='--set train.epochs=5 --set train.batch=16 --set train.slices=4'
measures='balanced_accuracy macro.precision macro.recall macro.f1 weighted.precision weighted.recall weighted.f1'

# column RUN MEASURE: its values in the evaluations of the run, in order, as json_value prints numbers.
column() {
    case $2 in
    *.*) front="\"${2%.*}\":{[^}]*" ;;
    *) front= ;;
    esac
    sed -n "/\"kind\":\"validation\"/s/.*$front\"${2#*.}\":\([0-9.e-]*\).*/\1/p" "$work/runs/$1/metrics.jsonl" |
        awk '{ printf "%.17g\n", $1 }'
}

# ---- the numbers of evaluate, for any number of towers ----

resumed whole --set checkpoint.every=epoch
expect_code 0 'a run'
run "$pipetrain" evaluate -c "$work/runs/whole/run.conf" --weights "$work/runs/whole/weights.safetensors" --json
expect_code 0 'an evaluation'
cp "$work/out" "$work/evaluation.json"
for measure in $measures; do
    expect_summary whole validation.$measure "$("$json_value" "$work/evaluation.json" $measure)"
    expect_equal "$(column whole $measure | tail -n 1)" "$(summary whole validation.$measure)" "last row: $measure"
done
expect_equal "$(summary whole validation.weighted.recall)" "$(summary whole validation.accuracy)" 'weighted recall'
resumed two --set devices.towers=2
expect_code 0 'two towers'
for measure in $measures; do
    expect_equal "$(column two $measure)" "$(column whole $measure)" "two towers: $measure"
done

# ---- a stop in an evaluation, which is repeated ----

at_options=
rm -rf "$work/runs/at"
at_command evaluating TERM "$pipetrain" -c "$work/tiny.conf" --set "run.dir=$work/runs/at" $settings --set checkpoint.every=epoch
resumed at --set checkpoint.every=epoch
expect_code 0 'going on after a stop in an evaluation'
expect_same_run whole at
for measure in $measures; do
    expect_summary at validation.$measure "$(summary whole validation.$measure)"
done

# ---- what is best ----

for by in macro_f1 balanced_accuracy loss; do
    resumed by-$by --set train.best_by=$by --set checkpoint.keep_best=yes
    expect_code 0 "best by $by"
    case $by in
    loss) column by-$by loss | sort -g | head -n 1 >"$work/best" ;;
    macro_f1) column by-$by macro.f1 | sort -g | tail -n 1 >"$work/best" ;;
    *) column by-$by $by | sort -g | tail -n 1 >"$work/best" ;;
    esac
    expect_summary by-$by best.value "$(cat "$work/best")"
    case $by in
    macro_f1) title='macro F1' value='[01][.][0-9]{4}' ;;
    balanced_accuracy) title=balanced value='[0-9]+[.][0-9]{2} %' ;;
    *) title=accuracy value='[0-9]+[.][0-9]{2} %' ;;
    esac
    expect_out "^epoch .* [|] val loss  $title seconds\$"
    expect_out "^ +1 .* [|] +[0-9.]+ +$value +[0-9.]+\$"
    [ $by = loss ] || expect_out_joined "result +validation accuracy .*, loss [0-9.]+, ${by%_*}[^,]* [0-9.]+"
    expect_same_file "$work/runs/whole/weights.safetensors" "$work/runs/by-$by/weights.safetensors" "weights, best by $by"
done
resumed goal --set train.best_by=loss --set train.stop_at=1000
expect_code 0 'a loss as a goal'
expect_out_joined 'ended +early, validation loss [0-9.]+ reaches train.stop_at \(1000\)'
resumed patient --set train.best_by=macro_f1 --set train.learning_rate=0 --set train.patience=2 --set checkpoint.every=epoch
expect_code 0 'no better'
expect_out_joined 'ended +early, 2 evaluations without a better validation macro F1 than [0-9.]+ at step 38 \(train.patience\)'
expect_summary patient best.step 38
resumed patient --set train.best_by=loss --set train.learning_rate=0 --set train.patience=2 --set checkpoint.every=epoch
expect_code 0 'another measure'
expect_err 'evaluations are compared by their validation loss from now on \(train.best_by\)'
expect_summary patient best.step 152
resumed refused --set train.stop_at=1.5
expect_code 2 'a share above 1'
expect_err 'stop_at: is above 1: it is a share'

# ---- labels that are placeholders, and images with two labels ----

# A foreign set has no dataset.json that would give its classes.
{ printf '\223NUMPY\001\000v\000%-117s\n' "{'descr': '|u1', 'fortran_order': False, 'shape': (20, 28, 28), }"
    cat "$work"/data/train-* | head -c $((20 * 784)); } >"$work/images.npy"
{ printf '\223NUMPY\001\000v\000%-117s\n' "{'descr': '|u1', 'fortran_order': False, 'shape': (20,), }"
    head -c 20 /dev/zero; } >"$work/labels.npy"
run "$convert" npy "$work/images.npy" "$work/labels.npy" -o "$work/foreign"
expect_code 0 'a set of one label'
rm "$work/foreign/dataset.json"
run "$pipetrain" -c "$work/tiny.conf" --set "data.validation=$work/foreign/*" --check
expect_code 0 'a check of placeholders'
expect_out_joined "every label is 0, and the network has 10 classes: is 'label' the right feature .*, or are these placeholders"
try placeholders --set "data.validation=$work/foreign/*" --set train.learning_rate=0
expect_code 0 'a run with placeholders'
expect_out_joined 'warning +every validation record has class 0: accuracy shows nothing if these labels are placeholders'
run "$pipetrain" -c "$work/tiny.conf" --check
! grep -q 'another label' "$work/out" || fail 'images with two labels where there are none'
"$shard_maker" "$work/two.tfrecord" 20 28 && "$shard_maker" "$work/three.tfrecord" 20 28 3 5 || fail 'no shards'
run "$pipetrain" -c "$work/tiny.conf" --set "data.train=$work/two.tfrecord,$work/three.tfrecord" --check
expect_code 0 'a check of images with two labels'
expect_out_joined 'copies +train +1 of 40 images is there with another label, too: record 3 of three.tfrecord has label 5, and the same image in record 3 of two.tfrecord has label 3'

# ---- uneven classes ----

cd "$work" || exit
"$build/tests/e2e/use/jpeg_maker" photos 3 40 || fail 'no JPEGs'
for class in photos/*; do
    [ "$class" = "$(echo photos/* | cut -d ' ' -f 1)" ] || rm "$class"/*[1-9].jpg
done
run "$convert" folder photos -o uneven --validation=0.5
expect_code 0 'uneven classes'
write_jpeg_conf uneven.conf uneven 'steps = 1'
run "$pipetrain" -c uneven.conf --check
expect_code 0 'a check of uneven classes'
name=$("$json_value" uneven/dataset.json class_names.0) || fail 'no names of classes'
expect_out_joined "class 0 $name has [0-9.]+ % of the records: always answering it is so accurate"
# Features that say nothing: the largest class is answered at best.
run "$pipetrain" -c uneven.conf --set train.learning_rate=0 --set "run.dir=$work/runs/uneven"
expect_code 0 'a run that learns nothing'
expect_out_joined "warning +always answering class 0 $name, the class with most samples, is right for [0-9.]+ %"
run "$pipetrain" -c uneven.conf --set train.class_weights=auto --dry-run
expect_code 0 'a dry run with class weights'
expect_out_joined "classes +weights in the loss from .* \(auto\): 0 $name=[0-9.]+, 1 [a-z0-9_]+="
finish
