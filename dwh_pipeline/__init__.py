"""SAP tables as files to a Delta warehouse that no re-run can change."""
