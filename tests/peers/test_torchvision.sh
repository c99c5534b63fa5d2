#!/bin/sh
# torchvision's networks take weights of pipetrain, and pipetrain trains theirs on.
python=${PYTHON:-python3}
command -v "$python" >/dev/null 2>&1 || { echo "no $python here"; exit 77; }
PYTHONDONTWRITEBYTECODE=1 exec "$python" "$(dirname "$0")/torchvision_exchange.py"
