#!/bin/sh
# Every CPU comparison, or those named: ours and a peer in turns, one Markdown row each.
#
#     bench/cpu.sh [-b BUILD] [-d SHARDS] [-m MNIST_DIR] [-n PAIRS] [-w SECONDS] [COMPARISON]...
#     bench/cpu.sh -o OLD_BUILD old128 ...    against an older build of ours
#     bench/cpu.sh -l         lists the comparisons
#
# The peers' Python interpreters come from PEER_TORCH and PEER_TENSORFLOW (default python3).
# bench/README.md says what is measured and what the columns mean.
set -eu

bench=$(cd "$(dirname "$0")" && pwd)
build=.
old=
shards=
mnist=
pairs=7
wait=0
torch=${PEER_TORCH:-python3}
tensorflow=${PEER_TENSORFLOW:-python3}
cores=$(nproc)

comparisons='torch128 keras128 torch1024 keras1024 torch_resnet20 primitives128 primitives1024
synthetic input_wait resnet20_synthetic resnet20_input_wait resnet20_shared resnet20_resized
resnet20_resized_shared resnet20_resized_wait replicated slices slices_resnet20 slices_towers
ranks_openmpi ranks_mpich ranks_cpu_openmpi ranks_cpu_mpich ranks_reduction_one ranks_reduction ranks_ddp
ranks_horovod ddp scaling ddp_scaling loader loader_read loader_block tfdata tfdata_stored
startup memory'
old_comparisons='old128 old1024 old_towers old_synthetic old_loader old_loader_stored old_loader_read old_startup old_memory'

usage()
{
    sed -n '2,9s/^# \{0,1\}//p' "$0" >&2
    exit 2
}

while getopts b:o:d:m:n:w:lh option; do
    case $option in
        b) build=$OPTARG ;;
        o) old=$(cd "$OPTARG" && pwd) ;;
        d) shards=$OPTARG ;;
        m) mnist="--mnist '$OPTARG'" ;;
        n) pairs=$OPTARG ;;
        w) wait=$OPTARG ;;
        l) echo $comparisons $old_comparisons | tr ' ' '\n'; exit 0 ;;
        *) usage ;;
    esac
done
shift $((OPTIND - 1))

build=$(cd "$build" && pwd)
test -x "$build/pipetrain" || { echo "$0: no program $build/pipetrain: give its folder with -b" >&2; exit 2; }
if test -z "$shards"; then
    shards="$build/mnist/train-*"
    ls $shards >/dev/null 2>&1 || shards="$build/data/digits/train-*"
fi

script=cpu.sh
known="$comparisons $old_comparisons"
. "$bench/rows.sh"

# The two sides. Arguments are section.key=value for ours, options for a peer.
run_of() { echo "python3 '$bench/ours.py' '$1/pipetrain' model.name=mnist_cnn 'data.train=$shards'"; }
ours() { echo "$(run_of "$build") $*"; }
resnet20() { echo "python3 '$bench/ours.py' '$build/pipetrain' model.name=resnet20_v1 input.source=synthetic $*"; }
torch_resnet20() { echo "'$torch' '$bench/peer_zoo.py' resnet20_v1 --threads $cores $*"; }
torch() { echo "'$torch' '$bench/peer_torch.py' --threads $cores $mnist $*"; }
keras() { echo "'$tensorflow' '$bench/peer_keras.py' --threads $cores $mnist $*"; }
ddp() { echo "'$torch' '$bench/peer_ddp.py' $mnist $*"; }
tfdata() { echo "'$tensorflow' '$bench/peer_tfdata.py' --glob '$shards' --threads $cores $*"; }
primitives() { echo "'$build/bench/primitives' mnist_cnn $1 $cores 15"; }

two_towers='devices.towers=2 devices.threads_per_tower=1 train.batch_per_tower=128 train.steps=80'
one_tower='devices.towers=1 devices.threads_per_tower=1 train.batch_per_tower=128 train.steps=80'
# So many epochs that the first one, which reads the shards, counts for little.
loader_alone='devices.kind=null train.batch=1024 train.epochs=200'
loader_key=images_per_second_mean

