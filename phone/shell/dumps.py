"""`dumpsys`: what clients read of the window, the activities, the display, the battery, calls and notifications."""

from __future__ import annotations

from typing import Final

from turncredit.phone.phone import Phone
from turncredit.phone.shell.command import CommandCall, CommandFunction
from turncredit.phone.toolkit.app import App, to_datetime
from turncredit.phone.toolkit.state import Event


def dumpsys(call: CommandCall) -> None:
    """Print what a service knows."""
    args = [arg for arg in call.args if arg not in ("-t", "-T", "--proto")]
    if not args or args[0] == "-l":
        call.print("Currently running services:")
        for name in sorted(_SERVICES):
            call.print(f"  {name}")
    elif args[0] in _SERVICES:
        call.print(_SERVICES[args[0]](call.phone, args[1:]))
    else:
        call.print(f"Can't find service: {args[0]}")


def _full(app: App) -> str:
    activity = app.package + app.activity if app.activity.startswith(".") else app.activity
    return f"{app.package}/{activity}"


def _front(phone: Phone) -> App:
    return phone.apps[phone.state.tasks[0].package]


def _window(phone: Phone, args: list[str]) -> str:
    app, (width, height) = _front(phone), phone.size
    lines = [
        "WINDOW MANAGER DISPLAY CONTENTS (dumpsys window displays)",
        f"  Display: mDisplayId=0 init={min(width, height)}x{max(width, height)} 420dpi cur={width}x{height}",
        f"  mCurrentRotation=ROTATION_{90 * phone.rotation}  mRotation={phone.rotation}",
        f"  mCurrentFocus=Window{{{_hash(app)} u0 {_full(app)}}}",
        f"  mFocusedApp=ActivityRecord{{{_hash(app)} u0 {app.component} t1}}",
        f"  mAwake={_yes(phone.state.screen_on)} screenState={'SCREEN_STATE_ON' if phone.state.screen_on else 'OFF'}",
        "  mDreamingLockscreen=false mShowingDream=false",
    ]
    return "\n".join(lines)


def _hash(app: App) -> str:
    return f"{sum(map(ord, app.package)) * 2654435761 % (1 << 28):07x}"


def _yes(value: bool) -> str:
    return str(value).lower()


def _activity(phone: Phone, args: list[str]) -> str:
    tasks = [phone.apps[task.package] for task in phone.state.tasks]
    if args[:1] == ["recents"]:
        lines = ["ACTIVITY MANAGER RECENT TASKS (dumpsys activity recents)"]
        for at, app in enumerate(tasks):
            number = 1 + list(phone.apps).index(app.package)
            kind = "home" if app.hidden else "standard"
            lines += [f"  * Recent #{at}: Task{{{_hash(app)} #{number} type={kind} A=10{number:03d}:{app.package}}}"]
            lines += [f"    realActivity={{{app.component}}}", f"    baseIntent=Intent {{ cmp={app.component} }}"]
        return "\n".join(lines)
    if args[:1] == ["top"]:
        return "\n".join(
            f"TASK {app.package} id={at}\n  ACTIVITY {app.component} {_hash(app)} pid={_process(phone, app)}"
            for at, app in reversed(list(enumerate(tasks, start=1)))
        )
    front = tasks[0]
    record = f"ActivityRecord{{{_hash(front)} u0 {front.component} t1}}"
    lines = ["ACTIVITY MANAGER ACTIVITIES (dumpsys activity activities)"]
    lines += [
        f"  * Hist #{at}: ActivityRecord{{{_hash(app)} u0 {app.component} t{at}}}" for at, app in enumerate(tasks)
    ]
    return "\n".join([*lines, f"  mResumedActivity: {record}", f"  topResumedActivity={record}"])


def _process(phone: Phone, app: App) -> int:
    return 2000 + list(phone.apps).index(app.package)


def _display(phone: Phone, args: list[str]) -> str:
    width, height = phone.size
    viewport = (
        f"DisplayViewport{{type=INTERNAL, valid=true, isActive=true, displayId=0, uniqueId='local:0', physicalPort=0, "
        f"orientation={phone.rotation}, logicalFrame=Rect(0, 0 - {width}, {height}), "
        f"physicalFrame=Rect(0, 0 - {width}, {height}), deviceWidth={width}, deviceHeight={height}}}"
    )
    state = "ON" if phone.state.screen_on else "OFF"
    return f"DISPLAY MANAGER (dumpsys display)\n  mViewports=[{viewport}]\n  mState={state}\n  mScreenState={state}"


def _input(phone: Phone, args: list[str]) -> str:
    width, height = phone.size
    return (
        "INPUT MANAGER (dumpsys input)\n"
        f"    Viewport INTERNAL: displayId=0, uniqueId=local:0, port=0, orientation={phone.rotation}, "
        f"logicalFrame=[0, 0, {width}, {height}], isActive=[1]\n"
        f"      SurfaceWidth: {width}px\n      SurfaceHeight: {height}px\n      SurfaceOrientation: {phone.rotation}"
    )


