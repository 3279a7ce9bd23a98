"""Entry point of Dagster: loads `defs/`, nothing else."""

from pathlib import Path

import dagster as dg


@dg.definitions
def defs() -> dg.Definitions:
    """Everything in `defs/`."""
    return dg.load_from_defs_folder(path_within_project=Path(__file__).parent)
