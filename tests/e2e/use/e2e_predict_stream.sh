#!/bin/sh
# pipetrain predict - as a worker: answers come while its input is open, in the order of the images, in batches of any
# size; whatever comes is answered or ends it in a defined way, in bounded memory.
. "$(dirname "$0")/../e2e.sh"
cd "$work" || exit 99
make_jpegs jpeg 10 8 0.25
"$build/tests/e2e/use/jpeg_maker" others 10 3
write_jpeg_conf tiny.conf jpeg 'epochs = 1'
weights=runs/tiny/weights.safetensors
expect_end 0 'the training' run "$pipetrain" -c tiny.conf
first=others/class0/0.jpg
limit=300       # seconds after which a test that hangs fails

# stream NAME OPTION... - predict - with these options, whose input is NAME
stream() {
    name=$1
    shift
    command_line="predict $* - <$name"
    timeout -k 1 $limit "$pipetrain" predict -w $weights --set devices.kind=$kind "$@" - <"$name" >out 2>err
    code=$?
}

# A pipe, as of find; a regular file is a list that is read as a whole.
piped() {
    source=$1
    shift
    mkfifo pipe
    cat "$source" >pipe &
    stream pipe "$@"
    wait $!
    rm pipe
}

# An image with its length, 4 bytes, little-endian; NUMBER: only that length.
length() {
    printf "$(printf '\\%03o\\%03o\\%03o\\%03o' $(($1 & 255)) $(($1 >> 8 & 255)) $(($1 >> 16 & 255)) $(($1 >> 24 & 255)))"
}
framed() {
    for file; do
        length "$(wc -c <"$file")"
        cat "$file"
    done
}

# The answers are those of the list, in its order, but for rounding, which depends on batches; so are their last lines.
find others -name '*.jpg' | sort >list
stream list --tsv --top 1
expect_code 0 'a list in a file'
expect_err_lines 0
cp out expected
for batch in 1 2 5 64; do
    piped list --tsv --top 1 --batch $batch
    expect_code 0 "a list in a pipe, batches of $batch"
    cut -f 1-4 out >cut
    cut -f 1-4 expected | cmp -s - cut || fail "other answers of a pipe in batches of $batch"
    expect_err '^30 images, [0-9.,]+ images/s; from arrival to answer p50 [0-9.]+ ms, p99 [0-9.]+ ms$'
done
tr '\n' '\000' <list >zeros
piped zeros --tsv --top 1
expect_code 0 'names with NUL'
cut -f 1-4 out >cut
cut -f 1-4 expected | cmp -s - cut || fail 'other answers of names with NUL'
framed $(cat list) >images
for options in '' '--batch 3' '--latency 1'; do
    piped images --length-prefixed --tsv --top 1 $options
    expect_code 0 "images with lengths $options"
    cut -f 2-4 out >cut
    cut -f 2-4 expected | cmp -s - cut || fail "other answers of images with lengths $options"
    expect_equal "$(sed -n '2p;$p' out | cut -f 1 | tr '\n' ' ')" '-:0 -:29 ' 'names of images without names'
done
stream images --length-prefixed --tsv --top 1
cut -f 2-4 out | cmp -s - cut || fail 'other answers of images with lengths in a file'

# An answer comes while the input stays open: the next image is sent only when it is read. Then several at once.
mkfifo in answers
timeout -k 1 $limit "$pipetrain" predict -w $weights --set devices.kind=$kind --json --top 1 - <in >answers 2>err &
worker=$!
exec 3>in 4<answers
for path in $first others/class1/0.jpg nothing.jpg $first; do
    echo $path >&3
    read -r line <&4
    case $line in
        "{\"image\":\"$path\","*) ;;
        *) fail "the answer to $path: $line" ;;
    esac
done
for many in 3 17; do
    head -$many list >&3
    for path in $(head -$many list); do
        read -r line <&4
        case $line in
            "{\"image\":\"$path\",\"top\""*) ;;
            *) fail "the answer to $path, one of $many: $line" ;;
        esac
    done
done
exec 3>&-
wait $worker
code=$?
expect_code 3 'one path at a time, one of them of nothing'
expect_err '^nothing.jpg: cannot be read: No such file or directory$'
expect_err '^24 images, '
expect_err '^pipetrain: 1 of 24 images could not be read$'

# Signals end a worker that waits, and so does the reader of its output.
for signal in INT:130 TERM:75; do
    "$pipetrain" predict -w $weights --set devices.kind=$kind --json --top 1 "--logits=$signal.npy" - <in >answers 2>err &
    worker=$!
    exec 3>in 4<answers
    echo $first >&3
    read -r line <&4
    # A shell's background jobs ignore SIGINT; the program follows that.
    [ $signal = INT:130 ] || kill -${signal%:*} $worker
    [ $signal = TERM:75 ] || exec 3>&-
    wait $worker
    code=$?
    [ $signal = INT:130 ] || expect_code 75 'a signal to a worker that waits'
    exec 3>&- 4<&-
done
expect_equal "$(ls -A | grep -c 'TERM.*npy')" 0 'files of a worker that was ended'
timeout -k 1 $limit "$pipetrain" predict -w $weights --set devices.kind=$kind --json --top 1 - <in >answers 2>err &
worker=$!
exec 3>in 4<answers
echo $first >&3
read -r line <&4
exec 4<&-
wait $worker
code=$?
exec 3>&-
expect_code 141 'a worker whose answers nobody reads, while it waits'

