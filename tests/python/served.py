"""What servers run so that their cores hold something known: a WSGI application (gunicorn, uwsgi),
an aiohttp and a Tornado server, Celery tasks. Each plants 4321 rows and a cache in this module,
has requests that are being answered (slowly: forever), and writes truth.json into $LAB_OUT.

gunicorn:  gunicorn -b 127.0.0.1:8101 -w 1 --threads 8 served:application
uwsgi:     uwsgi --http-socket 127.0.0.1:8102 --plugin python3 --enable-threads --threads 6 --module served
aiohttp:   python3 served.py aiohttp
tornado:   python3 served.py tornado
celery:    celery -A served worker -P threads -c 6
"""
import gc, json, os, sys, threading, time, urllib.request


class Row:
    def __init__(self, number):
        self.number, self.text = number, "row %d" % number


ROWS = []
CACHE = {}
PORT = int(os.environ.get("LAB_PORT", "0"))


def plant():
    ROWS.extend(Row(n) for n in range(4321))
    for n in range(700):
        CACHE["/page/%d" % n] = b"%03d" % (n % 1000) * 1000


def tell():
    """A census while the program runs: about right, but for what was planted exact."""
    census = {}
    for one in gc.get_objects():
        name = "%s.%s" % (type(one).__module__, type(one).__qualname__)
        census[name] = census.get(name, 0) + 1
    out = os.environ["LAB_OUT"]
    with open(os.path.join(out, "gc_census_about.txt"), "w") as file:
        file.writelines("%d %s\n" % (count, name) for name, count in sorted(census.items(), key=lambda p: -p[1]))
    with open(os.path.join(out, "truth.json"), "w") as file:
        json.dump({"version": sys.version, "hexversion": sys.hexversion, "implementation": sys.implementation.name,
                   "pid": os.getpid(), "planted": {Row.__module__ + ".Row": len(ROWS)},
                   "caches": {"module_dict": {"module": __name__, "name": "CACHE", "addr": id(CACHE),
                                              "entries": len(CACHE)}, "lru": []}}, file)


def answer_slowly(number):
    time.sleep(1000000.0)
    return number


def application(environ, start_response):
    answer_slowly(environ["PATH_INFO"])
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [b"done"]


def ask():
    time.sleep(1.0)

    def get(number):
        urllib.request.urlopen("http://127.0.0.1:%d/slow/%d" % (PORT, number)).read()
    for number in range(4):
        threading.Thread(target=get, args=(number,), daemon=True, name="client-%d" % number).start()
    time.sleep(1.5)
    tell()
    time.sleep(1000000.0)


def begin():
    plant()
    threading.Thread(target=ask, daemon=True, name="asks").start()


def serve_aiohttp():
    import asyncio
    from aiohttp import web
    queue = None

    async def handle(request):
        return await work(request)

    async def work(request):
        await queue.get()

    async def background(number):
        await asyncio.sleep(1000000.0 + number)

    async def start(_):
        nonlocal queue
        queue = asyncio.Queue()
        CACHE["tasks"] = [asyncio.get_running_loop().create_task(background(n)) for n in range(12)]
    application = web.Application()
    application.router.add_get("/slow/{number}", handle)
    application.on_startup.append(start)
    web.run_app(application, host="127.0.0.1", port=PORT, print=None)


def serve_tornado():
    import asyncio
    import tornado.web

    class Slow(tornado.web.RequestHandler):
        async def get(self, number):
            await asyncio.sleep(1000000.0)

    async def serve():
        tornado.web.Application([("/slow/(.*)", Slow)]).listen(PORT, "127.0.0.1")
        await asyncio.Event().wait()
    asyncio.run(serve())


if "celery" in os.path.basename(sys.argv[0]):
    import celery
    app = celery.Celery("served", broker="memory://")

    @app.task
    def slow(number):
        answer_slowly(number)

    def send():
        time.sleep(2.0)
        for number in range(9):
            slow.delay(number)
        time.sleep(1.5)
        tell()
    plant()
    threading.Thread(target=send, daemon=True, name="sends").start()
elif __name__ == "__main__":
    begin()
    {"aiohttp": serve_aiohttp, "tornado": serve_tornado}[sys.argv[1]]()
elif PORT:
    begin()
