"""An environment of one's own: the tools of an address book, tasks, and a check, in the 24 lines up to `make_env`."""

from typing import Literal

from turncredit.envs import register
from turncredit.envs.toolenv import ToolEnv
from turncredit.tools.functions import Call

Name = Literal["Ada Bell", "Adam Stone", "Bea Cole"]
PHONES: dict[Name, str] = {"Ada Bell": "555-0101", "Adam Stone": "555-0102", "Bea Cole": "555-0103"}
TASKS = {f"move-{number}": (name, f"555-020{number}") for number, name in enumerate(PHONES)}


class Book:
    """The address book of one episode; in its task, somebody has a new number."""

    def __init__(self, task: tuple[Name, str]) -> None:
        self.phones, self.wanted = dict(PHONES), PHONES | {task[0]: task[1]}

    def find(self, text: str) -> dict[Name, str]:
        """Return the people whose name holds a text, with their numbers."""
        return {name: phone for name, phone in self.phones.items() if text.lower() in name.lower()}

    def change(self, name: Name, phone: str) -> None:
        """Change the number of somebody in the book."""
        self.phones[name] = phone


def make_env() -> ToolEnv[tuple[Name, str], Book]:
    """Return the environment."""
    return ToolEnv(
        TASKS,
        start=Book,
        say=lambda task: f"{task[0]} has a new number, {task[1]}. Put it into the book, then answer 'done'.",
        tools=lambda book: [book.find, book.change],
        check=lambda book, answer: book.phones == book.wanted,
        state=lambda book: book.phones,
        plan=plan,
    )


# Optional: an expert, which makes hints and imitation possible, and a name for the program:
#   turncredit check turncredit.examples.my_tools:examples/AddressBook-v0


def plan(book: Book) -> list[Call]:
    """Return the calls that put the book right from where it stands."""
    wrong = [name for name in PHONES if book.phones[name] != book.wanted[name]]
    looks = [Call("find", {"text": name}) for name in wrong]
    changes = [Call("change", {"name": name, "phone": book.wanted[name]}) for name in wrong]
    return [*looks, *changes, Call("answer", {"text": "done"})]


register("examples/AddressBook-v0", make_env, max_episode_steps=10)
