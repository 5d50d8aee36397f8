"""`python -m runners.cli`: the same as `inference-lab`."""

from __future__ import annotations

import sys

from runners.cli.app import main

if __name__ == "__main__":
    sys.exit(main())
