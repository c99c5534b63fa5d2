# What the scripts of comparisons share. Sourced by one that has set bench, build, pairs, wait, cores, its own name in
# `script` and all names of rows in `known`, and has a function describe_peers.
export PYTHONDONTWRITEBYTECODE=1 TF_CPP_MIN_LOG_LEVEL=2

compare() { python3 "$bench/compare.py" --pairs "$pairs" --wait "$wait" "$@"; }
version() { "$1" -c "$2" 2>/dev/null || echo missing; }

describe()
{
    echo "- machine: $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -1), $cores cores, $(uname -sr)"
    echo "- pipetrain: $("$build/pipetrain" --version | head -1)"
    describe_peers
    echo "- command: bench/$script ${pairs:+-n $pairs }$*"
    echo
}

# check_rows NAME...: each is one there is.
check_rows()
{
    for name in "$@"; do
        echo " $(echo $known) " | grep -q " $name " || { echo "$0: no comparison '$name' (-l lists them)" >&2; exit 2; }
    done
}

# measure_rows NAME...: the head and a row each, by run_NAME. 1 when one could not be measured.
measure_rows()
{
    failed=0
    python3 "$bench/compare.py" --head
    for name in "$@"; do
        "run_$name" || { failed=1; echo "$0: $name could not be measured" >&2; }
    done
    return $failed
}
