"""Heap dumps, read by VisualVM's library (a package of Debian) and, where it is there, by hprof-slurp (`cargo install --locked hprof-slurp`)."""
import collections
import glob
import json
import os
import re
import shutil
import subprocess

HERE = os.path.dirname(os.path.abspath(__file__))
LIBRARY = "usr/share/visualvm/visualvm/modules/org-graalvm-visualvm-lib-jfluid-heap.jar"
# Arrays of numbers have Java's names there, and texts.
NUMBERS = {
    "Boolean": "boolean", "Char": "char", "SByte": "byte", "Byte": "byte", "Int16": "short", "UInt16": "short", "Int32": "int",
    "UInt32": "int", "Int64": "long", "UInt64": "long", "IntPtr": "long", "UIntPtr": "long", "Single": "float", "Double": "double",
}


def library():
    """VisualVM's library, installed or unpacked here from Debian's package, or None: said why."""
    if not shutil.which("java"):
        print("skipped: hprof, as there is no java (Debian default-jre-headless)")
        return None
    into = os.path.join(HERE, "visualvm")
    for root in ("/", into):
        if os.path.exists(os.path.join(root, LIBRARY)):
            return os.path.join(root, LIBRARY)
    os.makedirs(into, exist_ok=True)
    quiet = {"cwd": into, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    if shutil.which("apt-get") and shutil.which("dpkg"):
        if subprocess.run(["apt-get", "download", "visualvm"], **quiet).returncode:
            subprocess.run(["apt-get", "update", "-q"], **quiet)
            subprocess.run(["apt-get", "download", "visualvm"], **quiet)
        for package in glob.glob(os.path.join(into, "*.deb")):
            subprocess.run(["dpkg", "-x", package, into], **quiet)
    if os.path.exists(os.path.join(into, LIBRARY)):
        return os.path.join(into, LIBRARY)
    print("skipped: hprof, as the package visualvm can't be had here")
    return None


def in_java(name):
    number = re.fullmatch(r"System\.(\w+)\[\]", name)
    if number and number.group(1) in NUMBERS:
        return NUMBERS[number.group(1)] + "[]"
    # A hidden class has a `+` in the VM's own name of it.
    # What fills gaps of Java's heap is an array of ints.
    if name == "jdk.internal.vm.FillerElement[]":
        return "int[]"
    return "java.lang.String" if name == "System.String" else re.sub(r"/(0x[0-9a-f]{16})", r"+\1", name)


def sums(rows):
    out = collections.defaultdict(lambda: [0, 0])
    for name, count, size in rows:
        out[name][0] += count
        out[name][1] += size
    return out


def compare(coremap, core, folder, library, ask, check):
    """Export `core` and compare figures; nothing where it has no such heap."""
    out = os.path.join(folder, "core.hprof")
    answer = ask(coremap, "export", "--to", "hprof", "-o", out, core)
    if answer["refused"]:
        return
    figures = {row["figure"]: row["value"] for row in answer["figures"]}
    is_java = any(runtime["name"] == "HotSpot" for runtime in answer["core"]["runtimes"])
    java = ["java", "-Xmx3g", "-cp", library, os.path.join(HERE, "HeapDump.java"), out]
    read = json.loads(subprocess.run(java, stdout=subprocess.PIPE, check=True).stdout)
    told = [row for row in ask(coremap, "heapstat", core)["types"] if row["type"] != "Free"]
    # Only one heap is in the file, and a core may have that of Python too.
    of_python = lambda row: any("malloc" in part["generation"] for part in row["generations"])
    mine = [row for row in told if not of_python(row)]
    want = sums((in_java(row["type"]), row["count"], row["size"]) for row in mine)
    got = sums(read["classes"])
    if is_java:
        # What stands for a class is that class there.
        want["java.lang.Class"][0] -= figures["class_objects"]
    else:
        got["char[]"][0] -= figures["texts"]
    has_names = any(name == "java.lang.String" for name in want)
    if is_java or has_names:
        counts = lambda of: {name: row[0] for name, row in of.items() if row[0]}
        check(f"hprof: counts of {core}", counts(got), counts(want))
        # Sizes of arrays each tool reckons by itself; where references have 4 bytes, or it is .NET's, it comes out right.
        others = ("java.lang.Class", "java.lang.Object", "java.lang.String", "char[]", "jdk.internal.vm.StackChunk")
        narrow, off = read["object"] == 12, {}
        for name, (count, size) in want.items():
            if name in others or count == 0 or (is_java and not narrow and name.endswith("[]")):
                continue
            if abs(got[name][1] - size) > (0 if is_java else 8 * count):
                off[name] = (got[name][1], size)
        check(f"hprof: bytes of {core}", off, {})
    check(f"hprof: texts of {core}", read["strings"], sum(row["count"] for row in mine if in_java(row["type"]) == "java.lang.String") if has_names else read["strings"])
    check(f"hprof: threads of {core}", len(read["threads"]) > 0 or not is_java, True)
    live = ask(coremap, "retained", "--top", "1", core)["live"]["objects"]
    reached, texts = read["reached"]
    if is_java:
        # What only fields of a java.lang.Class hold, as reflection's caches, hangs at nothing there: as in a dump of the JDK.
        check(f"hprof: live objects of {core}", 0.95 * live <= reached + figures["class_objects"] <= live, True)
    elif len(mine) == len(told):
        check(f"hprof: live objects of {core}", reached - texts, live)
    slurp = shutil.which("hprof-slurp")
    if slurp:
        report = subprocess.run([slurp, out], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True).stdout
        records = {key: int(n) for key, n in re.findall(r"\.\.(GC [\w ]+ dump): (\d+)", report)}
        by_slurp = [records.get(f"GC {what} dump") for what in ("instance", "object array", "primitive array", "class")]
        ours = [figures["instances"], figures["object_arrays"], figures["value_arrays"] + figures["texts"], figures["classes"]]
        check(f"hprof-slurp: records of {core}", by_slurp, ours)
    print(f"   hprof: VisualVM's library{' and hprof-slurp' if slurp else ''}: {read['objects']:,} objects, {reached:,} reached")
