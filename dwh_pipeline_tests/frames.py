"""DataFrames for tests, from Arrow: a Python list would start Python workers. No test and no fixture here."""

from collections.abc import Iterable, Mapping, Sequence

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StringType, StructField, StructType

Row = Sequence[object] | Mapping[str, object]


def frame_of(spark: SparkSession, schema: str | Sequence[str], rows: Iterable[Row]) -> DataFrame:
    """Rows as a DataFrame.

    `schema` is DDL (`"client_id STRING, quantity DECIMAL(15,3)"`), or names alone: then every column is a string. A row
    has its values in the order of the schema, or is a mapping, in which names may be missing: NULL.
    """
    struct = StructType.fromDDL(schema) if isinstance(schema, str) else _strings(schema)
    assert isinstance(struct, StructType)
    aligned = [_in_order(row, struct.names) for row in rows]
    arrow = to_arrow_schema(struct)
    columns = [pa.array([row[i] for row in aligned], type=field.type) for i, field in enumerate(arrow)]
    return spark.createDataFrame(pa.Table.from_arrays(columns, schema=arrow), struct)


def _strings(names: Sequence[str]) -> StructType:
    return StructType([StructField(name, StringType()) for name in names])


def _in_order(row: Row, names: list[str]) -> list[object]:
    if not isinstance(row, Mapping):
        values = list(row)
        if len(values) != len(names):
            raise ValueError(f"{len(values)} values for {len(names)} columns: {values}")
        return values
    if unknown := set(row) - set(names):
        raise ValueError(f"no such columns: {sorted(unknown)}")
    return [row.get(name) for name in names]
