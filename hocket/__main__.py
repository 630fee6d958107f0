"""`python -m hocket`."""

import sys

from hocket.cli import main

sys.exit(main())
