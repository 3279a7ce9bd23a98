"""Expectations: pure functions that answer in numbers. Reading tables and showing answers is done elsewhere."""
