#!/bin/sh
# How fast the data come: every comparison of the loader with images and large sets, or those named, one Markdown row
# each.
#
#     bench/feed.sh [-b BUILD] [-i PHOTOS] [-j THUMBNAILS] [-c CIFAR] [-s SMALL] [-r RAW] [-o OLD_BUILD] [-n PAIRS]
#                   [-m IMAGES] [-w SECONDS] [COMPARISON]...
#     bench/feed.sh -l        lists the comparisons
#
# PHOTOS, and THUMBNAILS of 64 x 64 pixels, are made by bench/jpeg_set.sh; SMALL are shards of millions of small records
# (pipetrain-convert digits --train=2000000), RAW and CIFAR shards of raw pixels, 256 x 256 and 32 x 32
# (bench/raw_set.sh). IMAGES are those that a peer of photographs decodes in a run (default 3840). The Python
# interpreters come from PEER_TENSORFLOW, PEER_TORCH (also for pipetrain.Loader) and PEER_DALI (default python3).
# bench/README.md says what is measured and what the columns mean.
set -eu

bench=$(cd "$(dirname "$0")" && pwd)
build=.
photos=
thumbnails=
old=
images=3840
cifar=
small=
raw=
pairs=7
wait=0
tensorflow=${PEER_TENSORFLOW:-python3}
torch=${PEER_TORCH:-python3}
dali=${PEER_DALI:-python3}
cores=$(nproc)

comparisons='tfdata_jpeg torch_jpeg torch_trivial torch_jpeg_memory dali_jpeg tfdata_cifar tfdata_cifar_stored two_decoders decode checksum
first_batch epoch_boundary small_records lanes raw_copies check check_small python_torch python_torch_64 python_tfdata
python_tfdata_64 python_dali python_dali_64 python_memory old_build'

usage()
{
    sed -n '2,14s/^# \{0,1\}//p' "$0" >&2
    exit 2
}

while getopts b:i:j:c:s:r:o:n:m:w:lh option; do
    case $option in
        b) build=$OPTARG ;;
        i) photos=$OPTARG ;;
        j) thumbnails=$OPTARG ;;
        c) cifar=$OPTARG ;;
        s) small=$OPTARG ;;
        r) raw=$OPTARG ;;
        o) old=$OPTARG ;;
        n) pairs=$OPTARG ;;
        m) images=$OPTARG ;;
        w) wait=$OPTARG ;;
        l) echo $comparisons | tr ' ' '\n'; exit 0 ;;
        *) usage ;;
    esac
done
shift $((OPTIND - 1))

build=$(cd "$build" && pwd)
script=feed.sh
export PYTHONPATH="$bench/../tools/python" PIPETRAIN_FEED_LIBRARY="$build/libpipetrain-feed.so.0"
known="$comparisons"
. "$bench/rows.sh"

# need VARIABLE OPTION: the folder that a comparison is of.
need() { eval "test -n \"\$$1\"" || { echo "$0: give the folder with $2" >&2; return 1; }; }
feed() { echo "'$build/bench/feed' -d $cores $*"; }
photos_shards() { echo "'$photos/shards:train'"; }
with_memory() { echo "python3 '$bench/memory_of.py' $*"; }
# The peers and pipetrain.Loader read the set `photos`, which rows of thumbnails set.
trial() { echo "--images $images --trial $((images / 5))"; }
tfdata()
{
    echo "'$tensorflow' '$bench/peer_tfdata_jpeg.py' --glob '$photos/shards/train-*' --threads $cores $(trial) $*"
}
torch() { echo "'$torch' '$bench/peer_torch_jpeg.py' --folder '$photos/folder' --threads $cores $(trial) $*"; }
dali()
{
    echo "'$dali' '$bench/peer_dali.py' --glob '$photos/shards/train-*' --index '$photos/index' --threads $cores \
        --images $images $*"
}
python()
{
    echo "'$torch' '$bench/feed_python.py' --shards '$photos/shards/train-*' --threads $cores $*"
}

jpeg='images/s, JPEG, random part to 224'

