"""Rows that silver cannot take: where, why, and the raw record. Correcting the cause and replaying empties it."""

from dwh_pipeline.contracts.table import Column, StoredAs, TableContract

CONTRACT = TableContract(
    schema="ops",
    name="quarantine",
    description="Delivered rows that silver cannot take, with the reason; nothing delivered is lost",
    columns=(
        Column("source_table", "STRING", "The bronze table, schema.name", nullable=False),
        Column("_tech_batch_id", "STRING", "The delivery", nullable=False),
        Column("_tech_source_file", "STRING", "The file, relative to the landing root", nullable=False),
        Column("_tech_row_number", "BIGINT", "Position in the file; 1 is the first row", nullable=False),
        Column("reason", "STRING", "Why the row cannot be taken", nullable=False),
        Column("raw_record", "STRING", "The delivered values as JSON, or the raw record"),
    ),
    primary_key=("source_table", "_tech_source_file", "_tech_row_number"),
    stored_as=StoredAs.REBUILT,
)
