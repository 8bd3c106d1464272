"""Count what is in `cores/*/*.parquet` of the current folder, by DuckDB and DataFusion, and run the questions of a document: tables.py SQL.md"""
import json
import re
import sys

import datafusion
import duckdb

TYPES = "SELECT o.core, t.type, count(*) AS n, sum(o.size) AS size FROM {objects} o JOIN {types} t ON o.core = t.core AND o.runtime = t.runtime AND o.type_id = t.type_id GROUP BY o.core, t.type"


def files(table):
    return f"'cores/*/{table}.parquet'"


def nested(rows):
    """By core, then by a word: counts and sums."""
    out = {}
    for core, word, *numbers in rows:
        out.setdefault(core, {})[word] = [int(number) for number in numbers]
    return out


def by_core(rows):
    return {core: [int(number) for number in numbers] for core, *numbers in rows}


def ask(sql):
    return duckdb.sql(sql).fetchall()


def by_datafusion():
    context = datafusion.SessionContext()
    folders = {core for (core,) in ask(f"SELECT core FROM {files('meta')}")}
    for table in ("objects", "types"):
        parts = []
        for folder in sorted(folders):
            name = f"{table}_{folder.replace('-', '_')}"
            context.register_parquet(name, f"cores/{folder}/{table}.parquet")
            parts.append(f"SELECT * FROM {name}")
        context.sql(f"CREATE VIEW all_{table} AS {' UNION ALL '.join(parts)}")
    rows = context.sql(TYPES.format(objects="all_objects", types="all_types")).to_pydict()
    return nested(zip(*rows.values()))


def main():
    with open(sys.argv[1]) as file:
        blocks = re.findall(r"^```sql\n(.*?)^```", file.read(), re.M | re.S)
    for block in blocks:
        if not ask(block):
            sys.exit(f"no row: {block}")
    types = nested(ask(TYPES.format(objects=files("objects"), types=files("types"))))
    told = nested(ask(f"SELECT core, type, sum(count), sum(size) FROM {files('types')} GROUP BY core, type"))
    if types != told:
        sys.exit("the objects of a type are not what the table of types counts")
    kinds = nested(ask(f"SELECT core, kind, count(*), sum(size) FROM {files('regions')} GROUP BY core, kind"))
    threads = {core: n for core, n in ask(f"SELECT core, count(*) FROM {files('threads')} GROUP BY core")}
    strings = by_core(ask(f"SELECT core, count(*), count(DISTINCT (hash, length)) FROM {files('strings')} GROUP BY core"))
    malloc = by_core(ask(f"SELECT core, count(*), sum(size) FROM {files('malloc_chunks')} WHERE state = 'used' GROUP BY core"))
    duck = {"types": types, "regions": kinds, "threads": threads, "strings": strings, "malloc": malloc}
    print(json.dumps({"blocks": len(blocks), "duckdb": duck, "datafusion": {"types": by_datafusion()}}))


if __name__ == "__main__":
    main()
