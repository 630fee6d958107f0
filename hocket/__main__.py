"""`python -m hocket`."""

import sys

from hocket.apps.cli.parser import main

sys.exit(main())