# Training speed, all cores.
run_torch128()
{
    compare --name 'images/s, batch 128: ours / PyTorch' --target '>= 1.5' \
        --a "$(ours train.batch=128 train.steps=100)" --b "$(torch --batch 128 --steps 60)"
}
run_keras128()
{
    compare --name 'images/s, batch 128: ours / Keras' --target '>= 1.3' \
        --a "$(ours train.batch=128 train.steps=100)" --b "$(keras --batch 128 --steps 60)"
}
run_torch1024()
{
    compare --name 'images/s, batch 1024: ours / PyTorch' --target '>= 1.7' \
        --a "$(ours train.batch=1024 train.steps=22)" --b "$(torch --batch 1024 --steps 16 --warmup 4)"
}
run_torch_resnet20()
{
    compare --name 'images/s, resnet20_v1, batch 128: ours / PyTorch' --target '>= 1.2' \
        --a "$(resnet20 train.batch=128 train.optimizer=momentum train.learning_rate=0.1 train.steps=60)" \
        --b "$(torch_resnet20 --batch 128)"
}
run_keras1024()
{
    compare --name 'images/s, batch 1024: ours / Keras' --target '>= 1.7' \
        --a "$(ours train.batch=1024 train.steps=22)" --b "$(keras --batch 1024 --steps 16 --warmup 4)"
}

# Against the bare primitives.
need_primitives()
{
    test -x "$build/bench/primitives" || make -C "$build" bench/primitives >&2
}
run_primitives128()
{
    need_primitives || return 1
    compare --name 'step ms, batch 128: ours / sum of primitives' --target '<= 1.15' \
        --key-a step_ms.p50 --key-b 're:sum ([0-9.]+) ms' \
        --a "$(ours train.batch=128 train.steps=100)" --b "$(primitives 128)"
}
run_primitives1024()
{
    need_primitives || return 1
    compare --name 'step ms, batch 1024: ours / sum of primitives' --target '<= 1.15' \
        --key-a step_ms.p50 --key-b 're:sum ([0-9.]+) ms' \
        --a "$(ours train.batch=1024 train.steps=22)" --b "$(primitives 1024)"
}

# The feed.
run_synthetic()
{
    compare --name 'images/s, batch 128: real input / synthetic' --target '>= 0.98' \
        --a "$(ours train.batch=128 train.steps=200)" --b "$(ours train.batch=128 train.steps=200 input.source=synthetic)"
}
run_input_wait()
{
    compare --name 'input wait, share of tower time, batch 128' --target '<= 0.01' --key-a fractions.input_wait \
        --a "$(ours train.batch=128 train.steps=200)"
}
# The network that JPEG files feed: the decoders beside a tower on all cores, and beside one that leaves a core to them.
# Give its shards with -d.
classes='import json, os, sys; print(json.load(open(os.path.join(os.path.dirname(sys.argv[1]), "dataset.json")))["classes"])'
resnet20_steps="train.batch=128 train.steps=60 train.optimizer=momentum train.learning_rate=0.1"
same_classes() { echo "data.classes=$(python3 -c "$classes" "$shards")"; }
drawn() { resnet20 "$resnet20_steps $(same_classes) $*"; }
# fed CROP OPTION...
fed()
{
    resnet20 "'data.train=$shards' input.source=real augment.flip=yes $resnet20_steps $(same_classes)" \
        "augment.crop=$*"
}
run_resnet20_synthetic()
{
    compare --name "images/s, resnet20_v1, tower on $cores cores and decoders beside it: real input / synthetic" \
        --target '>= 0.98' --a "$(fed pad)" --b "$(drawn)"
}
left="devices.threads_per_tower=$((cores - 1)) input.decode_threads=1"
run_resnet20_shared()
{
    compare --name "images/s, resnet20_v1, tower on $((cores - 1)) cores and a decoder: real input / synthetic" \
        --target '>= 0.98' --a "$(fed pad "$left")" --b "$(drawn "$left")"
}
run_resnet20_input_wait()
{
    compare --name 'input wait, share of tower time, resnet20_v1' --target '<= 0.01' --key-a fractions.input_wait \
        --a "$(fed pad)"
}
# Of images that are larger than the network's input.
run_resnet20_resized()
{
    compare --name "images/s, resnet20_v1, parts scaled to 32 x 32, tower on $cores cores and decoders beside it: real input / synthetic" \
        --target '>= 0.98' --a "$(fed resized)" --b "$(drawn)"
}
run_resnet20_resized_shared()
{
    compare --name "images/s, resnet20_v1, parts scaled to 32 x 32, tower on $((cores - 1)) cores and a decoder: real input / synthetic" \
        --target '>= 0.98' --a "$(fed resized "$left")" --b "$(drawn "$left")"
}
run_resnet20_resized_wait()
{
    compare --name 'input wait, share of tower time, resnet20_v1, parts scaled to 32 x 32' --target '<= 0.01' \
        --key-a fractions.input_wait --a "$(fed resized)"
}

