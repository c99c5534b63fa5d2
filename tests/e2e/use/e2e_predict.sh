#!/bin/sh
# pipetrain predict: with the weights alone, images get the classes that an evaluation gives them; unreadable images are
# reported and skipped; errors are reported before anything is computed.
. "$(dirname "$0")/../e2e.sh"
cd "$work" || exit 99
make_jpegs jpeg 10 60 0.25
"$build/tests/e2e/use/jpeg_maker" others 10 9
write_jpeg_conf tiny.conf jpeg 'epochs = 8'
printf '[augment]\nevaluation_scale = 1\n' >>tiny.conf
weights=runs/tiny/weights.safetensors
expect_end 0 'the training' run "$pipetrain" -c tiny.conf

# predict WORD... - by the weights alone
predict() {
    run "$pipetrain" predict -w $weights --set devices.kind=$kind "$@"
}

# The paths contain the class: as many are correct as in an evaluation.
expect_end 0 'a folder' predict --top 1 --tsv others
expect_err_lines 0
cp out by_file
expect_equal "$(sed 1d by_file | wc -l)" 90 'images of the folder'
"$convert" folder others -o shards --shards=2 >/dev/null 2>&1 || fail 'no shards'
run "$pipetrain" evaluate --last -c tiny.conf --set 'data.validation=shards/train-*' --json
cp out result.json
right=$(awk -F '\t' 'NR > 1 { split($1, parts, "/"); right += parts[2] == $4 } END { print right }' by_file)
expect_equal "$right" "$("$json_value" result.json top1.correct)" 'right, by predict and by evaluate'
[ "$right" -gt 30 ] || fail "only $right of 90 are right: the network learned nothing"

# Resized to a number of pixels: the same in both, other pixels than before, and never less than the network's.
resized='--set augment.evaluation=central --set augment.evaluation_resize=36 --set model.weights_differ=yes'
run "$pipetrain" evaluate --last -c tiny.conf $resized \
    --set 'data.validation=shards/train-*' --json
expect_code 0 'evaluate, resized'
cp out resized.json
predict --top 1 --tsv $resized others
expect_code 0 'predict, resized'
expect_equal "$(awk -F '\t' 'NR > 1 { split($1, parts, "/"); right += parts[2] == $4 } END { print right }' out)" \
    "$("$json_value" resized.json top1.correct)" 'right of resized images, by predict and by evaluate'
expect_equal "$(cmp -s out by_file; echo $?)" 1 'resized images against others'
expect_end 2 'resized to less than the network takes' predict --set augment.evaluation_resize=20 others
expect_err 'smaller than the network'

