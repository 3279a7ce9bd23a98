"""Files as replication tools leave them: which of them count, and their rows as text by column name."""

import gzip
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from dwh_pipeline.errors import DeliveryError, FeedError, LandingError
from dwh_pipeline.lake.landing import complete_files, read_feeds, read_files
from dwh_pipeline.sap.feeds import Feed
from dwh_pipeline.tables import bronze

LOCATION = (
    "_tech_batch_id",
    "_tech_source_file",
    "_tech_row_number",
    "_tech_source_columns",
    "_tech_source_size",
    "_corrupt_record",
)


def feed_of(**keys: object) -> Feed:
    """A feed named `feed` of the table with the shortest key, unless the keys say otherwise."""
    return Feed.model_validate({"name": "feed", "table": "TCURX", "delimiter": ";", **keys})


def put(landing: Path, files: Mapping[str, str | bytes]) -> Path:
    """Write the files, whose names are relative to the folder of the feed."""
    (landing / "feed").mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        path = landing / "feed" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return landing


def rows_of(spark: SparkSession, landing: Path, feed: Feed) -> list[dict[str, object]]:
    """The rows of all complete files, by file and position."""
    rows = [row.asDict() for row in read_files(spark, landing, feed, complete_files(landing, feed)).collect()]
    return sorted(rows, key=lambda row: (row["_tech_source_file"], row["_tech_row_number"]))


def values_of(spark: SparkSession, landing: Path, feed: Feed) -> list[dict[str, object]]:
    """The delivered values of `rows_of`, of rows that could be split."""
    rows = rows_of(spark, landing, feed)
    assert [row["_corrupt_record"] for row in rows if row["_corrupt_record"] is not None] == []
    return [{name: value for name, value in row.items() if name not in LOCATION} for row in rows]


# --- which files count


def test_files_that_are_not_data_or_not_ready_are_left_out(tmp_path: Path) -> None:
    header = "CURRKEY;CURRDEC\n"
    landing = put(
        tmp_path,
        {
            "0002/part-1.csv": header,
            "0001/part-2.csv": header,
            "0001/part-1.CSV": header,
            "0001/part-3.csv.gz": gzip.compress(header.encode()),
            "0001/notes.txt": header,
            "0001/part-4.csv.tmp": header,
            "0001/part-5.csv.crdownload": header,
            "0001/_SUCCESS": "",
            "0001/_part-6.csv": header,
            "0001/.part-7.csv": header,
            "0001/.sap.partfile.metadata": header,
            "0001/part-8.jsonl": "{}",
            "_temporary/0/part-9.csv": header,
            ".staging/part-10.csv": header,
            "delta/20260401/_committed/part-11.csv": header,
            "delta/20260401/part-12.csv": header,
            "folder.csv/README.md": "",
        },
    )
    found = complete_files(landing, feed_of())
    assert [(file.relative, file.delivery) for file in found] == [
        ("feed/0001/notes.txt", "0001"),
        ("feed/0001/part-1.CSV", "0001"),
        ("feed/0001/part-2.csv", "0001"),
        ("feed/0001/part-3.csv.gz", "0001"),
        ("feed/0002/part-1.csv", "0002"),
        ("feed/delta/20260401/part-12.csv", "delta/20260401"),
    ]
    assert all(file.path == landing / file.relative for file in found)


def test_an_initial_load_counts_once_its_marker_is_there(tmp_path: Path) -> None:
    files = {"initial/part-1.csv": "x", "initial/sub/part-2.csv": "x", "delta/20260401/part-1.csv": "x"}
    landing, feed = put(tmp_path, files), feed_of(profile="replication_flow")
    put(landing, {"initial/sub/_SUCCESS": ""})
    assert [file.delivery for file in complete_files(landing, feed)] == ["delta/20260401"]
    assert len(complete_files(landing, feed_of())) == 3
    put(landing, {"initial/_SUCCESS": ""})
    assert [file.delivery for file in complete_files(landing, feed)] == ["delta/20260401", "initial", "initial/sub"]


