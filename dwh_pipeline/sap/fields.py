"""The fields of the SAP tables that silver loads: SAP name, our name, kind of value, Spark type.

A declared map with no silent default: a delivered column that is not listed here stays in bronze. How a kind is read
belongs to `values`, what a table does with its fields to `tables`.
"""

from dataclasses import dataclass
from enum import Enum, auto


class Kind(Enum):
    """How the text of a field is read (`values.parse`)."""

    CLIENT = auto()
    TEXT = auto()
    ALPHA = auto()
    MATERIAL = auto()
    DIGITS = auto()
    DATE = auto()
    TIME = auto()
    TIMESTAMP = auto()
    AMOUNT = auto()
    QUANTITY = auto()
    RATE = auto()
    COUNT = auto()
    PRICE_UNIT = auto()
    CURRENCY_DECIMALS = auto()
    FLAG = auto()
    CURRENCY = auto()


@dataclass(frozen=True, slots=True)
class SapField:
    """One field: `name` as in the ABAP dictionary, `canonical` as in silver, `type` as Spark SQL DDL.

    `length` is the length in S/4HANA. `personal` fields are hidden once CVP_XBLCK is set. A change of fields that are
    not `tracked` alone makes no new SCD2 version.
    """

    name: str
    canonical: str
    kind: Kind
    type: str
    length: int
    description: str
    key: bool = False
    personal: bool = False
    tracked: bool = True


@dataclass(frozen=True, slots=True)
class SapTable:
    """One SAP table and the fields of it that the warehouse reads."""

    name: str
    fields: tuple[SapField, ...]

    @property
    def bronze_name(self) -> str:
        """`bronze.sap_<table>`, without a catalog."""
        return f"bronze.sap_{self.name.lower()}"

    @property
    def keys(self) -> tuple[SapField, ...]:
        """The fields that identify a row."""
        return tuple(field for field in self.fields if field.key)

    @property
    def attributes(self) -> tuple[SapField, ...]:
        """The fields that are not key."""
        return tuple(field for field in self.fields if not field.key)


