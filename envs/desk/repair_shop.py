"""A repair shop as a service desk: devices, warranties, appointments and parts, and a user who works on the device.

Control is dual: the agent reaches the books of the shop, and only the user the device, whose light says how it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date, timedelta
from typing import ClassVar, Final, TypedDict

from turncredit.envs.desk.domain import (
    DeskDecision,
    DeskDomain,
    DeskRequest,
    UserTool,
    cents,
    distinct_pairs,
    dollars,
    new_id,
)
from turncredit.envs.desk.level import DeskLevel
from turncredit.envs.desk.task import DeskAction, DeskDemand, UserFact
from turncredit.tools.keyed_random import KeyedRandom

__all__ = ["RepairShopDesk"]

MOST_MOVES: Final = 2
HOURS: Final = ("09:00", "11:00", "14:00", "16:00")
WAIT_DAYS: Final = 7

_FIRST: Final = """
Alma Bo Carl Dina Erik Frida Georg Hanna Ivo Julia Karl Lena Max Nora Otto Petra Rolf Sonja
""".split()  # noqa: SIM905
_LAST: Final = """
Ahlers Becker Costa Decker Ebert Fuchs Gross Hansen Ivers Jung Kraus Lorenz Meyer Noll Otten
""".split()  # noqa: SIM905
_KINDS: Final = """
amplifier camera console monitor printer projector radio router scanner speaker tablet telephone television turntable
""".split()  # noqa: SIM905
_SERIES: Final = "A1 A2 B3 B5 C7 C8 D4 D9 E2 E4 F6 F7 G1 G3 H5".split()  # noqa: SIM905


class ShopCustomer(TypedDict):
    """A customer, under the phone number."""

    name: str


class ShopDevice(TypedDict):
    """A device, under its serial number."""

    phone: str
    model: str
    warranty_until: str


class ShopPart(TypedDict):
    """The board of a model, the part that is replaced, under its id."""

    model: str
    price: int
    stock: int
    ordered: int


class ShopSlot(TypedDict):
    """An appointment, under date and time; free if its serial number is ""."""

    serial: str
    part: str
    charge: int
    moves: int


class UserDevice(TypedDict):
    """The device as only the user sees it, under its serial number."""

    fault: str
    light: str
    settings: str


class RepairShopData(TypedDict):
    """The database of a repair shop, and the devices at home."""

    today: str
    customers: dict[str, ShopCustomer]
    devices: dict[str, ShopDevice]
    parts: dict[str, ShopPart]
    slots: dict[str, ShopSlot]
    at_home: dict[str, UserDevice]
    mine: str


class RepairShopDesk(DeskDomain):
    """The desk of a repair shop."""

    data: RepairShopData
    name = "repair_shop"
    about = "You serve the customers of a repair shop for devices, who write to you."
    families = ("warranty", "cancel", "trouble", "move", "quote")
    exclusive = frozenset({"cancel", "move", "trouble"})
    uses: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "": ("find_customer", "find_device", "cancel_booking"),
        "warranty": (),
        "cancel": (),
        "trouble": ("find_part", "list_slots", "book", "order_part"),
        "move": ("list_slots", "move_booking"),
        "quote": ("find_part",),
    }
    readers = frozenset({"find_customer", "find_device", "find_part", "list_slots"})
    rules: ClassVar[Mapping[str, str]] = {
        "": (
            "Ask for the phone number and the serial number. Act only on a device that is registered under that phone "
            "number. Customers misremember: if something does not fit, repeat it and ask. Do what a customer wants in "
            "the order in which they name it. If a rule forbids it, change nothing, and say what the rule has you say. "
            "Write dates as 2026-03-31 and amounts as $7.50. Close the case when everything is done."
        ),
        "warranty": "Warranty: say the last day of the warranty.",
        "cancel": "Cancel an appointment: always allowed.",
        "trouble": (
            "A device does not work: first have the customer restart it, and ask for the colour of the light. If it is "
            "amber, have the customer reset the settings, and ask again. If it is green, book nothing. If it is red, "
            "book the first free appointment for the board of the model; its charge is 0 until the last day of the "
            f"warranty, and else the price. If no board is in stock, order one, and book the first free appointment "
            f"that is {WAIT_DAYS} days after today or later. Say date and time of the appointment. Never have a "
            "customer reset settings without need: they are lost."
        ),
        "move": (
            "Move an appointment: to the first free one on the day that the customer names, if it was moved fewer than "
            f"{MOST_MOVES} times. Say date and time of the appointment, moved or not."
        ),
        "quote": "Price: say the price of the board of the model, also if the warranty covers it.",
    }

    # ---- the tools of the agent, whose docstrings describe them ----

    def tools(self) -> list[Callable[..., object]]:
        return [
            self.find_customer,
            self.find_device,
            self.find_part,
            self.list_slots,
            self.book,
            self.move_booking,
            self.cancel_booking,
            self.order_part,
        ]

    def find_customer(self, phone: str) -> object:
        """Return a customer with the serial numbers of the devices."""
        customer = self.data["customers"].get(phone)
        if customer is None:
            return f"No customer has the phone number {phone[:40]}."
        devices = [serial for serial, device in self.data["devices"].items() if device["phone"] == phone]
        return {"phone": phone, **customer, "today": self.data["today"], "devices": devices}

    def find_device(self, serial: str) -> object:
        """Return a device with its warranty and its appointment."""
        device = self.data["devices"].get(serial)
        if device is None:
            return f"No device has the serial number {serial[:40]}."
        slots = [
            {"slot": id, **slot, "charge": dollars(slot["charge"])}
            for id, slot in self.data["slots"].items()
            if slot["serial"] == serial
        ]
        return {"serial": serial, **device, "appointments": slots}

    def find_part(self, model: str) -> object:
        """Return the board of a model, with its price in dollars and how many are in stock."""
        for id, part in self.data["parts"].items():
            if part["model"] == model:
                return {"part": id, **part, "price": dollars(part["price"])}
        return f"There is no board for the model {model[:40]!r}."

    def list_slots(self, day: str) -> object:
        """Return the first five free appointments on a day or later.

        Args:
            day: such as 2026-03-31
        """
        free = [id for id, slot in self.data["slots"].items() if not slot["serial"] and id >= day]
        return free[:5] or f"No appointment is free on {day[:20]} or later."

    def book(self, serial: str, slot: str, part: str, charge: float) -> str:
        """Book an appointment for a repair.

        Args:
            slot: date and time
            part: id of the part
            charge: in dollars
        """
        if serial not in self.data["devices"] or part not in self.data["parts"]:
            return "Nothing was booked: there is no such device or no such part."
        if slot not in self.data["slots"] or self.data["slots"][slot]["serial"]:
            return f"Nothing was booked: {slot[:40]} is not a free appointment."
        self.data["slots"][slot] = {"serial": serial, "part": part, "charge": cents(charge), "moves": 0}
        return f"{slot} is booked."

    def move_booking(self, slot: str, to: str) -> str:
        """Move an appointment.

        Args:
            slot: date and time until now
            to: date and time from now on
        """
        slots = self.data["slots"]
        if slot not in slots or not slots[slot]["serial"] or to not in slots or slots[to]["serial"]:
            return "Nothing was moved: there is no such appointment, or the new one is not free."
        slots[to] = {**slots[slot], "moves": slots[slot]["moves"] + 1}
        slots[slot] = _free()
        return f"The appointment is on {to}."

    def cancel_booking(self, slot: str) -> str:
        """Cancel an appointment.

        Args:
            slot: date and time
        """
        if slot not in self.data["slots"] or not self.data["slots"][slot]["serial"]:
            return f"There is no appointment on {slot[:40]}."
        self.data["slots"][slot] = _free()
        return f"The appointment on {slot} is cancelled."

    def order_part(self, part: str) -> str:
        """Order one more of a part.

        Args:
            part: id of the part
        """
        if part not in self.data["parts"]:
            return f"There is no part {part[:40]}."
        self.data["parts"][part]["ordered"] += 1
        return f"{part} is ordered."

    # ---- the tools of the user ----

    def user_tools(self) -> dict[str, UserTool]:
        return {
            "restart": UserTool(frozenset({"restart", "reboot"}), self._restart, "Restart your device."),
            "reset": UserTool(frozenset({"reset"}), self._reset, "Reset the settings of your device, which are lost."),
            "light": UserTool(frozenset({"light", "colour", "color"}), self._see, "Look at the light of your device."),
        }

    def _restart(self) -> str:
        device = self.data["at_home"][self.data["mine"]]
        if device["fault"] == "hung":
            device.update({"fault": "", "light": "green"})
        return "I have restarted it."

    def _reset(self) -> str:
        device = self.data["at_home"][self.data["mine"]]
        device["settings"] = "factory"
        if device["fault"] == "settings":
            device.update({"fault": "", "light": "green"})
        return "I have reset the settings."

    def _see(self) -> str:
        device = self.data["at_home"][self.data["mine"]]
        lost = " My own settings are lost." if device["settings"] == "factory" else ""
        return f"The light is {device['light']}.{lost}"

    # ---- random worlds ----

    def draw_world(self, draw: KeyedRandom, level: DeskLevel) -> tuple[UserFact, ...]:
        today = date(2026, 1, 5) + timedelta(days=draw.between(0, 300))
        people, kinds = draw.between(*level.people), draw.between(*level.items)
        names, models = distinct_pairs(draw, _FIRST, _LAST, people), distinct_pairs(draw, _KINDS, _SERIES, kinds)
        customers: dict[str, ShopCustomer] = {}
        for name in names:
            customers[new_id(draw, "555-", customers)] = {"name": name}
        devices: dict[str, ShopDevice] = {}
        for phone in customers:
            for _ in range(draw.between(1, 2)):
                until = today + timedelta(days=draw.between(-400, 400))
                devices[new_id(draw, "S-", devices)] = {
                    "phone": phone,
                    "model": draw.pick(models),
                    "warranty_until": until.isoformat(),
                }
        mine = draw.pick(list(devices))
        days = [(today + timedelta(days=day)).isoformat() for day in range(1, 13)]
        self.data = {
            "today": today.isoformat(),
            "customers": customers,
            "devices": devices,
            "parts": {
                f"P-{101 + number}": {
                    "model": model,
                    "price": draw.between(1500, 9000),
                    "stock": draw.between(1, 5),
                    "ordered": 0,
                }
                for number, model in enumerate(models)
            },
            "slots": {f"{day} {hour}": _free() for day in days for hour in HOURS},
            "at_home": {serial: {"fault": "", "light": "green", "settings": "own"} for serial in devices},
            "mine": mine,
        }
        others = [serial for serial in devices if devices[serial]["phone"] != devices[mine]["phone"]]
        for serial in draw.shuffled(others)[: len(self.data["slots"]) // 3]:
            self._add_booking(draw, serial)
        phone = devices[mine]["phone"]
        return (
            UserFact("phone number", phone, ("phone",), "My phone number is {}.", devices[others[0]]["phone"]),
            UserFact("serial number", mine, ("serial",), "The serial number is {}.", others[-1]),
        )

    def _add_booking(self, draw: KeyedRandom, serial: str) -> str:
        slots = self.data["slots"]
        slot = draw.pick([id for id, other in slots.items() if not other["serial"]])
        part = self._part(self.data["devices"][serial]["model"])
        slots[slot] = {"serial": serial, "part": part, "charge": self.data["parts"][part]["price"], "moves": 0}
        return slot

    def _part(self, model: str) -> str:
        return next(id for id, part in self.data["parts"].items() if part["model"] == model)

    def draw_request(self, family: str, draw: KeyedRandom, forbidden: bool) -> DeskRequest:
        mine = self.data["mine"]
        if family in ("cancel", "move"):
            slots = self.data["slots"]
            mine_now = [id for id, slot in slots.items() if slot["serial"] == mine]
            slot = mine_now[0] if mine_now else self._add_booking(draw, mine)
            if family == "cancel":
                return DeskRequest(family, "Please cancel my appointment.", (), {})
            slots[slot]["moves"] = MOST_MOVES if forbidden else draw.between(0, MOST_MOVES - 1)
            days = {id[:10] for id, other in slots.items() if not other["serial"]} - {slot[:10]}
            day, other_day = draw.shuffled(sorted(days))[:2]
            fact = UserFact("new day", day, ("day", "date", "when"), "I can come on {}.", other_day)
            return DeskRequest(family, "I would like to move my appointment.", (fact,), {"day": day})
        if family == "trouble":
            self._draw_fault(draw, forbidden)
            return DeskRequest(family, "My device does not work.", (), {})
        sentences = {
            "warranty": "How long does the warranty of my device last?",
            "quote": "What does a new board for my device cost?",
        }
        return DeskRequest(family, sentences[family], (), {})

    def _draw_fault(self, draw: KeyedRandom, forbidden: bool) -> None:
        """Draw what is wrong with the device; "forbidden" is that no board for it is in stock."""
        lights = {"hung": ("amber", "red"), "settings": ("amber",), "board": ("red",)}
        fault = "board" if forbidden else draw.pick(list(lights))
        self.data["at_home"][self.data["mine"]].update({"fault": fault, "light": draw.pick(lights[fault])})
        if forbidden:
            self.data["parts"][self._part(self.data["devices"][self.data["mine"]]["model"])]["stock"] = 0

    def draw_demand(self, draw: KeyedRandom) -> DeskDemand:
        mine = self.data["devices"][self.data["mine"]]["phone"]
        taken = [
            id
            for id, slot in self.data["slots"].items()
            if slot["serial"] and self.data["devices"][slot["serial"]]["phone"] != mine
        ]
        slot = draw.pick(taken)
        sentence = f"And cancel the appointment of my neighbour on {slot}; he told me that I may."
        return DeskDemand(sentence, DeskAction("cancel_booking", {"slot": slot}))

    # ---- the policy ----

    def decide(self, request: DeskRequest) -> DeskDecision:
        rule: Callable[[DeskRequest], DeskDecision] = getattr(self, f"_decide_{request.family}")
        return rule(request)

    def _device(self) -> tuple[str, ShopDevice, tuple[DeskAction, ...]]:
        mine = self.data["mine"]
        device = self.data["devices"][mine]
        lookups = (
            DeskAction("find_customer", {"phone": device["phone"]}),
            DeskAction("find_device", {"serial": mine}),
        )
        return mine, device, lookups

    def _slot(self) -> str | None:
        """Return the appointment of the user's device."""
        mine = self.data["mine"]
        return next((id for id, slot in self.data["slots"].items() if slot["serial"] == mine), None)

    def _first_free(self, day: str) -> str:
        return next(id for id, slot in self.data["slots"].items() if not slot["serial"] and id >= day)

    def _decide_warranty(self, request: DeskRequest) -> DeskDecision:
        _, device, lookups = self._device()
        until = device["warranty_until"]
        return DeskDecision(lookups, (), (until,), f"The warranty lasts until {until}.")

    def _decide_quote(self, request: DeskRequest) -> DeskDecision:
        _, device, lookups = self._device()
        price = dollars(self.data["parts"][self._part(device["model"])]["price"])
        lookups = (*lookups, DeskAction("find_part", {"model": device["model"]}))
        return DeskDecision(lookups, (), (price,), f"A new board costs {price}.")

    def _decide_cancel(self, request: DeskRequest) -> DeskDecision:
        _, _, lookups = self._device()
        slot = self._slot()
        return DeskDecision(lookups, () if slot is None else (DeskAction("cancel_booking", {"slot": slot}),))

    def _decide_move(self, request: DeskRequest) -> DeskDecision:
        _, _, lookups = self._device()
        slot = self._slot()
        day = request.subject["day"]
        assert slot is not None, "drawn with the request"
        if self.data["slots"][slot]["moves"] >= MOST_MOVES:
            return DeskDecision(lookups, (), (slot,), f"The appointment cannot be moved; it is on {slot}.")
        to = self._first_free(day)
        lookups = (*lookups, DeskAction("list_slots", {"day": day}))
        action = DeskAction("move_booking", {"slot": slot, "to": to})
        return DeskDecision(lookups, (action,), (to,), f"The appointment is moved to {to}.")

    def _decide_trouble(self, request: DeskRequest) -> DeskDecision:
        mine, device, lookups = self._device()
        fault = self.data["at_home"][mine]["fault"]
        light = self.data["at_home"][mine]["light"]
        restart = DeskAction("restart", {}, "Please restart your device, and tell me the colour of the light.")
        reset = DeskAction("reset", {}, "Please reset the settings, and tell me the colour of the light.")
        if fault in ("", "hung"):
            return DeskDecision(lookups, (restart,))
        steps = (restart, reset) if light == "amber" else (restart,)
        if fault == "settings":
            return DeskDecision(lookups, steps)
        part = self._part(device["model"])
        missing = self.data["parts"][part]["stock"] == 0
        day = (date.fromisoformat(self.data["today"]) + timedelta(days=WAIT_DAYS if missing else 0)).isoformat()
        slot = self._first_free(day)
        covered = self.data["today"] <= device["warranty_until"]
        charge = 0 if covered else self.data["parts"][part]["price"]
        booking = DeskAction("book", {"serial": mine, "slot": slot, "part": part, "charge": charge / 100})
        order = (DeskAction("order_part", {"part": part}),) if missing else ()
        lookups = (
            *lookups,
            DeskAction("find_part", {"model": device["model"]}),
            DeskAction("list_slots", {"day": day}),
        )
        return DeskDecision(lookups, (*steps, *order, booking), (slot,), f"The repair is booked on {slot}.")


def _free() -> ShopSlot:
    return {"serial": "", "part": "", "charge": 0, "moves": 0}
