#!/bin/sh
# pipetrain predict --logits: the network's outputs in lines and in a NumPy array agree with the probabilities; a file
# appears only when it is complete.
. "$(dirname "$0")/../e2e.sh"
cd "$work" || exit 99
make_jpegs jpeg 10 20 0.25
"$build/tests/e2e/use/jpeg_maker" others 10 2
write_jpeg_conf tiny.conf jpeg 'epochs = 2'
weights=runs/tiny/weights.safetensors
expect_end 0 'the training' run "$pipetrain" -c tiny.conf
first=others/class0/0.jpg
head -c 300 $first >cut.jpg

predict() {
    run "$pipetrain" predict -w $weights --set devices.kind=$kind "$@"
}

# Numbers of a row of a float32 array, from 0.
row() {
    tail -c +$((129 + $2 * $3 * 4)) "$1" | head -c $(($3 * 4)) | od -An -v -tf4 | tr -s ' \n' '  '
}

# Are two texts of numbers the same but for the digits printed?
expect_numbers() {
    echo "$1|$2" | awk -F '|' '{ n = split($1, a, " "); m = split($2, b, " "); bad = n != m || n == 0
        for (i = 1; i <= n; i++) { d = a[i] - b[i]; bad += d * d > 1e-10 * (1 + b[i] * b[i]) }
        exit bad > 0 }' || fail "$3: '$1' is not '$2'"
}

expect_end 3 'logits in lines and in a file' predict --json --logits --top 10 $first cut.jpg others/class9/1.jpg
cp out lines
expect_equal "$(grep -c '"logits":\[' lines) $(grep -c '"problem"' lines)" '2 1' 'lines with logits'
expect_end 3 'a file' predict --logits=logits.npy $first cut.jpg others/class9/1.jpg
expect_equal "$(head -c 128 logits.npy | tail -c +11 | tr -d '\n' | sed 's/ *$//')" \
    "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 10), }" 'the header of the array'
expect_equal "$(wc -c <logits.npy) $(head -c 10 logits.npy | od -An -tu1 | tr -s ' ')" \
    "$((128 + 120))  147 78 85 77 80 89 1 0 118 0" 'bytes of the array'
logits_of() {
    sed -n "$1s/.*\"logits\":\[\([^]]*\)\].*/\1/p" lines | tr ',' ' '
}
expect_numbers "$(row logits.npy 0 10)" "$(logits_of 1)" 'the first image in the file and in its line'
expect_numbers "$(row logits.npy 2 10)" "$(logits_of 3)" 'the last image in the file and in its line'
expect_equal "$(row logits.npy 1 10 | tr ' ' '\n' | grep -c nan)" 10 'numbers of an image that cannot be read'

# Softmax of the logits are the probabilities; a column of TSV has them, too.
predict --tsv --logits --top 10 $first
expect_out '^image	rank	class	name	probability	logit$'
awk -F '\t' 'NR > 1 { sum += exp($6); p[NR] = $5; e[NR] = exp($6) }
    END { for (i = 2; i <= 11; i++) if ((p[i] - e[i] / sum)^2 > 1e-10) exit 1; exit NR != 11 }' out ||
    fail 'softmax of the logits are no probabilities'
expect_numbers "$(sed 1d out | sort -n -k 3,3 -t '	' | cut -f 6 | tr '\n' ' ')" "$(logits_of 1)" 'logits of TSV and JSON'

# In any batches; records of shards have rows in their order.
expect_end 0 'a folder' predict --logits=all.npy others
for batch in 1 3; do
    expect_end 0 "batches of $batch" predict --logits=batches$batch.npy --batch $batch others
    expect_numbers "$(row batches$batch.npy 0 200)" "$(row all.npy 0 200)" "batches of $batch"
done
"$convert" folder others -o shards --shards=1 >/dev/null 2>&1 || fail 'no shards'
predict --json --logits shards
cp out lines
expect_end 0 'records' predict --logits=records.npy shards
expect_numbers "$(row records.npy 13 10)" "$(logits_of 14)" 'a record'

# Embeddings, in lines and in a file.
expect_end 0 'embeddings in lines' predict --json --logits --embeddings $first
cp out lines
embedding=$(sed 's/.*"embedding":\[\([^]]*\)\].*/\1/' lines | tr ',' ' ')
expect_end 0 'embeddings in a file' predict --embeddings=embeddings.npy $first others/class9/1.jpg
width=$(echo $embedding | wc -w)
expect_equal "$(wc -c <embeddings.npy)" $((128 + 2 * 4 * width)) 'bytes of the embeddings'
expect_numbers "$(row embeddings.npy 0 $width)" "$embedding" 'the embedding in the file and in its line'
expect_end 0 'embeddings of records' predict --embeddings=records.npy -f shards
expect_end 2 'embeddings in a table' predict --embeddings $first
expect_end 2 'embeddings in TSV' predict --embeddings --tsv $first
expect_err 'predict: --embeddings needs --json, or a file: --embeddings=FILE.npy'
expect_end 2 'two arrays in one file' predict --logits=both.npy --embeddings=both.npy $first
expect_err 'predict: --logits and --embeddings need a file each'

# What exists stays; nothing else is left.
expect_end 5 'a file that exists' predict --logits=all.npy others
expect_err 'all.npy: exists already: replace it with --force$'
expect_end 0 'a file that is replaced' predict --logits=all.npy -f $first
expect_equal "$(wc -c <all.npy)" 168 'bytes of the replaced file'
expect_end 5 'a folder that is not there' predict --logits=none/logits.npy $first
expect_err 'none/logits.npy: cannot be written: No such file or directory$'

# Even by force, no input is replaced.
cp $first photo.jpg
cp $weights used.safetensors
for input in photo.jpg $weights tiny.conf; do
    for rows in logits embeddings; do
        expect_end 2 "$rows in the place of $input" run "$pipetrain" predict -c tiny.conf -w $weights --$rows=$input -f photo.jpg
    done
done
expect_err 'tiny.conf: is read by the command: name another output'
expect_end 2 'a table in the place of the weights' run "$pipetrain" evaluate -c tiny.conf -w $weights --csv $weights --force
expect_err 'weights.safetensors: is read by the command: name another output'
expect_same_file $weights used.safetensors 'the weights'
expect_same_file photo.jpg $first 'the photo'
mkfifo fifo
expect_end 5 'a FIFO' predict --logits=fifo -f $first
expect_err 'fifo: is a FIFO: name a regular file$'
expect_end 2 'a table' predict --logits $first
expect_err 'predict: --logits needs --json or --tsv, or a file: --logits=FILE.npy'
expect_end 2 'a file without an equals sign' predict --logits other.npy $first
expect_err 'predict: other.npy: write --logits=other.npy, with an equals sign'
at_options='-o broken'
at_command never none "$pipetrain" predict -w "$work/$weights" "--logits=$work/unread.npy" "$work/$first"
expect_code 141 'predictions that nobody reads'
sh -c "ulimit -f 1; exec '$pipetrain' predict -w $weights --set devices.kind=$kind --logits=large.npy others >/dev/null" 2>err
code=$?
command_line='predict with a limit of the size of files'
expect_code 5 'a file that cannot grow'
expect_err 'large.npy: cannot be written'
expect_equal "$(ls -A | grep -E 'tmp|large|unread' | tr '\n' ' ')" '' 'temporary files'

finish
