"""Runs the command ``arrowwood`` for ``python -m arrowwood``."""

import sys

from arrowwood._cli import main

if __name__ == "__main__":
    sys.exit(main())
