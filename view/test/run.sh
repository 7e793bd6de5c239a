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
  apt-get install --yes --no-install-recommends chromium >/dev/null || leave_out 'apt-get install chromium failed'
fi
[ -n "$(browser)" ] || leave_out 'they need Chromium; apt-get install chromium, or set CHROMIUM or ARROWWOOD_INSTALL=1'
[ -d node_modules ] || npm ci --silent --no-audit --no-fund || leave_out 'npm ci failed; is a registry in reach?'
CHROMIUM=$(browser)
export CHROMIUM
npx tsc --noEmit
node build.mjs --check
case $what in
  test) exec node --test --test-reporter=spec test/page.test.mjs ;;
  bench) exec node test/bench.mjs ;;
  *) echo "view/test/run.sh: test or bench is expected, got $what" >&2; exit 2 ;;
esac
