#!/bin/sh
# Every option is given to evaluate and predict. Then it is refused; or it changes what is printed; or it is named as one that
# the command does not use, and changes nothing; or it is on the list of those on which results do not depend. The options
# are those of the run.conf that a run writes, their values those of resume/e2e_options.sh and option_rows.
. "$(dirname "$0")/../e2e.sh"
here=$(cd "$(dirname "$0")" && pwd)
cd "$work" || exit 99
make_jpegs jpeg 10 8 0.5
write_jpeg_conf tiny.conf jpeg 'steps = 3'
expect_end 0 'the training' run "$pipetrain" -c tiny.conf
weights=runs/tiny/weights.safetensors

# Used, and results do not depend on them, or not with these data and values.
used='data.train data.allow_overlap data.label_offset data.image_layout data.image_range data.on_corrupt data.max_corrupt
    data.index_cache input.prefetch_depth input.staging_depth input.read_threads input.decode_threads input.chunk
    input.keep_shards input.max_pixels input.ram_budget model.weights_differ devices.kind devices.graph
    devices.workspace devices.time_plans devices.fuse devices.plan_cache devices.bind devices.allow_ref devices.layout
    devices.convolution devices.threads_per_tower devices.backend data.validation sync.deadline augment.orientation'
photo=$(ls photos/*/* | head -n 1)

# command HOW OPTION... - leaves what it prints, but for times, in shown
command() {
    how=$1
    shift
    case $how in
    evaluate-c) run "$pipetrain" evaluate -c tiny.conf "$@" ;;
    evaluate-w) run "$pipetrain" evaluate -w $weights --set 'data.validation=jpeg/validation-*' "$@" ;;
    predict-w) run "$pipetrain" predict -w $weights "$@" "$photo" ;;
    predict-c) run "$pipetrain" predict -c tiny.conf "$@" 'jpeg/validation-*' ;;
    esac
    sed '/^speed/d' out >shown
}

sed -n 's/^\[\(.*\)\]$/\1/; t section; s/^\([a-z_]*\) =.*/\1/p; b; :section; s/$/./p' runs/tiny/run.conf |
    awk '/[.]$/ { section = $0; next } { print section $0 }' >options
[ "$(wc -l <options)" -gt 100 ] || fail 'the options of run.conf are not read'
[ "$long" = yes ] && hows='evaluate-c evaluate-w predict-w predict-c' || hows='evaluate-c predict-w'
for how in $hows; do
    command $how
    expect_code 0 "$how"
    expect_err_lines 0
    cp shown base
    while read -r option; do
        value=$("$option_rows" | cat "$here/../resume/e2e_options.sh" - |
            sed -n "s/^$option *| *\([^|]*[^| ]\) *|.*/\1/p" | head -n 1)
        case $option in
        model.weights) value=$weights ;;
        model.skip | model.freeze) value=fc2.* ;;
        data.limit) value=7 ;;
        data.classes) value=11 ;;
        data.validation) [ $how = evaluate-w ] && continue ;;
        esac
        [ -n "$value" ] || { fail "no value follows from the type of $option: add its row to resume/e2e_options.sh"; continue; }
        command $how --set "$option=$value"
        grep -Eq "^${how%-*} does not use $option(; --weights FILE names weights)?\$" err && is_told=yes || is_told=no
        cmp -s shown base && is_same=yes || is_same=no
        echo " $used " | tr '\n' ' ' | grep -q " $option " && is_quiet=yes || is_quiet=no
        case $code,$is_told,$is_same,$is_quiet in
        0,yes,yes,* | 0,no,no,* | 0,no,yes,yes) ;;
        0,yes,no,*) fail "$how: $option = $value changes what is printed, and is named as not used" ;;
        0,*) fail "$how: $option = $value has no effect and is not named: .used_by of its row in options.c, or \$used here" ;;
        *) [ -s err ] || fail "$how: $option = $value ends with $code and no word" ;;
        esac
    done <options
done

# Several in one line; what is only in the file is not named.
command evaluate-c --set train.epochs=3 --set sync.mode=averaging --set train.batch=20
expect_code 0 'several'
expect_err '^evaluate does not use train.epochs, sync.mode$'
finish
