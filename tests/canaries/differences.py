"""What answers may differ in between a core and what `shrink --scrub` made of it, and why. All else must be equal."""
import re

# What a number may do that becomes less when words lead nowhere any more, or more.
LESS, MORE = "less", "more"

# In place of a runtime: the core has none.
NO_RUNTIME = "no runtime"

# Why words that led somewhere don't any more:
TORN = "an address of which the end of a text overwrote the first bytes leads nowhere any more"
LOW = "a number below 2^40 that leads into the middle of a word of a block or a variable is none any more: buffers of programs that are not position-independent are read at such places"
NUMBER = "a number on a stack that looks like an address keeps nothing any more"

# (command, path in its JSON with [] for any row, why, then in any order: the runtime that the core must have if there is one, and
# which way alone a number may go)
ALLOWED = [
    (".*", r"core\.(path|size|producer|packed|truncated)", "it is another file"),
    ("threads.*|exceptions", r".*exception\.message", "a message is a value"),
    ("refs", "exit status", "numbers that only look like addresses point at nothing any more"),
    ("refs", r"refs\.length", "two elements of an int[], or its hash, may look like the address of an object", "HotSpot", LESS),
    ("summary|stacks", r"findings\[\]\.text", "a text quotes what memory is filled with, or the environment, which go"),
    ("malloc", r"findings\[\]\..*", "blocks that are filled alike are told by what fills them, which goes"),
    ("retained|gcroot.*", r".*(dominator_field|chain\[\]\.field)", "of an entry of a Python dict this is its key"),
    ("gcroot.*", "more", "ways to a key of a Python dict are told apart by the first characters of the key"),
    ("heapstat.*", r"strings\.(distinct|wasted)", "a name stays, and an equal text that is none goes: two, where one was"),
    # What is used as a whole is compared: a block that is not reachable any more is leaked, and no other difference there is.
    ("leaks", r"(leaked|direct|clusters)\b.*", TORN + "; " + LOW, MORE),
    ("leaks", r"reachable\b.*", TORN + "; " + LOW, LESS),
    ("leaks", "exit status", "1 is for no leaks", LESS),
    ("heapstat.*", r"lost\.places\[\]\.reason", "it quotes the word that is no type"),
    ("heapstat.*", r"strings\.unreadable", "characters of a dead string lie in memory that is no object's any more", "HotSpot", MORE),
    ("retained|gcroot.*", r"live\.(objects|size)", NUMBER, "HotSpot", LESS),
    ("retained|gcroot.*", r"(unreachable\.(objects|size)|unreachable_types\[\]\.(count|size))", NUMBER, "HotSpot", MORE),
    # What two kept, one of them keeps alone.
    ("retained|gcroot.*", r"(types|objects|groups)\[\]\.retained", NUMBER, "HotSpot"),
    ("retained|gcroot.*", r"(roots(\[\]\.count)?|stacks\.roots_conservative)", NUMBER, "HotSpot", LESS),
    ("retained|gcroot.*", r"(roots\[\]\.retained|several)", NUMBER, "HotSpot"),
    ("holders", r"(holders\.length|total\..*)", "a number of Python's that looks like an address holds nothing any more", "CPython", LESS),
    ("holders", r"(holders\.length|total\..*)", "bytes of an array that look like an address hold nothing any more", "HotSpot", LESS),
    ("holders", r"(holders\[\]\.(reaches|reaches_mmap|shared|alone)|reached)\..*", TORN + "; " + LOW, LESS),
    ("holders", r"holders\[\]\.shared_with", TORN + "; it names who reaches most of the same, and the order of those follows the sums above"),
    ("holders", r"by_state\[\]\.reached\..*", TORN + "; " + LOW + "; what live objects lose counts for dead ones that reach it too"),
    # Malloc blocks by what leads to them, named by their text.
    ("holders", r"native(\[\]\..*|\.length)", TORN + "; " + LOW + "; a text that names a block goes", NO_RUNTIME),
    # Blocks that two roots reached are one root's then, which may have had none before.
    ("retained", r"(roots\[\]\.retained|roots\.length|several)", TORN + "; " + LOW, NO_RUNTIME),
    ("retained", r"(types|objects)(\[\]\..*|\.length)", TORN + "; " + LOW + "; a text that names a block goes", NO_RUNTIME),
    ("leaks", r"groups(\[\]\..*|\.length)", TORN + "; " + LOW + "; a text that names a block goes"),
    ("threads.*", r"threads\[\]\.syscall\.arguments\[\]", "an argument that is no address is a value"),
    ("threads.*", r"threads\[\]\.waits_for", "the operation of a futex call is a value, and without it the call may be no wait"),
    ("triage", r"(named|described|unknown|unnamed|findings)\b.*", "it quotes values, and names memory by what fills it, which goes"),
]


def goes(way, before, after):
    """Whether a number went that way; one that is not there is none."""
    numbers = [0 if value is None else value for value in (before, after)]
    if isinstance(after, dict) and before is None:
        return way == MORE
    if not all(isinstance(value, (int, float)) for value in numbers):
        return False
    return numbers[1] < numbers[0] if way == LESS else numbers[1] > numbers[0]


def why_allowed(command, path, runtimes, before=None, after=None):
    for commands, paths, why, *of in ALLOWED:
        ways = [way for way in of if way in (LESS, MORE)]
        runtime = [name for name in of if name not in (LESS, MORE)]
        if (
            re.fullmatch(commands, command)
            and re.fullmatch(paths, path)
            and all(name in runtimes or (name == NO_RUNTIME and not runtimes) for name in runtime)
            and all(goes(way, before, after) for way in ways)
        ):
            return why
    return None


def comparable(command, answer):
    """What an answer says of what stays: without what goes by design, and without what is the file's own."""
    answer.pop("warnings", None)
    if command[0] == "info":  # arguments and values of the environment go, and some notes
        return {"modules": answer.get("modules")}
    if "--strings" in command:  # texts go; how many there are, and what equal ones waste, stays
        return {"strings": {k: v for k, v in (answer.get("strings") or {}).items() if not isinstance(v, list)}}
    if command[0] == "refs":
        # Frames that were left, freed memory, parts of a heap that no object has (a reference in one is "object"), code and files have
        # words that lead somewhere by chance or did once; a word that leads into the middle of an object may be a number. All these go.
        gone = ("stack (left over)", "Image", "MappedFile", "GCHeap", "GCHeapToBeFreed", "free object space")
        return {"refs": [row for row in answer.get("refs") or [] if row["from"] not in gone and row["offset"] == 0]}
    if isinstance(answer.get("clusters"), list):
        # Blocks that are filled alike are one cluster, and what fills them goes: what there is of each size stays.
        sizes = {}
        for row in answer["clusters"]:
            sums = sizes.setdefault(str(row["size"]), {"count": 0, "bytes": 0})
            sums["count"] += row["count"]
            sums["bytes"] += row["bytes"]
        answer["clusters"] = sizes
        answer.pop("clusters_total", None)
    return answer


def differences(before, after, path=""):
    """[(path, before, after)] of two JSON values."""
    if isinstance(before, dict) and isinstance(after, dict):
        keys = [*before, *(k for k in after if k not in before)]
        rows = [(f"{path}.{k}" if path else k, before.get(k), after.get(k)) for k in keys]
    elif isinstance(before, list) and isinstance(after, list):
        rows = [(path + "[]", a, b) for a, b in zip(before, after)]
        if len(before) != len(after):
            return [(path + ".length", len(before), len(after))]
    else:
        return [] if before == after else [(path, before, after)]
    return [found for row_path, a, b in rows for found in differences(a, b, row_path)]
