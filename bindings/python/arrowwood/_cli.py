"""The command ``arrowwood``."""

import signal
import sys

from arrowwood import _arrowwood


def main() -> int:
    """Run the command with the arguments of this process and return its exit code."""
    # Python catches SIGINT, but a command should end at once. SIGPIPE stays ignored, as it would end a server whose
    # client disconnects during a response. A command whose output pipe was closed ends with the error of its write.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    return _arrowwood._run_cli(["arrowwood", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