# Two towers.
run_replicated()
{
    compare --name 'images/s, 2 towers x 1 thread: replicated / independent' --target '>= 0.96' \
        --a "$(ours $two_towers sync.mode=replicated)" --b "$(ours $two_towers sync.mode=independent)"
}
# Four slices against four microbatches of the same size, added up in order.
run_slices()
{
    compare --name 'images/s, mnist_cnn, 4 x 32 samples: slices / accumulated' --target '>= 0.97' \
        --a "$(ours train.batch=128 train.slices=4 train.steps=100)" \
        --b "$(ours train.batch=32 train.accumulate=4 train.steps=100)"
}
run_slices_resnet20()
{
    momentum='train.optimizer=momentum train.learning_rate=0.1 train.steps=40'
    compare --name 'images/s, resnet20_v1, 4 x 32 samples: slices / accumulated' --target '>= 0.97' \
        --a "$(resnet20 train.batch=128 train.slices=4 $momentum)" \
        --b "$(resnet20 train.batch=32 train.accumulate=4 $momentum)"
}
run_slices_towers()
{
    halves='devices.towers=2 devices.threads_per_tower=1 train.steps=80'
    compare --name 'images/s, mnist_cnn, 2 towers x 1 thread, 4 x 32 samples: slices / accumulated' --target '>= 0.97' \
        --a "$(ours $halves train.batch=128 train.slices=4)" --b "$(ours $halves train.batch=64 train.accumulate=2)"
}
run_ddp()
{
    compare --name 'images/s: ours, 2 towers x 1 thread / DDP, 2 processes x 1 thread' --target '>= 1' \
        --a "$(ours $two_towers)" --b "$(ddp --batch 128 --steps 40 --repeats 0)"
}
# Two ranks of a tower each beside one process with two towers. OPENMPI_RUN and MPICH_RUN are the commands that start
# two ranks of Open MPI and of MPICH.
openmpi_run=${OPENMPI_RUN:-mpirun.openmpi --allow-run-as-root --oversubscribe --bind-to none -n 2}
mpich_run=${MPICH_RUN:-mpirun.mpich -n 2}
two_ranks='devices.threads_per_tower=1 train.batch_per_tower=128 train.steps=80'
ranks() { launcher=$1; shift; echo "env 'OURS_LAUNCHER=$launcher' $(ours $two_ranks "$@")"; }
run_ranks_openmpi()
{
    compare --name 'images/s, 2 x 1 thread: ranks of Open MPI / towers of one process' --target '>= 0.95' \
        --a "$(ranks "$openmpi_run")" --b "$(ours $two_towers)"
}
run_ranks_mpich()
{
    compare --name 'images/s, 2 x 1 thread: ranks of MPICH / towers of one process' --target '>= 0.95' \
        --a "$(ranks "$mpich_run")" --b "$(ours $two_towers)"
}
run_ranks_cpu_openmpi()
{
    compare --name 'processor time a step, 2 x 1 thread: ranks of Open MPI / towers of one process' --target '<= 1.05' \
        --key-a cpu_ms_per_step --a "$(ranks "$openmpi_run" train.steps=300)" --b "$(ours $two_towers train.steps=300)"
}
run_ranks_cpu_mpich()
{
    compare --name 'processor time a step, 2 x 1 thread: ranks of MPICH / towers of one process' --target '<= 1.05' \
        --key-a cpu_ms_per_step --a "$(ranks "$mpich_run" train.steps=300)" --b "$(ours $two_towers train.steps=300)"
}
run_ranks_reduction_one()
{
    compare --name 'exposed reduction, share of tower time, one process of 2 towers x 1 thread' \
        --key-a fractions.exposed_reduction --a "$(ours $two_towers)"
}
run_ranks_reduction()
{
    compare --name 'exposed reduction, share of tower time, 2 ranks of Open MPI x 1 thread' \
        --key-a fractions.exposed_reduction --a "$(ranks "$openmpi_run")"
}
run_ranks_ddp()
{
    compare --name 'images/s, 2 processes x 1 thread: ranks of Open MPI / DDP' --target '>= 1.5' \
        --a "$(ranks "$openmpi_run")" --b "$(ddp --batch 128 --steps 40 --repeats 0)"
}
run_ranks_horovod()
{
    compare --name 'images/s, 2 processes x 1 thread: ranks of Open MPI / Horovod' --target '>= 3' \
        --a "$(ranks "$openmpi_run")" \
        --b "$openmpi_run '$torch' '$bench/peer_horovod.py' $mnist --batch 128 --steps 40"
}
run_scaling()
{
    compare --name 'images/s: ours, 2 towers x 1 thread / 1 tower x 1 thread' \
        --a "$(ours $two_towers)" --b "$(ours $one_tower)"
}
run_ddp_scaling()
{
    compare --name 'images/s: DDP, 2 processes x 1 thread / 1 process x 1 thread' --key-a scaling \
        --a "$(ddp --batch 128 --steps 40 --repeats 1)"
}

