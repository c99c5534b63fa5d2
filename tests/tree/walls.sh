#!/bin/sh
# The walls of the tree: an include of ours looks into its own folder or down. The table says what
# the files of a folder may include besides; a folder that is not in it may hold no source.
cd "$(dirname "$0")/../.." || exit 99
walls='
formats
formats/packed      formats
formats/inputs
formats/events      formats
stage               stage/text stage/trace
stage/trace         stage
stage/text          stage
stage/file
stage/cuda          stage stage/text stage/trace
loader/packed       loader/shards formats formats/packed stage
loader/shards       formats stage stage/file
loader/augment      loader/images stage
loader/order        stage
loader/opening      loader loader/order loader/samples loader/images loader/shards formats stage
loader/samples      loader/images loader/shards formats stage
loader/images       loader/augment loader/shards formats stage
loader              loader/augment loader/images loader/opening loader/order loader/packed loader/samples loader/shards formats stage stage/trace
compute/plan        compute
compute/update      compute stage
compute             compute/plan compute/update stage
compute/models      compute
compute/netfile     compute stage/text
compute/null        compute stage
compute/reference   compute compute/plan stage
compute/onednn      compute compute/plan compute/update stage
compute/cuda/cudnn  compute/cuda compute stage stage/cuda
compute/cuda        compute/cuda/cudnn compute compute/plan stage stage/cuda
sync                compute compute/update stage stage/trace sync/server sync/modes
sync/modes          sync compute compute/update stage stage/trace
sync/server         sync sync/modes compute compute/update stage stage/trace
sync/cuda           sync compute compute/cuda stage stage/cuda stage/text stage/trace
tools/config/towers tools/config compute stage stage/text sync
tools/config/train  tools/config compute stage stage/text
tools/config/observe
tools/config/words
tools/config        tools/config/observe tools/config/towers tools/config/train tools/config/words tools formats stage stage/text loader/augment loader/images loader loader/order compute compute/netfile sync
tools/convert/arrays  tools/convert formats stage stage/file loader/images
tools/convert/files tools/convert tools/limits formats formats/inputs stage stage/file loader/images
tools/convert/records  tools/convert formats stage loader/shards
tools/convert/images   tools/convert tools/convert/writing tools/shards formats loader/images
tools/convert/writing  tools/convert tools/convert/images formats stage loader/shards
tools/convert       tools/convert/images tools/convert/writing tools/config tools/text tools formats stage stage/file stage/text loader/shards
tools/shards        tools tools/config tools/convert formats stage stage/file stage/text loader loader/images loader/samples loader/shards formats/packed
tools/checkpoint    tools/config tools/results formats formats/inputs stage stage/file compute
tools/results       tools/config tools/shards tools/text formats formats/inputs stage stage/file stage/text compute compute/netfile loader
tools/limits        tools/config stage stage/text
tools/text          tools/config stage
tools/trial         tools/run tools stage
tools/predict       tools/convert/files tools/run tools/results tools/shards tools/config tools/config/train tools/config/words tools/text tools formats stage stage/file stage/text loader loader/images loader/shards compute tools/checkpoint
tools/tune          tools/trial tools/report/trace tools/run tools/run/pace tools/limits tools/config tools/text stage stage/file stage/text
tools/compare       tools/trial tools/run tools/config tools/config/words tools/text tools formats stage stage/text
tools/report/draw   stage/text
tools/report/trace  tools/report tools/report/draw stage/text
tools/report        tools/report/draw tools/report/trace tools tools/config tools/config/words tools/shards stage stage/file stage/text
tools/doctor        tools/run tools/limits tools/config tools/text formats stage stage/text loader compute sync
tools/run/goal      tools/run tools/config tools/text stage compute sync
tools/run/summary   tools/run tools/run/pace tools/config/train tools formats loader stage tools/config/towers
tools/run/pace      tools/run tools/limits tools/config tools/text formats stage loader
tools/run/observe   tools/checkpoint tools/run tools/run/pace tools/config tools/config/observe tools tools/results formats/events loader stage stage/file stage/text compute/netfile sync
tools/run/trace     tools/run tools/config stage stage/file stage/trace sync
tools/run/state     tools/run tools/run/goal tools/checkpoint tools/results tools/config tools/text stage stage/text loader compute sync tools/limits tools/config/towers
tools               tools/config/train tools/config tools/config/words tools/compare tools/convert tools/doctor tools/limits tools/predict tools/results tools/run tools/trial tools/tune formats stage stage/text loader compute compute/netfile sync
tools/run           tools/run/summary tools/run/trace tools/run/observe tools/run/pace tools/run/goal tools/run/state tools/checkpoint tools/results tools/limits tools/config/towers tools/config/train tools/config tools/text tools formats stage stage/file stage/text loader/augment loader/images loader/opening loader/order loader/shards stage/trace loader compute sync sync/server
'
failed=0

refuse() {
    [ -z "$2" ] || { failed=1; echo "$1:"; printf '%s\n' "$2" | sed 's/^/    /'; }
}

while read -r folder below; do
    allowed=$(echo $folder $below | tr ' ' '|')
    [ -z "$folder" ] || refuse "$folder includes what it may not know" \
        "$(grep -Hn '#include "' "$folder"/*.[ch]* | grep -vE "#include \"($allowed)/[^/]+\"")"
done <<END
$walls
END

product=$(find formats stage loader compute sync tools -name '*.[ch]' -o -name '*.cu' -o -name '*.cuh')
for folder in $(echo "$product" | sed 's|/[^/]*$||' | sort -u); do
    echo "$walls" | grep -q "^$folder\( \|$\)" || refuse 'not in the table of walls' "$folder"
done
exit $failed
