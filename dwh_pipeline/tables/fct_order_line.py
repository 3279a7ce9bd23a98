"""Order line fact: one row per order line that is not deleted, with its header and the customer version of its date.

A missing (or deleted) header or customer never loses a line: it points to the unknown member until the other arrives.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from dwh_pipeline.contracts.table import LOADED_AT, Column, StoredAs, TableContract
from dwh_pipeline.sap.currency import in_own_decimals
from dwh_pipeline.sap.revenue import is_negative, revenue_amount
from dwh_pipeline.tables import customer, dim_customer, sales_order, sales_order_line

_MONEY = "DECIMAL(20,5)"

CONTRACT = TableContract(
    schema="gold",
    name="fct_order_line",
    description="Order lines with header and customer as of the document date; revenue per line and currency",
    columns=(
        Column("client_id", "STRING", "Client", nullable=False),
        Column("order_id", "STRING", "Sales document", nullable=False),
        Column("line_number", "STRING", "Sales document item", nullable=False),
        Column(
            "customer_key",
            "STRING",
            "Version of the customer at the end of the document date; -1 unknown",
            nullable=False,
        ),
        Column("customer_id", "STRING", "Sold-to party of the header; NULL while the header is missing"),
        Column("product_id", "STRING", "Material"),
        Column("document_date", "DATE", "Document date of the header"),
        Column("document_category", "STRING", "VBTYP of the header"),
        Column("quantity", "DECIMAL(15,3)", "Ordered quantity in quantity_unit; never add up across units"),
        Column("quantity_unit", "STRING", "Sales unit"),
        Column("unit_price", "DECIMAL(20,9)", "Net price of one unit"),
        Column("line_net_value", _MONEY, "Net value of the line as SAP has it, unsigned, in currency"),
        Column("currency", "STRING", "Currency of the line, else of the header; NULL unknown"),
        Column("revenue_amount", _MONEY, "Signed revenue in currency; 0 if rejected or no revenue", nullable=False),
        Column("is_rejected", "BOOLEAN", "The line has a rejection reason", nullable=False),
        Column("is_return", "BOOLEAN", "The line takes revenue back", nullable=False),
        LOADED_AT,
    ),
    primary_key=("client_id", "order_id", "line_number"),
    stored_as=StoredAs.REBUILT,
    upstream=(
        sales_order_line.CONTRACT.qualified_name,
        sales_order.CONTRACT.qualified_name,
        customer.CONTRACT.qualified_name,
        dim_customer.CONTRACT.qualified_name,
    ),
)


def build(lines: DataFrame, orders: DataFrame, dimension: DataFrame) -> DataFrame:
    """Lines of `silver.sales_order_line` with headers of `silver.sales_order` and versions of `gold.dim_customer`."""
    header = orders.where(~F.col("is_deleted")).select(
        "client_id",
        "order_id",
        "customer_id",
        "document_date",
        "document_category",
        F.col("currency").alias("header_currency"),
        F.col("currency_decimals").alias("header_decimals"),
    )
    versions = dimension.select(
        F.col("client_id").alias("dim_client_id"),
        F.col("customer_id").alias("dim_customer_id"),
        "customer_key",
        "valid_from",
        "valid_to",
    )
    end_of_day = F.date_add("document_date", 1).cast("timestamp")
    in_effect = (
        (F.col("client_id") == F.col("dim_client_id"))
        & (F.col("customer_id") == F.col("dim_customer_id"))
        & (F.col("valid_from") < end_of_day)
        & (F.col("valid_to").isNull() | (F.col("valid_to") >= end_of_day))
    )
    joined = (
        lines.where(~F.col("is_deleted"))
        .join(header, ["client_id", "order_id"], "left")
        .join(versions, in_effect, "left")
    )
    # A line without a currency has its header's, and with it the decimals that its amounts were not shifted by.
    borrowed = F.col("currency").isNull() & F.col("currency_decimals").isNotNull()
    decimals = F.when(borrowed, F.col("header_decimals"))
    amounts = {
        name: in_own_decimals(F.col(name), decimals, type_=type_)
        for name, type_ in (("line_net_value", _MONEY), ("unit_price", "DECIMAL(20,9)"))
    }
    rejected = F.col("rejection_reason_code").isNotNull()
    net_value = F.coalesce("line_net_value", F.lit(0).cast(_MONEY))
    derived = {
        "customer_key": F.coalesce("customer_key", F.lit(dim_customer.UNKNOWN_KEY)),
        "currency": F.coalesce("currency", "header_currency"),
        "revenue_amount": revenue_amount(
            net_value, category=F.col("document_category"), is_return=F.col("is_return"), is_rejected=rejected
        ).cast(_MONEY),
        "is_rejected": rejected,
        "is_return": is_negative(F.col("document_category"), F.col("is_return")),
    }
    return joined.withColumns(amounts).withColumns(derived).select(*CONTRACT.compared_columns)