# The loader alone.
run_loader()
{
    compare --name 'loader alone, shuffled, records/s' --target '>= 1500000' --key-a $loader_key --a "$(ours $loader_alone)"
}
loader_read="$loader_alone input.keep_shards=0"
run_loader_read()
{
    compare --name 'loader alone, shuffled, not kept, records/s' --target '>= 1000000' --key-a $loader_key \
        --a "$(ours $loader_read)"
}
run_loader_block()
{
    compare --name 'loader alone, by blocks, not kept, records/s' --key-a $loader_key \
        --a "$(ours $loader_read data.shuffle=block)"
}
run_tfdata()
{
    compare --name 'loader alone, shuffled, records/s: ours / tf.data' --target '>= 12' \
        --key-a $loader_key --key-b records_per_second \
        --a "$(ours $loader_alone)" --b "$(tfdata --batch 1024 --shuffle 10000)"
}
run_tfdata_stored()
{
    compare --name 'loader alone, order as stored, records/s: ours / tf.data' --target '>= 8' \
        --key-a $loader_key --key-b records_per_second \
        --a "$(ours $loader_alone data.shuffle=none)" --b "$(tfdata --batch 1024)"
}

# Start and size.
run_startup()
{
    compare --name 'seconds: our start to first step / import torch' --target '<= 0.25' \
        --key-a start_to_first_step_seconds --key-b wall \
        --a "$(ours train.batch=128 train.steps=5)" --b "'$torch' -c 'import torch'"
}
run_memory()
{
    compare --name 'peak memory, bytes, batch 128' --target '<= 300e6' --key-a memory.peak_rss_bytes \
        --a "$(ours train.batch=128 train.steps=60)" &&
    compare --name 'peak memory, bytes, batch 1024' --key-a memory.peak_rss_bytes \
        --a "$(ours train.batch=1024 train.steps=10)"
}

# Against an older build of ours, which has to be given. against NAME TARGET KEY SETTINGS...
against()
{
    test -n "$old" || { echo "$0: give the older build's folder with -o" >&2; return 1; }
    against_name=$1 against_target=$2 against_key=$3
    shift 3
    compare --name "$against_name: this build / the older one" --target "$against_target" --key-a "$against_key" \
        --a "$(ours "$@")" --b "$(run_of "$old") $*"
}
run_old128() { against 'images/s, batch 128' '>= 0.98' speed.mean train.batch=128 train.steps=100; }
run_old1024() { against 'images/s, batch 1024' '>= 0.98' speed.mean train.batch=1024 train.steps=22; }
run_old_towers() { against 'images/s, 2 towers x 1 thread' '>= 0.98' speed.mean $two_towers; }
run_old_synthetic()
{
    against 'images/s, batch 128, synthetic' '>= 0.98' speed.mean \
        train.batch=128 train.steps=100 input.source=synthetic
}
run_old_loader() { against 'loader alone, shuffled, records/s' '>= 0.98' $loader_key $loader_alone; }
run_old_loader_stored()
{
    against 'loader alone, order as stored, records/s' '>= 0.98' $loader_key $loader_alone data.shuffle=none
}
run_old_loader_read() { against 'loader alone, shuffled, not kept, records/s' '>= 0.98' $loader_key $loader_read; }
run_old_startup()
{
    against 'seconds to the end of the first step' '<= 1.02' start_to_first_step_seconds train.batch=128 train.steps=5
}
run_old_memory()
{
    against 'peak memory, bytes, batch 128' '<= 1.02' memory.peak_rss_bytes train.batch=128 train.steps=60
}

describe_peers()
{
    test -z "$old" || echo "- older build: $("$old/pipetrain" --version | head -1)"
    echo "- PyTorch: $(version "$torch" 'import torch; print(torch.__version__)')"
    echo "- Keras, TensorFlow: $(version "$tensorflow" 'import keras, tensorflow; print(keras.__version__, tensorflow.__version__)')"
}

check_rows "$@"
describe "$@"
measure_rows ${*:-$comparisons}