def test_no_file_is_no_error_but_no_folder_is(tmp_path: Path) -> None:
    assert complete_files(put(tmp_path, {}), feed_of()) == ()
    with pytest.raises(LandingError, match="make the folder of the feed elsewhere"):
        complete_files(tmp_path, feed_of(name="elsewhere"))


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("part-1.csv", "lies outside of a delivery"),
        (f"0001/{'x' * 77}.csv", "cannot be put in order"),
        (f"{'0' * 41}/part-1.csv", "cannot be put in order"),
        ("0001/part:1.csv", "has : in its name"),
        ("2026-04-01T06:00/part-1.csv", "has : in its name"),
        ("0001/part\\1.csv", "in its name, which Spark cannot read"),
        ("delta/[1]/part-1.csv", r"has \[ \] in its name"),
        ("{1}/part-1.csv", "has { } in its name"),
    ],
)
def test_a_file_that_can_have_no_place_is_refused(tmp_path: Path, name: str, problem: str) -> None:
    landing = put(tmp_path, {name: "CURRKEY\nEUR\n"})
    with pytest.raises(DeliveryError, match=problem) as raised:
        complete_files(landing, feed_of())
    assert raised.value.file == f"feed/{name}"


def test_feeds_are_declared_beside_their_folders(tmp_path: Path) -> None:
    (tmp_path / "feeds.toml").write_bytes("\N{ZERO WIDTH NO-BREAK SPACE}[feeds.feed]\ntable = 'KNA1'".encode())
    assert [feed.table for feed in read_feeds(tmp_path)] == ["KNA1"]
    (tmp_path / "feeds.toml").write_bytes("# für Kunden".encode("latin-1"))
    with pytest.raises(LandingError, match="is no UTF-8"):
        read_feeds(tmp_path)
    with pytest.raises(LandingError, match="is missing; set DWH_LANDING"):
        read_feeds(tmp_path / "nowhere")


# --- CSV


def test_columns_are_matched_by_name_and_never_by_position(spark: SparkSession, tmp_path: Path) -> None:
    landing = put(
        tmp_path,
        {
            "0001/a.csv": "CURRKEY;CURRDEC;TEXT\nJPY;0;Yen\n",
            "0001/b.csv": "TEXT;CURRDEC;CURRKEY\nDinar;3;KWD\n",
            "0001/c.csv": "currdec;CurrKey\n0;CLP\n",
            "0002/a.csv": '"CURRKEY";"/VSO/R_X";"CURRDEC"\n"TND";"x";"3"\n',
        },
    )
    assert values_of(spark, landing, feed_of()) == [
        {"CURRKEY": "JPY", "CURRDEC": "0", "TEXT": "Yen", "/VSO/R_X": None},
        {"CURRKEY": "KWD", "CURRDEC": "3", "TEXT": "Dinar", "/VSO/R_X": None},
        {"CURRKEY": "CLP", "CURRDEC": "0", "TEXT": None, "/VSO/R_X": None},
        {"CURRKEY": "TND", "CURRDEC": "3", "TEXT": None, "/VSO/R_X": "x"},
    ]


def test_p07_texts_are_as_they_were_written(spark: SparkSession, tmp_path: Path) -> None:
    written = [
        ("0000010001", "Acme\nGmbH", "Bonn"),
        ("0000010002", 'Acme "Nord"; GmbH', "Ulm"),
        ("0000010003", "Werk \\", "Ulm"),
        ("0000010004", "Müller ß € 漢", " Köln "),
        ("0000010005", '"', "#"),
        ("0000010006", "'it''s'", "NULL"),
        ("0000010007", "\\N", "a\tb"),
        ("0000010008", "x" * 70_000, "-"),
    ]

    def quoted(text: str) -> str:
        return '"' + text.replace('"', '""') + '"'

    lines = ["KUNNR;NAME1;ORT01", *(f"{key};{quoted(name)};{city}" for key, name, city in written)]
    mark = "\N{ZERO WIDTH NO-BREAK SPACE}"
    landing = put(
        tmp_path,
        {
            "0001/lf.csv": "\n".join(lines) + "\n",
            "0001/marked.csv": mark + "\n".join(lines),
            "0001/marked-and-quoted.csv": mark + "\n".join(['"KUNNR";"NAME1";"ORT01"', *lines[1:]]),
            "0001/packed.csv.gz": gzip.compress("\n".join(lines).encode()),
            "0001/windows.csv": "\r\n".join(lines) + "\r\n",
        },
    )
    found = values_of(spark, landing, feed_of(table="KNA1", constants={"MANDT": "100"}))
    assert [(row["KUNNR"], row["NAME1"], row["ORT01"]) for row in found] == written * 5


