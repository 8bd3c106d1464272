"""A pool that lends by methods of a class, and an asyncio queue whose consumer waits for a lock that nobody gives back."""
import asyncio
import queue
import threading
import time


class Conn:
    def query(self):
        time.sleep(1e6)


class Pool:
    def __init__(self, n):
        self.idle = queue.Queue()
        for _ in range(n):
            self.idle.put(Conn())

    def take(self):
        return self.idle.get()

    def give(self, conn):
        self.idle.put(conn)


POOL = Pool(2)


def serve():
    conn = POOL.take()
    try:
        conn.query()
    finally:
        POOL.give(conn)


class Parcel:
    def __init__(self, n):
        self.note = "parcel %d" % n


async def sorter(parcels, lock):
    while True:
        await parcels.get()
        async with lock:
            pass


async def main():
    parcels, lock = asyncio.Queue(), asyncio.Lock()
    await lock.acquire()
    asyncio.create_task(sorter(parcels, lock), name="sorter")
    for n in range(9000):
        parcels.put_nowait(Parcel(n))
    await asyncio.sleep(0.2)
    print("ready", flush=True)
    await asyncio.sleep(1e6)


for i in range(6):
    threading.Thread(target=serve, name="serve-%d" % i, daemon=True).start()
time.sleep(0.5)
asyncio.run(main())
