"""Files of records that users bring: questions, corpora, tasks, demonstrations.

`read_records` reads the container (JSON lines, one JSON list, CSV, TSV, Parquet; plain or compressed) and yields
records with keys and values. A `RecordFormats` tells by the keys of a record which data set it belongs to, and turns it
into a question, passage, task or demonstration. The formats themselves lie beside what they produce:

    questions         turncredit.envs.search.question_formats
    passages          turncredit.tools.retrieval.corpus_formats
    code tasks        turncredit.envs.code.formats
    demonstrations    turncredit.agents.interchange.chat_records

A new container is one function in `containers`; a new format is one function, or file, and one line in its registry.
"""

from turncredit.tools.readers.cells import list_in_cell
from turncredit.tools.readers.formats import Fields, RecordFormat, RecordFormats, UnknownRecord
from turncredit.tools.readers.records import CONTAINERS, Record, container_of, parse_record, read_records

__all__ = [
    "CONTAINERS",
    "Fields",
    "Record",
    "RecordFormat",
    "RecordFormats",
    "UnknownRecord",
    "container_of",
    "list_in_cell",
    "parse_record",
    "read_records",
]
