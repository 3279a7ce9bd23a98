"""Everything this project raises: one root, one class per thing that a person has to act on.

Each error holds its facts as fields and a message that says what to do. No rendering and no handling here: the
command line and the assets decide how a message is shown.
"""


class WarehouseError(Exception):
    """The root of all errors of this project. Its text is written for the person who runs the warehouse."""


class SettingsError(WarehouseError):
    """A setting is missing or cannot be used."""

    def __init__(self, setting: str, problem: str) -> None:
        self.setting, self.problem = setting, problem
        super().__init__(f"{setting}: {problem}")


class SessionError(WarehouseError):
    """Spark cannot be started, or the running session cannot be used: wrong Java, missing jars, another session."""


class FeedError(WarehouseError):
    """A feed in feeds.toml is declared wrongly, or its files are not what the feed declares."""

    def __init__(self, feed: str, key: str, problem: str) -> None:
        self.feed, self.key, self.problem = feed, key, problem
        super().__init__(f"feeds.toml, [feeds.{feed}] {key}: {problem}")


class LandingError(WarehouseError):
    """The landing area or the folder of a feed is not there."""

    def __init__(self, path: str, problem: str) -> None:
        self.path, self.problem = path, problem
        super().__init__(f"{path}: {problem}")


class DeliveryError(WarehouseError):
    """A file of a delivery cannot be taken as it is."""

    def __init__(self, file: str, problem: str) -> None:
        self.file, self.problem = file, problem
        super().__init__(f"{file}: {problem}")


class UnknownOperationError(WarehouseError):
    """A file holds an operation code that its source profile does not know. Nothing of its micro-batch was written."""

    def __init__(self, profile: str, *, code: str, file: str, row: int) -> None:
        self.profile, self.code, self.file, self.row = profile, code, file, row
        super().__init__(
            f"{file}, row {row}: operation {code!r} is not known to the profile {profile}. "
            "Nothing of these files was loaded; choose the right profile in feeds.toml or add the code to the profile"
        )


class MissingColumnError(WarehouseError):
    """A file lacks columns that other files of its feed have. Nothing of its micro-batch was written."""

    def __init__(self, file: str, columns: tuple[str, ...]) -> None:
        self.file, self.columns = file, columns
        super().__init__(
            f"{file} has no column {', '.join(columns)}, which other files of its feed have; read as blank, stored "
            "values would be erased. Nothing of these files was loaded; have the file delivered again with all "
            "columns, or name those that may be missing in `optional` in feeds.toml"
        )


class SnapshotRefusedError(WarehouseError):
    """A full snapshot lacks more keys than it may. Nothing of its micro-batch was written."""

    def __init__(self, delivery: str, *, absent: int, alive: int, allowed: float) -> None:
        self.delivery, self.absent, self.alive, self.allowed = delivery, absent, alive, allowed
        super().__init__(
            f"{delivery} is a full snapshot and would delete {absent} of {alive} keys ({absent / alive:.0%}), more "
            f"than the {allowed:.0%} allowed; nothing of it was loaded. If it is not whole, take it away and have it "
            "delivered again; if it is right, raise max_deleted_share in its _delivery.json or in feeds.toml"
        )


class FileChangedError(WarehouseError):
    """A file was changed in place after it had been loaded."""

    def __init__(self, files: tuple[str, ...]) -> None:
        self.files = files
        super().__init__(
            f"{', '.join(files)}: changed after it was loaded, so what bronze holds is not what the file says. Put the "
            "old content back, and have the correction delivered as a new file in a new delivery"
        )


class LeaseHeldError(WarehouseError):
    """Another run is loading the same bronze table."""

    def __init__(self, table: str, holder: str) -> None:
        self.table, self.holder = table, holder
        super().__init__(
            f"{table}: {holder} is loading it; wait until that has ended, or end that process if it hangs. Nothing was "
            "loaded by this run"
        )


class CheckpointError(WarehouseError):
    """The checkpoint of a stream cannot be used as it is. It is never deleted by itself."""

    def __init__(self, feed: str, problem: str, repair: str, *, by: str | None = None) -> None:
        self.feed, self.problem, self.repair = feed, problem, repair
        super().__init__(
            f"checkpoint of {feed}: {problem}. Safe repair: {repair}; "
            f"{by or f'dwh recover-stream {feed} --apply'} does it"
        )


class BacklogError(WarehouseError):
    """Complete files were neither loaded nor skipped by a run of their stream."""

    def __init__(self, feed: str, files: tuple[str, ...]) -> None:
        self.feed, self.files = feed, files
        super().__init__(
            f"{len(files)} complete files of {feed} were not loaded, among them {', '.join(files[:5])}: the checkpoint "
            f"has seen them, but bronze does not hold them. dwh recover-stream {feed} --apply starts a new checkpoint"
        )


class RunIncompleteError(WarehouseError):
    """Several tables of a run could not be loaded; every table that does not depend on them was."""

    def __init__(self, failures: tuple[tuple[str, WarehouseError], ...]) -> None:
        self.failures = failures
        super().__init__("; ".join(f"{table}: {error}" for table, error in failures))


class TableNotFoundError(WarehouseError):
    """A table that a load reads does not exist yet."""

    def __init__(self, table: str) -> None:
        self.table = table
        super().__init__(f"{table} does not exist yet; load what it is built from first (dwh run loads everything)")


class DeliveryNotFoundError(WarehouseError):
    """A replay was asked for a delivery that bronze does not hold. `table` is a bronze table, or bronze as a whole."""

    def __init__(self, table: str, batch_id: str, known: tuple[str, ...]) -> None:
        self.table, self.batch_id, self.known = table, batch_id, known
        super().__init__(f"{table} holds no delivery {batch_id!r}; it holds {', '.join(known) or 'none'}")


class ContractViolationError(WarehouseError):
    """Rows do not have the columns that the contract of their table promises."""

    def __init__(self, table: str, *, missing: tuple[str, ...], unexpected: tuple[str, ...]) -> None:
        self.table, self.missing, self.unexpected = table, missing, unexpected
        super().__init__(f"{table}: missing columns {list(missing)}, unexpected columns {list(unexpected)}")


class OvertakenError(WarehouseError):
    """Another load changed a table between the plan of a load and its write."""

    def __init__(self, table: str) -> None:
        self.table = table
        super().__init__(
            f"{table}: another load changed it meanwhile, so not every planned row was written and nothing was "
            "recorded as loaded; run again, one load at a time"
        )


class LedgerMismatchError(WarehouseError):
    """The outcomes of a load do not add up to the rows it read: a fault of this project, nothing was written."""

    def __init__(self, table: str, batch_id: str | None, *, rows_read: int, rows_counted: int) -> None:
        self.table, self.batch_id = table, batch_id
        self.rows_read, self.rows_counted = rows_read, rows_counted
        super().__init__(
            f"{table}, delivery {batch_id}: {rows_read} rows read but {rows_counted} accounted for; nothing was "
            "written. This is a fault in the load: please report it with the delivery"
        )


class ExpectationFailedError(WarehouseError):
    """A table that a load depends on breaks an expectation, so the load did not start."""

    def __init__(self, table: str, expectation: str, failing_rows: int) -> None:
        self.table, self.expectation, self.failing_rows = table, expectation, failing_rows
        super().__init__(
            f"{table}: {expectation} does not hold ({failing_rows} failing rows); gold was left as it is. "
            "Find the cause in that table, repair it, then run again"
        )