@pytest.mark.parametrize(
    ("encoding", "python_encoding", "mark"),
    [
        ("utf-8", "utf-8", ""),
        ("latin-1", "latin-1", ""),
        ("iso-8859-1", "latin-1", ""),
        ("utf-16-le", "utf-16-le", ""),
        ("utf-16-le", "utf-16-le", "\N{ZERO WIDTH NO-BREAK SPACE}"),
        ("utf-16-be", "utf-16-be", "\N{ZERO WIDTH NO-BREAK SPACE}"),
    ],
)
def test_p07_a_feed_has_the_encoding_that_it_declares(
    spark: SparkSession, tmp_path: Path, encoding: str, python_encoding: str, mark: str
) -> None:
    text = f'{mark}"CURRKEY";LÄNGE\nJPY;Mü\nKWD;ß\n'
    landing = put(tmp_path, {"0001/a.csv": text.encode(python_encoding)})
    expected = [{"CURRKEY": "JPY", "LÄNGE": "Mü"}, {"CURRKEY": "KWD", "LÄNGE": "ß"}]
    assert values_of(spark, landing, feed_of(encoding=encoding)) == expected


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("a.csv", b"CURRKEY\nEUR\n" * 9000 + "Mü".encode("latin-1"), "cannot be read as utf-8"),
        ("a.csv", "CURRKEY\nM\N{REPLACEMENT CHARACTER}ller\n", "holds U.FFFD"),
        ("a.csv", "", "has no header"),
        ("a.csv", "CURRKEY;CURRDEC;currkey\nEUR;2;EUR\n", r"names the columns \['CURRKEY', 'currkey'\] twice"),
        ("a.csv.gz", gzip.compress(b"CURRKEY\nEUR\n")[:-4], "cannot be read as utf-8"),
        ("a.csv.gz", b"CURRKEY\nEUR\n", "cannot be read as utf-8"),
    ],
    ids=["encoding", "replaced", "empty", "twice", "cut off", "not packed"],
)
def test_p07_a_file_that_cannot_be_read_is_refused_by_name(
    spark: SparkSession, tmp_path: Path, name: str, content: str | bytes, problem: str
) -> None:
    landing = put(tmp_path, {"0001/good.csv": "CURRKEY\nEUR\n", f"0002/{name}": content})
    with pytest.raises(DeliveryError, match=problem) as raised:
        rows_of(spark, landing, feed_of())
    assert raised.value.file == f"feed/0002/{name}"


def test_rows_that_are_too_short_or_too_long_are_kept_as_they_came(spark: SparkSession, tmp_path: Path) -> None:
    landing = put(
        tmp_path, {"0001/a.csv": "CURRKEY;CURRDEC;TEXT\nJPY;0;Yen\nKWD;3\n\nCLP;0;Peso;;x\n;;\nTND;3;Dinar\n"}
    )
    found = rows_of(spark, landing, feed_of())
    assert [(row["_tech_row_number"], row["_corrupt_record"]) for row in found] == [
        (1, None),
        (2, "KWD;3"),
        (3, "CLP;0;Peso;;x"),
        (4, None),
        (5, None),
    ]
    assert [row["CURRKEY"] for row in found if row["_corrupt_record"] is None] == ["JPY", None, "TND"]


# --- JSON lines


def test_json_values_are_as_they_were_written(spark: SparkSession, tmp_path: Path) -> None:
    lines = [
        '{"CURRKEY":"JPY","N":1.10,"B":true,"O":{"x":1.10,"y":null},"L":[1, 2.50],"E":"","T":"a\\nb \\u00fc"}',
        '{"N":12345678901234567890.123,"CURRKEY":"KWD","O":"text","B":null}',
        '{"CURRKEY":"CLP","N":"007","O":{"z":[{}]},"E":null}',
    ]
    nothing = dict.fromkeys(["B", "E", "L", "N", "O", "T"])
    mark = "\N{ZERO WIDTH NO-BREAK SPACE}"
    landing = put(
        tmp_path,
        {
            "0001/a.jsonl": "\n".join(lines) + "\n\n",
            "0001/b.json": mark + '{"CURRKEY":"TND"}\r\n{"currkey":"IQD"}'.replace("currkey", "CURRKEY"),
            "0001/c.jsonl.gz": gzip.compress(b'{"CURRKEY":"OMR","N":1E+2}'),
            "0001/d.jsonl": "",
        },
    )
    assert values_of(spark, landing, feed_of(format="jsonl")) == [
        {
            "CURRKEY": "JPY",
            "N": "1.10",
            "B": "true",
            "O": '{"x":1.10,"y":null}',
            "L": "[1, 2.50]",
            "E": "",
            "T": "a\nb ü",
        },
        nothing | {"CURRKEY": "KWD", "N": "12345678901234567890.123", "O": "text"},
        nothing | {"CURRKEY": "CLP", "N": "007", "O": '{"z":[{}]}'},
        nothing | {"CURRKEY": "TND"},
        nothing | {"CURRKEY": "IQD"},
        nothing | {"CURRKEY": "OMR", "N": "1E+2"},
    ]


