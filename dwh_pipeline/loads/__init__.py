"""Read, build, write, without Dagster: what the command line, the assets and the tests call."""
