#!/bin/sh
# examples/feed_*.py train, and resume after a kill with the same losses: part of make check-python.
python=${PYTHON:-python3}
command -v "$python" >/dev/null 2>&1 || { echo "no $python here"; exit 77; }
PYTHONDONTWRITEBYTECODE=1 exec "$python" "$(dirname "$0")/feed_examples.py"
