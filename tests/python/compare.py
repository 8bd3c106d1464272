#!/usr/bin/env python3
"""Compares what coremap says of cores of Python processes with what the processes said themselves.

usage: compare.py [--bin target/release/coremap] [--symbols | --no-symbols] [-v] CORES [NAME]...

CORES holds NAME/core with its truth beside it, as make.py writes them. One row per core, a column
for each comparison, `equal/of`; what differs first is told with -v. Exit code 1 where anything
differs. Without --no-symbols, files/ beside the core is given as --symbols.

  planted   classes of lab.py and served.py: count in heapstat
  census    types of gc.get_objects(): `tracked` in heapstat (and no tracked type besides)
  objects   all of them: how many gc.get_objects() had
  pymalloc  size classes of sys._debugmallocstats(): pools, blocks in use, blocks free
  threads   threads of which every Python frame is equal: file, qualified name, line
  names     names of threads as threading has them
  faults    the same frames against faulthandler.dump_traceback()
  py-spy    the same frames against `py-spy dump`: name and line
  big       owner (or object) that whatis tells for an address inside a big buffer
  numpy     the same for arrays of numpy that own their data
  tasks     tasks of asyncio of which the awaiting coroutines are in a chain of `async`
  samples   objects of which `object` tells every attribute by name

Where a comparison is not possible (no census of a server, no debugmallocstats without pymalloc) the
column is empty.
"""
import argparse, collections, json, os, re, subprocess, sys, time

COLUMNS = ("planted", "census", "objects", "pymalloc", "threads", "names", "faults", "py-spy", "big", "numpy", "tasks",
           "samples")


class Core:
    def __init__(self, arguments, folder):
        self.bin, self.folder = arguments.bin, folder
        self.answers, self.seconds = {}, {}
        files = os.path.join(folder, "files")
        self.symbols = ["--symbols", files] if os.path.isdir(files) and not arguments.no_symbols else []
        self.truth = json.loads(self.text("truth.json") or "{}")
        self.core = next((path for path in (folder + "/core", folder + "/core.zst") if os.path.exists(path)), None)

    def text(self, name):
        path = os.path.join(self.folder, name)
        return open(path, encoding="utf-8").read() if os.path.exists(path) else None

    def ask(self, *command):
        """The JSON answer of a command; {} where there is none."""
        if command not in self.answers:
            before = time.monotonic()
            ran = subprocess.run([self.bin, command[0], "--json", *self.symbols, *command[1:], self.core],
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=600)
            self.seconds[command[0]] = time.monotonic() - before
            try:
                self.answers[command] = json.loads(ran.stdout)
            except ValueError:
                self.answers[command] = {}
        return self.answers[command]


def bare(name):
    return name[len("builtins."):] if name.startswith("builtins.") else name


def compare_keys(want, got):
    """How many keys of want got has with the same value, of how many; and the first that differs."""
    differ = [key for key in want if want[key] != got.get(key)]
    first = "%s: want %r, got %r" % (differ[0], want[differ[0]], got.get(differ[0])) if differ else ""
    return len(want) - len(differ), len(want), first


def heap_types(core):
    count, tracked = collections.Counter(), collections.Counter()
    for row in core.ask("heapstat").get("types", []):
        count[bare(row["type"])] += row["count"]
        tracked[bare(row["type"])] += row.get("tracked") or 0
    return count, tracked


def census(core):
    text = core.text("gc_census.txt")
    # a crash comes after the census, and what it calls makes a few objects more
    if not text or core.truth.get("gil_holder"):
        return None
    want = collections.Counter()
    # sub-interpreters have lists of their own
    others = [core.text("gc_census.%d.txt" % number) or "" for number in (1, 2)]
    for line in "".join([text, *others]).splitlines():
        count, name = line.split(None, 1)
        want[bare(name)] += int(count)
    return want


def planted(core):
    want = {bare(name): count for name, count in core.truth.get("planted", {}).items()}
    return compare_keys(want, heap_types(core)[0]) if want else None


def compare_census(core):
    want = census(core)
    if want is None:
        return None
    got = {name: count for name, count in heap_types(core)[1].items() if count}
    equal, of, first = compare_keys(want, got)
    more = sorted(set(got) - set(want))
    if core.truth.get("interpreters"):
        more = []   # what another interpreter tracks is no less right
    return equal, of + len(more), first or (more and "%s: not in the census, got %d" % (more[0], got[more[0]])) or ""


