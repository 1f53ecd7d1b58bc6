"""Content that a seed determines: phones of one seed share it, such as those that a group of agents plays on."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from turncredit.phone.content.catalogue import CatalogueSource
from turncredit.phone.toolkit.state import File
from turncredit.phone.toolkit.tables import Table

__all__ = ["SeedContent", "shared_content"]


class SeedContent:
    """The first tables and files of a phone, as far as they were needed. These values never change."""

    __slots__ = ("files", "tables")

    def __init__(self) -> None:
        """Start without any."""
        self.files: Mapping[str, File] | None = None
        self.tables: dict[str, dict[str, Table]] = {}  # by package


@lru_cache(maxsize=64)  # about 0.3 MB each
def shared_content(seed: str, start: int, catalogue: CatalogueSource) -> SeedContent:
    """Return the content of all phones of a seed, clock and catalogue that have the apps of the registry."""
    return SeedContent()