# What comes is answered or refused.
: >nothing
piped nothing --json
expect_code 2 'no path'
expect_err 'there are no images to classify'
piped nothing --json --length-prefixed
expect_code 0 'no image'
head -c 300 $first >cut.jpg
{ length 0; framed cut.jpg list $first; length 70000000; head -c 70000000 /dev/zero; framed $first; } >mixed
piped mixed --json --length-prefixed
expect_code 3 'images that cannot be read'
expect_equal "$(grep -c '"top"' out) $(grep -c '"problem"' out)" '2 4' 'answers and problems'
expect_out '^{"image":"-:0","problem":"is empty"}$'
expect_out '^{"image":"-:2","problem":"is neither a JPEG nor a PNG'
expect_out '^{"image":"-:4","problem":"has 70000000 bytes: at most 67108864 are read"}$'
expect_equal "$(sed -n 6p out | cut -c 1-20)" '{"image":"-:5","top"' 'an image after one that is too large'
{ framed $first; length 1000; printf 'abc'; } >mixed
piped mixed --json --length-prefixed
expect_code 3 'an input that ends in an image'
expect_out '^{"image":"-:1","problem":"is cut: the input ended after 3 of its 1000 bytes"}$'
{ framed $first; printf 'ab'; } >mixed
piped mixed --json --length-prefixed
expect_out '"problem":"is cut: the input ended after 2 of the 4 bytes of its length"}$'
piped list --json --length-prefixed
expect_code 3 'paths in place of lengths'
expect_err '^pipetrain: standard input says that image 0 has [0-9]+ bytes: before each image its length is expected'
piped $first --json
expect_code 3 'an image in place of paths'
expect_err '^pipetrain: standard input has an image in place of paths: give --length-prefixed'
expect_end 3 'an image in place of a list' run sh -c "'$pipetrain' predict -w $weights --set devices.kind=$kind - <$first"
expect_err '^pipetrain: standard input has an image in place of paths: give --length-prefixed'
# A PNG of 60,000 x 60,000 pixels by its header, and one of 100,000: refused before any memory is taken for them.
{ printf '\211PNG\r\n\032\n\000\000\000\rIHDR\000\000\352\140\000\000\352\140\010\002\000\000\000\017\260\342\025'
    printf '\000\000\000\001IDATx\331\024\147\374\000\000\000\000IEND\256B`\202'; } >large.png
{ head -c 16 large.png; printf '\000\001\206\240\000\001\206\240\010\002\000\000\000%b' '\047\060\234\237'; tail -c +34 large.png; } >larger.png
framed $first large.png larger.png $first >mixed
piped mixed --json --length-prefixed
expect_code 3 'images of 60,000 x 60,000 and 100,000 x 100,000 pixels'
expect_out '"-:1","problem":".*input.max_pixels'
expect_out '"-:2","problem":".*width exceeds'
expect_equal "$(grep -c '"top"' out)" 2 'images beside those that are too large'
head -c 40000 /dev/zero | tr '\000' 'x' >long
{ cat long; echo; echo $first; } >mixed
piped mixed --json
expect_code 3 'a path that is too long'
expect_out '"problem":"is longer than a path can be: 40000 bytes"}$'
expect_equal "$(grep -c '"top"' out)" 1 'images beside a path that is too long'

# Memory does not grow with the input: 120 MB of paths, or 400, in an address space of which each thread takes a share, and
# that has less than 100 MB more than the program needs.
if [ $sanitizer = no ] && [ $kind = cpu ]; then
    paths=$([ "$long" = yes ] && echo 100000 || echo 30000)
    awk -v paths="$paths" 'BEGIN { for (i = 0; i < 4000; i++) path = path "x"; for (i = 0; i < paths; i++) print path }' |
        sh -c "ulimit -v $((300000 + 100000 * $(nproc))); exec '$pipetrain' predict -w $weights --set devices.kind=cpu --json -" 2>err |
        tail -1 >out
    command_line="$paths paths of 4,000 bytes"
    expect_out '"problem":"cannot be read: File name too long"'
    expect_err "^pipetrain: $paths of $paths images could not be read\$"
fi

# The client of the documentation.
if command -v python3 >/dev/null; then
    sed -n '/^```python$/,/^```$/p' "$above/../../doc/predict.md" | grep -v '^```' >client.py
    mkdir -p runs/run
    cp $weights runs/run/weights.safetensors
    ln -s "$pipetrain" pipetrain
    cp $first cat.jpg
    cp others/class1/0.jpg dog.png
    run timeout $limit python3 client.py
    expect_code 0 'the client of the documentation'
    expect_equal "$(wc -l <out)" 2 'answers to the client of the documentation'
    expect_out '^cat.jpg class[0-9] 0[.][0-9]+$'
fi

# Options that need standard input.
expect_end 2 'lengths of files' run "$pipetrain" predict -w $weights --length-prefixed $first
expect_err '\-\-length-prefixed is for images from standard input: give - in place of images'
expect_end 2 'latency of files' run "$pipetrain" predict -w $weights --latency 5 $first
expect_err '\-\-latency is for images from standard input'

finish
