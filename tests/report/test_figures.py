"""Figures of ablations: nothing is drawn beyond the edges of the picture."""

import pytest

from turncredit.report import figures
from turncredit.report.figures import Curve, Estimate, save_curves_and_dots

FigureCanvasAgg = pytest.importorskip("matplotlib.backends.backend_agg").FigureCanvasAgg


@pytest.mark.parametrize("name", ["grpo", "hgpo invalid_penalty=0.0", "a rule with a name of forty-four characters"])
def test_titles_and_names_are_inside_the_picture(monkeypatch, tmp_path, name):
    drawn = []
    monkeypatch.setattr(figures, "save_figure", lambda figure, path: drawn.append(figure))
    save_curves_and_dots(
        [Curve(name, (1.0, 2.0), (0.5, 0.6))],
        [Estimate(name, 0.6, 0.5, 0.7, (0.55, 0.65))],
        tmp_path / "figure.png",
        titles=(
            "while training, mean of 4 iterations (12 seeds, ± standard error)",
            "after training (200 tasks, 12 seeds, 95 % interval)",
        ),
        x_label="iteration",
        reference=0.5,
    )
    (figure,) = drawn
    FigureCanvasAgg(figure).draw()
    for axes in figure.axes:
        for text in [axes.title, *axes.get_yticklabels()]:
            box = text.get_window_extent()
            assert min(box.x0, figure.bbox.x1 - box.x1) >= 0, text.get_text()
            assert min(box.y0, figure.bbox.y1 - box.y1) >= 0, text.get_text()
