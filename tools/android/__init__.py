"""Android devices: the interface that every connection to one offers, and the accessibility tree of their screens."""

from turncredit.tools.android.adb import AdbDevice
from turncredit.tools.android.device import Device, DeviceError, DeviceLost
from turncredit.tools.android.node import BadDump, Node, parse_xml, write_xml
from turncredit.tools.android.smart_socket import AdbServerClient

__all__ = [
    "AdbDevice",
    "AdbServerClient",
    "BadDump",
    "Device",
    "DeviceError",
    "DeviceLost",
    "Node",
    "parse_xml",
    "write_xml",
]
