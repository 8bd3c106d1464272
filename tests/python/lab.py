#!/usr/bin/env python3
"""A CPython process to dump, which writes down beforehand what must be found in its core.

usage: lab.py --out DIR [--loop thread|main] [--crash] [--scale RECORDS] [--interpreters]

Runs on 3.9 and later (partly on PyPy). It plants objects, buffers, caches, threads in known
poses and asyncio tasks, then writes into DIR

  truth.json           planted counts, big buffers, samples, caches, threads, tasks
  gc_census.txt        `count module.qualname`, one line per type of gc.get_objects()
  debugmallocstats.txt what sys._debugmallocstats() writes
  faulthandler.txt     what faulthandler.dump_traceback() writes

prints READY and waits. Nothing allocates between the statistics and the wait, so that the core
holds what they say: the census comes first (what it makes is freed again), the statistics are the
last thing but one, and every other thread waits without a time limit.

--loop main    the event loop runs in the main thread, and another thread records
--crash        instead of waiting, the recording thread reads address 0 with the GIL held (what it
               calls for that makes a few objects after the statistics)
--scale N      N more records (five objects each) in a list
--interpreters two sub-interpreters with objects of their own, one with a thread running in it
"""
import array, asyncio, collections, ctypes, dataclasses, dis, enum, faulthandler, functools
import gc, hashlib, io, itertools, json, operator, os, sys, threading, time

FOREVER = 1000000.0
CPYTHON = sys.implementation.name == "cpython"


# What is planted. Every class has a count that no other class has.

class Plain:
    def __init__(self, number):
        self.number = number
        self.label = "plain-%d" % number
        self.ratio = number / 3


class Slotted:
    __slots__ = ("left", "right", "weight")

    def __init__(self, left, right, weight):
        self.left, self.right, self.weight = left, right, weight


class Node:
    def __init__(self, value, after):
        self.value, self.after = value, after


class Late:
    """Its attributes come one by one, more of them in some instances than in others."""


class DictSub(dict):
    pass


class ListSub(list):
    pass


class BytesSub(bytes):
    pass


class StrSub(str):
    pass


class TupleSub(tuple):
    pass


class IntSub(int):
    pass


class Orphan:
    """Only ever in a cycle that nothing else refers to."""

    def __init__(self, number):
        self.number = number
        self.ballast = b"%06d" % number * 200


@dataclasses.dataclass
class Reading:
    sensor: str
    value: float
    tags: list


Point = collections.namedtuple("Point", "x y name")


class Colour(enum.Enum):
    RED = 1
    GREEN = 2
    BLUE = 3
    INFRARED = 4


class Outer:
    class Inner:
        def __init__(self, number):
            self.number = number


class Hooked:
    """Has __getattr__, so that a frame of it can lie below an attribute access."""

    def __getattr__(self, name):
        if name == "slow":
            return wait_event()
        raise AttributeError(name)

    @property
    def answer(self):
        return self.slow


class Record:
    __slots__ = ("number", "name", "amount", "pair")

    def __init__(self, number):
        self.number = number + 1000000
        self.name = "record %d" % number
        self.amount = number * 0.25
        self.pair = (self.name, self.amount)


def size_of(one):
    return sys.getsizeof(one) if CPYTHON else 0


KEEP = {}           # what must live as long as the process, by name
CACHE = {}          # a cache as programs have it: a module's dictionary
PLANTED = {}        # type name -> how many
EVENT = threading.Event()
LOCK = threading.Lock()


def plant(name, objects):
    KEEP[name] = objects
    PLANTED[objects and type_name(type(objects[0]))] = len(objects)


def type_name(kind):
    module = kind.__module__
    return "%s.%s" % (module, kind.__qualname__) if isinstance(module, str) else kind.__qualname__


