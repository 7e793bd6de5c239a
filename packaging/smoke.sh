#!/bin/sh
# Installs the wheel of the directory $1 that fits this system in an empty environment, and uses it with NumPy alone.
set -eu
python3 -m venv /tmp/arrowwood-smoke
/tmp/arrowwood-smoke/bin/pip install --quiet --find-links "$1" --only-binary arrowwood --no-index --no-deps arrowwood
/tmp/arrowwood-smoke/bin/pip install --quiet numpy
cd "$(mktemp -d)"
/tmp/arrowwood-smoke/bin/arrowwood --version
/tmp/arrowwood-smoke/bin/python - <<'PYTHON'
import numpy as np
import arrowwood as aw

aw.write({"id": np.arange(1000), "image": np.zeros((1000, 4, 4), "uint8")}, "x.arrow")
ds = aw.open("x.arrow")
assert ds["id"].sum() == 499_500 and ds.mapped.copied == 0
assert sum(batch["image"].shape == (100, 4, 4) for batch in ds.loader(100, seed=1)) == 10
with aw.writer("table", "n: int64") as writer:
    writer.append({"n": [1, 2, 3]})
    writer.commit()
assert len(aw.open("table")) == 3
PYTHON
# From the wheel to the window in one command.
/tmp/arrowwood-smoke/bin/arrowwood view --no-browser x.arrow > url & view=$!
trap 'kill $view' EXIT
/tmp/arrowwood-smoke/bin/python - <<'PYTHON'
import time
import urllib.request

deadline = time.monotonic() + 240
while not (url := open("url").readline()).endswith("\n"):
    assert time.monotonic() < deadline, "no URL"
    time.sleep(0.05)
page = urllib.request.urlopen(url.strip(), timeout=240).read().decode()
assert "<script" in page and "arrowwood" in page.lower(), page[:200]
print("works")
PYTHON
