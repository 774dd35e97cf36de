"""``python -m pytest_opprof``: the ``opprof`` command."""

import sys

from .cli import main

sys.exit(main())