# Held upside down, as EXIF data say: turned in both, other classes than of the stored pixels.
exif='\377\341\000\042Exif\000\000MM\000*\000\000\000\010\000\001\001\022\000\003\000\000\000\001\000\003\000\000\000\000\000\000'
for photo in others/*/*.jpg; do
    mkdir -p "held/$(basename "$(dirname "$photo")")"
    { head -c 2 "$photo"; printf "$exif"; tail -c +3 "$photo"; } >"held/${photo#others/}"
done
expect_end 0 'stored upside down' predict --top 1 --tsv held
expect_err '^[0-9]+ images have an EXIF orientation \(the first .*[.]jpg\), which is ignored: augment.orientation = exif turns them'
expect_equal "$(sed 's/^held/others/' out | cmp -s - by_file; echo $?)" 0 'EXIF data that are not used'
expect_end 0 'turned upright' predict --top 1 --tsv --set augment.orientation=exif held
expect_err '^[0-9]+ images have an EXIF orientation \(the first .*[.]jpg\), which is applied \(augment.orientation = exif\)$'
cp out turned
expect_equal "$(sed 's/^held/others/' turned | cmp -s - by_file; echo $?)" 1 'turned images against stored ones'
"$convert" folder held -o held-shards >/dev/null 2>&1 || fail 'no shards of images with EXIF data'
run "$pipetrain" -c tiny.conf --set 'data.validation=held-shards/train-*' --check
expect_out_joined '[0-9]+ of them are rotated by their EXIF orientation, which training ignores unless augment.orientation = exif'
run "$pipetrain" evaluate --last -c tiny.conf --set augment.orientation=exif --set 'data.validation=held-shards/train-*' --json
expect_code 0 'evaluate, turned'
cp out turned.json
expect_equal "$(awk -F '\t' 'NR > 1 { split($1, parts, "/"); right += parts[2] == $4 } END { print right }' turned)" \
    "$("$json_value" turned.json top1.correct)" 'right of turned images, by predict and by evaluate'

# Turned by the converter instead: nearly the same pixels without the setting.
"$convert" folder held -o upright-shards --upright --quality=100 >/dev/null 2>convert-err || fail 'no upright shards'
grep -q 'EXIF orientation' convert-err && fail 'images that are turned are said to be ignored'
run "$convert" folder held -o small-shards --resize-short=8
expect_err '^held: [0-9]+ images have an EXIF orientation .*: it is lost where an image is encoded again; --upright turns the pixels$'
run "$pipetrain" evaluate --last -c tiny.conf --set 'data.validation=upright-shards/train-*' --json
cp out upright.json
awk "BEGIN { d = $("$json_value" upright.json top1.correct) - $("$json_value" turned.json top1.correct); exit d * d > 16 }" ||
    fail 'turned by the converter, other images than turned by evaluate'

# Of the shards the same, in their order and but for rounding, which depends on the place in a batch; and for any batch.
ordered() {
    tail -n +2 "$1" | cut -f 3,5 | sort -k 1,1 -k 2,2g
}
expect_end 0 'shards' predict --top 1 --tsv shards
expect_err_lines 0
cut -f 3,5 out | sort >by_record
ordered out >ordered_record
ordered by_file | paste - ordered_record | awk '$1 != $3 || ($2 - $4)^2 > 1e-10 { exit 1 }' ||
    fail 'images and records are taken for other classes'
expect_out '^shards/train-00001-of-00002:0	1	'
mv shards 'sh,ards'
expect_end 3 'shards that are named twice' predict --top 1 --tsv 'sh,ards' 'sh,ards/train-*'
expect_err 'named twice'
expect_end 0 'shards one by one' predict --top 1 --tsv 'sh,ards/train-00000-of-00002' 'sh,ards/train-00001-of-00002'
cut -f 3,5 out | sort | cmp - by_record || fail 'records of single shards are taken for other classes'
mv 'sh,ards' shards
for batch in 1 7 1000; do
    predict --top 1 --tsv --batch $batch others
    cut -f 1-4 out >other
    cut -f 1-4 by_file | cmp - other || fail "other classes in batches of $batch"
done

# Paths from standard input; a configuration in place of the weights' own words; a model by name.
first=others/class0/0.jpg
find others -name '*.jpg' | sort | run "$pipetrain" predict -w $weights --set devices.kind=$kind --tsv --top 1 -
find others -name '*.jpg' | sort >list
"$pipetrain" predict -w $weights --set devices.kind=$kind --tsv --top 1 - <list >out
sed 1d out | sort | cut -f 1-4 >from_list
sed 1d by_file | sort | cut -f 1-4 | cmp - from_list || fail 'other classes of a list'
mkdir odd
cp $first "odd/two
lines.jpg"
cp $first odd/last.jpg
find odd -name '*.jpg' -print0 | sort -z >list
"$pipetrain" predict -w $weights --set devices.kind=$kind --json - <list >out 2>err
expect_equal "$(wc -l <out) $(wc -c <err)" '2 0' 'images of a list with zeros behind names'
grep -qF '"image":"odd/two\nlines.jpg"' out || fail "a name with a line's end is told"
predict --json $first
cp out own
expect_end 0 'a configuration' run "$pipetrain" predict -c tiny.conf --last --json $first
expect_same_file own out 'by the configuration'
expect_end 0 'a model' run "$pipetrain" predict -w $weights -m mnist_cnn --set devices.kind=$kind --json $first
expect_same_file own out 'by the model'
expect_equal "$("$json_value" own image) $("$json_value" own top.4.name | cut -c 1-5)" "$first class" 'the line of JSON'
predict --top 20 --json $first
"$json_value" out top.9.class >/dev/null || fail 'all ten classes are told'
awk 'BEGIN { RS = "probability\":" } NR > 1 { sum += $1 } END { exit !(sum > 0.999 && sum < 1.001) }' out ||
    fail 'the probabilities of all classes are no 1'
expect_end 0 'a table' predict photos/class0/0.jpg photos/class3/17.jpg
expect_out '^image  *class  *probability$'
expect_out '^photos/class3/17.jpg +[0-9] class[0-9] +[0-9.]+ %$'
expect_narrow 'a table'

# Of a folder it takes what a conversion takes: by content, without what is hidden; the rest is counted by kind.
mkdir -p mixed/a mixed/b/.hid mixed/__MACOSX
for name in a/noext a/x.jfif a/named.webp a/U.JPG b/1.jpg .hidden.jpg b/.hid/h.jpg a/._1.jpg __MACOSX/._x.jpg; do
    cp $first mixed/$name
done
echo 'no image' >mixed/__MACOSX/._y.jpg
"$convert" folder mixed -o as-converted >/dev/null 2>&1 || fail 'the folder cannot be converted'
echo 'a list' >mixed/a/notes.txt
printf 'BM and so on' >mixed/a/b.bmp
printf 'P5\n1 1\n255\n0' >mixed/b/p.pgm
printf 'P5\n1 1\n255\n0' >mixed/b/q.pgm
expect_end 0 'a folder of files of many kinds' predict --tsv --top 1 mixed
expect_err '^mixed: left out 4 files that are no JPEG or PNG: 2 a PNM \(the first b/p.pgm\), 1 a BMP \(a/b.bmp\), 1 no image \(a/notes.txt\)$'
expect_err '^mixed: skipped 1 folder of a file server or an operating system \(__MACOSX\)$'
expect_err_lines 2
sed 1d out | cut -f 1 | sed 's|mixed/||' >predicted
expect_equal "$(tr '\n' ' ' <predicted)" 'a/U.JPG a/named.webp a/noext a/x.jfif b/1.jpg ' 'the files of a folder'
expect_equal "$("$build/pipetrain-shards" stats as-converted | sed -n 's/ records in.*//p')" 5 'files that are converted'
mkfifo mixed/a/pipe.jpg
expect_end 3 'a folder with a pipe in it' predict --tsv --top 1 mixed/
expect_err '^pipetrain: mixed/: 1 cannot be read: a/pipe.jpg: is not a regular file$'
expect_equal "$(sed 1d out | wc -l) $(sed -n 2p out | cut -f 1)" '5 mixed/a/U.JPG' 'images beside a pipe'