# Beside others.
run_tfdata_jpeg()
{
    need photos -i && compare --name "$jpeg: ours / tf.data" --target '>= 1.4' \
        --a "$(feed -m -e 2 "$(photos_shards)")" --b "$(tfdata)"
}
run_torch_jpeg()
{
    need photos -i && compare --name "$jpeg: ours / PyTorch DataLoader" --target '>= 1.8' \
        --a "$(feed -m -e 2 "$(photos_shards)")" --b "$(torch)"
}
run_torch_trivial()
{
    need photos -i && compare --name "$jpeg, TrivialAugmentWide: ours / PyTorch DataLoader" --target '>= 1.3' \
        --a "$(feed -m -t -e 2 "$(photos_shards)")" --b "$(torch --trivial)"
}
run_torch_jpeg_memory()
{
    need photos -i && compare --name 'memory of all processes, JPEG, bytes: ours / PyTorch DataLoader' --target '<= 0.5' \
        --key-a peak_pss_bytes --a "$(with_memory "$(feed -m -e 2 "$(photos_shards)")")" \
        --b "$(with_memory "$(torch --decoder simplejpeg --images 1280)")"
}
run_dali_jpeg()
{
    need photos -i && compare --name "$jpeg: ours / DALI on the CPU" --target '>= 1.7' \
        --a "$(feed -m -e 2 "$(photos_shards)")" --b "$(dali)"
}

# cifar_row NAME TARGET ORDER PEER_OPTION...
cifar_row()
{
    need cifar -c || return 1
    cifar_name=$1 cifar_target=$2 cifar_order=$3
    shift 3
    compare --name "records/s, raw CIFAR, $cifar_name: ours / tf.data" --target "$cifar_target" \
        --key-b records_per_second --a "$(feed -s 32 -b 1024 -k all -w 1 -e 41 -o "$cifar_order" "'$cifar:train'")" \
        --b "'$tensorflow' '$bench/peer_tfdata.py' --glob '$cifar/train-*' --threads $cores --batch 1024 $*"
}
run_tfdata_cifar() { cifar_row shuffled '>= 12' full --shuffle 10000; }
run_tfdata_cifar_stored() { cifar_row 'order as stored' '>= 8' none; }

# pipetrain.Loader in Python. Rows of thumbnails measure more images: they take less time each.
thumbnails() { need thumbnails -j && photos=$thumbnails && images=$((4 * images)); }

# python_row NAME TARGET PEER OURS_OPTION...: images/s, and processor time an image
python_row()
{
    row_name=$1 row_target=$2 row_peer=$3
    shift 3
    compare --name "images/s, $row_name" --target "$row_target" --a "$(python "$@")" --b "$row_peer" \
        --also "processor time an image (us), $row_name" cpu_us_per_image ''
}
# torch_row SIDE OURS_OPTION...: also the first batch, and what Python costs
torch_row()
{
    side=$1
    shift
    compare --name "images/s, JPEG to $side, Python: ours / PyTorch DataLoader" --target '>= 2' \
        --a "$(python --side "$side" "$@")" --b "$(torch --side "$side")" \
        --also "processor time an image (us), JPEG to $side, Python: ours / PyTorch DataLoader" \
        cpu_us_per_image '<= 0.5' \
        --also "seconds from opening to the first batch, JPEG to $side: ours / PyTorch DataLoader" \
        first_batch_seconds '<= 0.2' \
        --also-a "processor time of the thread that takes, a batch (us), JPEG to $side" thread_us_per_batch '' \
        --also-a 'the same for small batches that are ready, one right after the other' ready_us_per_batch '<= 30'
}
run_python_torch() { need photos -i && torch_row 224 --images $((2 * images)); }
run_python_torch_64() { (thumbnails && torch_row 64 --images $((4 * images))); }
run_python_tfdata()
{
    need photos -i &&
        python_row 'JPEG to 224, Python: ours / tf.data' '>= 1.4' "$(tfdata)" --images $((2 * images))
}
run_python_tfdata_64()
{
    (thumbnails && python_row 'JPEG to 64, Python: ours / tf.data' '>= 1.4' "$(tfdata --side 64)" \
        --side 64 --images $((4 * images)))
}
run_python_dali()
{
    need photos -i &&
        python_row 'JPEG to 224, Python: ours / DALI on the CPU' '>= 1.9' "$(dali)" --images $((2 * images))
}
run_python_dali_64()
{
    (thumbnails && python_row 'JPEG to 64, Python: ours / DALI on the CPU' '>= 1.9' "$(dali --side 64)" \
        --side 64 --images $((4 * images)))
}
# Each side less an idle interpreter with PyTorch.
run_python_memory()
{
    need photos -i && compare \
        --name 'memory of all processes less an idle one, JPEG to 224, bytes: ours / PyTorch DataLoader' \
        --target '<= 0.3' --key-a added_pss_bytes --a "$(with_memory --less torch "$(python)")" \
        --b "$(with_memory --less torch "$(torch --decoder simplejpeg)")"
}
run_old_build()
{
    need photos -i && need old -o && compare --name "$jpeg: this build / the old one" --target '>= 0.98' \
        --a "$(feed -m -e 2 "$(photos_shards)")" --b "'$old/bench/feed' -d $cores -m -e 2 $(photos_shards)"
}

