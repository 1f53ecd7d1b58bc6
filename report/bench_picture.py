"""The picture of a card: a bar for each panel, with its interval and with the success of other players."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from turncredit.report.figures import COLOURS, Axes, new_figure, save_figure

if TYPE_CHECKING:
    from turncredit.evaluation.results import Rate

_LOOKS = {"random": ("|", COLOURS[1]), "rule": ("o", COLOURS[4]), "expert": ("D", COLOURS[2])}
"""Marker and colour of the baselines, the same in every picture."""
_OTHERS = [("s", COLOURS[3]), ("^", COLOURS[5]), ("v", COLOURS[6]), ("P", COLOURS[1]), ("X", COLOURS[2])]


def save_picture(name: str, rates: Mapping[str, Rate], marks: Mapping[str, Sequence[float | None]], path: Path) -> None:
    """Write horizontal bars of success in the format of the path's suffix.

    Args:
        name: of the player.
        rates: success by panel; none has n = 0.
        marks: success of other players on these panels, in the same order, None where they did not play.
        path: the file; its folder exists.

    Raises:
        ReportError: matplotlib is not installed.
        OSError: the file cannot be written.
    """
    figure = new_figure(8, 1.1 + 0.36 * len(rates))
    axes = figure.subplots()
    _draw_bars(axes, name, list(rates.values()))
    others = iter(_OTHERS * len(marks))
    for other, values in marks.items():
        points = [(value, row) for row, value in enumerate(values) if value is not None]
        x, y = zip(*points, strict=True) if points else ((), ())
        marker, colour = _LOOKS[other] if other in _LOOKS else next(others)
        look = {"markersize": 9, "markeredgewidth": 2.5} if marker == "|" else {"markersize": 6}
        axes.plot(x, y, marker, color=colour, label=other, clip_on=False, **look)
    axes.set_yticks(range(len(rates)), list(rates))
    axes.set(xlabel="success", xlim=(-0.01, 1.03), ylim=(len(rates) - 0.5, -0.5))
    axes.xaxis.set_major_formatter("{x:.0%}")
    axes.grid(axis="x", alpha=0.25)
    axes.set_axisbelow(True)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.tick_params(axis="y", length=0)
    handles, labels = axes.get_legend_handles_labels()
    order = sorted(range(len(labels)), key=lambda number: labels[number] != name)  # the player first
    figure.legend([handles[i] for i in order], [labels[i] for i in order], loc="outside upper left", ncols=5,
                  frameon=False, fontsize="small")  # fmt: skip
    save_figure(figure, path)


def _draw_bars(axes: Axes, name: str, rates: Sequence[Rate]) -> None:
    values = [rate.value or 0.0 for rate in rates]
    below = [max(0.0, value - rate.low) for value, rate in zip(values, rates, strict=True)]
    above = [max(0.0, rate.high - value) for value, rate in zip(values, rates, strict=True)]
    axes.barh(range(len(rates)), values, height=0.55, color=COLOURS[0], alpha=0.75, label=name)
    axes.errorbar(values, range(len(rates)), xerr=[below, above], fmt="none", ecolor="#222222", capsize=3, linewidth=1)
