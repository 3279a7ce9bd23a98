"""Landing areas that more than one test loads, as path below the root -> text. No test here."""

_FEEDS = """
[feeds.customers]
table = "KNA1"
profile = "replication_flow"

[feeds.orders]
table = "VBAK"
profile = "replication_flow"

[feeds.lines]
table = "VBAP"
profile = "replication_flow"

[feeds.currencies]
table = "TCURX"
sequence = "SEQ"
"""

# With updates, a deletion, a row without a key, amounts in JPY, and two contents of one change of TCURX (KWD).
CUSTOMER_COLUMNS = "MANDT,KUNNR,NAME1,ORT01,__operation_type,__timestamp"
SMALL_LANDING = {
    "feeds.toml": _FEEDS,
    "customers/initial/_SUCCESS": "",
    "customers/initial/part.csv": f"""{CUSTOMER_COLUMNS}
100,0000010001,Nord,Bonn,L,2026-03-01T00:00:00Z
100,0000010002,Sued,Ulm,L,2026-03-01T00:00:00Z
""",
    "customers/delta/20260401/part.csv": f"""{CUSTOMER_COLUMNS}
100,0000010001,Nord,Koeln,U,2026-03-15T12:00:00Z
100,,Niemand,Nirgends,U,2026-03-15T12:00:00Z
""",
    "orders/delta/20260401/part.csv": """MANDT,VBELN,AUDAT,VBTYP,KUNNR,WAERK,NETWR,__operation_type,__timestamp
100,0000004711,20260310,C,0000010001,EUR,70.00,I,2026-03-10T08:00:00Z
100,0000004712,20260320,C,0000010002,JPY,300.00,I,2026-03-20T08:00:00Z
""",
    "lines/delta/20260401/part.csv": """MANDT,VBELN,POSNR,MATNR,KWMENG,NETWR,WAERK,__operation_type,__timestamp
100,0000004711,000010,M1,5,50.00,EUR,I,2026-03-10T08:00:00Z
100,0000004711,000020,M2,2,20.00,EUR,I,2026-03-10T08:00:00Z
100,0000004712,000010,M1,1,300.00,JPY,I,2026-03-20T08:00:00Z
""",
    "lines/delta/20260402/part.csv": """MANDT,VBELN,POSNR,MATNR,KWMENG,NETWR,WAERK,__operation_type,__timestamp
100,0000004711,000010,M1,7,70.00,EUR,U,2026-04-02T08:00:00Z
100,0000004711,000020,,,,,X,2026-04-02T08:00:00Z
""",
    "currencies/0001/part.csv": "CURRKEY,CURRDEC,SEQ\nJPY,0,1\nKWD,3,1\nKWD,2,1\n",
}
