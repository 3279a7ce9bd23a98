"""Health history: the outcome of every rule for every table, whenever it is another one. Trends are drawn of it."""

from dwh_pipeline.contracts.health import Status
from dwh_pipeline.contracts.table import Column, StoredAs, TableContract

CONTRACT = TableContract(
    schema="ops",
    name="health_history",
    description="The outcome of every health rule for every table, from when on; it holds until the next one",
    columns=(
        Column(
            "checked_at",
            "TIMESTAMP",
            "When the rules were asked, the same for all that were asked together",
            nullable=False,
        ),
        Column("rule", "STRING", "The rule, as the sentence that is true when it passes", nullable=False),
        Column("table_name", "STRING", "The table that was asked about, schema.name", nullable=False),
        Column("status", "STRING", ", ".join(Status), nullable=False),
        Column("measure", "DOUBLE", "The number that the rule is about", nullable=False),
        Column("message", "STRING", "The answer in words", nullable=False),
        Column("measures", "STRING", "All numbers of the answer, as JSON"),
    ),
    primary_key=("checked_at", "rule", "table_name"),
    stored_as=StoredAs.APPEND,
)
