#!/bin/sh
# Runs the tests or the benchmark of the page in a browser: web/test/run.sh [test|bench]
#
# Prints the reason and succeeds where there is no Node.js, npm or Chromium. ARROWWOOD_INSTALL=1 installs Debian's
# Chromium.
set -e
cd "$(dirname "$0")/.."
command=${1:-test}

skip() {
  echo "view: browser tests left out: $1"
  exit 0
}

find_browser() {
  for name in "$CHROMIUM" chromium chromium-browser google-chrome; do
    command -v "$name" 2>/dev/null && return
  done
}

command -v node >/dev/null && command -v npm >/dev/null || skip 'they need node and npm'
if [ -z "$(find_browser)" ] && [ -n "$ARROWWOOD_INSTALL" ]; then
  apt-get update >/dev/null 2>&1
  apt-get install --yes --no-install-recommends chromium >/dev/null || skip 'apt-get install chromium failed'
fi
[ -n "$(find_browser)" ] || skip 'they need Chromium; apt-get install chromium, or set CHROMIUM or ARROWWOOD_INSTALL=1'
[ -d node_modules ] || npm ci --silent --no-audit --no-fund || skip 'npm ci failed; is a registry in reach?'
CHROMIUM=$(find_browser)
export CHROMIUM

# Tests of SQL and JupyterLab run if the environment of `make test-python` has the packages that they need.
venv=$(pwd)/../.venv
if [ -z "$ARROWWOOD_SQL" ] && "$venv/bin/python" -c 'import arrowwood, duckdb, pyarrow.parquet' 2>/dev/null; then
  ARROWWOOD_SQL=$venv/bin/arrowwood
  export ARROWWOOD_SQL
fi
if [ -z "$JUPYTER_PYTHON" ] && "$venv/bin/python" -c 'import arrowwood, anywidget, jupyterlab' 2>/dev/null; then
  JUPYTER_PYTHON=$venv/bin/python
  export JUPYTER_PYTHON
fi

npx tsc --noEmit
node build.mjs --check
case $command in
  test)
    exec node --test --test-timeout=480000 --test-reporter=spec --test-concurrency=1 \
      test/page.test.mjs test/exact.test.mjs test/notebook.test.mjs
    ;;
  bench) exec node test/bench.mjs ;;
  *)
    echo "web/test/run.sh: test or bench is expected, got $command" >&2
    exit 2
    ;;
esac