KNA1 = SapTable(
    name="KNA1",
    fields=(
        SapField("MANDT", "client_id", Kind.CLIENT, "STRING", 3, "Client", key=True),
        SapField("KUNNR", "customer_id", Kind.ALPHA, "STRING", 10, "Customer Number", key=True),
        SapField("NAME1", "customer_name", Kind.TEXT, "STRING", 35, "Name 1", personal=True),
        SapField("NAME2", "customer_name_2", Kind.TEXT, "STRING", 35, "Name 2", personal=True),
        SapField("SORTL", "search_term", Kind.TEXT, "STRING", 10, "Sort field", personal=True),
        SapField("STRAS", "street", Kind.TEXT, "STRING", 35, "Street and House Number", personal=True),
        SapField("ORT01", "city", Kind.TEXT, "STRING", 35, "City", personal=True),
        SapField("ORT02", "district", Kind.TEXT, "STRING", 35, "District", personal=True),
        SapField("PSTLZ", "postal_code", Kind.TEXT, "STRING", 10, "Postal Code", personal=True),
        SapField("REGIO", "region_code", Kind.TEXT, "STRING", 3, "Region (State, Province, County)"),
        SapField("LAND1", "country_code", Kind.TEXT, "STRING", 3, "Country Key"),
        SapField("SPRAS", "language_code", Kind.TEXT, "STRING", 1, "Language Key"),
        SapField("TELF1", "phone", Kind.TEXT, "STRING", 16, "First telephone number", personal=True),
        SapField("TELFX", "fax", Kind.TEXT, "STRING", 31, "Fax Number", personal=True),
        SapField("ADRNR", "address_id", Kind.ALPHA, "STRING", 10, "Address"),
        SapField("KTOKD", "customer_account_group", Kind.TEXT, "STRING", 4, "Customer Account Group"),
        SapField("KUKLA", "customer_class", Kind.TEXT, "STRING", 2, "Customer classification"),
        SapField("BRSCH", "industry_code", Kind.TEXT, "STRING", 4, "Industry key"),
        SapField("BRAN1", "industry_code_1", Kind.TEXT, "STRING", 10, "Industry code 1"),
        SapField("KONZS", "corporate_group_id", Kind.TEXT, "STRING", 10, "Group key"),
        SapField("VBUND", "trading_partner_company_id", Kind.TEXT, "STRING", 6, "Company ID of Trading Partner"),
        SapField("LIFNR", "linked_vendor_id", Kind.ALPHA, "STRING", 10, "Account Number of Vendor or Creditor"),
        SapField("STCD1", "tax_number_1", Kind.TEXT, "STRING", 16, "Tax Number 1", personal=True),
        SapField("STCEG", "vat_registration_number", Kind.TEXT, "STRING", 20, "VAT Registration Number", personal=True),
        SapField(
            "XCPDK", "is_one_time_account", Kind.FLAG, "BOOLEAN", 1, "Indicator: Is the account a one-time account?"
        ),
        SapField("STKZN", "is_natural_person", Kind.FLAG, "BOOLEAN", 1, "Natural Person"),
        SapField("AUFSD", "order_block_code", Kind.TEXT, "STRING", 2, "Central order block for customer"),
        SapField("LIFSD", "delivery_block_code", Kind.TEXT, "STRING", 2, "Central delivery block for the customer"),
        SapField("FAKSD", "billing_block_code", Kind.TEXT, "STRING", 2, "Central billing block for customer"),
        SapField("CASSD", "sales_block_code", Kind.TEXT, "STRING", 2, "Central sales block for customer"),
        SapField("SPERR", "is_posting_blocked", Kind.FLAG, "BOOLEAN", 1, "Central posting block"),
        SapField("LOEVM", "is_marked_for_deletion", Kind.FLAG, "BOOLEAN", 1, "Central Deletion Flag for Master Record"),
        SapField("NODEL", "is_deletion_blocked", Kind.FLAG, "BOOLEAN", 1, "Central deletion block for master record"),
        SapField("CVP_XBLCK", "is_gdpr_blocked", Kind.FLAG, "BOOLEAN", 1, "Business Purpose Completed Flag"),
        SapField("KATR1", "customer_attribute_1", Kind.TEXT, "STRING", 2, "Attribute 1"),
        SapField("JMZAH", "employee_count", Kind.COUNT, "INT", 6, "Yearly number of employees"),
        SapField("ERDAT", "created_date", Kind.DATE, "DATE", 8, "Date on which the Record Was Created", tracked=False),
        SapField(
            "ERNAM",
            "created_by",
            Kind.TEXT,
            "STRING",
            12,
            "Name of Person who Created the Object",
            personal=True,
            tracked=False,
        ),
        SapField("AEDAT", "last_changed_date_unreliable", Kind.DATE, "DATE", 8, "Date of Last Change", tracked=False),
        SapField(
            "UPDAT",
            "change_confirmed_date",
            Kind.DATE,
            "DATE",
            8,
            "Date on Which the Changes Were Confirmed",
            tracked=False,
        ),
        SapField(
            "UPTIM", "change_confirmed_time", Kind.TIME, "STRING", 6, "Time of Last Change Confirmation", tracked=False
        ),
    ),
)

