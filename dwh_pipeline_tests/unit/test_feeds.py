"""feeds.toml: what it may say, and one line for each thing that is wrong with it."""

import tomllib
from pathlib import Path

import pytest

from dwh_pipeline.errors import FeedError
from dwh_pipeline.sap.feeds import Feed, FileFormat, parse_feeds
from dwh_pipeline.sap.fields import KNA1, SAP_TABLES
from dwh_pipeline.sap.profiles import FIVETRAN, PROFILES
from dwh_pipeline.sap.values import Amounts, Decimal, ValueFormat

ROOT = Path(__file__).resolve().parents[2]

ORDERS = """
[feeds.orders]                  # files in <landing>/orders/<delivery id>/
table = "VBAK"
profile = "plain"               # plain | fivetran | replication_flow | qlik | slt | odp
format = "csv"                  # csv | jsonl | parquet
delimiter = ";"
encoding = "utf-8"
decimal = "comma"               # point | comma
date_format = "yyyyMMdd"
amounts = "external"            # internal (shifted by TCURX) | external
sequence = "CHANGEDAT"          # plain only; without it: delivery, file, row
rename = { SALESORDERID = "VBELN", CREATEDAT = "AUDAT", PARTNERID = "KUNNR", CURRENCY = "WAERK" }
constants = { MANDT = "100", VBTYP = "C" }
"""


def feed_of(*lines: str) -> Feed:
    """The one feed of a file with these keys."""
    (feed,) = parse_feeds("\n".join(["[feeds.customers]", *lines]))
    return feed


def test_the_example_of_the_documentation_is_a_feed() -> None:
    assert parse_feeds(ORDERS) == (
        Feed(
            name="orders",
            table="VBAK",
            profile="plain",
            format=FileFormat.CSV,
            delimiter=";",
            encoding="utf-8",
            decimal=Decimal.COMMA,
            date_format="yyyyMMdd",
            amounts=Amounts.EXTERNAL,
            sequence="CHANGEDAT",
            rename={"SALESORDERID": "VBELN", "CREATEDAT": "AUDAT", "PARTNERID": "KUNNR", "CURRENCY": "WAERK"},
            constants={"MANDT": "100", "VBTYP": "C"},
        ),
    )


def test_the_feeds_of_the_demonstration_can_be_read() -> None:
    text = (ROOT / "data" / "landing" / "feeds.toml").read_text(encoding="utf-8")
    assert [feed.name for feed in parse_feeds(text)] == list(tomllib.loads(text)["feeds"])


def test_a_feed_needs_its_table_and_nothing_else() -> None:
    feed = feed_of('table = "KNA1"')
    assert (feed.profile, feed.format, feed.delimiter, feed.encoding) == ("plain", FileFormat.CSV, ",", "utf-8")
    assert feed.value_format == ValueFormat("yyyyMMdd", Decimal.POINT, Amounts.INTERNAL)
    assert (feed.sequence, feed.rename, feed.constants) == (None, {}, {})


def test_a_feed_knows_its_table_its_profile_and_how_its_values_are_written() -> None:
    feed = feed_of(
        'table = "kna1"',
        'profile = "fivetran"',
        'decimal = "comma"',
        'date_format = "dd.MM.yyyy"',
        'amounts = "external"',
    )
    assert feed.sap_table is KNA1
    assert feed.source_profile is FIVETRAN
    assert feed.value_format == ValueFormat("dd.MM.yyyy", Decimal.COMMA, Amounts.EXTERNAL)


def test_names_of_sap_are_upper_case_whatever_the_file_says() -> None:
    feed = feed_of(
        'table = "KNA1"', 'rename = { Customer = "kunnr" }', 'constants = { mandt = "100" }', 'sequence = "changedat"'
    )
    assert (feed.rename, feed.constants, feed.sequence) == ({"Customer": "KUNNR"}, {"MANDT": "100"}, "CHANGEDAT")


@pytest.mark.parametrize(
    ("declared", "name"),
    [
        ("UTF-8", "utf-8"),
        ("utf8", "utf-8"),
        ("latin-1", "iso-8859-1"),
        ("ISO-8859-1", "iso-8859-1"),
        ("ascii", "us-ascii"),
        ("utf-16-le", "utf-16le"),
        ("UTF-16BE", "utf-16be"),
    ],
)
def test_an_encoding_has_the_name_that_spark_gives_it(declared: str, name: str) -> None:
    assert feed_of('table = "KNA1"', f'encoding = "{declared}"').encoding == name


@pytest.mark.parametrize("profile", PROFILES)
def test_every_profile_can_be_declared(profile: str) -> None:
    assert feed_of('table = "KNA1"', f'profile = "{profile}"').source_profile is PROFILES[profile]


@pytest.mark.parametrize("table", SAP_TABLES)
def test_every_table_can_be_declared(table: str) -> None:
    assert feed_of(f'table = "{table}"').sap_table.name == table


