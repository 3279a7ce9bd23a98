"""What SAP data means: values, operations, source profiles, currencies. No tables, no storage, no Dagster."""