def objects(core):
    want = census(core)
    if want is None or core.truth.get("interpreters"):
        return None
    want, got = sum(want.values()), sum(heap_types(core)[1].values())
    return int(want == got), 1, "" if want == got else "want %d, got %d" % (want, got)


def pymalloc(core):
    rows = re.findall(r"^ +\d+ +(\d+) +(\d+) +(\d+) +(\d+)$", core.text("debugmallocstats.txt") or "", re.M)
    if not rows or core.truth.get("interpreters") or core.truth.get("gil_holder"):
        return None
    want = {int(row[0]): tuple(map(int, row[1:])) for row in rows}
    told = core.ask("malloc").get("pymalloc") or {}
    got = {row["size"]: (row["pools"], row["blocks_used"], row["blocks_free"]) for row in told.get("classes", [])
           if row["pools"]}
    return compare_keys(want, got)


def python_frames(core):
    return {thread["tid"]: [(frame.get("file"), frame.get("method"), frame.get("line")) for frame in thread["frames"]
                            if frame["kind"] == "managed"] for thread in core.ask("threads").get("threads", [])}


def compare_stacks(want, got):
    """Stacks by thread; what differs first is told with the frame where they part."""
    bad = [tid for tid in want if want[tid] != got.get(tid)]
    first = ""
    if bad:
        mine, theirs = got.get(bad[0], []), want[bad[0]]
        at = next((n for n, (one, two) in enumerate(zip(mine, theirs)) if one != two), min(len(mine), len(theirs)))
        first = "thread %s, frame %d of %d: want %r, got %r" % (bad[0], at, len(theirs), theirs[at:at + 1], mine[at:at + 1])
    return len(want) - len(bad), len(want), first


def told_threads(core):
    threads = core.truth.get("threads")
    if not threads:
        return None
    want = {t["tid"]: [(f["file"], f["method"], f["line"]) for f in t["frames"]] for t in threads}
    # a thread that runs in a sub-interpreter has its frames there before those in the main one; in
    # 3.12 the thread state that it has there says that it is the thread that made the interpreter
    for interpreter in core.truth.get("interpreters", []):
        inside = interpreter.get("thread")
        if inside:
            want[inside["tid"]] = [(f["file"], f["method"], f["line"]) for f in inside["frames"]] + want[inside["tid"]]
    return want


def threads(core):
    want = told_threads(core)
    return compare_stacks(want, python_frames(core)) if want else None


def names(core):
    if not core.truth.get("threads"):
        return None
    got = {t["tid"]: t.get("managed_name") or t.get("name") for t in core.ask("threads").get("threads", [])}
    return compare_keys({t["tid"]: t["name"] for t in core.truth["threads"]}, got)


def faults(core):
    text = core.text("faulthandler.txt")
    if not text or not core.truth.get("threads"):
        return None
    tids = {t["ident"]: t["tid"] for t in core.truth["threads"]}
    want, stack = {}, None
    for line in text.splitlines():
        head = re.match(r"(?:Current thread|Thread) (0x[0-9a-f]+)", line)
        frame = re.match(r'  File "(.*)", line (\d+) in (.*)$', line)
        if head:
            stack = want.setdefault(tids.get(int(head[1], 16)), [])
        elif frame and stack is not None:
            stack.append((frame[1], frame[3], int(frame[2])))
    # the recorder has gone on since; it tells 100 frames at most, and names without the class before
    want.pop(core.truth["recorder"], None)
    running = {i["thread"]["tid"] for i in core.truth.get("interpreters", []) if i.get("thread")}
    want = {tid: stack for tid, stack in want.items() if tid not in running}
    last = lambda name: (name or "").rsplit(".", 1)[-1]
    ascii_only = lambda path: "".join(c for c in path or "" if ord(c) < 128)
    got = {tid: [(ascii_only(file), last(name), line) for file, name, line in stack][:len(want.get(tid, ()))]
           for tid, stack in python_frames(core).items()}
    # newer versions tell qualified names
    return compare_stacks({tid: [(file, last(name), line) for file, name, line in stack] for tid, stack in want.items()}, got)


