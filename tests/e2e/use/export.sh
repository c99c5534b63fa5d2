# Sourced by the tests of pipetrain export: a trained network, $weights, in the work folder, and the command.
#
# export_as: what kind of file is exported: nothing, or --torch
. "$(dirname "$0")/../e2e.sh"
cd "$work" || exit 99
make_jpegs jpeg 10 8 0.25
write_jpeg_conf tiny.conf jpeg 'steps = 3'
expect_end 0 'the training' run "$pipetrain" -c tiny.conf
weights=runs/tiny/weights.safetensors

export_run() {
    run "$pipetrain" export $export_as "$@"
}

# refuses CODE WHAT MESSAGE ARGUMENT...: an export with these arguments ends so, and nothing appears in the folder.
refuses() {
    refused=$1 what=$2 said=$3
    shift 3
    expect_refused "$refused" "$what" "$said" export_run "$@"
}
