"""Short conversations for the content of Messages. A line of the phone's owner starts with '> '."""

from __future__ import annotations

from typing import Final

__all__ = ["SERVICES", "TALKS"]

TALKS: Final = (
    ("Are you home tonight?", "> From seven on. Why?", "I would bring back your drill."),
    ("> Could you send me the address of the party?", "Sure: {street}. Come at {time}."),
    ("I forgot the door code again...", "> It is {code}.", "You saved my evening, thank you!"),
    ("The tickets cost {price} euros each. Shall I buy four?",),
    ("> Did the plumber come?", "Yes, he was here at {time}. The tap is fine now."),
    ("Happy news: we got the flat!", "> Wonderful! When do you move in?", "At the end of next month."),
    ("Please water my plants while I am away. The key is under the blue pot.", "> Will do. Enjoy the sea!"),
    ("I owe you {price} euros for the groceries, right?", "> Right, but there is no hurry."),
    ("> I am stuck in traffic, start without me.", "No problem, we keep a plate warm for you."),
    ("My train gets in at {time}. Can you pick me up?",),
    ("Which book did you mean the other day?", "> The one about the lighthouse keeper.", "Found it, thanks."),
    ("The garage called: the car is ready. They are at {street}.",),
    ("> Have you seen my grey scarf?", "It hangs in our hall, next to the mirror."),
    ("The new locker number in the gym is {code}.", "> Noted, thanks."),
)
SERVICES: Final = (
    ("+1 555 100 2000", "Parcel Point: your parcel is ready. Pick-up code {code}."),
    ("+1 555 100 3000", "Meridian Bank: your card was charged {price} at Kestrel Bikes."),
    ("+1 555 100 4000", "{code} is your sign-in code. Never share it with anybody."),
)
