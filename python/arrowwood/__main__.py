"""``python -m arrowwood`` is the command ``arrowwood``."""

import sys

from arrowwood._cli import main

sys.exit(main())
