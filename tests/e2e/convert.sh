# Shared by the tests of pipetrain-convert, which source it: a work folder that they are in, ways to run the program
# and to look at what it did, and failures counted, which a test ends with.
# The program is $PIPETRAIN_CONVERT, or pipetrain-convert in the current directory.

program=${PIPETRAIN_CONVERT:-./pipetrain-convert}
case $program in /*) ;; *) program=$PWD/$program ;; esac
work=$(mktemp -d "${TMPDIR:-/tmp}/pipetrain-convert.XXXXXX") || exit 99
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 99
failures=0

failed() {
    echo "FAILED: $*" >&2
    failures=$((failures + 1))
}

# expect STATUS ARGUMENT... - run the program, its messages in ./messages
expect() {
    wanted=$1
    shift
    "$program" "$@" >output 2>messages
    status=$?
    [ "$status" -eq "$wanted" ] || failed "exit $status, not $wanted: $* ($(cat messages))"
}

# says WORDS - the last run's messages hold them
says() {
    grep -qF -- "$1" messages || failed "no '$1' in: $(cat messages)"
}

# answers STATUS WORDS ARGUMENT... - as expect, and its messages hold the words
answers() {
    wanted=$1 answer=$2
    shift 2
    expect "$wanted" "$@"
    says "$answer"
}

absent() {
    [ ! -e "$1" ] && [ ! -L "$1" ] || failed "$1 was left behind"
}

# image TEXT - a PNG of 3 x 2 pixels, and the text after its end
image() {
    printf '\211PNG\015\012\032\012\000\000\000\015IHDR\000\000\000\003\000\000\000\002\010\002\000\000\000\022\026\361M'
    printf '\000\000\000\020IDATx\234c\020P0\200\040\0068\013\000\025\324\002A4\204m\012\000\000\000\000IEND\256B\140\202%s' "$1"
}