def py_spy(core):
    text = core.text("pyspy.txt")
    if not text or not re.search(r"^Thread ", text, re.M):
        return None
    want, stack = {}, None
    for line in text.splitlines():
        head = re.match(r"Thread (\d+) ", line)
        frame = re.match(r"    (.*) \((.*):(\d+)\)$", line)
        if head:
            stack = want.setdefault(int(head[1]), [])
        elif frame and stack is not None:
            stack.append((frame[1].rsplit(".", 1)[-1], int(frame[3])))
    if core.truth.get("interpreters"):
        return None     # it tells the threads of one interpreter only
    got = {tid: [((name or "").rsplit(".", 1)[-1], line) for _, name, line in stack]
           for tid, stack in python_frames(core).items()}
    return compare_stacks(want, got)


def owners(core, wanted):
    """What whatis says of each address: the types of the object that owns it and of the one it is in."""
    differ, first = 0, ""
    for one in wanted:
        told = core.ask("whatis", hex(one["addr"]))
        types = [bare((told.get(part) or {}).get("type") or "") for part in ("owner", "object")]
        if bare(one["type"]) not in types:
            differ += 1
            first = first or "%s at %#x: want %s, got %s" % (one["name"], one["addr"], one["type"], types)
    return (len(wanted) - differ, len(wanted), first) if wanted else None


def big(core):
    # a memoryview's bytes are the bytearray's, those of BytesIO are a bytes object
    others = {"memoryview": ("builtins.bytearray",), "bytesio": ("builtins.bytes",)}
    wanted = [dict(one, type=others.get(one["name"], (one["type"],))[0]) for one in core.truth.get("big") or []]
    return owners(core, wanted)


def numpy(core):
    arrays = (core.truth.get("numpy") or {}).get("arrays", [])
    return owners(core, [one for one in arrays if one["owns_data"] and one["bytes"] > 512])


def tasks(core):
    wanted = core.truth.get("tasks")
    if not wanted:
        return None
    chains = ["\n".join(frame.get("method") or "" for frame in chain["frames"]) for chain in core.ask("async").get("chains", [])]
    differ, first = 0, ""
    for task in wanted:
        methods = "\n".join(frame["method"] for frame in reversed(task["stack"]))
        if not any("\n" + methods + "\n" in "\n" + chain + "\n" for chain in chains):
            differ += 1
            first = first or "%s: %s" % (task["name"], methods.replace("\n", " <- "))
    return len(wanted) - differ, len(wanted), first


def samples(core):
    wanted = {name: one for name, one in (core.truth.get("samples") or {}).items() if one.get("attributes")}
    differ, first = 0, ""
    for name, one in wanted.items():
        told = json.dumps(core.ask("object", hex(one["addr"])), ensure_ascii=False)
        missing = [field for field in one["attributes"] if '"%s"' % field not in told]
        if missing:
            differ += 1
            first = first or "%s at %#x: no %s" % (name, one["addr"], ", ".join(missing[:3]))
    return (len(wanted) - differ, len(wanted), first) if wanted else None


COMPARISONS = dict(zip(COLUMNS, (planted, compare_census, objects, pymalloc, threads, names, faults, py_spy, big, numpy,
                                 tasks, samples)))


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--bin", default="target/release/coremap")
    parser.add_argument("--no-symbols", action="store_true")
    parser.add_argument("--only", action="append", choices=COLUMNS)
    parser.add_argument("-v", action="store_true")
    parser.add_argument("cores")
    parser.add_argument("names", nargs="*")
    arguments = parser.parse_args()
    columns = arguments.only or COLUMNS
    print("%-20s" % "core", *("%9s" % name for name in columns))
    bad = compared = 0
    for name in arguments.names or sorted(os.listdir(arguments.cores)):
        core = Core(arguments, os.path.join(arguments.cores, name))
        if not core.core or not core.truth:
            continue
        row, notes = [], []
        for column in columns:
            try:
                told = COMPARISONS[column](core)
            except (KeyError, TypeError, AttributeError, subprocess.TimeoutExpired) as error:
                told = (0, 1, "the answer is not as expected: %s %s" % (type(error).__name__, error))
            if told is None:
                row.append("")
                continue
            equal, of, first = told
            compared += 1
            bad += equal != of
            row.append("%d/%d" % (equal, of))
            if equal != of:
                notes.append("    %s: %s" % (column, first))
        print("%-20s" % name, *("%9s" % cell for cell in row), flush=True)
        if arguments.v:
            print("\n".join(notes + ["    seconds: " + ", ".join("%s %.2f" % pair for pair in core.seconds.items())]))
    print("%d of %d comparisons equal" % (compared - bad, compared))
    sys.exit(bool(bad) or not compared)


if __name__ == "__main__":
    main()