def plant_objects():
    plant("plain", [Plain(n) for n in range(1234)])
    plant("slotted", [Slotted(n, str(n), n / 7) for n in range(2345)])
    chain, nodes = None, []
    for n in range(321):
        chain = Node(n, chain)
    KEEP["chain"] = chain
    PLANTED["__main__.Node"] = 321
    late = [Late() for _ in range(117)]
    for n, one in enumerate(late):
        for k in range(n % 40):
            setattr(one, "field_%d" % k, (n, k))
    plant("late", late)
    plant("dict_sub", [DictSub({"n": n, n: "n"}) for n in range(77)])
    plant("list_sub", [ListSub(range(n)) for n in range(66)])
    plant("bytes_sub", [BytesSub(b"bytes-%d" % n) for n in range(55)])
    plant("str_sub", [StrSub("str-%d" % n) for n in range(44)])
    plant("tuple_sub", [TupleSub((n, n + 1)) for n in range(33)])
    plant("int_sub", [IntSub(10 ** 30 + n) for n in range(22)])
    plant("readings", [Reading("sensor-%d" % (n % 9), n * 1.5, ["a", n]) for n in range(432)])
    plant("points", [Point(n, n * n, "p%d" % n) for n in range(543)])
    plant("inner", [Outer.Inner(n) for n in range(210)])
    KEEP["colours"] = list(Colour)
    PLANTED["__main__.Colour"] = len(Colour)
    KEEP["sets"] = [{n, n + 1, "s%d" % n} for n in range(150)]
    KEEP["frozen"] = [frozenset((n, "f%d" % n)) for n in range(140)]
    KEEP["closures"] = [(lambda n: lambda: n)(n) for n in range(130)]
    KEEP["bound"] = [one.__init__ for one in KEEP["plain"][:120]]
    KEEP["big_ints"] = [2 ** 200 + n for n in range(400)]
    KEEP["text"] = ["ascii %d" % n for n in range(200)] + ["кириллица %d" % n for n in range(200)] + \
        ["latin é %d" % n for n in range(100)] + ["\U0001f40d %d" % n for n in range(100)]


def plant_orphans():
    for n in range(111):
        one, two = Orphan(n), Orphan(n + 1000)
        one.other, two.other = two, one
    PLANTED["__main__.Orphan"] = 222


def plant_fragments():
    """Arenas full of small blocks, of which one in three thousand stays."""
    many = [b"fragment %06d" % n + bytes(100) for n in range(200000)]
    KEEP["fragments"] = many[::3000]
    return {"made": len(many), "kept": len(KEEP["fragments"]), "sizeof": size_of(many[0])}


@functools.lru_cache(maxsize=None)
def cached_square(number):
    return number * number + 10 ** 12


@functools.lru_cache(maxsize=500)
def cached_page(number):
    return b"%04d" % number * 256


def plant_caches():
    for n in range(3000):
        cached_square(n)
    for n in range(900):
        cached_page(n)
    for n in range(256):
        CACHE["page-%d" % n] = bytes([n]) * 4096
    return {
        "module_dict": {"module": "__main__", "name": "CACHE", "addr": id(CACHE), "entries": len(CACHE),
                        "bytes": sum(map(size_of, CACHE.values()))},
        "lru": [{"function": one.__qualname__, "addr": id(one), "entries": one.cache_info().currsize,
                 "maxsize": one.cache_info().maxsize} for one in (cached_square, cached_page)],
    }


def pointer_at(address):
    return int.from_bytes(ctypes.string_at(address, 8), "little")


