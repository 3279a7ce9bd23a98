"""SAP field values as Spark columns: what a text means, or the reason why it cannot be read.

Nothing that is not blank ever becomes NULL without a reason beside it. Fields and their kinds are declared in
`fields`; shifting amounts by the decimals of their currency is done in `currency`, once.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum

from pyspark.sql import Column
from pyspark.sql import functions as F

from dwh_pipeline.sap.currency import MOST_DECIMALS
from dwh_pipeline.sap.fields import Kind, SapField

TIME_PATTERN = "yyyyMMddHHmmss.SSSSSS"  # without the point Spark reads no time at all

# Wide enough to hold every SAP number as delivered; what does not survive the cast to the field's own type is reported.
_WIDE = "DECIMAL(38,12)"

_MATERIAL_PAD = 18  # numeric material numbers are padded to 18 digits even in the 40 character field (SAP note 2215424)

# Patterns end in \z: in Java `$` would let a line break through behind the last character.
_DIGITS = r"^\d+\z"
_TIME = r"^(([01]\d|2[0-3]):?[0-5]\d:?[0-5]\d|24:?00:?00)\z"  # 240000 is the end of the day
_TIMESTAMP = r"^(?!0000)\d{14}([.,]\d{0,7})?\z"
_ISO_TIMESTAMP = r"^(?!0000)\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d{1,6})?Z?\z"
_ZERO_TIMESTAMP = r"^0+([.,]0*)?\z"
# Digits behind the 12th decimal would be rounded away without a word, so they have to be zeros.
_UNSIGNED = {
    "point": r"\d+(\.\d{0,12}0*)?|\.\d{1,12}0*",
    "comma": r"(\d+|[1-9]\d{0,2}(\.\d{3})+)(,\d{0,12}0*)?|,\d{1,12}0*",
}
_ZERO = {"point": r"^0+(\.0*)?\z", "comma": r"^0+(,0*)?\z"}


class Decimal(StrEnum):
    """The decimal mark of a feed. With the comma, points may group thousands; with the point, nothing groups."""

    POINT = "point"
    COMMA = "comma"


class Amounts(StrEnum):
    """Whether amounts are as SAP stores them (two decimals whatever the currency) or already as people write them."""

    INTERNAL = "internal"
    EXTERNAL = "external"


@dataclass(frozen=True, slots=True)
class ValueFormat:
    """How the texts of one feed are written. `date_format` is a Spark datetime pattern, for example `yyyyMMdd`."""

    date_format: str = "yyyyMMdd"
    decimal: Decimal = Decimal.POINT
    amounts: Amounts = Amounts.INTERNAL


@dataclass(frozen=True, slots=True)
class _Reader:
    """How texts of one kind become values.

    `value` gives NULL for a text it cannot read, and `complaint` says what that text is not. `initial` is a pattern of
    texts that mean "none": they are NULL without a complaint.
    """

    value: Callable[[Column], Column]
    complaint: str | None = None
    initial: str | None = None


def text(field: SapField, delivered: Column) -> Column:
    """A delivered text: trailing blanks mean nothing; blank, empty and missing are all NULL.

    What is not free text loses leading blanks too.
    """
    trimmed = F.rtrim(delivered) if field.kind is Kind.TEXT else F.trim(delivered)
    return F.nullif(trimmed, F.lit(""))


def value(field: SapField, delivered: Column, value_format: ValueFormat) -> Column:
    """A text (`text`) as a value of `field.type`; NULL where there is none or it cannot be read.

    Rules per kind after the ABAP keyword documentation (date, time and numeric fields) and the conversion exits ALPHA
    and MATN1.
    """
    return _READERS[field.kind](field, value_format).value(delivered).cast(field.type)


def reason(field: SapField, delivered: Column, read: Column, value_format: ValueFormat) -> Column | None:
    """Why a text could not be read (STRING), NULL where it could; None for kinds that take any text.

    `read` is the `value` of the same text. The reason speaks of the field as the delivered file does.
    """
    reader = _READERS[field.kind](field, value_format)
    if reader.complaint is None:
        return None
    failed = read.isNull() & delivered.isNotNull()
    failed = failed & ~delivered.rlike(reader.initial) if reader.initial else failed
    return F.when(failed, F.concat(F.lit(f"{field.name} {reader.complaint}: "), delivered))


def _padded(length: int, longest: int) -> Callable[[Column], Column]:
    """Digits padded with zeros to `length`, other texts as they are; NULL beyond `longest` characters, never cut."""

    def read(delivered: Column) -> Column:
        padded = F.when(delivered.rlike(_DIGITS) & (F.length(delivered) < length), F.lpad(delivered, length, "0"))
        return F.when(F.length(delivered) <= longest, F.coalesce(padded, delivered))

    return read


def _digits(length: int, *, key: bool) -> Callable[[Column], Column]:
    """NUMC: exactly `length` digits, surplus leading zeros dropped. All zeros mean none, except in a key."""
    pattern = rf"^0*\d{{1,{length}}}\z" if key else rf"^0*[1-9]\d{{0,{length - 1}}}\z"
    return lambda delivered: F.when(delivered.rlike(pattern), F.lpad(F.ltrim(delivered, F.lit("0")), length, "0"))


def _date(date_format: str) -> Callable[[Column], Column]:
    """DATS: exactly as many digits as the format has letters, so no sign and no fifth digit of a year; years from 1."""

    def read(delivered: Column) -> Column:
        parsed = F.try_to_timestamp(delivered, F.lit(date_format)).cast("date")
        shaped = delivered.rlike(rf"^{_filled(date_format, '[0-9]')}\z")
        return F.when(shaped & (parsed >= F.lit("0001-01-01").cast("date")), parsed)

    return read


def _filled(date_format: str, digit: str) -> str:
    """A regular expression: the date format with every letter replaced."""
    return re.sub("[yMd]", digit, re.escape(date_format))


def _timestamp(delivered: Column) -> Column:
    """TIMESTAMPL (UTC, `yyyyMMddHHmmss.fffffff`, or as ISO 8601 has it) to the microsecond."""
    micros = F.rpad(F.substring(delivered, 16, 6), 6, "0")
    read = F.try_to_timestamp(F.concat(F.substring(delivered, 1, 14), F.lit("."), micros), F.lit(TIME_PATTERN))
    return F.when(delivered.rlike(_TIMESTAMP), read).when(
        delivered.rlike(_ISO_TIMESTAMP), F.try_to_timestamp(delivered)
    )


def _number(type_: str, decimal: Decimal) -> Callable[[Column], Column]:
    """CURR, QUAN, DEC: sign before or after, one declared decimal mark; NULL if the type cannot hold every digit."""
    unsigned = _UNSIGNED[decimal]

    def read(delivered: Column) -> Column:
        plain = delivered if decimal is Decimal.POINT else F.translate(delivered, ",.", ".")
        signed = F.regexp_replace(plain, r"^(.*)-\z", "-$1")
        wide = F.when(delivered.rlike(rf"^([+-]?({unsigned})|({unsigned})-)\z"), signed.try_cast(_WIDE))
        narrow = wide.try_cast(type_)
        return F.when(narrow == wide, narrow)

    return read


def _client(_field: SapField, _value_format: ValueFormat) -> _Reader:
    return _Reader(
        lambda delivered: F.when(delivered.rlike(r"^\d{1,3}\z"), F.lpad(delivered, 3, "0")),
        "is no client of three digits",
    )


def _alpha(field: SapField, _value_format: ValueFormat) -> _Reader:
    return _Reader(_padded(field.length, field.length), f"is longer than {field.length} characters")


def _material(field: SapField, _value_format: ValueFormat) -> _Reader:
    return _Reader(_padded(_MATERIAL_PAD, field.length), f"is longer than {field.length} characters")


def _numc(field: SapField, _value_format: ValueFormat) -> _Reader:
    initial = None if field.key else r"^0+\z"
    return _Reader(_digits(field.length, key=field.key), f"is not {field.length} digits", initial)


def _dats(_field: SapField, value_format: ValueFormat) -> _Reader:
    initial = rf"^(0+|{_filled(value_format.date_format, '0')})\z"
    return _Reader(_date(value_format.date_format), f"is no date {value_format.date_format}", initial)


def _decimal(field: SapField, value_format: ValueFormat) -> _Reader:
    return _Reader(
        _number(field.type, value_format.decimal), f"is no {field.type} with a decimal {value_format.decimal}"
    )


def _amount(field: SapField, value_format: ValueFormat) -> _Reader:
    """CURR. An amount that is still to be shifted leaves room for two more digits, so that no shift can overflow."""
    if value_format.amounts is Amounts.EXTERNAL:
        return _decimal(field, value_format)
    return _decimal(replace(field, type=f"DECIMAL({field.length + 3},5)"), value_format)


def _count(field: SapField, value_format: ValueFormat) -> _Reader:
    """Zero means not maintained."""
    number = _decimal(field, value_format)
    return replace(
        number,
        value=lambda delivered: F.nullif(number.value(delivered), F.lit(0)),
        initial=_ZERO[value_format.decimal],
    )


def _price_unit(field: SapField, value_format: ValueFormat) -> _Reader:
    """KPEIN. A price is per this many units; zero and blank mean one."""
    number = _decimal(field, value_format)

    def read(delivered: Column) -> Column:
        units = number.value(F.coalesce(delivered, F.lit("1")))
        return F.when(units == 0, F.lit(1)).when(units > 0, units)

    return _Reader(read, f"{number.complaint}, or is negative")


def _currency_decimals(field: SapField, value_format: ValueFormat) -> _Reader:
    """CURRDEC. Blank is 0, as record compression drops zeros."""
    number = _number(field.type, value_format.decimal)

    def read(delivered: Column) -> Column:
        decimals = number(F.coalesce(delivered, F.lit("0")))
        return F.when(decimals.between(0, MOST_DECIMALS), decimals)

    return _Reader(read, f"is not one of 0 to {MOST_DECIMALS}")


def _flag(_field: SapField, _value_format: ValueFormat) -> _Reader:
    return _Reader(
        lambda delivered: F.when(F.coalesce(delivered, F.lit("X")) == "X", delivered.isNotNull()),
        "is neither X nor blank",
    )


_READERS: dict[Kind, Callable[[SapField, ValueFormat], _Reader]] = {
    Kind.CLIENT: _client,
    Kind.TEXT: lambda _field, _value_format: _Reader(lambda delivered: delivered),
    Kind.ALPHA: _alpha,
    Kind.MATERIAL: _material,
    Kind.DIGITS: _numc,
    Kind.DATE: _dats,
    Kind.TIME: lambda _field, _value_format: _Reader(
        lambda delivered: F.when(delivered.rlike(_TIME), F.translate(delivered, ":", "")), "is no time HHMMSS"
    ),
    Kind.TIMESTAMP: lambda _field, _value_format: _Reader(_timestamp, "is no UTC time stamp", _ZERO_TIMESTAMP),
    Kind.AMOUNT: _amount,
    Kind.QUANTITY: _decimal,
    Kind.RATE: _decimal,
    Kind.COUNT: _count,
    Kind.PRICE_UNIT: _price_unit,
    Kind.CURRENCY_DECIMALS: _currency_decimals,
    Kind.FLAG: _flag,
    Kind.CURRENCY: lambda _field, _value_format: _Reader(F.upper),
}
