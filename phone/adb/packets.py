"""The messages of the protocol between adb and a device."""

from __future__ import annotations

import struct
from asyncio import StreamReader
from dataclasses import dataclass
from typing import Final

__all__ = ["MAX_DATA", "VERSION", "BadPacket", "Packet", "read_packet", "write_packet"]

VERSION: Final = 0x01000001  # the first one without checksums
MAX_DATA: Final = 1 << 20
_HEADER: Final = struct.Struct("<4sIIIII")
_COMMANDS: Final = frozenset((b"SYNC", b"CNXN", b"AUTH", b"OPEN", b"OKAY", b"CLSE", b"WRTE", b"STLS"))


class BadPacket(Exception):
    """What arrived is not a message of adb."""


@dataclass(frozen=True, slots=True)
class Packet:
    """A command, its two arguments and its data."""

    command: bytes
    first: int
    second: int
    data: bytes = b""


async def read_packet(reader: StreamReader) -> Packet:
    """Return the next message.

    Raises:
        BadPacket: it is none.
        IncompleteReadError: the client is gone.
    """
    command, first, second, length, _, magic = _HEADER.unpack(await reader.readexactly(_HEADER.size))
    number = int.from_bytes(command, "little")
    if command not in _COMMANDS or number ^ 0xFFFFFFFF != magic:
        raise BadPacket(f"expected a message of adb, got {command!r}")
    if length > MAX_DATA:
        raise BadPacket(f"a message has at most {MAX_DATA} bytes of data, got {length}")
    return Packet(command, first, second, await reader.readexactly(length) if length else b"")


def write_packet(packet: Packet) -> bytes:
    """Return the bytes of a message; the checksum is there only where versions are agreed on."""
    magic = int.from_bytes(packet.command, "little") ^ 0xFFFFFFFF
    checksum = sum(packet.data) & 0xFFFFFFFF if packet.command == b"CNXN" else 0
    header = _HEADER.pack(packet.command, packet.first, packet.second, len(packet.data), checksum, magic)
    return header + packet.data
