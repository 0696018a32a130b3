"""``python -m ccnn`` is ``ccnn``."""

import sys

from ccnn.cli import main

sys.exit(main())
