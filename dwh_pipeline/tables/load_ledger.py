"""The ledger: one row per load, table and delivery, with where every row that was read ended."""

from dwh_pipeline.contracts.outcomes import OUTCOME_MEANINGS, Outcome
from dwh_pipeline.contracts.table import Column, StoredAs, TableContract

CONTRACT = TableContract(
    schema="ops",
    name="load_ledger",
    description="What each load did with every row it read, per delivery; decides which deliveries are pending",
    columns=(
        Column("load_id", "STRING", "One run of one load", nullable=False),
        Column("table_name", "STRING", "The table that was loaded, schema.name", nullable=False),
        Column("_tech_batch_id", "STRING", "The delivery; NULL for rows derived again without one"),
        Column("is_replay", "BOOLEAN", "Whether the delivery had been loaded before", nullable=False),
        Column("rows_read", "BIGINT", "Rows of the delivery; the sum of the outcomes", nullable=False),
        *(Column(outcome.value, "BIGINT", f"Rows: {OUTCOME_MEANINGS[outcome]}", nullable=False) for outcome in Outcome),
        Column("absent", "BIGINT", "Keys, not rows read: deleted because the delivery, a full snapshot, lacks them"),
        Column("source_id", "STRING", "Delta's id of the bronze table: one made anew has not been loaded"),
        Column("table_id", "STRING", "Delta's id of the loaded table: one made anew has not taken anything"),
        Column("started_at", "TIMESTAMP", "When the load started", nullable=False),
        Column("finished_at", "TIMESTAMP", "When its write was done", nullable=False),
    ),
    primary_key=("load_id", "table_name", "_tech_batch_id"),
    stored_as=StoredAs.APPEND,
)
