"""Exceptions that a list keeps, with the variables of the functions that raised them. Imports nothing that would name
the types of frames and tracebacks."""
import time

FAILED = []


def parse(rows):
    table = [r * 3 for r in rows]
    raise ValueError("row %d" % len(table))


for i in range(120):
    try:
        parse([float(k + i) for k in range(300)])
    except ValueError as e:
        FAILED.append(e)
print("ready", flush=True)
time.sleep(1e6)
