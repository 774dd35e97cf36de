"""``python -m pytest_opprof``: the ``opprof`` command."""

import sys

from .cli.main import main

sys.exit(main())
