"""Options of the command line that say how the model of a player is run."""

from __future__ import annotations

from typing import Annotated

import typer

Device = Annotated[str | None, typer.Option("--device", help="cpu, cuda, cuda:N or auto. Default: the run's.")]
Threads = Annotated[
    int,
    typer.Option(
        "--threads", min=0, show_default=False, help="CPU threads. Default: the run's, else 1 for a small model."
    ),
]
Dtype = Annotated[str | None, typer.Option("--dtype", help="Type of the weights: float32, bfloat16, float16.")]
BatchSize = Annotated[
    int,
    typer.Option(
        "--batch-size",
        min=0,
        show_default=False,
        help="Maximum number of episodes in a sampling batch. Default: the run's.",
    ),
]
