import datetime
from decimal import Decimal

from pyflink.common import Row, Types
from pyflink.datastream import StreamExecutionEnvironment

env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
kinds = Types.ROW_NAMED(
    ["id", "name", "price", "on_sale", "day", "tags", "stock"],
    [Types.LONG(), Types.STRING(), Types.BIG_DEC(), Types.BOOLEAN(), Types.SQL_DATE(),
     Types.LIST(Types.STRING()), Types.MAP(Types.STRING(), Types.INT())])
rows = env.from_collection([
    Row(1, "lamp", Decimal("12.50"), True, datetime.date(2024, 2, 29), ["home", "light"], {"berlin": 3}),
    Row(2, "desk", Decimal("199.00"), False, datetime.date(2023, 12, 31), [], {"rome": 0}),
], type_info=kinds)


def describe(row):
    values = row.as_dict()
    return "%s|%s|%s|%s|%s|%s" % (values["name"].upper(), values["price"] * 2, values["on_sale"], values["day"],
                                  sorted(values["tags"]), sorted(values["stock"].items()))


rows.map(describe, output_type=Types.STRING()).print()
rows.map(lambda r: Row(r.id, r["name"]), Types.ROW([Types.LONG(), Types.STRING()])).print()
env.execute()