def plant_big():
    """Big objects: where each lies (`id`), an address inside what it owns (`addr`) and how many
    bytes of content there are. Bytes, str and bytearray through the C API; a list's ob_item, a
    dict's ma_keys, a set's table and a deque's first block are at offsets that did not change from
    3.9 to 3.14."""
    big = []

    def note(one, name, address, size, **more):
        KEEP["big:" + name] = one
        big.append(dict(name=name, type=type_name(type(one)), id=id(one), addr=address, bytes=size,
                        sizeof=size_of(one), **more))

    def api(function):
        call = getattr(ctypes.pythonapi, function)
        call.argtypes, call.restype = [ctypes.py_object], ctypes.c_void_p
        return call

    if not CPYTHON:
        return big
    of_bytes, of_bytearray = api("PyBytes_AsString"), api("PyByteArray_AsString")
    grown = bytearray()
    for _ in range(250):
        grown += b"g" * 1000
    for name, one in (("bytearray-1m", bytearray(b"a" * 1048577)), ("bytearray-grown", grown)):
        note(one, name, of_bytearray(one), len(one))
    shifted = bytearray(b"s" * 300000)
    del shifted[:100000]
    note(shifted, "bytearray-shifted", of_bytearray(shifted), len(shifted))
    for name, size in (("bytes-2m", 2000003), ("bytes-600", 600), ("bytes-40k", 40001)):
        one = bytes([size & 127]) * size
        note(one, name, of_bytes(one), size)
    for name, one in (("str-ascii", "x" * 700001), ("str-latin", "é" * 300001), ("str-ucs2", "ж" * 200001),
                      ("str-ucs4", "\U0001f40d" * 100001)):
        note(one, name, id(one) + size_of(one) // 2, size_of(one), characters=len(one))
    for name, code, items in (("array-double", "d", 100000), ("array-short", "h", 50000), ("array-byte", "B", 3000)):
        one = array.array(code, [n % 100 for n in range(items)])
        note(one, name, one.buffer_info()[0], items * one.itemsize, typecode=code)
    one = [None, True] * 500000
    note(one, "list-million", pointer_at(id(one) + 24), 8 * len(one), items=len(one))
    one = {n: None for n in range(200000)}
    note(one, "dict-200k", pointer_at(id(one) + 32), size_of(one), items=len(one))
    one = {"key %d" % n: n for n in range(30000)}
    note(one, "dict-str-30k", pointer_at(id(one) + 32), size_of(one), items=len(one))
    one = set(range(500000, 560000))
    note(one, "set-60k", pointer_at(id(one) + 40), size_of(one), items=len(one))
    one = collections.deque(range(40000), maxlen=40000)
    note(one, "deque-40k", pointer_at(id(one) + 24), 8 * len(one), items=len(one))
    one = tuple(range(70000))
    note(one, "tuple-70k", id(one) + 1000, 8 * len(one), items=len(one))
    one = io.BytesIO(b"")
    one.write(b"io" * 200000)
    view = one.getbuffer()
    note(one, "bytesio", ctypes.addressof((ctypes.c_char * len(view)).from_buffer(view)), 400000)
    del view
    one = memoryview(KEEP["big:bytearray-1m"])[4096:8192]
    note(one, "memoryview", of_bytearray(KEEP["big:bytearray-1m"]) + 4096, 4096, of="bytearray-1m")
    one = (ctypes.c_double * 50000)()
    note(one, "ctypes-array", ctypes.addressof(one), 400000)
    return big


def plant_numpy():
    try:
        import numpy
    except ImportError:
        return None
    base = numpy.arange(150000, dtype="float64").reshape(500, 300)
    backing = bytearray(64000)
    arrays = {
        "float64-500x300": base,
        "view": base[::2, 10:20],
        "transposed": base.T,
        "int32-1m": numpy.arange(1000000, dtype="int32"),
        "fortran": numpy.asfortranarray(numpy.ones((200, 100, 3), dtype="float32")),
        "complex": numpy.full((64, 64), 1 + 2j),
        "bool": numpy.zeros(77777, dtype=bool),
        "objects": numpy.array([Outer.Inner, "text", None, 5.5] * 2000, dtype=object),
        "structured": numpy.zeros(4000, dtype=[("id", "<u4"), ("where", "<f8", (3,)), ("name", "S12")]),
        "text": numpy.array(["one", "two", "three"] * 1000),
        "datetime": numpy.arange("2020-01", "2024-01", dtype="datetime64[D]"),
        "on-bytearray": numpy.frombuffer(backing, dtype="uint16"),
        "scalar-array": numpy.array(4.5),
    }
    KEEP["numpy"] = arrays
    return {"version": numpy.__version__, "arrays": [
        {"name": name, "id": id(one), "addr": one.ctypes.data, "type": type_name(type(one)), "dtype": str(one.dtype),
         "shape": list(one.shape), "strides": list(one.strides), "itemsize": one.itemsize, "bytes": one.nbytes,
         "owns_data": bool(one.flags.owndata), "base": id(one.base) if one.base is not None else None}
        for name, one in arrays.items()]}


def samples():
    """Objects of which the content is told: to compare what a tool shows of them."""
    KEEP["sample-dict"] = {"one": 1, 2: "two", (3, 4): [5, 6], None: 7.5, b"key": {"deep": True}}
    KEEP["sample-list"] = [1, -2, 2 ** 70, -(2 ** 70), 1.5, "text", "ж", None, True, b"raw\x00", (), []]
    KEEP["sample-set"] = {"alpha", "beta", 17}
    KEEP["sample-deleted"] = {n: n for n in range(20)}
    for n in range(0, 20, 3):
        del KEEP["sample-deleted"][n]
    shown = {}
    for name in ("sample-dict", "sample-list", "sample-set", "sample-deleted"):
        one = KEEP[name]
        shown[name] = {"addr": id(one), "type": type_name(type(one)), "repr": repr(one), "items": len(one)}
    for name in ("plain", "slotted", "readings", "points", "dict_sub", "inner", "text"):
        one = KEEP[name][7]
        fields = [f for f in ("number", "label", "ratio", "left", "right", "weight", "sensor", "value", "tags",
                              "x", "y", "name") if hasattr(one, f)]
        shown[name + "[7]"] = {"addr": id(one), "type": type_name(type(one)), "repr": repr(one),
                               "attributes": {f: repr(getattr(one, f)) for f in fields}}
    # reading __dict__ would turn the attributes stored inline (3.11 on) into a dict: one on purpose
    one = KEEP["plain"][8]
    shown["plain[8] with a dict"] = {"addr": id(one), "type": type_name(type(one)), "dict": id(one.__dict__),
                                     "attributes": {k: repr(v) for k, v in one.__dict__.items()}}
    shown["late[39]"] = {"addr": id(KEEP["late"][39]), "type": "__main__.Late",
                         "attributes": {"field_%d" % k: repr((39, k)) for k in range(39)}}
    return shown


# Threads, each in a pose of its own

def wait_event():
    EVENT.wait()


def recursion(depth):
    if depth == 0:
        return wait_event()
    return recursion(depth - 1)


def inner_generator():
    yield 1
    wait_event()
    yield 2


def outer_generator():
    yield from inner_generator()


def pose_generator():
    for _ in outer_generator():
        pass


def pose_comprehension():
    return [wait_event() for _ in range(3)]


def pose_expression():
    return sum(n or wait_event() for n in range(3))


def pose_lambda():
    return (lambda one: (lambda: one.acquire())())(LOCK)


def pose_lock():
    with LOCK:
        pass


def pose_sleep():
    time.sleep(
        FOREVER)


def pose_sorted():
    return sorted([3, 1, 2], key=lambda n: wait_event())


def waiting_sum(left, right):
    wait_event()
    return left + right


def pose_reduce():
    return functools.reduce(waiting_sum, range(5))


def pose_ctypes():
    kind = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)

    def compare(left, right):
        wait_event()
        return 0
    numbers = (ctypes.c_int * 4)(4, 3, 2, 1)
    ctypes.CDLL(None).qsort(numbers, 4, 4, kind(compare))


