#!/usr/bin/env python3
"""The table of docs/java.md: a Java core's map beside what the VM says of itself.

    nmt-table.py NMT_DETAIL CORE [OPTION..]

NMT_DETAIL is what `jcmd PID VM.native_memory detail` wrote before CORE was taken, with
-XX:NativeMemoryTracking=detail. OPTIONs go to coremap, which $COREMAP names (target/release/coremap).

For each category: what the VM reserved and committed, and what the map has in those ranges, committed and not,
by kind; then blocks of malloc by category. Bytes.
"""
import collections
import json
import os
import re
import subprocess
import sys

RESERVES = {"NoAccess", "GCHeapReserve", "StackGuard"}


def coremap(command, core, options):
    program = os.environ.get("COREMAP", "target/release/coremap")
    done = subprocess.run([program, command, "--json", *options, core], stdout=subprocess.PIPE, check=False)
    return json.loads(done.stdout)


def virtual(text):
    """Reserved ranges with their category, and the ranges committed in each."""
    out = []
    for line in text.splitlines():
        found = re.match(r"\s*\[(0x[0-9a-f]+) - (0x[0-9a-f]+)\] (reserved|committed)( and committed)?", line)
        if not found:
            continue
        start, end = int(found[1], 16), int(found[2], 16)
        if found[3] == "reserved":
            name = re.search(r" for (.*?)(?: from)?$", line)
            out.append((name[1].strip(), start, end, [(start, end)] if found[4] else []))
        elif out and not (out[-1][3] == [(out[-1][1], out[-1][2])]):
            out[-1][3].append((start, end))
    return out


def common(a, b, c, d):
    return max(0, min(b, d) - max(a, c))


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    text = open(sys.argv[1], encoding="utf-8").read()
    core, options = sys.argv[2], sys.argv[3:]
    regions = [(int(r["start"], 16), int(r["end"], 16), r["kind"]) for r in coremap("regions", core, options)["regions"]]
    rows = collections.defaultdict(lambda: [0, 0, collections.Counter(), 0, 0])
    covered = []
    for name, start, end, committed in virtual(text):
        row = rows[name]
        row[0] += end - start
        row[1] += sum(b - a for a, b in committed)
        covered.append((start, end))
        for a, b, kind in regions:
            if common(a, b, start, end) == 0:
                continue
            row[2][kind] += common(a, b, start, end)
            used = sum(common(max(a, start), min(b, end), c, d) for c, d in committed)
            if kind in RESERVES:
                row[3] += used
            else:
                row[4] += common(a, b, start, end) - used
    print("| NMT | reserved | committed | kinds of the map there | committed, and reserve in the map | in use in the map, and not committed |")
    print("|---|---:|---:|---|---:|---:|")
    for name, (reserved, committed, kinds, less, more) in sorted(rows.items(), key=lambda r: -r[1][0]):
        told = ", ".join(f"{kind} {size:,}" for kind, size in kinds.most_common())
        print(f"| {name} | {reserved:,} | {committed:,} | {told} | {less:,} | {more:,} |")
    own = {"ClassSpace", "Metaspace", "CdsArchive", "CodeCache", "GCHeap", "GCHeapToBeFreed", "GCBookkeeping", "VmData"}
    outside = collections.Counter()
    for a, b, kind in regions:
        if kind in own:
            outside[kind] += b - a - sum(common(a, b, c, d) for c, d in covered)
    outside = ", ".join(f"{kind} {size:,}" for kind, size in outside.items() if size) or "none"
    print(f"\nOf the VM's kinds in no range that NMT tells: {outside}.\n")
    blocks = re.findall(r"-\s+(\S[^\n]*?) \(reserved=\d+, committed=\d+[^)]*\)((?:\n(?!-).*)*)", text)
    tracked = {name: re.search(r"\(malloc=(\d+)(?: (?:type|tag)=[^#)]*?)? #(\d+)\)", body) for name, body in blocks}
    ours = coremap("malloc", core, options).get("categories") or {"categories": []}
    ours = {row["name"]: (row["asked"], row["blocks"]["count"]) for row in ours["categories"]}
    print("| NMT | malloc | blocks | in the core | blocks |\n|---|---:|---:|---:|---:|")
    for name in dict.fromkeys([*tracked, *ours]):
        said = (int(tracked[name][1]), int(tracked[name][2])) if tracked.get(name) else (0, 0)
        have = ours.get(name, (0, 0))
        if said != (0, 0) or have != (0, 0):
            print(f"| {name} | {said[0]:,} | {said[1]:,} | {have[0]:,} | {have[1]:,} |")


if __name__ == "__main__":
    main()