def test_a_json_line_that_is_no_object_is_kept_as_it_came(spark: SparkSession, tmp_path: Path) -> None:
    landing = put(tmp_path, {"0001/a.jsonl": '{"CURRKEY":"JPY"}\n{"CURRKEY":"KW\nnot json\n{"CURRKEY":"CLP"}\n'})
    found = rows_of(spark, landing, feed_of(format="jsonl"))
    assert [(row["_tech_row_number"], row["CURRKEY"], row["_corrupt_record"]) for row in found] == [
        (1, "JPY", None),
        (2, None, '{"CURRKEY":"KW'),
        (3, None, "not json"),
        (4, "CLP", None),
    ]


def test_a_json_line_may_be_long(spark: SparkSession, tmp_path: Path) -> None:
    landing = put(tmp_path, {"0001/a.jsonl": json.dumps({"CURRKEY": "JPY", "TEXT": "x" * 200_000})})
    (row,) = values_of(spark, landing, feed_of(format="jsonl"))
    assert row["TEXT"] == "x" * 200_000


def test_json_without_any_row_is_no_error(spark: SparkSession, tmp_path: Path) -> None:
    landing, feed = put(tmp_path, {"0001/a.jsonl": "", "0001/b.jsonl": "\n"}), feed_of(format="jsonl")
    assert rows_of(spark, landing, feed) == []
    put(landing, {"0002/a.jsonl": "no json"})
    assert [row["_corrupt_record"] for row in rows_of(spark, landing, feed)] == ["no json"]


def test_json_in_latin_1_is_read_as_declared(spark: SparkSession, tmp_path: Path) -> None:
    landing = put(
        tmp_path, {"0001/a.jsonl": '{"CURRKEY":"JPY","T":"ü"}\r\n{"CURRKEY":"EUR","T":"ß"}'.encode("latin-1")}
    )
    found = values_of(spark, landing, feed_of(format="jsonl", encoding="latin-1"))
    assert [row["T"] for row in found] == ["ü", "ß"]
    with pytest.raises(DeliveryError, match="cannot be read as utf-8"):
        rows_of(spark, landing, feed_of(format="jsonl"))


def test_json_files_may_spell_their_names_in_different_ways(spark: SparkSession, tmp_path: Path) -> None:
    files = {
        "0001/a.jsonl": '{"CURRKEY":"JPY"}\n{"CURRKEY":"KWD","CURRDEC":3}',
        "0001/b.jsonl": '{"currkey":"CLP","currdec":0}',
        "0002/a.jsonl": '{"CURRKEY":"TND","CurrDec":3}',
        "0002/b.jsonl": '{"CurrDec":3,"currkey":"IQD"}',
    }
    found = values_of(spark, put(tmp_path, files), feed_of(format="jsonl"))
    assert [tuple(row.values()) for row in found] == [
        (None, "JPY"),
        ("3", "KWD"),
        ("0", "CLP"),
        ("3", "TND"),
        ("3", "IQD"),
    ]


def test_a_json_file_that_spells_a_name_in_two_ways_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    landing = put(
        tmp_path, {"0001/a.jsonl": '{"CURRKEY":"JPY"}', "0001/b.jsonl": '{"CURRKEY":"JPY"}\n{"currkey":"KWD"}\n'}
    )
    with pytest.raises(DeliveryError, match="spells a column in more than one way") as raised:
        rows_of(spark, landing, feed_of(format="jsonl"))
    assert raised.value.file == "feed/0001/b.jsonl"


# --- Parquet


def parquet(columns: Mapping[str, pa.Array]) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(dict(columns)), sink)
    return bytes(sink.getvalue().to_pybytes())