def pose_native():
    hashlib.pbkdf2_hmac("sha256", b"password", b"salt" * 4, 2000000000)


def pose_pipe():
    os.read(KEEP["pipe"][0], 1)


def pose_exec():
    exec(compile("def made_up():\n\n    wait_event()\nmade_up()\n", "<made up>", "exec"), {"wait_event": wait_event})


def pose_property():
    return Hooked().answer


def pose_context():
    class Local:
        def __enter__(self):
            wait_event()

        def __exit__(self, *_):
            pass
    with Local():
        pass


def pose_partial():
    return functools.partial(operator.methodcaller("wait"), EVENT)()


def pose_chain():
    return next(itertools.chain.from_iterable(map(lambda n: wait_event(), [1, 2])))


class Worker(threading.Thread):
    """A subclass of Thread with a run() of its own and no target."""

    def run(self):
        wait_event()


POSES = [
    ("lab-recursion", lambda: recursion(25)),
    ("lab-deep", lambda: recursion(400)),
    ("lab-генератор", pose_generator),
    ("lab-comprehension", pose_comprehension),
    ("lab-expression", pose_expression),
    ("lab-lambda", pose_lambda),
    ("lab-lock", pose_lock),
    ("lab-sleep", pose_sleep),
    ("lab-sorted", pose_sorted),
    ("lab-reduce", pose_reduce),
    ("lab-ctypes", pose_ctypes),
    ("lab-native", pose_native),
    ("lab-pipe", pose_pipe),
    ("lab-exec", pose_exec),
    ("lab-property", pose_property),
    ("lab-context é", pose_context),
    ("lab-partial", pose_partial),
    ("lab-chain \U0001f40d", pose_chain),
]