VBAK = SapTable(
    name="VBAK",
    fields=(
        SapField("MANDT", "client_id", Kind.CLIENT, "STRING", 3, "Client", key=True),
        SapField("VBELN", "order_id", Kind.ALPHA, "STRING", 10, "Sales Document", key=True),
        SapField("ERDAT", "created_date", Kind.DATE, "DATE", 8, "Date on which the record was created"),
        SapField("ERZET", "created_time", Kind.TIME, "STRING", 6, "Entry time"),
        SapField(
            "ERNAM", "created_by", Kind.TEXT, "STRING", 12, "Name of Person who Created the Object", personal=True
        ),
        SapField("AUDAT", "document_date", Kind.DATE, "DATE", 8, "Document Date (Date Received/Sent)"),
        SapField("VBTYP", "document_category", Kind.TEXT, "STRING", 4, "SD Document Category"),
        SapField("TRVOG", "transaction_group", Kind.TEXT, "STRING", 1, "Transaction Group"),
        SapField("AUART", "order_type", Kind.TEXT, "STRING", 4, "Sales Document Type"),
        SapField(
            "AUGRU", "order_reason_code", Kind.TEXT, "STRING", 3, "Order Reason (Reason for the Business Transaction)"
        ),
        SapField("VKORG", "sales_org", Kind.TEXT, "STRING", 4, "Sales Organization"),
        SapField("VTWEG", "distribution_channel", Kind.TEXT, "STRING", 2, "Distribution Channel"),
        SapField("SPART", "division", Kind.TEXT, "STRING", 2, "Division"),
        SapField("VKGRP", "sales_group", Kind.TEXT, "STRING", 3, "Sales group"),
        SapField("VKBUR", "sales_office", Kind.TEXT, "STRING", 4, "Sales office"),
        SapField("KUNNR", "customer_id", Kind.ALPHA, "STRING", 10, "Sold-To Party"),
        SapField("BSTNK", "customer_po_number", Kind.TEXT, "STRING", 20, "Customer Reference"),
        SapField("BSTDK", "customer_po_date", Kind.DATE, "DATE", 8, "Customer Reference Date"),
        SapField("VDATU", "requested_delivery_date", Kind.DATE, "DATE", 8, "Requested Delivery Date"),
        SapField("LIFSK", "delivery_block_code", Kind.TEXT, "STRING", 2, "Delivery Block (Document Header)"),
        SapField("FAKSK", "billing_block_code", Kind.TEXT, "STRING", 2, "Billing Block in SD Document"),
        SapField(
            "NETWR",
            "order_net_value",
            Kind.AMOUNT,
            "DECIMAL(20,5)",
            15,
            "Net Value of the Sales Order in Document Currency",
        ),
        SapField("WAERK", "currency", Kind.CURRENCY, "STRING", 5, "SD document currency"),
        SapField("KNUMV", "condition_document_id", Kind.TEXT, "STRING", 10, "Number of the Document Condition"),
        SapField("KALSM", "pricing_procedure", Kind.TEXT, "STRING", 6, "Pricing Procedure in Pricing"),
        SapField(
            "GUEBG",
            "contract_valid_from",
            Kind.DATE,
            "DATE",
            8,
            "Valid-From Date (Outline Agreements, Product Proposals)",
        ),
        SapField(
            "GUEEN", "contract_valid_to", Kind.DATE, "DATE", 8, "Valid-To Date (Outline Agreements, Product Proposals)"
        ),
        SapField(
            "VGBEL", "reference_document_id", Kind.ALPHA, "STRING", 10, "Document number of the reference document"
        ),
        SapField("BUKRS_VF", "company_code", Kind.TEXT, "STRING", 4, "Company Code to Be Billed"),
        SapField("KURST", "exchange_rate_type", Kind.TEXT, "STRING", 4, "Exchange Rate Type"),
        SapField("STWAE", "statistics_currency", Kind.CURRENCY, "STRING", 5, "Statistics Currency"),
        SapField("GBSTK", "order_status", Kind.TEXT, "STRING", 1, "Overall Processing Status (Header/All Items)"),
        SapField("LFSTK", "order_delivery_status", Kind.TEXT, "STRING", 1, "Delivery Status (All Items)"),
        SapField("AEDAT", "last_changed_date", Kind.DATE, "DATE", 8, "Date of Last Change"),
        SapField(
            "UPD_TMSTMP",
            "updated_at_utc",
            Kind.TIMESTAMP,
            "TIMESTAMP",
            21,
            "UTC Time Stamp in Long Form (YYYYMMDDhhmmssmmmuuun)",
        ),
    ),
)

