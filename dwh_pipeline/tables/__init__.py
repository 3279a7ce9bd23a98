"""One module per table: what it promises (CONTRACT) and how its rows are made (pure functions). No reads, no writes."""
