#!/usr/bin/env python3
"""Images and classes of Parquet files, as data hubs have them, into a tar archive for pipetrain-convert webdataset:

    python3 parquet_to_tar.py data/train-*.parquet -o train.tar     # needs pyarrow
"""
import argparse, io, json, os, sys, tarfile
import pyarrow.parquet as parquet

parser = argparse.ArgumentParser(description="Parquet files with images to a tar archive of samples (WebDataset)")
parser.add_argument("files", nargs="+")
parser.add_argument("-o", "--output", required=True)
parser.add_argument("--image", help="column of the images (default: the only one with bytes)")
parser.add_argument("--label", help="column of the classes (default: the only ClassLabel, or label)")
options = parser.parse_args()

schema = parquet.read_schema(options.files[0])
hub = json.loads((schema.metadata or {}).get(b"huggingface", b"{}")).get("info", {}).get("features", {})
classes = [name for name, kind in hub.items() if isinstance(kind, dict) and kind.get("_type") == "ClassLabel"]
images = [field.name for field in schema if "binary" in str(field.type)]
label = options.label or (classes[0] if len(classes) == 1 else "label")
image = options.image or (images[0] if len(images) == 1 else "image")
if not {image, label} <= set(schema.names):
    sys.exit(f"choose --image and --label among {', '.join(schema.names)}")
names = hub.get(label, {}).get("names")     # the name of each class; None: labels are numbers or names themselves

def add(archive, name, content):
    member = tarfile.TarInfo(name)
    member.size = len(content)
    archive.addfile(member, io.BytesIO(content))

count, part = 0, options.output + ".part"
try:
    with tarfile.open(part, "w") as archive:
        for path in options.files:
            for batch in parquet.ParquetFile(path).iter_batches(batch_size=256, columns=[image, label]):
                for picture, value in zip(batch.column(image).to_pylist(), batch.column(label).to_pylist()):
                    content = picture["bytes"] if isinstance(picture, dict) else picture
                    if not content or value is None or isinstance(value, (list, dict)) or str(value).startswith("-"):
                        sys.exit(f"{path}: row {count} of all: no bytes of an image, or not one class: {value}")
                    ending = "png" if content[:4] == b"\x89PNG" else "jpg"
                    add(archive, f"{count:09d}.{ending}", content)
                    add(archive, f"{count:09d}.cls", str(names[value] if names else value).encode())
                    count += 1
    os.replace(part, options.output)
finally:
    if os.path.exists(part):
        os.unlink(part)
print(f"{options.output}: {count} samples" + (f" of {len(names)} classes" if names else ""))