# What cannot be read is told, and the others go on.
head -c 300 $first >cut.jpg
echo 'no image' >text.jpg
mkdir empty folder.jpg
expect_end 3 'images that cannot be read' predict --json nothing.jpg $first text.jpg cut.jpg folder.jpg $first
expect_equal "$(grep -c '"top"' out) $(grep -c '"problem"' out)" '2 3' 'predictions and problems'
expect_err '^nothing.jpg: cannot be read: No such file or directory$'
expect_err '^text.jpg: is neither a JPEG nor a PNG .9 bytes.$'
expect_err '^folder.jpg: has no images'
classes_of() {
    grep '"top"' "$1" | sed 's/"probability":[^}]*//g' | sort -u
}
classes_of out >between
classes_of own | cmp - between || fail 'a good image between bad ones is another'
expect_end 2 'two forms' predict --tsv --json $first
expect_err 'predict: give --tsv or --json, not both'
expect_err_lines 1
at_options='-o broken'
at_command never none "$pipetrain" predict -w "$weights" $first
expect_code 141 'predictions that nobody reads'
[ ! -s "$work/err" ] || fail 'a word about a pipe that is closed'
expect_end 3 'an empty folder' predict empty
expect_err '^empty: has no images'
expect_end 2 'images and shards' predict $first shards
cp -r shards damaged
flip damaged/train-00000-of-00002 400
expect_end 3 'a damaged record' predict --tsv --top 1 damaged
expect_err '^pipetrain: 1 of 90 images could not be read$'
expect_equal "$(sed 1d out | wc -l)" 89 'records that can be read'