VBAP = SapTable(
    name="VBAP",
    fields=(
        SapField("MANDT", "client_id", Kind.CLIENT, "STRING", 3, "Client", key=True),
        SapField("VBELN", "order_id", Kind.ALPHA, "STRING", 10, "Sales Document", key=True),
        SapField("POSNR", "line_number", Kind.DIGITS, "STRING", 6, "Sales Document Item", key=True),
        SapField("MATNR", "product_id", Kind.MATERIAL, "STRING", 40, "Material Number"),
        SapField("MATWA", "product_entered_id", Kind.MATERIAL, "STRING", 40, "Material entered"),
        SapField("ARKTX", "line_description", Kind.TEXT, "STRING", 40, "Short text for sales order item"),
        SapField("MATKL", "product_group", Kind.TEXT, "STRING", 9, "Material Group"),
        SapField("PRODH", "product_hierarchy", Kind.TEXT, "STRING", 18, "Product hierarchy"),
        SapField("PSTYV", "item_category", Kind.TEXT, "STRING", 4, "Sales document item category"),
        SapField(
            "UEPOS", "parent_line_number", Kind.DIGITS, "STRING", 6, "Higher-Level item in bill of material structures"
        ),
        SapField("KWMENG", "quantity", Kind.QUANTITY, "DECIMAL(15,3)", 15, "Cumulative order quantity in sales units"),
        SapField("VRKME", "quantity_unit", Kind.TEXT, "STRING", 3, "Sales unit"),
        SapField("MEINS", "base_unit", Kind.TEXT, "STRING", 3, "Base Unit of Measure"),
        SapField(
            "UMVKZ",
            "unit_numerator",
            Kind.COUNT,
            "INT",
            5,
            "Numerator (factor) for conversion of sales quantity into SKU",
        ),
        SapField(
            "UMVKN",
            "unit_denominator",
            Kind.COUNT,
            "INT",
            5,
            "Denominator (Divisor) for Conversion of Sales Qty into SKU",
        ),
        SapField(
            "KLMENG",
            "confirmed_quantity_base",
            Kind.QUANTITY,
            "DECIMAL(15,3)",
            15,
            "Cumulative Confirmed Quantity in Base Unit",
        ),
        SapField("NETPR", "net_price", Kind.AMOUNT, "DECIMAL(16,5)", 11, "Net Price"),
        SapField("KPEIN", "price_unit_quantity", Kind.PRICE_UNIT, "INT", 5, "Condition Pricing Unit"),
        SapField("KMEIN", "price_unit", Kind.TEXT, "STRING", 3, "Condition Unit"),
        SapField(
            "NETWR",
            "line_net_value",
            Kind.AMOUNT,
            "DECIMAL(20,5)",
            15,
            "Net Value of the Order Item in Document Currency",
        ),
        SapField("WAERK", "currency", Kind.CURRENCY, "STRING", 5, "SD document currency"),
        SapField("MWSBP", "line_tax_amount", Kind.AMOUNT, "DECIMAL(18,5)", 13, "Tax amount in document currency"),
        SapField("WAVWR", "line_cost_amount", Kind.AMOUNT, "DECIMAL(18,5)", 13, "Cost in document currency"),
        SapField(
            "KZWI1",
            "pricing_subtotal_1",
            Kind.AMOUNT,
            "DECIMAL(18,5)",
            13,
            "Subtotal 1 from pricing procedure for condition",
        ),
        SapField(
            "STCUR",
            "statistics_exchange_rate",
            Kind.RATE,
            "DECIMAL(9,5)",
            9,
            "Exchange rate for statistics (Exch.rate at time of creation)",
        ),
        SapField("ABGRU", "rejection_reason_code", Kind.TEXT, "STRING", 2, "Reason for Rejection of Sales Documents"),
        SapField("KOWRR", "statistical_value_flag", Kind.TEXT, "STRING", 1, "Statistical Values"),
        SapField("SHKZG", "is_return", Kind.FLAG, "BOOLEAN", 1, "Returns Item"),
        SapField("FAKSP", "billing_block_code", Kind.TEXT, "STRING", 2, "Billing Block for Item"),
        SapField("GBSTA", "status", Kind.TEXT, "STRING", 1, "Overall Processing Status (Item)"),
        SapField("LFSTA", "delivery_status", Kind.TEXT, "STRING", 1, "Delivery Status (Item)"),
        SapField("ABSTA", "rejection_status", Kind.TEXT, "STRING", 1, "Rejection Status (Item)"),
        SapField("WERKS", "plant", Kind.TEXT, "STRING", 4, "Plant (Own or External)"),
        SapField("LGORT", "storage_location", Kind.TEXT, "STRING", 4, "Storage location"),
        SapField("VSTEL", "shipping_point", Kind.TEXT, "STRING", 4, "Shipping Point / Receiving Point"),
        SapField("ROUTE", "route", Kind.TEXT, "STRING", 6, "Route"),
        SapField("PRCTR", "profit_center", Kind.ALPHA, "STRING", 10, "Profit Center"),
        SapField(
            "VGBEL", "reference_document_id", Kind.ALPHA, "STRING", 10, "Document number of the reference document"
        ),
        SapField("VGPOS", "reference_line_number", Kind.DIGITS, "STRING", 6, "Item number of the reference item"),
        SapField("BRGEW", "gross_weight", Kind.QUANTITY, "DECIMAL(15,3)", 15, "Gross Weight of the Item"),
        SapField("NTGEW", "net_weight", Kind.QUANTITY, "DECIMAL(15,3)", 15, "Net Weight of the Item"),
        SapField("GEWEI", "weight_unit", Kind.TEXT, "STRING", 3, "Weight Unit"),
        SapField("ERDAT", "created_date", Kind.DATE, "DATE", 8, "Date on which the record was created"),
        SapField("ERZET", "created_time", Kind.TIME, "STRING", 6, "Entry time"),
        SapField(
            "ERNAM", "created_by", Kind.TEXT, "STRING", 12, "Name of Person who Created the Object", personal=True
        ),
        SapField("AEDAT", "last_changed_date", Kind.DATE, "DATE", 8, "Date of Last Change"),
    ),
)

TCURX = SapTable(
    name="TCURX",
    fields=(
        SapField("CURRKEY", "currency", Kind.CURRENCY, "STRING", 5, "Currency key", key=True),
        SapField("CURRDEC", "currency_decimals", Kind.CURRENCY_DECIMALS, "INT", 3, "Number of decimal places"),
    ),
)

SAP_TABLES: dict[str, SapTable] = {table.name: table for table in (KNA1, VBAK, VBAP, TCURX)}
