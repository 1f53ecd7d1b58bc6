"""adbutils and uiautomator2, as their users call them, on a simulated phone."""

from __future__ import annotations

import io
import re

import pytest
from toys.adb_phones import adb_server

from turnwise.envs.android.adb import AdbServer
from turnwise.envs.android.phone import Phone
from turnwise.tools.android import parse_xml

adbutils = pytest.importorskip("adbutils", reason="adbutils is not installed: pip install 'turnwise[dev]'")


@pytest.fixture(scope="module")
def port():
    with pytest.MonkeyPatch.context() as patch, adb_server(patch) as number:
        yield number


@pytest.fixture
def server(port):
    with AdbServer(Phone(3)) as found:
        yield found


@pytest.fixture
def device(port, server):
    client = adbutils.AdbClient("127.0.0.1", port)
    assert "connected" in client.connect(server.serial)
    yield client.device(server.serial)
    client.disconnect(server.serial)


def test_adbutils_reads_and_drives_the_phone(device, server):
    assert device.shell("echo hi") == "hi"
    assert device.shell2("(exit 3)").returncode == 3
    assert tuple(device.window_size()) == (1080, 2400)
    assert device.rotation() == 0
    assert device.prop.model == "Turnwise One"
    assert "org.turnwise.contacts" in device.list_packages()
    device.app_start("org.turnwise.contacts")
    assert device.app_current().package == "org.turnwise.contacts"
    root, _ = parse_xml(device.dump_hierarchy())
    device.click(*root.find("Create contact").center)
    root, _ = parse_xml(device.dump_hierarchy())
    device.click(*root.find("First name").center)
    device.send_keys("Ada")
    with server.paused() as phone:
        assert phone.tree().find("First name").text == "Ada"
    device.app_stop("org.turnwise.contacts")
    assert device.app_current().package == "com.android.launcher3"
    device.switch_airplane(True)
    assert device.shell("settings get global airplane_mode_on") == "1"
    assert device.battery().level == 87
    assert device.is_screen_on()


def test_adbutils_moves_files_and_takes_screenshots(device):
    pytest.importorskip("PIL")
    data = bytes(range(256)) * 1000
    device.sync.push(io.BytesIO(data), "/sdcard/Download/all.bin")
    assert device.sync.read_bytes("/sdcard/Download/all.bin") == data
    assert "all.bin" in [one.path for one in device.sync.list("/sdcard/Download")]
    assert device.sync.stat("/sdcard/Download/all.bin").size == len(data)
    assert device.screenshot().size == (1080, 2400)


def test_adbutils_is_told_why_nothing_can_be_installed(device):
    with pytest.raises(adbutils.AdbInstallError, match="simulated and cannot run APKs"):
        device.install_remote("/data/local/tmp/x.apk")


@pytest.fixture
def u2(device):
    client = pytest.importorskip("uiautomator2", reason="uiautomator2 is not installed: pip install 'turnwise[dev]'")
    found = client.Device(device)
    found.settings["wait_timeout"] = 0.0
    return found


def test_uiautomator2_sees_and_drives_the_phone(u2, server):
    assert (u2.info["displayWidth"], u2.info["currentPackageName"]) == (1080, "com.android.launcher3")
    u2.app_start("org.turnwise.contacts")
    assert u2.app_current()["package"] == "org.turnwise.contacts"
    u2(description="Create contact").click()
    u2(description="First name").set_text("Grace Ö")
    u2.xpath('//*[@content-desc="Last name"]').click()
    u2.send_keys("Hopper")
    u2(description="Save").click()
    assert u2(text="Grace Ö Hopper").exists
    assert not u2(text="Nobody").exists
    assert u2(textStartsWith="Grace").info["packageName"] == "org.turnwise.contacts"
    assert re.search('text="Grace Ö Hopper"', u2.dump_hierarchy())
    u2.press("home")
    with server.paused() as phone:
        assert phone.activity == "com.android.launcher3/.Launcher"


def test_uiautomator2_scrolls_turns_and_takes_screenshots(u2):
    pytest.importorskip("PIL")
    u2.app_start("com.android.settings")
    assert u2(scrollable=True).scroll.to(text="About phone")
    assert u2(text="About phone").exists
    u2.orientation = "left"
    assert u2.info["displayRotation"] == 1
    assert u2.screenshot().size == (2400, 1080)
    u2.clipboard = "kept"
    assert u2.clipboard == "kept"


def test_uiautomator2_flings_pinches_and_drags(u2):
    u2.app_start("com.android.settings")
    assert u2(scrollable=True).fling.forward()
    assert u2(scrollable=True).fling.toEnd()
    end = u2(text="Display").info["bounds"]["top"] if u2(text="Display").exists else 0
    u2(scrollable=True).fling.toBeginning()
    assert u2(text="Display").info["bounds"]["top"] > end
    assert u2(scrollable=True).pinch_in()
    assert u2(scrollable=True).pinch_out()
    before = u2(text="Display").info["bounds"]["top"]
    u2(text="Display").drag_to(540, 300)
    assert u2(text="Display").info["bounds"]["top"] < before


def test_uiautomator2_is_told_what_is_not_there(u2):
    import uiautomator2

    with pytest.raises(uiautomator2.UiObjectNotFoundError):
        u2(text="Nobody").click(timeout=0.1)
    with pytest.raises(uiautomator2.exceptions.RPCUnknownError, match="method not found: fly"):
        u2.jsonrpc.fly()
