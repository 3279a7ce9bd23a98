"""The only package that touches storage: session, catalog, write primitives, landing area, stream, ledger."""