def test_parquet_values_become_text(spark: SparkSession, tmp_path: Path) -> None:
    at = datetime(2026, 4, 1, 12, 0, 0, 123456)  # noqa: DTZ001 (a local time is what Parquet may hold)
    columns = {
        "CURRKEY": (pa.string(), "JPY", "JPY"),
        "INTEGER": (pa.int32(), 7, "7"),
        "DECIMAL": (pa.decimal128(15, 2), Decimal("-1234.50"), "-1234.50"),
        "SMALL": (pa.decimal128(21, 7), Decimal("0.0000001"), "0.0000001"),
        "DATE": (pa.date32(), date(2026, 4, 1), "2026-04-01"),
        "UTC": (pa.timestamp("us", tz="UTC"), at.replace(tzinfo=UTC), "2026-04-01 12:00:00.123456"),
        "LOCAL": (pa.timestamp("us"), at, "2026-04-01 12:00:00.123456"),
        "FLAG": (pa.bool_(), True, "true"),
        "DOUBLE": (pa.float64(), 0.5, "0.5"),
        "LARGE": (pa.float64(), 123456789.25, "123456789.25"),
        "ROUND": (pa.float64(), 10_000_000.0, "10000000"),
        "BYTES": (pa.binary(), "Mü".encode(), "Mü"),
        "NO_TEXT": (pa.binary(), b"\xff\x00", "FF00"),
        "STRUCT": (pa.struct([("x", pa.int32())]), {"x": 1}, '{"x":1}'),
        "LIST": (pa.list_(pa.string()), ["a", "b"], '["a","b"]'),
        "NOTHING": (pa.null(), None, None),
    }
    file = parquet({name: pa.array([value, None], type_) for name, (type_, value, _) in columns.items()})
    landing = put(tmp_path, {"0001/a.parquet": file})
    texts: dict[str, object] = {name: text for name, (_, _, text) in columns.items()}
    assert values_of(spark, landing, feed_of(format="parquet")) == [texts, dict.fromkeys(columns)]


def test_parquet_files_may_differ_in_columns_and_types(spark: SparkSession, tmp_path: Path) -> None:
    landing = put(
        tmp_path,
        {
            "0001/a.parquet": parquet({"CURRKEY": pa.array(["JPY"]), "CURRDEC": pa.array([0])}),
            "0001/b.parquet": parquet({"CURRDEC": pa.array(["3"]), "CURRKEY": pa.array(["KWD"])}),
            "0002/a.parquet": parquet({"currkey": pa.array(["CLP"]), "CURRDEC": pa.array([Decimal("0.0")])}),
            "0002/b.parquet": parquet({"CURRKEY": pa.array(["TND"]), "X": pa.array(["x"])}),
        },
    )
    assert values_of(spark, landing, feed_of(format="parquet")) == [
        {"CURRKEY": "JPY", "CURRDEC": "0", "X": None},
        {"CURRKEY": "KWD", "CURRDEC": "3", "X": None},
        {"CURRKEY": "CLP", "CURRDEC": "0.0", "X": None},
        {"CURRKEY": "TND", "CURRDEC": None, "X": "x"},
    ]


@pytest.mark.parametrize(
    "content",
    [b"no parquet", b"", parquet({"CURRKEY": pa.array(["JPY"]), "N": pa.array([0], pa.timestamp("ns"))})],
    ids=["text", "empty", "nanoseconds"],
)
def test_parquet_that_cannot_be_read_is_refused_by_name(spark: SparkSession, tmp_path: Path, content: bytes) -> None:
    landing = put(tmp_path, {"0001/a.parquet": content})
    with pytest.raises(DeliveryError, match="cannot be read") as raised:
        rows_of(spark, landing, feed_of(format="parquet"))
    assert raised.value.file == "feed/0001/a.parquet"


# --- where a row was found


def test_a_file_keeps_its_name_whatever_is_in_it(spark: SparkSession, tmp_path: Path) -> None:
    names = [
        "0001/a b.csv",
        "0001/a%20b.csv",
        "0001/a%b.csv",
        "0001/a+b.csv",
        "0001/b,c#d&e=f.csv",
        "0001/it's [1] {2} z.csv",
        "0001/u\N{COMBINING DIAERESIS}.csv",
        "0001/what? *.csv",
        "0001/ü.csv",
        "delta/20260401/part-1.csv",
        "x=1/y=2/part-1.csv",
    ]
    landing = put(tmp_path, {name: f"CURRKEY;TEXT\nJPY;{name}\nKWD;{name}\n" for name in names})
    found = rows_of(spark, landing, feed_of())
    expected = [(f"feed/{name}", name.rpartition("/")[0], name, n) for name in sorted(names) for n in (1, 2)]
    assert [
        (row["_tech_source_file"], row["_tech_batch_id"], row["TEXT"], row["_tech_row_number"]) for row in found
    ] == expected