# What is wrong.
expect_end 0 'the help' run "$pipetrain" predict --help
expect_out '^Usage: pipetrain predict '
expect_narrow 'the help'
expect_end 2 'no weights' run "$pipetrain" predict $first
expect_err 'no weights and no configuration given'
expect_end 2 'no images' predict
expect_end 2 'no class' predict --top 0 $first
expect_err "'0' is not a whole number from 1 to"
expect_end 2 'a misspelt option' predict --jsn $first
expect_err "did you mean '--json'"
expect_end 3 'weights that are not there' run "$pipetrain" predict -w nothing $first
expect_end 3 'a text in place of weights' run "$pipetrain" predict -w tiny.conf $first
expect_err '^tiny.conf: is not a safetensors file$'
expect_end 2 'weights of another network' predict -m lenet $first
expect_err 'these are not weights of'
expect_end 2 'a model that is not there' predict -m lnet $first
expect_err "^--model: .*did you mean 'lenet'"
expect_end 2 'a model and a configuration' predict -m mnist_cnn -c tiny.conf $first
# One output is a sigmoid's: softmax of it is 1 for every image.
expect_end 0 'weights of one output' run "$pipetrain" -c tiny.conf --set input.source=synthetic --set data.classes=1 \
    --set data.train= --set data.validation= --set train.steps=1 --set run.dir=runs/one
one=runs/one/weights.safetensors
for how in '' '-m mnist_cnn' '--set data.classes=1 -m mnist_cnn' '--set data.classes=2 -m mnist_cnn'; do
    expect_end 2 "one output, $how" run "$pipetrain" predict $how -w $one --set devices.kind=$kind $first
    expect_err "^$one: has one output, .*two rows, 0 and w .bias: 0 and b., because softmax of .0, z. is sigmoid of z$"
    grep -q 'data.classes' err && fail 'a network of one class is advised'
    expect_end 2 "one output is evaluated, $how" run "$pipetrain" evaluate $how -w $one --set devices.kind=$kind \
        --set 'data.validation=jpeg/validation-*'
done
run "$pipetrain" -c tiny.conf --set model.weights=$one --set run.dir=runs/one-2
expect_code 2 'one output in training'
expect_err "^$one: has one output, .* is sigmoid of z; or set model.skip = fc2.\* to start with a new last layer$"
# Weights so large that their products overflow, each 1e18: the output is no result, as an evaluation has it. Hashes are
# under another name.
LC_ALL=C sed 's/pipetrain[.]xxh3/pipetrain.yyh3/g' $weights >unhashed
header=$((8 + $(od -An -tu8 -N 8 unhashed)))
{ head -c $header unhashed && head -c $(($(wc -c <unhashed) - header)) /dev/zero | tr '\000' ']'; } >infinite
for form in --tsv --json; do
    run "$pipetrain" predict -w infinite --set devices.kind=$kind --top 1 $form $first "$(sed 1d by_file | sed -n '2s/\t.*//p')"
    expect_code 73 "an output that is not finite, $form"
    expect_err "^$first: the output of the network is not finite$"
    expect_err "^pipetrain: infinite: the output of the network is not finite for 2 of 2 images$"
    grep -Eq 'nan|null' out && fail 'no numbers are printed as results'
done
expect_out '"problem":"the output of the network is not finite"'
head -c 8 $weights >bare
printf '{"__metadata__":{"format":"pt"}}' >header
{ printf '\040\000\000\000\000\000\000\000'; cat header; } >bare
expect_end 2 'weights that say nothing of their network' run "$pipetrain" predict -w bare $first
expect_err '^bare: does not contain its network: name it with --model=NAME'
expect_end 2 'a wrong key' predict --set train.bacth=1 $first
expect_end 2 'a device that computes nothing' predict --set devices.kind=null $first
expect_end 4 'a budget that is too small' predict --set input.ram_budget=100KiB others
expect_err 'the budget is 100.0 KiB'
if [ -w /dev/full ]; then
    run sh -c "'$pipetrain' predict -w $weights --set devices.kind=$kind others >/dev/full"
    expect_code 5 'predictions on a full disk'
    expect_err 'standard output: not all could be written: is there no space left'
fi
run sh -c "'$pipetrain' predict -w $weights --set devices.kind=$kind others >&-"
expect_code 0 'predictions to a closed output'

finish
