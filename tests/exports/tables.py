"""Count what is in `cores/*/*.parquet` of the current folder by several engines, and run the questions of a document with each: the rows
must be the same. Prints JSON.

usage: tables.py SQL.md ENGINE…    duckdb, datafusion, spark; the first is what others are compared with
"""
import glob
import json
import os
import re
import sys

TYPES = "SELECT o.core, t.type, count(*) AS n, sum(o.size) AS size FROM 'cores/*/objects.parquet' o JOIN 'cores/*/types.parquet' t ON o.core = t.core AND o.runtime = t.runtime AND o.type_id = t.type_id GROUP BY o.core, t.type"
COUNTS = {
    "told": "SELECT core, type, sum(count) AS n, sum(size) AS size FROM 'cores/*/types.parquet' GROUP BY core, type",
    "regions": "SELECT core, kind, count(*) AS n, sum(size) AS size FROM 'cores/*/regions.parquet' GROUP BY core, kind",
    "generations": "SELECT core, generation, count(*) AS n, sum(size) AS size FROM 'cores/*/objects.parquet' GROUP BY core, generation",
    "threads": "SELECT core, 'threads', count(*) AS n, coalesce(sum(stack_reserved), 0) AS size FROM 'cores/*/threads.parquet' GROUP BY core",
    "strings": "SELECT core, 'strings', count(*) AS n, count(DISTINCT hash) AS hashes FROM 'cores/*/strings.parquet' GROUP BY core",
    "malloc": "SELECT core, state, count(*) AS n, sum(size) AS size FROM 'cores/*/malloc_chunks.parquet' GROUP BY core, state",
    "handles": "SELECT core, kind, count(*) AS n, 0 AS size FROM 'cores/*/handles.parquet' GROUP BY core, kind",
}
# As views are called where files can't stand in a question: one of these words is none for a table.
PREFIX = "t_"
TABLES = sorted(os.path.basename(path)[: -len(".parquet")] for path in glob.glob("cores/*/*.parquet"))


def with_views(sql):
    return re.sub(r"'cores/\*/(\w+)\.parquet'", PREFIX + r"\1", sql)


def duckdb():
    import duckdb as engine

    # What goes wrong shall not fill the disk.
    engine.sql("SET max_temp_directory_size = '1GB'")
    return lambda sql: engine.sql(sql).fetchall()


def datafusion():
    import datafusion as engine

    # Or it looks into no folder below.
    config = engine.SessionConfig().set("datafusion.execution.listing_table_ignore_subdirectory", "false")
    context = engine.SessionContext(config)
    for table in sorted(set(TABLES)):
        context.register_parquet(PREFIX + table, f"cores/*/{table}.parquet")

    def ask(sql):
        sql = re.sub(r"printf\('0x%x', ([\w.]+)\)", r"'0x' || to_hex(\1)", with_views(sql))
        columns = context.sql(sql).to_pydict()
        return list(zip(*columns.values()))

    return ask


def spark():
    from pyspark.sql import SparkSession

    session = SparkSession.builder.master("local[*]").config("spark.ui.enabled", "false").config("spark.sql.shuffle.partitions", "8").getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    for table in sorted(set(TABLES)):
        session.read.parquet(f"cores/*/{table}.parquet").createOrReplaceTempView(PREFIX + table)
    return lambda sql: [tuple(row) for row in session.sql(with_views(sql)).collect()]


def rows(ask, sql):
    """How many rows a question has, and the first of them in an order of all columns. Sums may be decimals."""
    whole = re.sub(r"\bORDER BY (?!.*\bORDER BY ).*$", "", sql.strip().rstrip(";"), flags=re.S)
    columns = len(ask(f"SELECT * FROM ({whole}) AS q LIMIT 1")[0])
    order = ", ".join(f"{column} NULLS LAST" for column in range(1, columns + 1))
    number = lambda value: int(value) if isinstance(value, (int, float)) or hasattr(value, "as_tuple") else value
    told = ask(f"SELECT * FROM ({whole}) AS q ORDER BY {order} LIMIT 2000")
    return [ask(f"SELECT count(*) AS n FROM ({whole}) AS q")[0][0], *(tuple(number(value) for value in row) for row in told)]


def main():
    document, *names = sys.argv[1:]
    with open(document) as file:
        blocks = re.findall(r"^```sql\n(.*?)^```", file.read(), re.M | re.S)
    engines = {name: globals()[name]() for name in names}
    first = engines[names[0]]
    out = {"blocks": len(blocks), "engines": {}}
    for block in blocks:
        if not first(block.strip().rstrip(";")):
            sys.exit(f"no row: {block}")
        want = rows(first, block)
        for name in names[1:]:
            got = rows(engines[name], block)
            if got != want:
                differ = [pair for pair in zip(got, want) if pair[0] != pair[1]]
                sys.exit(f"{name}: other rows than {names[0]}: {block}\n{differ[:3]}")
    for name, ask in engines.items():
        counted = {}
        for what, sql in {"types": TYPES, **COUNTS}.items():
            of = counted.setdefault(what, {})
            for core, word, n, size in ask(sql):
                of.setdefault(core, {})[word] = [int(n), int(size)]
        if counted["types"] != counted.pop("told"):
            sys.exit(f"{name}: the objects of a type are not what the table of types counts")
        out["engines"][name] = counted
    print(json.dumps(out))


if __name__ == "__main__":
    main()