def test_a_name_is_no_pattern_for_other_files(spark: SparkSession, tmp_path: Path) -> None:
    names = ["0001/a[12].csv", "0001/a1.csv", "0001/b*.csv", "0001/bcd.csv", "0001/{c,d}.csv", "0001/c.csv"]
    landing, feed = put(tmp_path, dict.fromkeys(names, "CURRKEY\nJPY\n")), feed_of()
    chosen = [file for file in complete_files(landing, feed) if set(file.relative) & set("[*{")]
    found = [row["_tech_source_file"] for row in read_files(spark, landing, feed, chosen).collect()]
    assert sorted(found) == sorted(file.relative for file in chosen)


def test_a_landing_area_may_be_named_in_any_way(spark: SparkSession) -> None:
    with TemporaryDirectory(prefix="l") as folder:  # a short path, so that a delivery can repeat it
        parent = Path(folder)
        delivery = f"x{parent.as_posix()}/area"
        landing = put(parent / "area", {f"{delivery}/a.csv": "CURRKEY\nJPY\n"})
        (parent / "link").symlink_to(landing)
        for named in (landing, parent / "link", parent / "link" / ".." / "area"):
            (row,) = rows_of(spark, named, feed_of())
            assert (row["_tech_source_file"], row["_tech_batch_id"]) == (f"feed/{delivery}/a.csv", delivery)


@contextmanager
def small_splits(spark: SparkSession) -> Iterator[None]:
    """Spark reads a file in pieces of a kilobyte."""
    key = "spark.sql.files.maxPartitionBytes"
    before = spark.conf.get(key)
    assert before is not None
    spark.conf.set(key, "1024")
    yield
    spark.conf.set(key, before)


def test_row_numbers_count_from_the_start_of_each_file(spark: SparkSession, tmp_path: Path) -> None:
    numbers = range(1, 301)
    lines = [json.dumps({"CURRKEY": str(number), "TEXT": "x" * 20}) for number in numbers]
    csv_lines = ["CURRKEY;TEXT", *(f'{number};"x\n{number}"' for number in numbers)]
    landing = put(tmp_path, {"0001/a.jsonl": "\n".join(lines), "0001/b.jsonl": "\n".join(lines)})
    put(landing, {"0001/a.csv": "\n".join(csv_lines)})
    with small_splits(spark):
        for format_, files in (("jsonl", 2), ("csv", 1)):
            found = rows_of(spark, landing, feed_of(format=format_))
            expected = [(number, str(number)) for _ in range(files) for number in numbers]
            assert [(row["_tech_row_number"], row["CURRKEY"]) for row in found] == expected


# --- names of columns


def test_columns_are_renamed_and_constants_added(spark: SparkSession, tmp_path: Path) -> None:
    landing = put(tmp_path, {"0001/a.csv": "salesorderid;CreatedAt;CURRENCY\n4711;20260401;EUR\n"})
    feed = feed_of(
        table="VBAK",
        rename={"SALESORDERID": "VBELN", "createdat": "audat", "CURRENCY": "WAERK"},
        constants={"mandt": "100", "VBTYP": "C"},
        sequence="audat",
    )
    expected = {"VBELN": "4711", "AUDAT": "20260401", "WAERK": "EUR", "MANDT": "100", "VBTYP": "C"}
    assert values_of(spark, landing, feed) == [expected]


def test_the_columns_of_a_tool_keep_the_case_that_the_tool_gives_them(spark: SparkSession, tmp_path: Path) -> None:
    landing = put(tmp_path, {"0001/a.csv": "CurrKey;OP;__TIMESTAMP;__sequence_number\nJPY;U;2026-04-01T12:00:00Z;\n"})
    feed = feed_of(profile="replication_flow", rename={"op": "__operation_type"})
    (row,) = values_of(spark, landing, feed)
    assert set(row) == {"CURRKEY", "__operation_type", "__timestamp", "__sequence_number"}


