"""The phone as a library of its own: it needs neither gymnasium nor the environments."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import networkx

from turncredit import phone

BLOCKED = ("gymnasium", "networkx", "pydantic", "rapidfuzz", "typer", "rich", "torch", "turncredit.envs")

PLAY = f"""
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if any(name == other or name.startswith(other + ".") for other in {BLOCKED!r}):
            raise ModuleNotFoundError(f"{{name}} is blocked", name=name)

sys.meta_path.insert(0, Blocked())

import socket
from turncredit.phone import Phone
from turncredit.phone.adb.direct_device import DirectDevice
from turncredit.phone.adb.server import AdbServer
from turncredit.phone.shell import run
from turncredit.tools.android import AdbServerClient, parse_xml

phone = Phone(3)
for app in [app.name for app in phone.apps.values() if not app.hidden]:
    phone.launch(app)
    assert phone.tree().find(app) or phone.tree().children
phone.launch("Contacts")
phone.tap(*phone.tree().find("Create contact").center)
phone.tap(*phone.tree().find("First name").center)
phone.text("Zoe")
phone.tap(*phone.tree().find("Save").center)
assert "Zoe" in [row["first"] for row in phone.tables("org.turncredit.contacts").rows("contacts")]
phone.launch("Browser")
phone.tap(*phone.tree().find("Search or type address").center)
phone.text("corner-store.example")
phone.key(66)
assert next(iter(phone.stock)).name in phone.xml()
assert phone.screenshot((270, 600)).size == (270, 600)
assert "Zoe" in run(phone, "content query --uri content://com.android.contacts/contacts").stdout.decode()
with AdbServer(phone) as server:
    with socket.create_connection(("127.0.0.1", server.port), timeout=10):
        pass
assert DirectDevice(phone).dump().find("Tabs: 2 open")
assert not any(name.split(".")[0] == "gymnasium" or name.startswith("turncredit.envs") for name in sys.modules)
print("played")
"""


def test_a_phone_is_played_without_gymnasium_and_the_environments() -> None:
    result = subprocess.run([sys.executable, "-c", PLAY], capture_output=True, text=True, timeout=120)
    assert (result.returncode, result.stdout.strip()) == (0, "played"), result.stderr


def test_the_block_works() -> None:
    code = PLAY.partition("import socket")[0] + "import gymnasium"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert "gymnasium is blocked" in result.stderr


def test_the_tests_of_the_phone_need_no_environment() -> None:
    files = [path for path in Path(__file__).parent.glob("*.py") if path != Path(__file__)]
    assert [path.name for path in files if "turncredit.envs" in path.read_text(encoding="utf-8")] == []
    assert len(files) > 10


def test_the_rooms_of_the_phone_form_no_circle() -> None:
    """A room is a folder, or a module beside the folders."""
    folder = Path(phone.__file__).parent
    rooms = networkx.DiGraph()
    for path in folder.rglob("*.py"):
        own = path.relative_to(folder).parts[0].removesuffix(".py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and str(node.module).startswith("turncredit.phone."):
                rooms.add_edge(own, str(node.module).split(".")[2])
    rooms.remove_edges_from([(room, room) for room in list(rooms)])
    assert list(networkx.simple_cycles(rooms)) == []
    assert all(
        len(list(room.glob("*.py"))) <= 36 for room in [folder, *(p.parent for p in folder.glob("*/__init__.py"))]
    )