# Ours alone.
run_two_decoders()
{
    need photos -i && compare --name "$jpeg: 2 decoders / 1" --target '>= 1.9' \
        --a "'$build/bench/feed' -m -e 2 -d 2 $(photos_shards)" --b "'$build/bench/feed' -m -e 2 -d 1 $(photos_shards)"
}
# decode_row NAME TARGET KEY
decode_row()
{
    need photos -i && compare --name "$1" --target "$2" --key-a "$3" \
        --a "sh -c '\"\$0\" 1 \"\$1\"/*/0-*' '$build/bench/decode' '$photos/folder'"
}
run_decode()
{
    decode_row "$jpeg, one thread: decoded and scaled / decoded by a bare loop" '>= 0.95' 're:ratio ([0-9.]+)'
}
run_checksum()
{
    decode_row 'checksums, share of decoding JPEG' '<= 0.02' 're:checksums ([0-9.]+)'
}
run_first_batch()
{
    need photos -i && compare --name 'seconds from start to the first batch of JPEG, without the time of one batch' \
        --target '<= 0.3' --key-a before_first_batch_seconds --a "$(feed -m -n 20 "$(photos_shards)")"
}
# The one who takes the batches is slower than the loader, as towers are.
run_epoch_boundary()
{
    need photos -i && compare --name 'milliseconds waited for the first batch of an epoch, JPEG, batches taken at half speed' \
        --target '<= 1' --key-a epoch_wait_ms --a "$(feed -m -b 32 -e 3 -p 40 "$(photos_shards)")"
}

# Small and raw records.
run_small_records()
{
    need small -s && python3 "$bench/warm.py" "$small"/train-* &&
        compare --name 'small records, shuffled, not kept, records/s' --target '>= 1000000' \
        --a "$(feed -s 28 -c 1 -b 1024 -r 2 -e 2 "'$small:train'")"
}
run_lanes()
{
    blocks="-o block -s 28 -c 1 -b 1024 -e 6"
    need small -s && python3 "$bench/warm.py" "$small"/train-* &&
        compare --name 'small records by blocks: 8 lanes / one order' --target '>= 0.98' \
        --a "$(feed $blocks -l 8 "'$small:train'")" --b "$(feed $blocks "'$small:train'")"
}
run_raw_copies()
{
    need raw -r && compare --name 'bytes/s, raw 256 x 256 kept in memory: ours / memcpy' --target '>= 0.8' \
        --key-a sample_bytes_per_second --a "$(feed -s 256 -w 2 -e 20 -k all "'$raw:train'")" \
        --b "'$build/bench/copies' 256 2000 $cores 36000"
}

# check_row NAME FOLDER: several times, that starting counts for little.
check_row()
{
    compare --name "seconds, $1: cat / pipetrain-shards check" --target '>= 0.9' --key-a wall \
        --a "sh -c 'for i in 1 2 3 4 5; do cat \"\$0\"/train-* >/dev/null; done' '$2'" \
        --b "sh -c 'for i in 1 2 3 4 5; do \"\$1\" check \"\$0\" >/dev/null; done' '$2' '$build/pipetrain-shards'"
}
run_check() { need photos -i && check_row 'shards of JPEG' "$photos/shards"; }
run_check_small() { need small -s && check_row 'shards of small records' "$small"; }

describe_peers()
{
    echo "- tf.data: $(version "$tensorflow" 'import tensorflow; print(tensorflow.__version__)')"
    echo "- PyTorch, torchvision, simplejpeg: $(version "$torch" \
        'import simplejpeg, torch, torchvision; print(torch.__version__, torchvision.__version__, simplejpeg.__version__)')"
    echo "- DALI: $(version "$dali" 'import nvidia.dali; print(nvidia.dali.__version__)')"
}

check_rows "$@"
make -C "$build" bench/feed bench/copies bench/decode >&2
describe "$@"
measure_rows ${*:-$comparisons}
