"""A small process to take a test core of: exceptions that keep their tracebacks, frames of functions that returned,
frames with more variables than a block of an arena has room for, generators and coroutines that wait. Writes what it
knows to the file named by its argument, then waits."""
import gc
import sys
import time
from posix import getpid

FAULTS = 300


class Parcel:
    pass


def deepest(n):
    parcel = Parcel()
    raise ValueError(n)


def outer(n):
    weight = [n, n + 1]
    deepest(n)


WIDE = "def wide():\n" + "".join(f"    v{i} = Parcel()\n" for i in range(80)) + "    return sys._getframe()\n"
exec(WIDE)


def generator(n):
    own = Parcel()
    yield own
    yield n


async def coroutine(n):
    own = Parcel()
    await Never()


class Never:
    def __await__(self):
        yield


faults, generators, coroutines = [], [], []
for n in range(FAULTS):
    try:
        outer(n)
    except ValueError as fault:
        faults.append(fault)
kept_frame = wide()
for n in range(20):
    generators.append(generator(n))
    next(generators[-1])
    coroutines.append(coroutine(n))
    coroutines[-1].send(None)
gc.collect()


def of(kind):
    return [o for o in gc.get_objects() if type(o) is kind]


FrameType, TracebackType = type(kept_frame), type(faults[0].__traceback__)
truth = {
    "pid": getpid(),
    "tracked_frames": len(of(FrameType)),
    "tracebacks": len(of(TracebackType)),
    "parcels": len(of(Parcel)),
    "faults": id(faults),
    "first_frame": id(faults[0].__traceback__.tb_next.tb_frame),
    "last_frame": id(faults[-1].__traceback__.tb_next.tb_next.tb_frame),
    "wide_frame": id(kept_frame),
    "wide_size": sys.getsizeof(kept_frame),
    "generator": id(generators[0]),
    "coroutine": id(coroutines[0]),
}
with open(sys.argv[1], "w") as out:
    rows = [f' "{name}": {value}' for name, value in truth.items()]
    out.write("{\n" + ",\n".join(rows) + "\n}\n")
time.sleep(1e6)
