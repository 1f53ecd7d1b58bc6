"""A phone as adb sees it: adbd on a TCP port of this machine.

    with AdbServer(Phone(seed=3)) as server:
        subprocess.run(["adb", "connect", server.serial])

    packets       the messages of the protocol
    connection    one client: its streams, and how much each may send
    services      what a stream can be opened to: shell, exec, sync, tcp:9008, ...
    sync          pushing and pulling files
    uiautomator   what uiautomator2 speaks with its server on the device
    console       the console of an emulator: `adb emu sms send`, `adb emu gsm call`
    server        the port, in a thread of its own

There is no authentication and no encryption: the port listens on the loopback address only.
"""

from turncredit.phone.adb.server import AdbServer

__all__ = ["AdbServer"]
