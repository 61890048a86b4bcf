"""`python -m milepost` is the command `milepost`."""

import sys

from milepost._command import main

sys.exit(main())
