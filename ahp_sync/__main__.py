"""``python -m ahp_sync`` is the ``ahp-sync`` command."""

from __future__ import annotations

import sys

from ahp_sync.cli import main

if __name__ == "__main__":
    sys.exit(main())
