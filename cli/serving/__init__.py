"""`turncredit serve`: the web shop, a phone, a corpus to search, environments and models, on this machine."""
