"""Files of records that users bring: questions, corpora, tasks, demonstrations.

`read_records` reads the container (JSON lines, one JSON list, CSV, TSV, Parquet; plain or compressed) and yields
records with keys and values. A `RecordFormats` tells by the keys of a record which data set it belongs to, and turns it
into a question, passage, task or demonstration. The formats themselves lie beside what they produce:

    questions         turnwise.envs.search.question_formats
    passages          turnwise.tools.retrieval.corpus_formats
    code tasks        turnwise.envs.code.formats
    demonstrations    turnwise.agents.interchange.chat_records

A new container is one function in `containers`; a new format is one function, or file, and one line in its registry.
"""

from turnwise.tools.readers.cells import list_in_cell
from turnwise.tools.readers.formats import Fields, RecordFormat, RecordFormats, UnknownRecord
from turnwise.tools.readers.records import CONTAINERS, Record, container_of, parse_record, read_records

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
