#!/bin/sh
# The code of doc/python.md does what the page says: part of make check-python.
python=${PYTHON:-python3}
command -v "$python" >/dev/null 2>&1 || { echo "no $python here"; exit 77; }
PYTHONDONTWRITEBYTECODE=1 exec "$python" "$(dirname "$0")/feed_page.py"
