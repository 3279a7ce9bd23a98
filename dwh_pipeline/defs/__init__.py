"""The only package that imports Dagster: resources, assets, checks and jobs. No load is written here."""
