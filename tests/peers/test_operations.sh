#!/bin/sh
# The operations of automatic augmentation change images to the same bytes as torchvision's do, on Pillow images.
python=${PYTHON:-python3}
command -v "$python" >/dev/null 2>&1 || { echo "no $python here"; exit 77; }
"$python" -c 'import numpy, PIL, torchvision' 2>/dev/null || { echo "no torchvision here"; exit 77; }
exec "$python" "$(dirname "$0")/operations.py" compare "${PIPETRAIN_BUILD:-.}/tests/peers/apply_operations"
