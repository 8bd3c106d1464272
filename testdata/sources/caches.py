"""A small CPython process to dump, which says what is in it: caches, cycles, big buffers, threads in known places.

usage: python3 -I -S caches.py DIR [tasks]

Writes DIR/truth.json (what was planted, threads with their frames, buffers), DIR/census.txt (objects that the collector
tracks, by type) and DIR/obmalloc.txt (sys._debugmallocstats), prints READY and waits. Between the statistics and the wait
nothing is made. With `tasks` an event loop with waiting tasks runs in a thread.
"""
import gc, os, sys, threading, time


class Order:
    def __init__(self, number):
        self.number = number
        self.label = "order %d" % number


class Point:
    __slots__ = ("x", "y")

    def __init__(self, x, y):
        self.x, self.y = x, y


class Node:
    def __init__(self, after):
        self.after = after


class Orphan:
    def __init__(self):
        self.me = self


class Registry(dict):
    pass


ORDERS = [Order(i) for i in range(321)]
POINTS = {i: Point(float(i), None) for i in range(1234)}
CHAIN = None
for _ in range(77):
    CHAIN = Node(CHAIN)
REGISTRIES = [Registry(a=i, b=str(i)) for i in range(13)]
CACHE = {}
for _ in range(40):
    CACHE["page %d" % _] = bytes([0x41 + _ % 26]) * 20_000
BUFFER = bytearray(b"\x5a" * 300_000)
GROWN = bytearray()
for _ in range(9):
    GROWN.extend(b"\x14" * 30_000)
LETTERS = "\u0436" * 50_000
NAMES = ["name %06d" % i for i in range(3000)]
SPARSE = [[i] * 20 for i in range(6000)]
del SPARSE[::2]
MEMBERS = {i * i for i in range(900)}

gc.disable()
LOCK = threading.Lock()
LOCK.acquire()
UP = threading.Semaphore(0)


def descend(depth, last):
    if depth:
        return descend(depth - 1, last)
    return last()


def wait_for_lock():
    secret = Order(-1)
    UP.release()
    LOCK.acquire()
    return secret


def sleep_long():
    UP.release()
    time.sleep(1_000_000)


def values():
    UP.release()
    yield LOCK.acquire()


def drain():
    for value in values():
        pass


def in_sort():
    return sorted([1], key=lambda _: wait_for_lock())


POSES = [("locked", 4, wait_for_lock), ("asleep", 0, sleep_long), ("generator", 1, drain), ("sorted \u0436", 0, in_sort)]


def run_tasks():
    import asyncio

    gate = asyncio.Event()

    async def at_gate():
        await gate.wait()

    async def nap():
        await asyncio.sleep(1_000_000)

    async def on_other(task):
        await task

    async def main():
        kept = [asyncio.create_task(at_gate(), name="gate %d" % i) for i in range(5)]
        kept.append(asyncio.create_task(nap(), name="nap"))
        kept.append(asyncio.create_task(on_other(kept[0]), name="other"))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        UP.release()
        await asyncio.gather(*kept)

    asyncio.run(main())


def frames_of(frame):
    found = []
    while frame is not None:
        code = frame.f_code
        name = getattr(code, "co_qualname", code.co_name)
        found.append([os.path.basename(code.co_filename), name, frame.f_lineno])
        frame = frame.f_back
    return found


def start():
    poses = POSES + ([("loop", 0, run_tasks)] if "tasks" in sys.argv else [])
    for name, depth, last in poses:
        threading.Thread(target=descend, args=(depth, last), name=name, daemon=True).start()
    for _ in poses:
        UP.acquire()
    time.sleep(0.5)


def write_truth(folder):
    import json

    names = {thread.ident: (thread.native_id, thread.name) for thread in threading.enumerate()}
    threads = []
    for ident, frame in sys._current_frames().items():
        threads.append({"tid": names[ident][0], "name": names[ident][1], "frames": frames_of(frame)})
        del frame
    main = next(thread for thread in threads if thread["name"] == "MainThread")
    with open(__file__) as source:
        line = next(i for i, text in enumerate(source, 1) if text.strip().startswith("WAIT.acquire()"))
    main["frames"] = [["caches.py", "finish", line]] + [f for f in main["frames"] if f[1] == "<module>"]
    truth = {
        "version": "%d.%d.%d" % sys.version_info[:3],
        "planted": {"Order": 322, "Point": 1234, "Node": 77, "Registry": 13, "Orphan": 55},
        "buffers": [
            {"name": "BUFFER", "type": "bytearray", "object": id(BUFFER), "bytes": 300_000},
            {"name": "GROWN", "type": "bytearray", "object": id(GROWN), "bytes": 270_000},
            {"name": "LETTERS", "type": "str", "object": id(LETTERS), "bytes": 100_000},
        ],
        "cache": {"name": "CACHE", "object": id(CACHE), "entries": 40, "bytes": 800_000},
        "order": id(ORDERS[7]),
        "point": id(POINTS[7]),
        "threads": threads,
    }
    with open(folder + "/truth.json", "w") as out:
        json.dump(truth, out, indent=1)


def finish(folder):
    start()
    write_truth(folder)
    # What only a cycle keeps is there for the collector that never runs again.
    gc.collect()
    for _ in range(55):
        Orphan()
    census = os.open(folder + "/census.txt", os.O_CREAT | os.O_TRUNC | os.O_WRONLY)
    stats = os.open(folder + "/obmalloc.txt", os.O_CREAT | os.O_TRUNC | os.O_WRONLY)
    counts = {}
    everything = gc.get_objects()
    for found in everything:
        kind = type(found)
        kind = kind.__qualname__ if kind.__module__ == "builtins" else kind.__module__ + "." + kind.__qualname__
        counts[kind] = counts.get(kind, 0) + 1
    del everything, found, kind
    for kind in sorted(counts):
        os.write(census, b"%d\t%s\n" % (counts[kind], kind.encode()))
    os.dup2(stats, 2)
    sys._debugmallocstats()
    os.write(1, b"READY %d\n" % os.getpid())
    WAIT.acquire()


WAIT = threading.Lock()
WAIT.acquire()
finish(sys.argv[1])
