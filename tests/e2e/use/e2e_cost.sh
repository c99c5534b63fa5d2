#!/bin/sh
# What a run costs: time, money and energy add up in all outputs, over a resume, where counters begin again
# and where they cannot be read. Counters are files that pipetrain_slow reads in place of the kernel's.
. "$(dirname "$0")/../e2e.sh"
source_dir=$(cd "$(dirname "$0")/../../.." && pwd)
make_tiny
cd "$work" || exit 99
domain=$work/sys/class/powercap/intel-rapl:0
range=65532610987
price=3.06

# counter VALUE - a package whose counter has this value, and a part of it that must not count
counter() {
    mkdir -p "$domain" "$domain:0"
    echo package-0 >"$domain/name"
    echo dram >"$domain:0/name"
    for file in "$domain" "$domain:0"; do
        echo $range >"$file/max_energy_range_uj"
        printf '%020d\n' "$1" >"$file/energy_uj"
    done
}

# spending WORD... - train with counters, of which the package's gets 1.5 J with each reading
step=1500000
spending() {
    PIPETRAIN_ROOT=$work PIPETRAIN_SPEND="$domain/energy_uj $step $range" run "$slow" -c tiny.conf \
        --set "report.price=$price EUR" "$@"
}

# expect_number WHAT NUMBER FORMULA - equal but for rounding
expect_number() {
    awk -v a="$2" "BEGIN { b = $3; d = a - b; exit !(b > 0 && d <= 1e-9 * b && -d <= 1e-9 * b) }" ||
        fail "$1: $2 is not $3"
}

expect_costs() {
    seconds=$(summary "$1" cost.seconds) money=$(summary "$1" cost.money) joules=$(summary "$1" cost.joules)
    images=$(summary "$1" images)
    expect_summary "$1" price.currency EUR
    expect_number 'the price' "$(summary "$1" price.per_hour)" $price
    expect_summary "$1" price.machines 1
    expect_summary "$1" cost.machine_seconds "$seconds"
    expect_number 'money' "$money" "$price * $seconds / 3600"
    expect_number 'images for money' "$(summary "$1" cost.images_per_money)" "$images / $money"
    expect_number 'images for a joule' "$(summary "$1" cost.images_per_joule)" "$images / $joules"
    expect_number 'money to the best' "$(summary "$1" cost.best.money)" "$price * $(summary "$1" cost.best.seconds) / 3600"
    awk -v s="$(summary "$1" cost.best.seconds)" -v all="$seconds" -v t="$(summary "$1" seconds)" \
        'BEGIN { exit !(s > 0 && s <= all && t < all) }' || fail 'times do not follow each other'
}

# spent - microjoules since `counter`, over all times that it began again
from=$((range - 2 * step + 7))
spent() {
    now=$(sed 's/^0*//' "$domain/energy_uj")
    echo $((now >= from ? now - from : now + range - from))
}

# ---- one run ----

counter $from
spending --set run.dir=runs/one --set report.prometheus=one.prom
expect_code 0 'a run with a price'
expect_out '^price     3\.06 EUR an hour of this machine$'
expect_out '^energy    measured of 1 CPU package, with what other programs use of it$'
expect_out_joined 'cost [0-9.e-]+ EUR \([0-9.]+ s, 3\.06 EUR an hour\): [0-9,]+ images/EUR; [0-9.e-]+ EUR up to the best evaluation'
expect_out_joined 'energy [0-9.,]+ J: [0-9.,]+ images/J; [0-9.,]+ J up to the best evaluation'
expect_narrow 'a run with a price'
expect_costs one
expect_summary one cost.energy_complete true
expect_number 'joules' "$(summary one cost.joules)" "$(spent) / 1e6"
grep -q ',currency="EUR"} 1$' one.prom || fail 'Prometheus has no currency'
for name in seconds money joules; do
    found=$(sed -n "s/^pipetrain_cost_${name}_total{run=\"[^\"]*\"} //p" one.prom)
    expect_number "cost in $name for Prometheus" "$found" "$(summary one cost.$name)"
done

# The page has the same numbers.
run "$build/pipetrain-report" runs/one -o page.html
expect_code 0 'a page'
expect_equal "$(grep -c '"currency":"EUR"' page.html)" 1 'the currency on the page'
node=$(command -v node || command -v nodejs) || node=
if [ -n "$node" ]; then
    run "$node" "$source_dir/tests/e2e/use/page_text.js" page.html
    expect_out 'EUR'
    expect_out 'energy, joules'
fi

# ---- a resumed run ----

# The first process reads once more after its last checkpoint, for its own result.
counter $from
spending --set run.dir=runs/two --set train.epochs=2 --set train.steps=5 --set checkpoint.every=5
expect_code 0 'the first half'
first=$(summary two cost.seconds)
spending --set run.dir=runs/two --set train.epochs=2 --set checkpoint.every=5
expect_code 0 'the second half'
expect_costs two
expect_number 'joules of both halves' "$(summary two cost.joules)" "($(spent) - $step) / 1e6"
awk -v a="$first" -v b="$(summary two cost.seconds)" -v t="$(summary two start_to_first_step_seconds)" \
    'BEGIN { exit !(b > a) }' || fail 'the second half does not add up'

