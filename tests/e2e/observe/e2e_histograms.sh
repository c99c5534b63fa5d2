#!/bin/sh
# Histograms for TensorBoard: one for the weights and one for the gradient of every parameter, whose counts are all of
# its numbers; the weights' are those that are saved, the gradients' norm the one that the update finds; and the run is
# the same.
. "$(dirname "$0")/../e2e.sh"
make_tiny
make_quick
. "$(dirname "$0")/observe.sh"

# Six steps in two epochs.
small='--set train.batch=20 --set data.limit=60 --set train.epochs=2'

# tensors FILE: name, numbers and place in the file of every tensor that is saved there.
tensors() {
    header=$(od -An -tu8 -N 8 "$1" | tr -d ' ')
    head -c $((8 + header)) "$1" | tail -c "$header" | tr '{}' '\n\n' >"$work/header"
    sed -n 's/^,*"\([^"]*\)":$/\1/; s/.*"shape":\[\([0-9,]*\)\].*"data_offsets":\[\([0-9]*\),.*/\1 \2/; /__/!p' \
        "$work/header" | awk -v begin=$((8 + header)) '/^[0-9]+(,[0-9]+)* [0-9]+$/ { n = 1; split($1, sizes, ",")
            for (i in sizes) n *= sizes[i]; print name, n, begin + $2; next } { name = $1 }'
}

# histograms RUN: of its events.
histograms() {
    events "$work/runs/$1/tensorboard/train" | grep '^histogram' >"$work/histograms"
}

# ---- every number is counted ----

train plain $small --set devices.towers=2
train shown $small --set devices.towers=2 --set report.tensorboard=yes --set report.histograms=epoch
weights=$work/runs/shown/weights.safetensors
expect_same_file "$work/runs/plain/weights.safetensors" "$weights" 'weights with histograms'
tensors "$weights" | sort >"$work/tensors"
[ -s "$work/tensors" ] || fail 'tensors that are saved'
for step in 3 6; do
    awk -v step=$step '{ print step, "weights/" $1, $2, $2; print step, "gradients/" $1, $2, $2 }' "$work/tensors"
done | sort >"$work/expected"
histograms shown
awk '{ print $2, $3, $6, $10 }' "$work/histograms" | sort >"$work/counts"
expect_same_file "$work/counts" "$work/expected" 'steps, names, numbers and what is counted of them'

# The last ones are of the weights that are saved.
while read -r name numbers place; do
    od -An -v -w4 -tf4 -j "$place" -N $((4 * numbers)) "$weights" |
        awk 'NR == 1 { least = most = $1 } { if ($1 < least) least = $1; if ($1 > most) most = $1; sum += $1 }
            END { printf "%.9g %.9g %.9g\n", least, most, sum }' >"$work/saved"
    grep "^histogram 6 weights/$name " "$work/histograms" | awk '{ print $4, $5, $7 }' | paste -d ' ' - "$work/saved" |
        awk '{ for (i = 1; i <= 3; i++) { d = $i - $(i + 3); size = $i < 0 ? -$i : $i
            if (NF != 6 || d > 1e-5 * (size + 1e-3) || -d > 1e-5 * (size + 1e-3)) exit 1 } }' ||
        fail "the histogram of $name is not that of what is saved"
done <"$work/tensors"

# norms RUN: of each step with histograms the root of the sum of squares of its gradients, and the norm that is told.
norms() {
    histograms "$1"
    { events "$work/runs/$1/tensorboard/train" | grep '^scalar [0-9]* grad_norm '; cat "$work/histograms"; } |
        awk '$1 == "scalar" { told[$2] = $4 } /gradients\// { squares[$2] += $8 }
            END { for (step in squares) print step, sqrt(squares[step]), told[step] }' | sort -n
}

# expect_norms RUN STEPS: they are the same.
expect_norms() {
    norms "$1" >"$work/norms"
    expect_equal "$(cut -d ' ' -f 1 "$work/norms" | tr '\n' ' ')" "$2" "steps with gradients of $1"
    awk '{ d = $2 / $3 - 1 } NF != 3 || $2 <= 0 || d > 1e-4 || d < -1e-4 { exit 1 }' "$work/norms" ||
        fail "norms of gradients of $1"
}

expect_norms shown '3 6 '
train clips $small --set train.clip_norm=1000 --set report.tensorboard=yes --set report.histograms='2 steps'
expect_norms clips '2 4 6 '
expect_scalars "$work/runs/clips/tensorboard/train" grad_norm clips train gradient_norm
expect_equal "$(rows_of clips train gradient_norm | wc -l)" 6 'norms in metrics.jsonl'
# However short it is made, what is told is what was found.
train short $small --set train.clip_norm=1e-6 --set train.learning_rate=0 --set report.tensorboard=yes \
    --set report.histograms=3
expect_norms short '3 6 '

# ---- parts of several towers are shown as one parameter ----

parts='--set model.parts=2 --set train.slices=2 --set report.tensorboard=yes --set report.histograms=epoch'
train parts-1 $small $parts --set devices.towers=1
train parts-2 $small $parts --set devices.towers=2
histograms parts-1
mv "$work/histograms" "$work/histograms.1"
histograms parts-2
expect_same_file "$work/histograms" "$work/histograms.1" 'histograms of parts'
expect_equal "$(wc -l <"$work/histograms")" $((4 * $(wc -l <"$work/tensors"))) 'number of histograms of parts'
expect_norms parts-2 '3 6 '

# ---- where there is none ----

train none $small --set report.tensorboard=yes
events "$work/runs/none/tensorboard/train" | grep -q '^histogram\|grad_norm' && fail 'histograms that nobody asked for'
grep -q gradient_norm "$work/runs/none/metrics.jsonl" && fail 'a norm that nobody limits'
train null $small --set devices.kind=null --set report.tensorboard=yes --set report.histograms=1
events "$work/runs/null/tensorboard/train" | grep -q '^histogram' && fail 'histograms where nothing is computed'
try unseen $small --set report.histograms=epoch
expect_code 0 'histograms of no events'
expect_err 'report.histograms = epoch has no effect without events for TensorBoard: set report.tensorboard$'
for value in yes 0 '5 minutes' -1; do
    try value --set "report.histograms=$value"
    expect_code 2 "report.histograms=$value"
    expect_err "histograms: '$value' is not one of: none, epoch, a number of steps \\(500\\)"
done
finish
