"""Every source profile delivers the same story of currencies, in its own words, through files: the same table.

The story: JPY and XXX are there at first; JPY is changed, with the image before; KWD is new; XXX is deleted; KWD is
changed and delivered twice.
"""

import re
from dataclasses import dataclass
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from dwh_pipeline.errors import UnknownOperationError
from dwh_pipeline.sap.profiles import PROFILES
from dwh_pipeline.tables import currency
from dwh_pipeline_tests.warehouse import Warehouse, write_landing


@dataclass(frozen=True)
class Told:
    """How a tool tells the story.

    `columns` of every file beside CURRKEY and CURRDEC; `files` with their rows, in which `@3` is three o'clock as
    `time` writes it; `unknown` is a row whose operation `code` the tool does not know; `feed` are keys of the feed.
    """

    columns: str
    time: str
    files: dict[str, str]
    unknown: str = ""
    code: str = ""
    feed: str = ""

    def texts(self) -> dict[str, str]:
        """The files as they are delivered."""
        return {name: self.text(rows) if name.endswith(".csv") else rows for name, rows in self.files.items()}

    def text(self, rows: str) -> str:
        """One row a line, behind the names of the columns."""
        dated = re.sub(r"@(\d)", lambda hour: self.time.format(hour[1]), rows)
        return "\n".join([",".join(filter(None, ("CURRKEY,CURRDEC", self.columns))), *dated.split(" | "), ""])


STORIES: dict[str, Told] = {
    # Deletions cannot be seen but in a full snapshot.
    "plain": Told(
        columns="",
        time="",
        files={
            "1/a.csv": "JPY,2 | XXX,4",
            "2/a.csv": "JPY,0 | KWD,2",
            "3/_delivery.json": '{"snapshot": true, "max_deleted_share": 0.5}',
            "3/a.csv": "JPY,0 | KWD,3",
            "4/a.csv": "KWD,3",
        },
    ),
    "recordmode": Told(
        columns="0RECORDMODE,SEQ",
        time="{0}",
        files={
            "1/a.csv": "JPY,2,,@1 | XXX,4,N,@1",
            "2/a.csv": "JPY,2,X,@2 | JPY,0, ,@2 | KWD,2,N,@2 | XXX,4,R,@3 | KWD,3,,@4 | KWD,3,,@4",
        },
        unknown="JPY,1,A,@9",  # additive (P-05)
        code="A",
        feed='sequence = "SEQ"',
    ),
    "fivetran": Told(
        columns="_fivetran_deleted,_fivetran_synced",
        time="2026-04-01T0{0}:00:00Z",
        files={
            "1/a.csv": "JPY,2,false,@1 | XXX,4,false,@1",
            "2/a.csv": "JPY,0,false,@2 | KWD,3,false,@4 | XXX,4,true,@3",
            "3/a.csv": "KWD,3,false,@4",
        },
        unknown="JPY,1,perhaps,@9",
        code="perhaps",
    ),
    "replication_flow": Told(
        columns="__operation_type,__timestamp",
        time="2026-04-01T0{0}:00:00Z",
        files={
            "initial/_SUCCESS": "",
            "initial/a.csv": "JPY,2,L,@1 | XXX,4,L,@1",
            "delta/1/a.csv": "JPY,2,B,@2 | JPY,0,U,@2 | KWD,2,A,@2 | XXX,,X,@3 | KWD,3,U,@4",
            "delta/2/a.csv": "KWD,3,U,@4",
        },
        unknown="JPY,1,Z,@9",
        code="Z",
    ),
    "slt": Told(
        columns="IUUC_OPERATION,IUUC_TIMESTAMP",
        time="202604010{0}0000",
        files={
            "1/a.csv": "JPY,2,,@1 | XXX,4,,@1",
            "2/a.csv": "JPY,0,U,@2 | KWD,2,I,@2 | XXX,4,D,@3 | KWD,3,U,@4 | KWD,3,U,@4",
        },
        unknown="JPY,1,X,@9",
        code="X",
    ),
    "odp": Told(
        columns="ODQ_CHANGEMODE,ODQ_ENTITYCNTR,ODQ_TSN",
        time="202604010{0}0000000000001",
        files={
            "1/a.csv": "JPY,2,,, | XXX,4,,,",
            "2/a.csv": "JPY,2,U,-1,@2 | JPY,0,U,1,@2 | KWD,2,C,1,@2 | XXX,,D,-1,@3 | KWD,3,U,1,@4 | KWD,3,U,1,@4",
        },
        unknown="JPY,1,A,1,@9",
        code="A",
    ),
    "qlik": Told(
        columns="header__change_oper,header__change_seq",
        time="202604010{0}0000" + "0" * 21,
        files={
            "1/a.csv": "JPY,2,, | XXX,4,,",
            "2/a.csv": "JPY,2,B,@2 | JPY,0,U,@2 | KWD,2,I,@2 | XXX,4,D,@3 | KWD,3,U,@4 | KWD,3,U,@4",
        },
        unknown="JPY,1,A,@9",
        code="A",
    ),
}


def test_there_is_a_story_of_every_profile() -> None:
    assert STORIES.keys() == PROFILES.keys()


@pytest.mark.parametrize("profile", STORIES)
def test_a_profile_tells_the_story_and_stops_on_a_code_that_it_does_not_know(
    spark: SparkSession, tmp_path: Path, profile: str
) -> None:
    told = STORIES[profile]
    feed = f'[feeds.currencies]\ntable = "TCURX"\nprofile = "{profile}"\n{told.feed}\n'
    files = {f"currencies/{name}": text for name, text in told.texts().items()}
    landing = write_landing(tmp_path / "landing", {"feeds.toml": feed, **files})
    warehouse = Warehouse(spark, tmp_path / "lake", landing)
    warehouse.step("bronze.sap_tcurx", "silver.currency")
    rows = warehouse.table(currency.CONTRACT).orderBy("currency").collect()
    found = [(row["currency"], row["currency_decimals"], row["is_deleted"]) for row in rows]
    assert found == [("JPY", 0, False), ("KWD", 3, False), ("XXX", 4, True)]
    if not told.unknown:
        return
    write_landing(landing, {"currencies/9/a.csv": told.text(told.unknown)})
    before = warehouse.files("bronze", "silver", "ops")
    with pytest.raises(UnknownOperationError) as stopped:
        warehouse.step("bronze.sap_tcurx")
    assert (stopped.value.profile, stopped.value.code) == (profile, told.code)
    assert (stopped.value.file, stopped.value.row) == ("currencies/9/a.csv", 1)
    assert warehouse.files("bronze", "silver", "ops") == before