# Of a machine without counters only a part is known.
run "$pipetrain" -c tiny.conf --set "report.price=$price EUR" --set run.dir=runs/two --set train.epochs=3
expect_code 0 'the last third'
if grep -q '^energy    not measured' out; then
    expect_summary two cost.energy_complete false
    expect_out_joined 'energy at least [0-9.,]+ J: at most [0-9.,]+ images/J'
fi

# ---- what cannot be read ----

mkdir empty
PIPETRAIN_ROOT=$work/empty run "$slow" -c tiny.conf --set run.dir=runs/none
expect_code 0 'no counters'
expect_out_joined 'energy not measured: no CPU package in '
expect_equal "$(grep -c '^energy' out)" 1 'lines about energy'
expect_equal "$(grep -c '^cost\|^price' out)" 0 'lines about money'
expect_equal "$(grep -c joules runs/none/summary.json)" 0 'joules that nobody has read'
PIPETRAIN_ROOT=$work/empty run "$slow" -c tiny.conf --check
expect_out_joined 'energy not measured: no CPU package in '
if [ "$(id -u)" -eq 0 ] && command -v setpriv >/dev/null; then
    counter 0
    mkdir open
    chmod 755 "$work"
    chmod 777 open
    chmod 0 "$domain/energy_uj"
    PIPETRAIN_ROOT=$work run setpriv --reuid=65534 --clear-groups "$slow" -c tiny.conf --set "run.dir=$work/open/run" --check
    expect_out_joined 'energy not measured: .*energy_uj: Permission denied \(only root may read it, or everybody after: chmod a\+r'
    chmod 700 "$work"
fi

# ---- side by side ----

counter 0
PIPETRAIN_ROOT=$work PIPETRAIN_SPEND="$domain/energy_uj $step $range" run "$slow" -c tiny.conf \
    --set "report.price=$price EUR" --compare train.batch=32,64 --steps=4 --rounds=1
expect_code 0 'a comparison'
expect_out '^cost of a round in EUR, from start to end; to best: up to its best evaluation$'
expect_out '^batch +cost +images/unit +to best$'
expect_out '^energy of a round, from start to end'
expect_out '^batch +joules +images/J +to best$'
expect_narrow 'a comparison'

# ---- GPUs, by an NVML that is replaced ----

sim=$build/tests/e2e/pipetrain_sim
compiler=${CC:-cc}
if [ -x "$sim" ] && [ "$sanitizer" = no ] && $compiler --version >/dev/null 2>&1; then
    mkdir nvml
    $compiler -std=c11 -D_GNU_SOURCE -O2 -shared -fPIC -I"$source_dir" -o nvml/libnvidia-ml.so.1 \
        "$source_dir/tests/e2e/use/nvml.c" >out 2>err || fail 'the library could not be built'
    gpu() {
        NVML_MILLIJOULES=$1 PIPETRAIN_ROOT=$work/empty LD_LIBRARY_PATH=$work/nvml run "$sim" -c tiny.conf \
            --set devices.kind=cuda --set train.steps=2 --set data.validation= --set "run.dir=$2"
    }
    gpu 2000 runs/gpu
    expect_code 0 'a run on a GPU'
    expect_out_joined 'energy measured of 1 GPU, with what other programs use of it; the rest is unknown: no CPU package in '
    awk -v j="$(summary gpu cost.joules)" 'BEGIN { exit !(j >= 4 && j % 2 == 0) }' || fail "not 2 J for each reading"
    expect_summary gpu cost.energy_complete false
    gpu 0 runs/old
    expect_code 0 'a GPU without a counter'
    expect_out_joined 'energy not measured: no CPU package in .*; 0000:01:00\.0: the GPU or its driver does not report it'
fi

# ---- the comparison of doc/cost.md prints what the page says ----

sed -n '/^while read/,/^END/p' "$source_dir/doc/cost.md" >machines.sh
run sh machines.sh
expect_code 0 'the comparison'
grep '^    [a-z]*: .* an epoch$' "$source_dir/doc/cost.md" | sed 's/^    //' >promised
expect_equal "$(wc -l <promised)" 6 'rows of the page'
cmp -s out promised || fail 'the page has other numbers than its command'

# ---- prices that are none ----

for bad in 3.06 EUR 3,06\ EUR -1\ EUR 3.06\ EUR/h; do
    run "$pipetrain" -c tiny.conf --set "report.price=$bad" --check
    expect_code 2 "the price $bad"
    expect_err "report.price: '$bad' is not a price: write what a machine costs for an hour, as an amount and a currency"
done
finish