# Tasks, in groups by what they wait for

async def sleeper(seconds):
    await asyncio.sleep(seconds)


async def waits_for_event(event):
    await event.wait()


async def third(event):
    await event.wait()


async def second(event):
    return await third(event)


async def first(event):
    await second(event)


async def consumer(queue):
    while True:
        await queue.get()


async def gathers(event):
    await asyncio.gather(*(waits_for_event(event) for _ in range(3)), sleeper(FOREVER))


async def awaits_task(other):
    await other


async def shielded(other):
    await asyncio.shield(other)


async def with_timeout(event):
    await asyncio.wait_for(event.wait(), FOREVER)


async def holds_lock(lock, event):
    async with lock:
        await event.wait()


async def wants_lock(lock):
    async with lock:
        pass


async def numbers(event):
    yield 1
    await event.wait()
    yield 2


async def iterates(event):
    async for _ in numbers(event):
        pass


async def waits_for_future(future):
    await future


async def serve(started):
    loop = asyncio.get_running_loop()
    event, queue, lock, future = asyncio.Event(), asyncio.Queue(), asyncio.Lock(), loop.create_future()
    tasks = []

    def spawn(name, *coroutines):
        for n, one in enumerate(coroutines):
            tasks.append(loop.create_task(one))
            tasks[-1].set_name("%s-%d" % (name, n))

    spawn("sleeper", *(sleeper(FOREVER + n) for n in range(20)))
    spawn("event", *(waits_for_event(event) for _ in range(10)))
    spawn("chain", *(first(event) for _ in range(7)))
    spawn("consumer", *(consumer(queue) for _ in range(8)))
    spawn("gather", *(gathers(event) for _ in range(2)))
    spawn("timeout", *(with_timeout(event) for _ in range(3)))
    spawn("lock-holder", holds_lock(lock, event))
    await asyncio.sleep(0)
    spawn("lock", *(wants_lock(lock) for _ in range(4)))
    spawn("iterator", *(iterates(event) for _ in range(2)))
    spawn("future", *(waits_for_future(future) for _ in range(5)))
    spawn("задача", awaits_task(tasks[0]), awaits_task(tasks[0]))
    spawn("second-order", awaits_task(tasks[-1]))
    spawn("shield", shielded(tasks[1]))
    KEEP["asyncio"] = (loop, tasks)
    await asyncio.sleep(0.2)
    started.set()
    await event.wait()


def pose_loop(started):
    asyncio.run(serve(started))


def code_name(code):
    return getattr(code, "co_qualname", code.co_name)


def frame_truth(frame, line=None):
    code = frame.f_code
    return {"file": code.co_filename, "method": code_name(code), "name": code.co_name,
            "line": line or frame.f_lineno}


def await_stack(one):
    """The chain of what a coroutine awaits, outermost first, and the type it ends at."""
    stack = []
    while one is not None:
        for prefix in ("cr", "gi", "ag"):
            if hasattr(one, prefix + "_frame"):
                frame = getattr(one, prefix + "_frame")
                if frame is not None:
                    stack.append(frame_truth(frame))
                one = getattr(one, prefix + ("_yieldfrom" if prefix == "gi" else "_await"))
                break
        else:
            return stack, type_name(type(one))
    return stack, None


