#!/bin/sh
# Tests a wheel: installs the one in directory $1 that fits this system in a new environment, with NumPy alone.
set -eu
venv=/tmp/arrowwood-smoke
"${PYTHON:-python3}" -m venv "$venv"
bin=$venv/bin
# So it is called on Windows.
[ -d "$bin" ] || bin=$venv/Scripts
"$bin/pip" install --quiet --find-links "$1" --only-binary arrowwood --no-index --no-deps arrowwood
"$bin/pip" install --quiet numpy
cd "$(mktemp -d)"
"$bin/arrowwood" --version
"$bin/python" - <<'PYTHON'
import os

import numpy as np
import arrowwood as aw

aw.write({"id": np.arange(1000), "image": np.zeros((1000, 4, 4), "uint8")}, "x.arrow")
dataset = aw.open("x.arrow")
assert dataset["id"].sum() == 499_500
assert dataset.footprint.copied == 0
batches = list(dataset.loader(100, seed=1))
assert [batch["image"].shape for batch in batches] == [(100, 4, 4)] * 10
# On Windows, tables are only read.
if os.name != "nt":
    with aw.writer("table", "n: int64") as writer:
        writer.append({"n": [1, 2, 3]})
        writer.commit()
    assert len(aw.open("table")) == 3
PYTHON

# The wheel contains the page of `arrowwood view`.
"$bin/arrowwood" view --no-browser x.arrow > url &
view=$!
trap 'kill $view' EXIT
"$bin/python" - <<'PYTHON'
import time
import urllib.request

TIMEOUT_SECONDS = 240

deadline = time.monotonic() + TIMEOUT_SECONDS
while not (url := open("url").readline()).endswith("\n"):
    assert time.monotonic() < deadline, "no URL"
    time.sleep(0.05)
page = urllib.request.urlopen(url.strip(), timeout=TIMEOUT_SECONDS).read().decode()
assert "<script" in page and "arrowwood" in page.lower(), page[:200]
print("works")
PYTHON
