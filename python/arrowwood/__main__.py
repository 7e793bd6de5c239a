"""``python -m arrowwood`` is the command ``arrowwood``."""

import sys

from arrowwood._cli import main

if __name__ == "__main__":
    sys.exit(main())