def task_truth(loop):
    told = []
    for one in sorted(asyncio.all_tasks(loop), key=lambda task: task.get_name()):
        stack, end = await_stack(one.get_coro())
        waiter = getattr(one, "_fut_waiter", None)
        told.append({
            "addr": id(one), "name": one.get_name(), "coroutine": code_name(one.get_coro().cr_code), "stack": stack,
            "ends_at": end, "waits_for": waiter and type_name(type(waiter)),
            "waits_for_addr": id(waiter) if waiter is not None else None,
            "waits_for_task": waiter.get_name() if isinstance(waiter, asyncio.Task) else None})
    return told


# Sub-interpreters

SUB_SCRIPT = """
import gc, os
class SubPlain:
    def __init__(self, number):
        self.number = number
kept = [SubPlain(n) for n in range({count})]
blob = bytes(300000 + {count})
gc.disable()
def census():
    found = {{}}
    objects = gc.get_objects()
    for one in objects:
        kind = type(one)
        found[kind] = found.get(kind, 0) + 1
    out = "".join("%d %s.%s\\n" % (n, kind.__module__, kind.__qualname__) for kind, n in found.items())
    fd = os.open({path!r}, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.write(fd, out.encode())
    os.close(fd)
census()
"""
SUB_WAIT = "import time\ndef stay_inside():\n    time.sleep(1000000.0)\nstay_inside()\n"


def plant_interpreters(out):
    try:
        import _interpreters as api
    except ImportError:
        import _xxsubinterpreters as api
    told = []
    for place, count in enumerate((700, 900)):
        number = api.create()
        path = os.path.join(out, "gc_census.%d.txt" % (place + 1))
        failed = api.run_string(number, SUB_SCRIPT.format(count=count, path=path))
        if failed is not None:
            raise SystemExit("sub-interpreter: %r" % (failed,))
        entry = {"id": int(number), "planted": {"__main__.SubPlain": count}, "census": os.path.basename(path)}
        if place == 1:
            thread = threading.Thread(target=lambda: api.run_string(number, SUB_WAIT), name="lab-sub", daemon=True)
            thread.start()
            entry["thread"] = {"tid": thread.native_id, "frames": [
                {"file": "<string>", "method": "stay_inside", "name": "stay_inside", "line": 3},
                {"file": "<string>", "method": "<module>", "name": "<module>", "line": 4}]}
        KEEP["interpreter-%d" % place] = number
        told.append(entry)
    return told


# The last act

