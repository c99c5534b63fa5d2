#!/bin/sh
# examples/parquet_to_tar.py writes the rows of Parquet files, as data hubs have them, as samples that pipetrain-convert
# webdataset reads back.
python=${PYTHON:-python3}
"$python" -c 'import pyarrow' 2>/dev/null || { echo "$python has no pyarrow"; exit 77; }
script=$(cd "$(dirname "$0")/../../examples" && pwd)/parquet_to_tar.py
. "$(dirname "$0")/convert.sh"

for i in 0 1 2 3 4 5; do image $i >$i.png; done
cat >make.py <<'end'
import json
import pyarrow as pa, pyarrow.parquet as pq

images = [{"bytes": open(f"{i}.png", "rb").read(), "path": f"{i}.png"} for i in range(6)]
kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
info = {"info": {"features": {"image": {"_type": "Image"}, "label": {"names": ["zebra", "ant"], "_type": "ClassLabel"}}}}

def write(name, labels, metadata=None, **more):
    table = pa.table({"image": pa.array(images[:len(labels)], kind), "label": labels, **more})
    pq.write_table(table.replace_schema_metadata(metadata), name)

hub = {"huggingface": json.dumps(info)}
write("train-0.parquet", [0, 1, 0], hub)
write("train-1.parquet", [1, 1], hub)
write("test.parquet", [0, -1], hub)
write("plain.parquet", ["cat", "dog"])
write("lists.parquet", [[0], [0, 1]])
write("other.parquet", [0, 1], None, mask=pa.array(images[:2], kind))
end
"$python" make.py || failed "no Parquet files"

# tar_of RESULT WORDS ARGUMENT... - what the script says and how it ends
tar_of() {
    wanted=$1 words=$2
    shift 2
    "$python" "$script" "$@" >messages 2>&1
    status=$?
    [ $status -eq "$wanted" ] || failed "exit $status, not $wanted: $* ($(cat messages))"
    says "$words"
}

tar_of 0 "train.tar: 5 samples of 2 classes" train-*.parquet -o train.tar
expect 0 webdataset train.tar -o out --shuffle=none --shards=1
grep -qx 'out: 2 classes: ant, zebra' output || failed "classes: $(cat output)"
"$(dirname "$program")/pipetrain-shards" head -n 9 out/train-* | awk '$1 == "image/class/text" { printf "%s ", $4 }' >found
[ "$(tr -d '"' <found)" = "zebra ant zebra ant ant " ] || failed "labels: $(cat found)"
tar_of 1 "test.parquet: row 1 of all: no bytes of an image, or not one class: -1" test.parquet -o test.tar
tar_of 1 "not one class: [0]" lists.parquet -o test.tar
absent test.tar
absent test.tar.part
tar_of 0 "plain.tar: 2 samples" plain.parquet -o plain.tar
expect 0 webdataset plain.tar -o plain
grep -qx 'plain: 2 classes: cat, dog' output || failed "classes: $(cat output)"
tar_of 0 "other.tar: 2 samples" other.parquet -o other.tar
tar_of 1 "choose --image and --label among image, label" plain.parquet -o no.tar --label=breed
[ "$failures" -eq 0 ]
