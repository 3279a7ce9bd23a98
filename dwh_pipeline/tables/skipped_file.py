"""Complete files of which nothing was appended, with the reason: they are no backlog and are not offered again."""

from dwh_pipeline.contracts.table import Column, StoredAs, TableContract

CONTRACT = TableContract(
    schema="ops",
    name="skipped_file",
    description="Files without rows, and files with the content of another one, which was loaded instead",
    columns=(
        Column("source_table", "STRING", "The bronze table, schema.name", nullable=False),
        Column("_tech_batch_id", "STRING", "The delivery", nullable=False),
        Column("_tech_source_file", "STRING", "The file, relative to the landing root", nullable=False),
        Column("same_as", "STRING", "The file that has the same rows and was loaded; NULL if the file has no rows"),
        Column("skipped_at", "TIMESTAMP", "When it was skipped", nullable=False),
    ),
    primary_key=("source_table", "_tech_source_file"),
    stored_as=StoredAs.APPEND,
)
