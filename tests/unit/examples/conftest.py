"""The modules of examples/flights, importable by the names that they have for each other."""

from __future__ import annotations

import sys
from pathlib import Path

_HERE = Path(__file__).parent
sys.path += [str(_HERE), str(_HERE.parents[2] / "examples" / "flights")]
