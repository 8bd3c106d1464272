"""A small process to take a test core of: what containers and caches retain, where parts of it have several referrers.
Writes what it knows to the file named by its argument, then waits."""
import functools
import sched
import sys
import threading
from posix import getpid
from select import poll
from time import sleep

PAGE = 4096


@functools.lru_cache(maxsize=400)
def page(n):
    return b"\x41" * PAGE + b"%d" % n


class Fault(Exception):
    pass


def read(n, scratch):
    raise Fault(n)


def attempt(n):
    scratch = b"\x42" * (4 * PAGE) + b"%d" % n
    read(n, scratch)


class Order:
    def __init__(self, n):
        self.number = n + 0.5
        self.label = "order %d" % n
        self.lines = [n + 0.25]


FAULTS, VIEWS, ORDERS = {}, {}, {}


def fill():
    for n in range(300):
        page(n)
    for n in range(100):
        try:
            attempt(n)
        except Fault as fault:
            FAULTS[n] = fault
    for n in range(80):
        VIEWS[n] = memoryview(bytearray(b"\x43" * (5 * PAGE)))
    for n in range(3000):
        ORDERS[n] = Order(n)


fill()


def waits_in_poll():
    poll().poll()


def waits_for_clock():
    events = sched.scheduler()
    events.enter(1e6, 0, waits_in_poll)
    events.run()


def waits_for_lock():
    LOCK.acquire()


LOCK = threading.Lock()
LOCK.acquire()
for target in (waits_in_poll, waits_for_clock, waits_for_lock, waits_for_lock):
    threading.Thread(target=target, name=target.__name__, daemon=True).start()
sleep(0.5)



def in_blocks(*objects):
    """Bytes of blocks for these objects: the allocator's blocks are multiples of 16 bytes."""
    return sum(-(-sys.getsizeof(o) // 16) * 16 for o in objects)


in_orders = in_blocks(ORDERS) + sum(
    in_blocks(key, order, order.__dict__, order.number, order.label, order.lines, order.lines[0])
    for key, order in ORDERS.items()
)
truth = {
    "pid": getpid(),
    "cache": id(page),
    "pages": sum(sys.getsizeof(page(n)) for n in range(300)),
    "faults": id(FAULTS),
    "scratch": sum(sys.getsizeof(fault.__traceback__.tb_next.tb_frame.f_locals["scratch"]) for fault in FAULTS.values()),
    "views": id(VIEWS),
    "buffers": sum(sys.getsizeof(view.obj) for view in VIEWS.values()),
    "orders": id(ORDERS),
    "in_orders": in_orders,
    "threads": [[thread.name, thread.native_id] for thread in threading.enumerate()],
}
with open(sys.argv[1], "w") as out:
    rows = [f' "{name}": {value}'.replace("'", '"') for name, value in truth.items()]
    out.write("{\n" + ",\n".join(rows) + "\n}\n")
sleep(1e6)
