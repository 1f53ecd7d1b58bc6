"""Android devices: the interface that every connection to one offers, and the accessibility tree of their screens."""

from turnwise.tools.android.device import Device, DeviceError, DeviceLost
from turnwise.tools.android.node import BadDump, Node, parse_xml, write_xml

__all__ = ["BadDump", "Device", "DeviceError", "DeviceLost", "Node", "parse_xml", "write_xml"]
