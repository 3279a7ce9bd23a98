"""What the tables and loads promise, in plain Python: no Spark, no storage, no Dagster."""
