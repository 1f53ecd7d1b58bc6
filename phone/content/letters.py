"""Letters for the content of Mail: what companies and colleagues write. Text in braces is drawn."""

from __future__ import annotations

from typing import Final, NamedTuple

__all__ = ["COLLEAGUES", "COMPANIES", "Letter"]


class Letter(NamedTuple):
    """A mail: who writes, about what, the text, and names of attachments."""

    sender: str
    subject: str
    body: str
    attachments: str = ""


COMPANIES: Final = (
    Letter(
        "Kestrel Bikes",
        "Your order {code} is on its way",
        "Thank you for your order.\n\nOrder number: {code}\nTotal: {price} euros\nDelivery: within three days\n\n"
        "The invoice is attached.",
        "invoice_{code}.pdf",
    ),
    Letter(
        "Bluebird Travel",
        "Booking confirmation {code}",
        "Your train to {town} leaves at {time} from platform {digit}.\n\nBooking number: {code}\nSeat: {seat}\n"
        "Price: {price} euros\n\nHave a pleasant journey.",
        "ticket_{code}.pdf",
    ),
    Letter(
        "Northwind Energy",
        "Your monthly statement",
        "Your consumption last month was {use} kWh.\nWe will charge {price} euros to your account.",
        "statement.pdf",
    ),
    Letter(
        "Evergreen Books",
        "New arrivals this week",
        "Three new crime novels, two cookbooks and a history of lighthouses have arrived.\nCome in and have a look!",
    ),
    Letter(
        "Juniper Clinic",
        "Results of your eye test",
        "Your results are in. Everything looks fine; please come again in two years.",
        "results.pdf",
    ),
    Letter(
        "Meridian Bank",
        "New sign-in to your account",
        "Somebody signed in to your account from a new device. If this was you, there is nothing to do.",
    ),
    Letter(
        "Finch Bakery",
        "Baking course",
        "The sourdough course starts at {time}. It costs {price} euros, flour included. We still have {digit} places.",
    ),
    Letter(
        "Lantern Films",
        "Newsletter: films of the month",
        "This month we show four documentaries and a silent film with live music.",
    ),
)
COLLEAGUES: Final = (
    Letter("", "Slides for the presentation", "Here are the slides. Could you check page {digit}?", "slides.odp"),
    Letter("", "Holiday photos", "Finally! The best pictures of our trip to {town}.", "beach.jpg, harbour.jpg"),
    Letter("", "Recipe you asked for", "The secret is to let the dough rest for {use} minutes. Good luck!"),
    Letter("", "Room change", "The meeting moves to room {digit}.{use}. Everything else stays as it is."),
    Letter("", "Draft of the contract", "Please read the draft and tell me what you think.", "contract_draft.docx"),
    Letter("", "Question about the invoice", "You billed {price} euros. Did we not agree on less?"),
    Letter("", "Lost umbrella", "Did anybody find a green umbrella? I left it in room {digit}.{use}."),
    Letter("", "Football on Saturday", "We still need {digit} players. Are you in?"),
)
