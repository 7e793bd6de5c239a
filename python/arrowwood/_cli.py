"""The command ``arrowwood``."""

import signal
import sys

from arrowwood import _arrowwood


def main() -> int:
    """Run the command with the arguments of this process and return its exit code."""
    # Python catches SIGINT and ignores SIGPIPE; a command in a pipe should end at once on both.
    for name in ["SIGINT", "SIGPIPE"]:
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_DFL)
    return _arrowwood._run_cli(["arrowwood", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
