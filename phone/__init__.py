"""A phone that exists as data: its screens are drawn from a state, and every touch gives the next state.

    phone = Phone(seed=3)                    home screen, with the apps of the registry
    phone.launch("com.android.settings")
    phone.tap(540, 700)
    print(phone.xml())                       as `uiautomator dump` writes it
    phone.screenshot((540, 1200))            a Pillow image

How the parts work together:

    tables, state     rows, files, settings, open pages. Everything below the top is immutable, so that a snapshot
                      copies a few dictionaries and shares the rest.
    widgets           what a screen may contain, as frozen dataclasses.
    app               an app: tables, a function that fills them from the seed, screens, actions. A screen is a
                      function `screen(ctx, **parameters)` that returns widgets and changes nothing. An action is a
                      function `action(ctx, **parameters)` that changes the database or opens another screen;
                      widgets name it with `do(action, **parameters)`.
    layout            widgets -> boxes: one tree that the accessibility dump, the touch and the painter all read.
    touch, typing     a point, a swipe or a key -> the action of the box that is there.
    painter           boxes -> pixels (needs the extra `phone`).

There is no clock but the phone's own, no thread, and no random number outside the seed.

Not simulated: the network, calls to other phones, sensors, and everything below the screen (processes, Java, APKs).
"""

from turncredit.phone.phone import CLOCK, Phone, UnknownApp
from turncredit.phone.screen.keys import KEY_CODES
from turncredit.phone.toolkit.app import App, BrokenApp, Context
from turncredit.phone.toolkit.state import State

__all__ = ["CLOCK", "KEY_CODES", "App", "BrokenApp", "Context", "Phone", "State", "UnknownApp"]
