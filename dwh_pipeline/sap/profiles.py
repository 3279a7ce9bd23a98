"""Source profiles: how each replication tool tells an operation and the order of changes.

A profile turns what a tool delivers into the two technical columns that every load relies on: `change_op` (a letter of
`Operation`) and `change_seq`. To add a tool, add a profile and its test. Which table, file format and number format a
feed has belongs to `feeds`.

`change_seq` is text of one width per profile, so that text order is change order. Parts that come from the file
(delivery, file name, row number) are facts that never change, so the same file gives the same value again. Initial
loads have the floor: all zeros. A value that cannot be ordered gives NULL, and the row is quarantined by silver.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from pyspark.sql import Column
from pyspark.sql import functions as F

from dwh_pipeline.sap.operations import Operation

DELIVERY_WIDTH = 40
FILE_WIDTH = 80
_ROW_WIDTH = 10
_WHOLE_WIDTH = 20  # digits before the decimal point of a sequence; a UTC time stamp has 14
_FRACTION_WIDTH = 7  # as in TIMESTAMPL, DEC(21,7)
_LARGEST_COUNTER = 35  # digits of Qlik's header__change_seq


@dataclass(frozen=True, slots=True)
class Profile:
    """How one replication tool delivers changes.

    `operation_code` gives the delivered code (STRING, blank as ''); `operations` maps it to an operation, and a code
    that is not in the map stops the feed. `change_seq` takes the declared sequence column (plain only) or None.
    `own_columns` are delivered columns that belong to the tool, not to SAP; those in `required_columns` have to be in
    every file. `markers` names folders of a feed that count only once the marker file lies in them.
    """

    name: str
    operations: Mapping[str, Operation]
    operation_code: Callable[[], Column]
    change_seq: Callable[[str | None], Column]
    own_columns: tuple[str, ...] = ()
    required_columns: tuple[str, ...] = ()
    markers: Mapping[str, str] = field(default_factory=dict)


def operation(profile: Profile) -> Column:
    """The letter of the operation (STRING), NULL where the delivered code is not known to the profile."""
    letters = F.create_map(*(F.lit(text) for code, op in profile.operations.items() for text in (code, op.value)))
    return F.try_element_at(letters, profile.operation_code())


def change_time(change_seq: Column) -> Column:
    """When the change happened (TIMESTAMP, UTC), read from its `change_seq`; NULL where the feed does not say.

    Every profile that knows a time puts it first: `yyyyMMddHHmmss` or `yyyyMMdd`, zero-padded to 20 digits, then the
    fraction of the second. A counter is no time.
    """
    whole, fraction = F.substring(change_seq, 1, _WHOLE_WIDTH), F.substring(change_seq, _WHOLE_WIDTH + 1, 6)
    digits = F.regexp_replace(whole, "^0+", "")
    # The shortest plausible years keep counters of eight digits from being read as dates.
    text = (
        F.when(digits.rlike(r"^(19|2[0-9])\d{6}$"), F.concat(digits, F.lit("000000")))
        .when(digits.rlike(r"^(19|2[0-9])\d{12}$"), digits)
        .otherwise(F.lit(None))
    )
    return F.try_to_timestamp(F.concat(text, F.when(fraction.rlike(r"^\d{6}$"), fraction).otherwise("000000")), F.lit("yyyyMMddHHmmssSSSSSS"))


def _code_column(name: str) -> Callable[[], Column]:
    return lambda: F.coalesce(F.trim(F.col(name)), F.lit(""))


def _odp_code() -> Column:
    """ODQ_CHANGEMODE, with a minus sign where ODQ_ENTITYCNTR says that the image is the one before the change."""
    before = F.col("ODQ_ENTITYCNTR").try_cast("int") < 0
    return F.concat(F.coalesce(F.trim(F.col("ODQ_CHANGEMODE")), F.lit("")), F.when(before, "-").otherwise(""))


def _fivetran_code() -> Column:
    return F.lower(F.coalesce(F.trim(F.col("_fivetran_deleted")), F.lit("false")))


def _ordered(text: Column) -> Column:
    """A number or a time as 27 digits: 20 before and 7 after the decimal point, so that text order is their order."""
    trimmed = F.trim(text)
    # Times with separators become digits; a zone offset other than Z is converted by Spark first.
    moment = F.when(trimmed.rlike(r"^\d{4}-\d\d-\d\d"), F.try_to_timestamp(trimmed))
    number = F.when(moment.isNull(), F.when(trimmed.rlike(r"^\d{1,20}([.,]\d{1,7})?$"), trimmed)).otherwise(
        F.date_format(moment, "yyyyMMddHHmmss.SSSSSS")
    )
    whole = F.regexp_extract(number, r"^\d+", 0)
    fraction = F.regexp_extract(number, r"[.,](\d+)$", 1)
    return F.concat(F.lpad(whole, _WHOLE_WIDTH, "0"), F.rpad(fraction, _FRACTION_WIDTH, "0"))


def _file_position() -> Column:
    """Delivery, file and row: where the change was delivered, as text of one width."""
    delivery = F.col("_tech_batch_id")
    padded = F.when(delivery.rlike(r"^\d+$"), F.lpad(delivery, DELIVERY_WIDTH, "0")).otherwise(F.rpad(delivery, DELIVERY_WIDTH, " "))
    file = F.rpad(F.substring_index(F.col("_tech_source_file"), "/", -1), FILE_WIDTH, " ")
    return F.concat(padded, file, F.lpad(F.col("_tech_row_number").cast("string"), _ROW_WIDTH, "0"))


def _delivery_time() -> Column:
    """The time in a delivery id such as `20260401T0600` or `delta/20260401`, as digits; NULL if it holds none."""
    digits = F.regexp_replace(F.col("_tech_batch_id"), "[^0-9]", "")
    return F.when(digits.rlike(r"^(19|2[0-9])\d{6}$|^(19|2[0-9])\d{10}(\d\d)?$"), F.when(F.length(digits) > 8, F.rpad(digits, 14, "0")).otherwise(digits))  # noqa: PLR2004


def _floored(is_initial: Column, seq: Column, width: int) -> Column:
    return F.when(is_initial, F.lit("0" * width)).otherwise(seq)


_POSITION_WIDTH = DELIVERY_WIDTH + FILE_WIDTH + _ROW_WIDTH
_TIMED_WIDTH = _WHOLE_WIDTH + _FRACTION_WIDTH


def _plain_seq(sequence: str | None) -> Column:
    if sequence:
        return _ordered(F.col(sequence))
    return F.concat(F.coalesce(_ordered(_delivery_time()), F.lit("0" * _TIMED_WIDTH)), _file_position())


def _timed_seq(time_column: str, is_initial: Callable[[], Column] | None = None) -> Callable[[str | None], Column]:
    """Time of the change, then where it was delivered; the floor for initial rows."""

    def seq(_sequence: str | None) -> Column:
        timed = F.concat(_ordered(F.col(time_column)), _file_position())
        return _floored(is_initial(), timed, _TIMED_WIDTH + _POSITION_WIDTH) if is_initial else timed

    return seq


def _odp_seq(_sequence: str | None) -> Column:
    """TSN (14+9 digits), unit (10) and record (10)."""
    tsn = F.rpad(F.regexp_replace(F.trim(F.col("ODQ_TSN")), "[^0-9]", ""), 23, "0")
    parts = (F.lpad(F.coalesce(F.trim(F.col(name)), F.lit("0")), 10, "0") for name in ("ODQ_UNITNO", "ODQ_RECORDNO"))
    ordered = F.concat(F.lpad(F.substring(tsn, 1, 14), _WHOLE_WIDTH, "0"), F.substring(tsn, 15, 9), *parts)
    return _floored(_odp_code() == "", ordered, _WHOLE_WIDTH + 9 + 20)


def _qlik_seq(_sequence: str | None) -> Column:
    seq = F.trim(F.col("header__change_seq"))
    digits = F.when(seq.rlike(r"^\d{1,35}$"), F.lpad(seq, _LARGEST_COUNTER, "0"))
    # 14 digits of time come first, then hundredths of a second and a counter.
    ordered = F.concat(F.lpad(F.substring(digits, 1, 14), _WHOLE_WIDTH, "0"), F.substring(digits, 15, _LARGEST_COUNTER))
    return _floored(F.coalesce(seq, F.lit("")) == "", ordered, _WHOLE_WIDTH + _LARGEST_COUNTER - 14)


PLAIN = Profile(
    name="plain",
    operations={"": Operation.UPSERT},
    operation_code=lambda: F.lit(""),
    change_seq=_plain_seq,
)

FIVETRAN = Profile(
    name="fivetran",
    operations={"false": Operation.UPSERT, "true": Operation.DELETE},
    operation_code=_fivetran_code,
    change_seq=_timed_seq("_fivetran_synced"),
    own_columns=("_fivetran_rowid", "_fivetran_deleted", "_fivetran_synced"),
    required_columns=("_fivetran_deleted", "_fivetran_synced"),
)

REPLICATION_FLOW = Profile(
    name="replication_flow",
    operations={
        "L": Operation.INITIAL,
        "I": Operation.UPSERT,
        "U": Operation.UPSERT,
        "A": Operation.UPSERT,
        "B": Operation.BEFORE_IMAGE,
        "X": Operation.DELETE,
        "D": Operation.DELETE,
        "M": Operation.ARCHIVE,
    },
    operation_code=_code_column("__operation_type"),
    change_seq=_timed_seq("__timestamp", lambda: _code_column("__operation_type")() == "L"),
    own_columns=("__operation_type", "__timestamp", "__sequence_number"),
    required_columns=("__operation_type", "__timestamp"),
    markers={"initial": "_SUCCESS"},
)

SLT = Profile(
    name="slt",
    operations={
        "": Operation.INITIAL,
        "I": Operation.UPSERT,
        "U": Operation.UPSERT,
        "D": Operation.DELETE,
        "A": Operation.ARCHIVE,
    },
    operation_code=_code_column("IUUC_OPERATION"),
    change_seq=_timed_seq("IUUC_TIMESTAMP", lambda: _code_column("IUUC_OPERATION")() == ""),
    own_columns=("IUUC_OPERATION", "IUUC_TIMESTAMP"),
    required_columns=("IUUC_OPERATION", "IUUC_TIMESTAMP"),
)

ODP = Profile(
    name="odp",
    operations={
        "": Operation.INITIAL,
        "C": Operation.UPSERT,
        "U": Operation.UPSERT,
        "U-": Operation.BEFORE_IMAGE,
        "D": Operation.DELETE,
        "D-": Operation.DELETE,
    },
    operation_code=_odp_code,
    change_seq=_odp_seq,
    own_columns=("ODQ_CHANGEMODE", "ODQ_ENTITYCNTR", "ODQ_TSN", "ODQ_UNITNO", "ODQ_RECORDNO"),
    required_columns=("ODQ_CHANGEMODE", "ODQ_ENTITYCNTR", "ODQ_TSN"),
)

QLIK = Profile(
    name="qlik",
    operations={
        "": Operation.INITIAL,
        "I": Operation.UPSERT,
        "U": Operation.UPSERT,
        "D": Operation.DELETE,
        "B": Operation.BEFORE_IMAGE,
    },
    operation_code=_code_column("header__change_oper"),
    change_seq=_qlik_seq,
    own_columns=("header__change_oper", "header__change_seq"),
    required_columns=("header__change_oper", "header__change_seq"),
)

PROFILES: dict[str, Profile] = {profile.name: profile for profile in (PLAIN, FIVETRAN, REPLICATION_FLOW, SLT, ODP, QLIK)}
