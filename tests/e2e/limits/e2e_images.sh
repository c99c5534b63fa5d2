#!/bin/sh
# Large images in small files: what decoding them takes is planned, is held to the budget, and its want is no damage. A
# JPEG of several scans takes six bytes a pixel, whatever its file has.
. "$(dirname "$0")/../e2e.sh"
cd "$work" || exit 99

# octal TIMES BYTE... - the bytes, so many times
octal() {
    i=$1
    shift
    while [ "$i" -gt 0 ]; do
        for byte in "$@"; do
            printf "\\$byte"
        done
        i=$((i - 1))
    done
}

# A progressive JPEG of 4096x4096 with one scan, and without a block in it: 182 bytes.
{
    octal 1 377 330 377 333 000 103 000
    octal 64 001
    octal 1 377 302 000 021 010 020 000 020 000 003 001 021 000 002 021 000 003 021 000 377 304 000 024 000
    octal 1 001
    octal 16 000
    octal 1 377 304 000 024 020 000 001
    octal 14 000
    octal 1 340 377 304 000 024 021 001
    octal 16 000
    octal 1 377 332 000 014 003 001 000 002 000 003
    octal 14 000
    octal 1 377 331
} >large.jpg
"$build/tests/e2e/use/jpeg_maker" photos 2 40 || fail 'no JPEGs'
cp large.jpg photos/class0/large.jpg
run "$convert" folder photos -o set --validation=0
expect_code 0 'the conversion'
cat >run.conf <<END
[data]
train = set/train-*
classes = 2
[model]
name = mnist_cnn
[train]
batch = 9
epochs = 1
[augment]
crop = central
[devices]
kind = cpu
threads_per_tower = 1
[input]
decode_threads = 2
[report]
progress = none
END

# large OPTION... - a run with this image among its records
large() {
    run "$pipetrain" -c run.conf --set run.dir=run --set run.resume=never "$@"
}

large --set run.dir=whole
expect_code 0 'a run with all the memory that it wants'
expect_out '^decoding  images of up to 67,108,864 pixels \(input.max_pixels\)'
expect_out_joined 'memory .* large images [0-9.]+ MiB'
if [ "$sanitizer" = no ]; then
    "$json_value" whole/summary.json memory.peak_rss_bytes memory.planned_bytes |
        awk 'NR == 1 { peak = $1 } END { exit !(peak < $1) }' || fail 'more memory was taken than was planned'
fi
for skip in '' '--set data.on_corrupt=skip --set data.max_corrupt=0.5'; do
    large --set input.ram_budget=90MiB $skip
    expect_code 4 "a budget that is too small for one image $skip"
    expect_err 'class0/large.jpg|record [0-9]+ at byte'
    expect_err 'holds a JPEG image that cannot be decoded: that takes 9[0-9] MiB, and decoders of large images may take'
    [ ! -e run ] || ! grep -q . run/quarantine.jsonl || fail 'an image is listed as damaged for want of memory'
done

# Larger images than are allowed are a fault of the data.
large --set input.max_pixels=1000000
expect_code 3 'an image that is larger than is allowed'
expect_err 'it has 4096x4096 pixels, and input.max_pixels is 1000000'
large --set input.max_pixels=1000000 --set data.on_corrupt=skip --set data.max_corrupt=0.5
expect_code 0 'the same, left out'
expect_out 'large images [0-9.]+ MiB'

# What a number of pixels asks for is refused as any memory is.
large --set input.max_pixels=67108864 --set input.ram_budget=500MiB
expect_code 4 'pixels that do not fit into the budget'
expect_err 'large images 800[.]0 MiB.*the budget is 500[.]0 MiB: .*or use a smaller input.max_pixels'
finish
