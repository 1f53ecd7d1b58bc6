"""The elements of a screen: what an agent reads, and what a row says before its boxes are made."""

from __future__ import annotations

from turncredit.envs.android.elements import folded
from turncredit.envs.android.screen_text import compact, scrolls
from turncredit.phone import Phone
from turncredit.phone.screen import frames
from turncredit.phone.screen.box import TextRow


def test_a_screen_reads_the_same_before_and_after_its_boxes_are_made() -> None:
    closed = 0
    frames._frames.clear()  # other tests may have made the boxes of frames that are kept
    for scale in ("1.0", "1.3"):
        phone = Phone(f"elements {scale}")
        phone.set_setting("font_scale", scale)
        for app in [app for app in phone.apps.values() if not app.hidden]:
            phone.launch(app.package)
            for scrolled in (100, 300, 900):
                phone.swipe(540, 1500, 540, 1500 - scrolled)
                root, size = phone.tree(), phone.size
                before, more = folded(root, size), scrolls(root)
                closed += sum(isinstance(element.node, TextRow) and element.node.closed for element in before)
                boxes = list(root.walk())  # which makes all of them
                after = folded(root, size)
                assert [(e.node, e.texts, e.kind, e.selected) for e in after] == [
                    (e.node, e.texts, e.kind, e.selected) for e in before
                ], app.name
                assert compact(after, scrolls(root)) == compact(before, more)
                assert more == any(box.scrollable for box in boxes)
    assert closed > 50