def test_columns_that_a_tool_may_leave_out_are_blank(spark: SparkSession, tmp_path: Path) -> None:
    landing = put(tmp_path, {"0001/a.csv": "CURRKEY;ODQ_CHANGEMODE;ODQ_ENTITYCNTR;ODQ_TSN\nJPY;C;1;20260401120000.5\n"})
    feed = feed_of(profile="odp")
    rows = read_files(spark, landing, feed, complete_files(landing, feed))
    (row,) = bronze.build(rows, feed).collect()
    assert (row["ODQ_UNITNO"], row["ODQ_RECORDNO"], row["change_op"]) == (None, None, "U")
    assert row["change_seq"] == "00000020260401120000" + "500000000" + "0" * 20


@pytest.mark.parametrize(
    ("header", "keys", "problem"),
    [
        ("CURRDEC", {}, "rename: feed/0001/a.csv has no column CURRKEY; it has CURRDEC"),
        ("VBELN;POSNR", {"table": "VBAP"}, "rename: .* has no column MANDT"),
        ("CURRKEY", {"profile": "fivetran"}, "rename: .* has no column _fivetran_deleted, _fivetran_synced"),
        ("CURRKEY", {"sequence": "CHANGEDAT"}, "rename: .* has no column CHANGEDAT"),
        ("CURRKEY;A;B", {"rename": {"A": "X", "B": "X"}}, "rename: more than one column of .* becomes X"),
        ("CURRKEY;A;X", {"rename": {"A": "X"}}, "rename: more than one column of .* becomes X"),
        ("CURRKEY;", {}, "rename: the column '' of .* cannot be named so"),
        ("CURRKEY;NET VALUE", {}, "rename: the column 'NET VALUE' of .* cannot be named so"),
        ("CURRKEY;change_seq", {}, "rename: the column 'change_seq' of .* cannot be named so"),
        ("CURRKEY;_tech_batch_id", {}, "rename: the column '_tech_batch_id' of .* cannot be named so"),
        ("CURRKEY;X", {"constants": {"X": "1"}}, "constants: X is delivered by feed/0001/a.csv"),
        ("CURRKEY", {"constants": {"A B": "1"}}, "constants: a column cannot be named 'A B'"),
        ("CURRKEY", {"constants": {"change_op": "U"}}, "constants: a column cannot be named 'CHANGE_OP'"),
    ],
)
def test_columns_that_cannot_be_used_are_an_error_of_the_feed(
    spark: SparkSession, tmp_path: Path, header: str, keys: dict[str, object], problem: str
) -> None:
    landing = put(tmp_path, {"0001/a.csv": header + "\n"})
    with pytest.raises(FeedError, match=rf"\[feeds.feed\] {problem}"):
        rows_of(spark, landing, feed_of(**keys))


# --- real files of others


def test_real_sales_orders_are_read_by_name_and_mark(spark: SparkSession, shared_data: Path) -> None:
    rename = {"SALESORDERID": "VBELN", "CREATEDAT": "AUDAT", "PARTNERID": "KUNNR", "CURRENCY": "WAERK"}
    feed = feed_of(name="sap-samples", table="VBAK", rename=rename, constants={"MANDT": "100"}, sequence="CHANGEDAT")
    files = [
        file
        for file in complete_files(shared_data, feed)
        if file.relative == "sap-samples/SAP_Sample_Content/SalesOrders.csv"
    ]
    rows = read_files(spark, shared_data, feed, files).orderBy("_tech_row_number").collect()
    assert [row for row in rows if row["_corrupt_record"] is not None] == []
    assert len(rows) == 5166
    first = rows[0]
    assert (first["VBELN"], first["AUDAT"], first["NETAMOUNT"]) == ("200000000", "20150101", "3142,13")


def test_real_customers_with_all_their_columns_are_read(spark: SparkSession, shared_data: Path) -> None:
    feed = feed_of(name=shared_data.name, table="KNA1", profile="fivetran", delimiter=",")
    files = [file for file in complete_files(shared_data.parent, feed) if file.path.name == "sap_kna1_data.csv"]
    rows = read_files(spark, shared_data.parent, feed, files)
    built = bronze.build(rows, feed).collect()
    assert len(built) == 3
    assert {row["change_op"] for row in built} == {"U"}
    assert all(row["change_seq"] and row["KUNNR"] and row["_corrupt_record"] is None for row in built)
    assert len(rows.columns) >= 197
