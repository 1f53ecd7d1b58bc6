"""Run the converter: python scripts/convert_reference_cases OLD.json NEW.json."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # the folder is a package of its own

from convert_reference_cases.program import main

sys.exit(main(sys.argv[1:]))
