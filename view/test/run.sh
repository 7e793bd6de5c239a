#!/bin/sh
# The tests of the page in a browser: view/test/run.sh [test|bench]. They are left out, with a line that says why, where
# there is no node, npm or Chromium; ARROWWOOD_INSTALL=1 installs Debian's Chromium.
set -e
cd "$(dirname "$0")/.."
what=${1:-test}
leave_out() { echo "view: browser tests left out: $1"; exit 0; }
command -v node >/dev/null && command -v npm >/dev/null || leave_out 'they need node and npm'
browser() { for name in "$CHROMIUM" chromium chromium-browser google-chrome; do command -v "$name" 2>/dev/null && return; done; }
if [ -z "$(browser)" ] && [ -n "$ARROWWOOD_INSTALL" ]; then
  apt-get update >/dev/null 2>&1
  apt-get install --yes --no-install-recommends chromium >/dev/null || leave_out 'apt-get install chromium failed'
fi
[ -n "$(browser)" ] || leave_out 'they need Chromium; apt-get install chromium, or set CHROMIUM or ARROWWOOD_INSTALL=1'
[ -d node_modules ] || npm ci --silent --no-audit --no-fund || leave_out 'npm ci failed; is a registry in reach?'
CHROMIUM=$(browser)
export CHROMIUM
# SQL is asked where the environment of `make test-python` is there, and has what that needs.
python=$(pwd)/../.venv/bin/python
if [ -z "$ARROWWOOD_SQL" ] && "$python" -c 'import arrowwood, duckdb, pyarrow.parquet' 2>/dev/null; then
  ARROWWOOD_SQL=$(pwd)/../.venv/bin/arrowwood
  export ARROWWOOD_SQL
fi
if [ -z "$JUPYTER_PYTHON" ] && "$python" -c 'import arrowwood, anywidget, jupyterlab' 2>/dev/null; then
  JUPYTER_PYTHON=$python
  export JUPYTER_PYTHON
fi
npx tsc --noEmit
node build.mjs --check
case $what in
  test) exec node --test --test-timeout=480000 --test-reporter=spec --test-concurrency=1 test/page.test.mjs test/exact.test.mjs test/notebook.test.mjs ;;
  bench) exec node test/bench.mjs ;;
  *) echo "view/test/run.sh: test or bench is expected, got $what" >&2; exit 2 ;;
esac
