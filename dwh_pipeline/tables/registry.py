"""Every table of the warehouse, in the order in which it is loaded. A list that can be read, not a side effect."""

from dwh_pipeline.contracts.table import TableContract
from dwh_pipeline.tables import (
    agg_revenue_month,
    bronze,
    currency,
    customer,
    dim_customer,
    fct_order_line,
    health_history,
    ingest_activity,
    load_ledger,
    quarantine,
    sales_order,
    sales_order_line,
    skipped_file,
)
from dwh_pipeline.tables.silver import SilverTable

SILVER: tuple[SilverTable, ...] = (currency.TABLE, customer.TABLE, sales_order.TABLE, sales_order_line.TABLE)
GOLD: tuple[TableContract, ...] = (dim_customer.CONTRACT, fct_order_line.CONTRACT, agg_revenue_month.CONTRACT)
OPS: tuple[TableContract, ...] = (
    load_ledger.CONTRACT,
    quarantine.CONTRACT,
    skipped_file.CONTRACT,
    ingest_activity.CONTRACT,
    health_history.CONTRACT,
)

# What runs load. The tables of ops are written by those loads, but for ingest_activity, which has a job of its own, and
# health_history, which is written when the health rules are asked.
LOADED: tuple[TableContract, ...] = (*bronze.CONTRACTS.values(), *(table.contract for table in SILVER), *GOLD)
