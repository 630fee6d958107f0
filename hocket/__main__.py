"""`python -m hocket`."""

import sys

from hocket.cli.parser import main

sys.exit(main())
