#!/bin/sh
# Networks of today train on small images: the loss falls in two epochs (on the simulated CUDA only where the test is long),
# and with train.slices the weights are the same for one tower and several. On the CPU, and by sim_networks.sh on the simulated CUDA.
# The environment variable PIPETRAIN_TEST_NETWORKS names the networks to try instead of the lists below.
. "$(dirname "$0")/e2e.sh"

# The networks that are tried in every test, and those of the long one.
networks='squeezenet1_1 mobilenet_v3_large'
[ "$long" = no ] || networks="$networks torchvision_alexnet torchvision_vgg16_bn wide_resnet50_2 densenet121 resnext50_32x4d
    resnext29_8x64d mobilenet_v2 mobilenet_v2_cifar regnet_y_1_6gf efficientnet_b0 efficientnet_v2_s convnext_tiny"
count=32 towers='1 2' epochs=2
case $long:$simulated in
    yes:no) count=64 towers='1 2 4' ;;
    no:yes) epochs=1 ;;     # which takes half a minute
esac

# Height and width of the images: those of AlexNet can be no smaller, and those of CIFAR are no larger.
size_of() {
    case $long:$simulated:$1 in
        *:resnext29_8x64d | *_cifar) echo 32 ;;
        yes:no:* | *:torchvision_alexnet) echo 64 ;;
        *) echo 32 ;;
    esac
}

# The description of a network, with a share of the filters where it would take many minutes, or more memory than the
# simulated device has.
narrow() {
    case $simulated:$1 in
        *:resnext29_8x64d) sed 's|filters [0-9]*|&/8|' ;;
        yes:wide_resnet50_2) sed 's|filters [0-9]*|&/2|' ;;
        *) cat ;;
    esac
}

# The header of an array of bytes.
npy() {
    printf '\223NUMPY\001\000v\000%-117s\n' "{'descr': '|u1', 'fortran_order': False, 'shape': $1, }"
}

# make_images SIZE: four classes of noise, from dark to bright, in the folder data-SIZE.
make_images() {
    bytes=$((3 * $1 * $1))
    awk -v bytes=$((bytes + 100 * count)) 'BEGIN {
        for (state = 1; bytes-- > 0; state = (state * 16807) % 2147483647)
            printf "%c", 33 + int(state / 1024) % 64
    }' >"$work/noise"
    npy "($count, $1, $1, 3)" >"$work/images.npy"
    npy "($count,)" >"$work/labels.npy"
    for i in $(seq 0 $((count - 1))); do
        case $((i % 4)) in
            0) to='\000-\077' ;;
            1) to='\100-\177' ;;
            2) to='\200-\277' ;;
            *) to='\300-\377' ;;
        esac
        tail -c +$((1 + 100 * i)) "$work/noise" | head -c $bytes | tr '\041-\140' "$to" >>"$work/images.npy"
        printf "\\$((i % 4))" >>"$work/labels.npy"
    done
    "$convert" npy "$work/images.npy" "$work/labels.npy" -o "$work/data-$1" >"$work/out" 2>"$work/err" ||
        { fail 'no images'; finish; }
}

# The mean loss of the steps of each epoch.
losses_of() {
    "$json_value" --lines "$work/runs/$1/metrics.jsonl" kind step loss |
        awk -v half=$((count / 8)) '$1 ~ /train/ { sum[$2 > half] += $3 } END { print sum[0] / half, sum[1] / half }'
}

check_network() {
    size=$(size_of "$1")
    [ -d "$work/data-$size" ] || make_images "$size"
    "$pipetrain" --describe="$1" --net | sed "s/^image .*/image ${size}x${size}x3/; /^#/d" | narrow "$1" >"$work/$1.net"
    for tower_count in $towers; do
        train "$1-$tower_count" --set data.train="$work/data-$size/train-*" --set model.file="$work/$1.net" \
            --set train.slices=4 --set devices.towers="$tower_count"
        expect_same_file "$work/runs/$1-1/weights.safetensors" "$work/runs/$1-$tower_count/weights.safetensors" \
            "$1 on $tower_count towers"
    done
    if [ $epochs -eq 2 ]; then
        losses_of "$1-1" >"$work/losses"
        awk '{ exit !($2 < $1) }' "$work/losses" || fail "$1: the loss of the second epoch is no less: $(cat "$work/losses")"
    fi
    rm -rf "$work/runs/$1-"*
}

cat >"$work/tiny.conf" <<END
[train]
epochs = $epochs
batch = 8
optimizer = adam
learning_rate = 0.001
[devices]
kind = $kind
threads_per_tower = 1
[report]
interval = 1
progress = none
END
for network in ${PIPETRAIN_TEST_NETWORKS:-$networks}; do
    check_network "$network"
done
finish
