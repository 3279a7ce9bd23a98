"""Source profiles: how each replication tool tells an operation and the order of changes.

A profile turns what a tool delivers into the two technical columns that every load relies on: `change_op` (a letter of
`Operation`) and `change_seq`. To add a tool, add a profile and its test. Which table and fields a feed has belongs to
`feeds`.

`change_seq` is text of one width per profile, so that text order is change order. Parts that come from the file
(delivery, file name, row number) are facts that never change, so the same file gives the same value again. Initial
loads have the floor: all zeros. A value that cannot be ordered gives NULL, and the row is quarantined by silver.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from pyspark.sql import Column
from pyspark.sql import functions as F

from dwh_pipeline.sap.operations import Operation
from dwh_pipeline.sap.values import TIME_PATTERN

DELIVERY_WIDTH = 40
FILE_WIDTH = 80
_ROW_WIDTH = 10
_WHOLE_WIDTH = 20  # digits before the decimal point of a sequence; a UTC time stamp has 14
_FRACTION_WIDTH = 9  # nanoseconds; TIMESTAMPL has 7 digits and the TSN 9
_QLIK_WIDTH = 35  # digits of header__change_seq
_TSN_WIDTH = 23  # DEC(23,9): a time and a fraction
_ODP_NUMBER_WIDTH = 10
_TIME_WIDTH = 14  # yyyyMMddHHmmss

# The year keeps counters of eight or fourteen digits from being read as a time.
_DATE_DIGITS = r"(?:19|2\d)\d{6}"
_TIME_DIGITS = r"(?:19|2\d)\d{12}"
# A date in a delivery id, as 20260401 or 2026-04-01, and the time right behind it, as T0600, T06-00-00 or 0600.
_DELIVERED_DATE = r"(?:^|\D)((?:19|2\d)\d\d)-?(\d\d)-?(\d\d)"
_DELIVERED_TIME = r"(?:T(\d\d)[-_.]?(\d\d)?[-_.]?(\d\d)?|(\d\d)(\d\d)(\d\d)?)?(?!\d)"


# What SAP's own values look like in text files: the keys of a feed, as feeds.toml would have them.
_SAP_TEXT: Mapping[str, str] = {
    "format": "csv",
    "delimiter": ",",
    "encoding": "utf-8",
    "decimal": "point",
    "date_format": "yyyyMMdd",
    "amounts": "internal",
}


@dataclass(frozen=True, slots=True)
class DeclaredOrder:
    """What a feed says of its order: the column that has it, and whether its numbers start again in each delivery."""

    sequence: str | None = None
    restarts: bool = False


@dataclass(frozen=True, slots=True)
class Profile:
    """How one replication tool delivers changes.

    `operation_code` gives the delivered code (STRING, blank as ''); `operations` maps it to an operation, before-images
    among them, and a code that is not in the map stops the feed. `change_seq` takes the order that the feed declares,
    which only a profile that `takes_sequence` heeds. `order_is_in_rows`: no part of its own `change_seq` comes from the
    file. `formats` are the keys of a feed that does not say otherwise.
    `own_columns` are delivered columns that belong to the tool, not to SAP; those in `required_columns` have to be in
    every file, those in `optional_columns` are blank in a file that lacks them. `markers` names folders of a feed that
    count only once the marker file lies in them.
    """

    name: str
    operations: Mapping[str, Operation]
    operation_code: Callable[[], Column]
    change_seq: Callable[[DeclaredOrder], Column]
    takes_sequence: bool = False
    order_is_in_rows: bool = False
    formats: Mapping[str, str] = field(default_factory=lambda: _SAP_TEXT)
    own_columns: tuple[str, ...] = ()
    required_columns: tuple[str, ...] = ()
    optional_columns: tuple[str, ...] = ()
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
    digits = F.ltrim(F.substring(change_seq, 1, _WHOLE_WIDTH), F.lit("0"))
    micros = F.substring(change_seq, _WHOLE_WIDTH + 1, 6)
    second = F.when(digits.rlike(rf"^{_TIME_DIGITS}\z"), digits).when(
        digits.rlike(rf"^{_DATE_DIGITS}\z"), F.rpad(digits, _TIME_WIDTH, "0")
    )
    return F.try_to_timestamp(F.concat(second, F.lit("."), micros), F.lit(TIME_PATTERN))


def own_order(change_seq: Column) -> Column:
    """What the source itself says of the order: `change_seq` without the place in the file, where that is a part.

    If it tells no time, the deliveries are the order.
    """
    time = F.substring(change_seq, 1, _TIMED_WIDTH)
    own = F.when(time == "0" * _TIMED_WIDTH, F.substring(change_seq, 1, _TIMED_WIDTH + DELIVERY_WIDTH)).otherwise(time)
    return F.when(F.length(change_seq) == _TIMED_WIDTH + _POSITION_WIDTH, own).otherwise(change_seq)


def delivery_time(delivery: str) -> str:
    """The time in a delivery id such as `20260401T0600`, as 14 digits; '' if it holds none."""
    found = re.search(_DELIVERED_DATE + _DELIVERED_TIME, delivery)
    return "".join(part or "" for part in found.groups()).ljust(_TIME_WIDTH, "0") if found else ""


def snapshot_position(delivery: str, newest: str, order: DeclaredOrder | None, taken_at: str | None) -> str:
    """The position of a full snapshot among the changes: what it lacks was deleted by then.

    `newest` is the highest `change_seq` of its rows, `order` what the feed declares, None for a profile that has an
    order of its own. A feed that is ordered by deliveries has the position of the delivery. Any other has `taken_at`, a
    value as its order column has it (digits), or else the time in the delivery id, as a date where the rows have dates.

    Raises:
        ValueError: the snapshot does not tell when it was taken, or holds a change that is newer.
    """
    if order is not None and (order.restarts or not order.sequence):
        return newest[: _TIMED_WIDTH + DELIVERY_WIDTH].ljust(len(newest), "0")
    found = newest[:_WHOLE_WIDTH].lstrip("0")
    in_name = delivery_time(delivery)
    if taken_at is None and in_name and len(found) in (0, len("yyyyMMdd"), _TIME_WIDTH):
        taken_at = in_name[: len(found) or _TIME_WIDTH]
    if taken_at is None:
        raise ValueError("does not tell when the snapshot was taken; add taken_at, a value as its order column has it")
    position = taken_at.zfill(_WHOLE_WIDTH).ljust(len(newest), "0")
    if newest[:_WHOLE_WIDTH] > position[:_WHOLE_WIDTH]:
        raise ValueError(f"was taken at {taken_at} but holds a change of {found}; correct taken_at")
    return position


def _blank_as_empty(name: str) -> Column:
    return F.coalesce(F.trim(F.col(f"`{name}`")), F.lit(""))


def _code_column(name: str) -> Callable[[], Column]:
    return lambda: _blank_as_empty(name)


def _odp_code() -> Column:
    """ODQ_CHANGEMODE, with a minus sign where ODQ_ENTITYCNTR says that the image is the one before the change."""
    before = _blank_as_empty("ODQ_ENTITYCNTR").rlike("^-|-$")  # -1, or 1- as ABAP writes it
    return F.concat(_blank_as_empty("ODQ_CHANGEMODE"), F.when(before, "-").otherwise(""))


def _fivetran_code() -> Column:
    deleted = F.lower(_blank_as_empty("_fivetran_deleted"))
    return F.when(deleted == "", "false").otherwise(deleted)


def _ordered(text: Column) -> Column:
    """A number or a time as 29 digits: 20 before and 9 after the decimal point, so that text order is their order.

    An ISO date or time becomes the number that SAP writes for it: `yyyyMMdd`, or `yyyyMMddHHmmss` in UTC and a
    fraction.
    """
    trimmed = F.trim(text)
    is_time = trimmed.rlike(r"^\d{4}-\d\d-\d\d[T ]")
    is_date = trimmed.rlike(r"^\d{4}-\d\d-\d\d\z")
    # Spark reads the zone, and drops what is less than a microsecond: so the fraction is taken from the text.
    moment = F.try_to_timestamp(F.when(is_time | is_date, trimmed))
    number = F.when(trimmed.rlike(rf"^\d{{1,{_WHOLE_WIDTH}}}([.,]\d{{1,{_FRACTION_WIDTH}}})?\z"), trimmed)
    whole = (
        F.when(is_date, F.date_format(moment, "yyyyMMdd"))
        .when(is_time, F.date_format(moment, "yyyyMMddHHmmss"))
        .otherwise(F.regexp_extract(number, r"^\d+", 0))
    )
    fraction = F.regexp_extract(F.coalesce(number, trimmed), r"^.*?[.,](\d+)", 1)
    return F.concat(F.lpad(whole, _WHOLE_WIDTH, "0"), F.rpad(fraction, _FRACTION_WIDTH, "0"))


def _file_position() -> Column:
    """Delivery, file and row: where the change was delivered, as text of one width."""
    file = F.rpad(F.substring_index(F.col("_tech_source_file"), "/", -1), FILE_WIDTH, " ")
    return F.concat(_delivery(), file, F.lpad(F.col("_tech_row_number").cast("string"), _ROW_WIDTH, "0"))


def _delivery() -> Column:
    """The delivery id as text of one width; numbers in their order."""
    delivery = F.col("_tech_batch_id")
    return F.when(delivery.rlike(r"^\d+\z"), F.lpad(delivery, DELIVERY_WIDTH, "0")).otherwise(
        F.rpad(delivery, DELIVERY_WIDTH, " ")
    )


def _delivery_time() -> Column:
    """The time in a delivery id such as `20260401T0600` or `delta/20260401`, as 29 digits; zeros if it holds none.

    What follows the date and is no time, as in `20260401-2`, leaves it a date.
    """
    delivery = F.col("_tech_batch_id")
    parts = F.concat(*(F.regexp_extract(delivery, _DELIVERED_DATE + _DELIVERED_TIME, group) for group in range(1, 10)))
    time = F.when(parts == "", parts).otherwise(F.rpad(parts, _TIME_WIDTH, "0"))
    return F.concat(F.lpad(time, _WHOLE_WIDTH, "0"), F.lit("0" * _FRACTION_WIDTH))


def _floored(is_initial: Column, seq: Column, width: int) -> Column:
    return F.when(is_initial, F.lit("0" * width)).otherwise(seq)


_POSITION_WIDTH = DELIVERY_WIDTH + FILE_WIDTH + _ROW_WIDTH
_TIMED_WIDTH = _WHOLE_WIDTH + _FRACTION_WIDTH


def _plain_seq(order: DeclaredOrder) -> Column:
    """The declared sequence, behind the delivery if its numbers start again there; else where it was delivered."""
    if not order.sequence:
        return F.concat(_delivery_time(), _file_position())
    number = _ordered(F.col(f"`{order.sequence}`"))
    return F.concat(_delivery_time(), _delivery(), number) if order.restarts else number


def _timed_seq(time_column: str, is_initial: Callable[[], Column] | None = None) -> Callable[[DeclaredOrder], Column]:
    """Time of the change, then where it was delivered; the floor for initial rows."""

    def seq(_order: DeclaredOrder) -> Column:
        timed = F.concat(_ordered(F.col(time_column)), _file_position())
        return _floored(is_initial(), timed, _TIMED_WIDTH + _POSITION_WIDTH) if is_initial else timed

    return seq


def _odp_seq(_order: DeclaredOrder) -> Column:
    """TSN (14 and 9 digits), unit (10) and record (10); the floor for a full load."""
    tsn = F.regexp_replace(_blank_as_empty("ODQ_TSN"), r"^(\d{14})\D?(\d{0,9})\z", "$1$2")
    digits = F.when(tsn.rlike(r"^\d{14,23}\z"), F.rpad(tsn, _TSN_WIDTH, "0"))
    time, counter = F.substring(digits, 1, _TIME_WIDTH), F.substring(digits, _TIME_WIDTH + 1, _TSN_WIDTH - _TIME_WIDTH)
    ordered = F.concat(F.lpad(time, _WHOLE_WIDTH, "0"), counter, _odp_number("ODQ_UNITNO"), _odp_number("ODQ_RECORDNO"))
    return _floored(_odp_code() == "", ordered, _WHOLE_WIDTH + _TSN_WIDTH - _TIME_WIDTH + 2 * _ODP_NUMBER_WIDTH)


def _odp_number(name: str) -> Column:
    number = _blank_as_empty(name)
    return F.when(number.rlike(rf"^\d{{0,{_ODP_NUMBER_WIDTH}}}\z"), F.lpad(number, _ODP_NUMBER_WIDTH, "0"))


def _qlik_seq(_order: DeclaredOrder) -> Column:
    """35 digits, of which 14 are a time; the floor for a full load. Any other change without a number has no order."""
    seq = _blank_as_empty("header__change_seq")
    digits = F.when(seq.rlike(rf"^\d{{1,{_QLIK_WIDTH}}}\z"), F.lpad(seq, _QLIK_WIDTH, "0"))
    # Behind the time come hundredths of a second and a counter.
    time, counter = F.substring(digits, 1, _TIME_WIDTH), F.substring(digits, _TIME_WIDTH + 1, _QLIK_WIDTH - _TIME_WIDTH)
    is_initial = (seq == "") & _blank_as_empty("header__change_oper").isin("", "I")
    ordered = F.concat(F.lpad(time, _WHOLE_WIDTH, "0"), counter)
    return _floored(is_initial, ordered, _WHOLE_WIDTH + _QLIK_WIDTH - _TIME_WIDTH)


PLAIN = Profile(
    name="plain",
    operations={"": Operation.UPSERT},
    operation_code=lambda: F.lit(""),
    change_seq=_plain_seq,
    takes_sequence=True,
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
    order_is_in_rows=True,
    own_columns=("ODQ_CHANGEMODE", "ODQ_ENTITYCNTR", "ODQ_TSN", "ODQ_UNITNO", "ODQ_RECORDNO"),
    required_columns=("ODQ_CHANGEMODE", "ODQ_ENTITYCNTR", "ODQ_TSN"),
    optional_columns=("ODQ_UNITNO", "ODQ_RECORDNO"),
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
    order_is_in_rows=True,
    own_columns=("header__change_oper", "header__change_seq"),
    required_columns=("header__change_oper", "header__change_seq"),
)

RECORDMODE = Profile(
    name="recordmode",
    # Of classic extractors. A is additive: a table of states cannot add, so it is not here and stops the feed.
    operations={
        "": Operation.UPSERT,
        "N": Operation.UPSERT,
        "X": Operation.BEFORE_IMAGE,
        "D": Operation.DELETE,
        "R": Operation.DELETE,
    },
    operation_code=_code_column("0RECORDMODE"),
    change_seq=_plain_seq,
    takes_sequence=True,
    own_columns=("0RECORDMODE",),
    required_columns=("0RECORDMODE",),
)

PROFILES: dict[str, Profile] = {
    profile.name: profile for profile in (PLAIN, FIVETRAN, REPLICATION_FLOW, SLT, ODP, QLIK, RECORDMODE)
}