def _input_method(phone: Phone, args: list[str]) -> str:
    return f"  mInputShown={_yes(phone.page.keyboard)}\n  mCurId={phone.setting('default_input_method', 'secure')}"


def _telephony(phone: Phone, args: list[str]) -> str:
    values = phone.state.settings.get("property", {})
    state = {"ringing": 1, "offhook": 2}.get(values.get("gsm.call.state", ""), 0)
    return (
        f"last known state:\n  Phone Id=0\n    mCallState={state}\n"
        f"    mCallIncomingNumber={values.get('gsm.call.number', '')}\n"
        "    mServiceState={mVoiceRegState=0(IN_SERVICE)}"
    )


def _battery(phone: Phone, args: list[str]) -> str:
    values = {"AC powered": "true", "USB powered": "false", "Wireless powered": "false", "Dock powered": "false"}
    values |= {"Max charging current": "0", "Max charging voltage": "0", "Charge counter": "3000000"}
    values |= {"status": "2", "health": "2", "present": "true", "level": "87", "scale": "100", "voltage": "4200"}
    values |= {"temperature": "250", "technology": "Li-ion"}
    return "Current Battery Service state:\n" + "\n".join(f"  {name}: {value}" for name, value in values.items())


def _notification(phone: Phone, args: list[str]) -> str:
    lines = ["Current Notification Manager state:", "  Notification List:"]
    for at, notification in enumerate(phone.state.notifications):
        lines.append(
            f"    NotificationRecord(0x{at:07x}: pkg={notification.package} user=UserHandle{{0}} id={at} "
            f"tag={notification.tag})"
        )
        lines.append(f"      when={notification.when * 1000}")
        lines.append(
            f"        android.title=String ({notification.title})\n        android.text=String ({notification.text})"
        )
    return "\n".join(lines)


def _alarm(phone: Phone, args: list[str]) -> str:
    events = sorted(phone.state.events, key=lambda event: (event.when, event.package, event.action.name))
    lines = [f"Current Alarm Manager state:\n  nowRTC={phone.state.clock * 1000}={phone.now:%Y-%m-%d %H:%M:%S}"]
    for event in events:
        when = f"{to_datetime(event.when):%Y-%m-%d %H:%M:%S}"
        lines.append(f"    RTC_WAKEUP: Alarm{{type 0 origWhen {event.when * 1000} {event.package}}} origWhen={when}")
    lines.append("  Next alarm clock information:")
    if rings := [event.when for event in events if _is_alarm_clock(event)]:
        ahead = rings[0] - phone.state.clock
        when = f"{to_datetime(rings[0]):%Y-%m-%d %H:%M:%S}"
        lines.append(f"    user:0 pendingSend:false time:{rings[0] * 1000} = {when} = +{ahead // 60}m{ahead % 60}s")
    return "\n".join(lines)


def _is_alarm_clock(event: Event) -> bool:
    return event.package == "com.android.deskclock" and event.action.function.__name__ == "ring"


def _package(phone: Phone, args: list[str]) -> str:
    app = phone.apps.get(args[0]) if args else None
    if app is None:
        return f"Unable to find package: {args[0] if args else ''}"
    lines = [
        "Packages:",
        f"  Package [{app.package}] ({_hash(app)}):",
        f"    userId={10_000 + _process(phone, app)}",
        "    versionCode=1 minSdk=33 targetSdk=33",
        "    versionName=1.0",
        "    pkgFlags=[ HAS_CODE ALLOW_CLEAR_USER_DATA ]",
        "    firstInstallTime=2023-01-01 00:00:00",
        "    lastUpdateTime=2023-01-01 00:00:00",
        "    runtime permissions:",
    ]
    held = phone.state.permissions
    lines += [f"      {name}: granted={_yes((app.package, name) in held)}" for name in app.permissions]
    return "\n".join(lines)


def _power(phone: Phone, args: list[str]) -> str:
    on = phone.state.screen_on
    return f"  mWakefulness={'Awake' if on else 'Asleep'}\n  mHoldingDisplaySuspendBlocker={_yes(on)}"


def _wifi(phone: Phone, args: list[str]) -> str:
    return f"Wi-Fi is {'enabled' if phone.setting('wifi_on', 'global') == '1' else 'disabled'}"


def _bluetooth(phone: Phone, args: list[str]) -> str:
    return f"Bluetooth Status\n  enabled: {_yes(phone.setting('bluetooth_on', 'global') == '1')}"


def _surface(phone: Phone, args: list[str]) -> str:
    return 'Display 0 (HWC display 0): port=0 pnpId=TRN displayName="simulated"'


_SERVICES: Final = {
    "SurfaceFlinger": _surface,
    "activity": _activity,
    "alarm": _alarm,
    "battery": _battery,
    "bluetooth_manager": _bluetooth,
    "display": _display,
    "input": _input,
    "input_method": _input_method,
    "notification": _notification,
    "package": _package,
    "power": _power,
    "telephony.registry": _telephony,
    "wifi": _wifi,
    "window": _window,
}

COMMANDS: Final[dict[str, CommandFunction]] = {"dumpsys": dumpsys}