class Recorder:
    """All steps are called from one line, so that the frames below the last are known before."""

    def __init__(self, arguments, truth):
        self.arguments, self.truth = arguments, truth
        self.files = {name: os.open(os.path.join(arguments.out, name), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
                      for name in ("gc_census.txt", "debugmallocstats.txt", "faulthandler.txt")}

    def run(self):
        last = self.crash if self.arguments.crash else self.stay
        for step in (self.tell, self.faults, self.forget, self.census, self.forget, last):
            step()

    def last_frames(self):
        if self.arguments.crash:
            code = ctypes.string_at.__code__
            line = max(line for _, line in dis.findlinestarts(code) if line)
            return [{"file": code.co_filename, "method": code_name(code), "name": code.co_name, "line": line}] + \
                [self.frame_of(Recorder.crash, 3)]
        return [self.frame_of(Recorder.stay, 3)]

    @staticmethod
    def frame_of(function, line):
        code = function.__code__
        return {"file": code.co_filename, "method": code_name(code), "name": code.co_name,
                "line": code.co_firstlineno + line}

    def tell(self):
        mine = threading.get_ident()
        threads = []
        for one in sorted(threading.enumerate(), key=lambda thread: thread.native_id):
            frame = sys._current_frames()[one.ident]
            frames = []
            if one.ident == mine:
                frames = self.last_frames()
                frame = frame.f_back
            while frame is not None:
                frames.append(frame_truth(frame))
                frame = frame.f_back
            threads.append({"tid": one.native_id, "ident": one.ident, "name": one.name, "daemon": one.daemon,
                            "frames": frames})
        self.truth["threads"] = threads
        self.truth["recorder"] = threading.get_native_id()
        self.truth["gil_holder"] = threading.get_native_id() if self.arguments.crash else None
        self.truth["tasks"] = task_truth(KEEP["asyncio"][0])
        self.truth["modules"] = len(sys.modules)
        with open(os.path.join(self.arguments.out, "truth.json"), "w", encoding="utf-8") as file:
            json.dump(self.truth, file, ensure_ascii=False, indent=1)

    def faults(self):
        faulthandler.dump_traceback(self.files["faulthandler.txt"])

    def forget(self):
        self.truth.clear()
        sys._clear_type_cache() if hasattr(sys, "_clear_type_cache") else None

    def census(self):
        objects = gc.get_objects()
        found = {}
        for one in objects:
            kind = type(one)
            found[kind] = found.get(kind, 0) + 1
        text = "".join("%d %s\n" % (count, type_name(kind))
                       for kind, count in sorted(found.items(), key=lambda pair: -pair[1]))
        os.write(self.files["gc_census.txt"], text.encode())

    def stay(self):
        STATISTICS()
        os.write(1, b"READY\n")
        time.sleep(FOREVER)

    def crash(self):
        STATISTICS()
        os.write(1, b"READY\n")
        ctypes.string_at(0)


STATISTICS = getattr(sys, "_debugmallocstats", lambda: None)


def settled():
    """Waits until no thread moves any more."""
    def poses():
        return {ident: [(f.f_code.co_name, f.f_lineno) for f in chain(frame)]
                for ident, frame in sys._current_frames().items() if ident != threading.get_ident()}

    def chain(frame):
        while frame is not None:
            yield frame
            frame = frame.f_back
    before = None
    while before != poses():
        before = poses()
        time.sleep(0.3)


def main():
    import argparse
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", required=True)
    parser.add_argument("--loop", choices=("thread", "main"), default="thread")
    parser.add_argument("--crash", action="store_true")
    parser.add_argument("--scale", type=int, default=0)
    parser.add_argument("--interpreters", action="store_true")
    arguments = parser.parse_args()
    gc.disable()
    truth = {
        "version": sys.version, "hexversion": sys.hexversion, "implementation": sys.implementation.name,
        "pid": os.getpid(), "executable": sys.executable, "gil": getattr(sys, "_is_gil_enabled", lambda: True)(),
        "malloc": os.environ.get("PYTHONMALLOC", "pymalloc"),
    }
    plant_objects()
    truth["fragments"] = plant_fragments()
    truth["caches"] = plant_caches()
    truth["big"] = plant_big()
    truth["numpy"] = plant_numpy()
    truth["samples"] = samples()
    KEEP["records"] = [Record(n) for n in range(arguments.scale)]
    if arguments.scale:
        PLANTED["__main__.Record"] = arguments.scale
    KEEP["pipe"] = os.pipe()
    LOCK.acquire()
    for name, pose in POSES:
        threading.Thread(target=pose, name=name, daemon=True).start()
    Worker(name="lab-worker", daemon=True).start()
    if arguments.interpreters:
        truth["interpreters"] = plant_interpreters(arguments.out)
    # three generations with something in each: the orphans stay in the youngest
    gc.collect(1)
    truth["planted"] = PLANTED
    started = threading.Event()
    recorder = Recorder(arguments, truth)

    def record():
        started.wait()
        settled()
        gc.collect(0)
        plant_orphans()
        KEEP["young"] = [Slotted(None, None, None) for _ in range(10)]
        PLANTED["__main__.Slotted"] += 10
        os.dup2(recorder.files["debugmallocstats.txt"], 2)
        recorder.run()

    if arguments.loop == "main":
        threading.Thread(target=record, name="lab-recorder", daemon=True).start()
        pose_loop(started)
    else:
        threading.Thread(target=pose_loop, args=(started,), name="lab-asyncio", daemon=True).start()
        record()


if __name__ == "__main__":
    main()