@pytest.mark.parametrize(
    ("line", "key", "problem"),
    [
        ("tabel = 'KNA1'", "tabel", "is not a key of a feed"),
        ("table = 'MARA'", "table", "choose one of KNA1, VBAK, VBAP, TCURX"),
        ("table = 5", "table", "valid string"),
        ("profile = 'airbyte'", "profile", "choose one of plain, fivetran, replication_flow"),
        ("format = 'xlsx'", "format", "'csv', 'jsonl' or 'parquet'"),
        ("delimiter = ';;'", "delimiter", "has to be one character"),
        ("delimiter = ''", "delimiter", "has to be one character"),
        ("delimiter = '\"'", "delimiter", "no quote or line break"),
        ('delimiter = "\\n"', "delimiter", "no quote or line break"),
        ("encoding = 'klingon'", "encoding", "'klingon' cannot be read; choose one of utf-8, iso-8859-1"),
        ("encoding = 'cp1252'", "encoding", "'cp1252' cannot be read"),
        ("encoding = 'utf-16'", "encoding", "utf-16le, utf-16be"),
        ("encoding = 'base64'", "encoding", "'base64' cannot be read"),
        ("format = 'jsonl'\nencoding = 'utf-16-le'", "encoding", "choose one of utf-8, iso-8859-1, us-ascii"),
        ("decimal = ','", "decimal", "'point' or 'comma'"),
        ("date_format = 'YYYYMMDD'", "date_format", "choose one of yyyyMMdd, yyyy-MM-dd"),
        ("amounts = 'shifted'", "amounts", "'internal' or 'external'"),
        ("sequence = 7", "sequence", "valid string"),
        ("profile = 'qlik'\nsequence = 'X'", "sequence", "the profile qlik orders changes by its own columns"),
        ("rename = 'VBELN'", "rename", "valid dictionary"),
        ("rename = { A = 1 }", "rename.A", "valid string"),
        ("rename = { A = 'X', a = 'Y' }", "rename", "names A twice"),
        ("constants = { MANDT = 100 }", "constants.MANDT", "valid string"),
        ("constants = { MANDT = '100', mandt = '200' }", "constants", "names MANDT twice"),
        ("max_files_per_trigger = 0", "max_files_per_trigger", "greater than 0"),
        ("max_files_per_trigger = 'all'", "max_files_per_trigger", "valid integer"),
        ("name = 'orders'", "name", "the section is named after the folder"),
    ],
)
def test_a_wrong_key_is_named_with_its_feed_and_what_it_may_be(line: str, key: str, problem: str) -> None:
    table = "" if line.startswith("table") else "table = 'KNA1'"
    with pytest.raises(FeedError) as raised:
        feed_of(table, line)
    assert (raised.value.feed, raised.value.key) == ("customers", key)
    assert problem in raised.value.problem
    assert str(raised.value) == f"feeds.toml, [feeds.customers] {key}: {raised.value.problem}"


def test_a_feed_without_a_table_is_an_error() -> None:
    with pytest.raises(FeedError) as raised:
        feed_of('profile = "plain"')
    assert (raised.value.feed, raised.value.key) == ("customers", "table")


@pytest.mark.parametrize("name", ["a/b", "..", "_staging", ".hidden", "a\\\\b", "c:", ""])
def test_a_feed_is_named_like_a_folder(name: str) -> None:
    with pytest.raises(FeedError) as raised:
        parse_feeds(f'[feeds."{name}"]\ntable = "KNA1"')
    assert raised.value.key == "name"


def test_two_feeds_of_one_table_are_an_error_of_the_second() -> None:
    with pytest.raises(FeedError, match="KNA1 is already delivered by the feed eu") as raised:
        parse_feeds('[feeds.eu]\ntable = "KNA1"\n[feeds.us]\ntable = "kna1"')
    assert (raised.value.feed, raised.value.key) == ("us", "table")


@pytest.mark.parametrize(
    ("text", "feed", "key", "problem"),
    [
        ("", "*", "feeds", "no feed is declared"),
        ("feeds = 5", "*", "feeds", "no feed is declared"),
        ("[feeds]", "*", "feeds", "no feed is declared"),
        ("[feeds]\norders = 'VBAK'", "orders", "section", "has to be a table of keys"),
        ("[feed.orders]\ntable = 'VBAK'", "*", "feed", "is not known here"),
        ("[feeds.orders]\ntable = 'VBAK'\n[defaults]", "*", "defaults", "is not known here"),
        ("[feeds.orders\n", "*", "syntax", "the file is no TOML"),
        ("[feeds.a]\ntable = 'VBAK'\n[feeds.a]\ntable = 'VBAP'", "*", "syntax", "the file is no TOML"),
    ],
)
def test_a_file_without_feeds_is_an_error(text: str, feed: str, key: str, problem: str) -> None:
    with pytest.raises(FeedError) as raised:
        parse_feeds(text)
    assert (raised.value.feed, raised.value.key) == (feed, key)
    assert problem in raised.value.problem


def test_feeds_keep_the_order_of_the_file() -> None:
    feeds = parse_feeds('[feeds.z]\ntable = "KNA1"\n[feeds.a]\ntable = "VBAK"')
    assert [feed.name for feed in feeds] == ["z", "a"]
