"""Android devices: the interface that every connection to one offers, and the accessibility tree of their screens."""

from turnwise.tools.android.adb import AdbDevice
from turnwise.tools.android.device import Device, DeviceError, DeviceLost
from turnwise.tools.android.node import BadDump, Node, parse_xml, write_xml
from turnwise.tools.android.smart_socket import AdbServerClient

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
