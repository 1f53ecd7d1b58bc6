"""adbutils and uiautomator2, as their users call them, on a simulated phone."""

from __future__ import annotations

import io
import re

import pytest
from toys.adb_phones import adb_server

from turncredit.phone import Phone
from turncredit.phone.adb import AdbServer
from turncredit.tools.android import parse_xml

pytestmark = pytest.mark.waits

adbutils = pytest.importorskip("adbutils", reason="adbutils is not installed; the extra `dev` has it")


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
    assert device.prop.model == "Turncredit One"
    assert "org.turncredit.contacts" in device.list_packages()
    device.app_start("org.turncredit.contacts")
    assert device.app_current().package == "org.turncredit.contacts"
    root, _ = parse_xml(device.dump_hierarchy())
    device.click(*root.find("Create contact").center)
    root, _ = parse_xml(device.dump_hierarchy())
    device.click(*root.find("First name").center)
    device.send_keys("Ada")
    with server.paused() as phone:
        assert phone.tree().find("First name").text == "Ada"
    device.app_stop("org.turncredit.contacts")
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
    client = pytest.importorskip("uiautomator2", reason="uiautomator2 is not installed; the extra `dev` has it")
    found = client.Device(device)
    found.settings["wait_timeout"] = 0.0
    return found


def test_uiautomator2_sees_and_drives_the_phone(u2, server):
    assert (u2.info["displayWidth"], u2.info["currentPackageName"]) == (1080, "com.android.launcher3")
    u2.app_start("org.turncredit.contacts")
    assert u2.app_current()["package"] == "org.turncredit.contacts"
    u2(description="Create contact").click()
    u2(description="First name").set_text("Grace Ö")
    u2.xpath('//*[@content-desc="Last name"]').click()
    u2.send_keys("Hopper")
    u2(description="Save").click()
    assert u2(text="Grace Ö Hopper").exists
    assert not u2(text="Nobody").exists
    assert u2(textStartsWith="Grace").info["packageName"] == "org.turncredit.contacts"
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


def test_uiautomator2_types_with_its_keyboard(u2, server):
    u2.app_start("org.turncredit.contacts")
    u2(description="Create contact").click()
    u2(description="First name").click()
    u2.send_keys("Ada Ö 😀")
    assert u2.current_ime() == "com.github.uiautomator/.AdbKeyboard"
    u2.send_action("next")
    u2.send_keys("Lovelace")
    u2.send_action("previous")
    u2.clear_text()
    u2.send_keys("Grace")
    with server.paused() as phone:
        assert (phone.tree().find("First name").text, phone.tree().find("Last name").text) == ("Grace", "Lovelace")
        assert phone.frame.page.keyboard is False, "send_keys closes it"
    u2(description="Phone").click()
    assert "mInputShown=true" in u2.shell("dumpsys input_method").output
    u2.hide_keyboard()
    assert "mInputShown=false" in u2.shell("dumpsys input_method").output
    u2.set_input_ime(False)
    assert u2.current_ime() == "com.android.inputmethod/.Keyboard"


def test_uiautomator2_finds_children_and_swipes_along_points(u2):
    u2.app_start("com.android.settings")
    rows = u2(scrollable=True)
    about = rows.child_by_text("About phone", clickable=True)
    assert about.exists
    assert about.info["clickable"]
    with pytest.raises(Exception, match="UiObjectNotFound"):
        rows.child_by_text("Nobody", clickable=True)
    rows.fling.toBeginning()
    assert rows.child_by_instance(0, clickable=True).info["bounds"] == rows.child(clickable=True)[0].info["bounds"]
    before = u2(text="Display").info["bounds"]["top"]
    u2.swipe_points([(540, 1500), (700, 1200), (540, 1000)], 0.2)
    assert u2(text="Display").info["bounds"]["top"] < before
    about = rows.child_by_text("About phone", clickable=True)
    about.click()
    assert u2(text="Android version").exists


def test_uiautomator2_presses_long(u2, server):
    u2.app_start("org.turncredit.contacts")
    for key in ("power", "home", "app_switch"):
        u2.long_press(key)
        assert u2.info["screenOn"]
        assert u2.app_current()["package"] == "org.turncredit.contacts"
    u2.screen_off()
    u2.long_press("power")
    assert u2.info["screenOn"]


def test_uiautomator2_is_told_what_is_not_there(u2):
    import uiautomator2

    with pytest.raises(uiautomator2.UiObjectNotFoundError):
        u2(text="Nobody").click(timeout=0.1)
    with pytest.raises(uiautomator2.exceptions.RPCUnknownError, match="method not found: fly"):
        u2.jsonrpc.fly()
