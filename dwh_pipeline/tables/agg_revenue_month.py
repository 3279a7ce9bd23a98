"""Revenue per client, month of the document date and currency: exactly the sum over the fact."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from dwh_pipeline.contracts.table import LOADED_AT, Column, StoredAs, TableContract
from dwh_pipeline.tables import fct_order_line

_TOTAL = "DECIMAL(30,5)"

CONTRACT = TableContract(
    schema="gold",
    name="agg_revenue_month",
    description="Revenue per client, month and currency; never added up across currencies",
    columns=(
        Column("client_id", "STRING", "Client", nullable=False),
        Column("revenue_month", "DATE", "First day of the month of the document date; NULL unknown"),
        Column("currency", "STRING", "Currency; NULL unknown"),
        Column("revenue_amount", _TOTAL, "Sum of the revenue of the fact lines", nullable=False),
        Column("line_count", "BIGINT", "Fact lines, also those without revenue", nullable=False),
        Column("order_count", "BIGINT", "Orders that the lines belong to", nullable=False),
        LOADED_AT,
    ),
    primary_key=("client_id", "revenue_month", "currency"),
    stored_as=StoredAs.REBUILT,
    upstream=(fct_order_line.CONTRACT.qualified_name,),
)


def build(facts: DataFrame) -> DataFrame:
    """Lines of `gold.fct_order_line` added up."""
    month = F.trunc("document_date", "month").alias("revenue_month")
    return facts.groupBy("client_id", month, "currency").agg(
        F.sum("revenue_amount").cast(_TOTAL).alias("revenue_amount"),
        F.count("*").alias("line_count"),
        F.count_distinct("order_id").alias("order_count"),
    )
