#!/usr/bin/env python3
"""Scrub the core of a case, and prove that no secret is left and that answers are as they were.

usage: prove.py COREMAP CASE_DIR|CORE [--keep FILE]

  secrets   in no form anywhere in the output, and no word of their own places as it was
  answers   the same JSON of each command, but for what differences.py allows
  frames    gdb walks the same ones, where there is gdb
  texts     those that --list-text tells outside of program files and runtimes' own memory are names that answers print
  file      mode 0600; an existing file and a symlink are refused; nothing else is left in the folder; scrubbed again, it holds no
            secret either
Of a CORE alone, whose secrets nobody knows, all but the first. Prints what is wrong, and one line of counts; exit status 1 if anything
is.
"""
import argparse
import collections
import difflib
import json
import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile

import core as elf
from differences import comparable, differences, why_allowed
from secret import Secret

# Places that keep their secret, and why that is so.
KNOWN = {
    "leads_somewhere": "letters that are an address of mapped memory, on purpose: any word that leads somewhere stays",
    "code_constant": "a constant in code that was compiled at run time: code that frames are in stays",
}
# A stale address of which a text overwrote the first bytes still leads somewhere, and stays with so many of them.
STALE = 2
SHOWN = 8


def load(folder):
    """The secrets of a case; none of a core alone."""
    if not os.path.isdir(folder):
        return []
    with open(os.path.join(folder, "truth.json")) as file:
        return [Secret.from_json(row) for row in json.load(file)]


def run(*argv, timeout=600):
    return subprocess.run(argv, capture_output=True, timeout=timeout, stdin=subprocess.DEVNULL)


def scrub(coremap, core, out):
    return run(coremap, "shrink", "--scrub", "--json", "-o", out, core)


def wrong_sums(answer, core):
    """Complaints about the sums that shrink tells: each byte has one rule."""
    answer = json.loads(answer)
    memory, beside = (sum(row["bytes"] for row in answer[key]) for key in ("rules", "beside"))
    wrong = []
    if memory != sum(segment.size for segment in core.loads):
        wrong.append(f"the rules have {memory} bytes of memory, the file {sum(segment.size for segment in core.loads)}")
    if memory + beside != os.path.getsize(core.path):
        wrong.append(f"rules and what is beside have {memory + beside} bytes, the file {os.path.getsize(core.path)}")
    return wrong


# ---- secrets


def own_words(secret, before, after):
    """Words of a secret's own places that are as they were."""
    for place in secret.addresses:
        if not place.startswith("0x"):
            continue
        start = int(place, 16)
        raw = next((r for _, r in secret.plain() if before.read(start, len(r)) == r), None)
        for word in range(start & ~7, start + len(raw), 8) if raw else ():
            low, high = max(start, word), min(start + len(raw), word + 8)
            old = before.read(low, high - low)
            # One byte alone may come to be what it was.
            if old != after.read(low, high - low) or len(old.replace(b"\0", b"")) < 2:
                continue
            if not (low == word and high - low <= STALE and is_address(before, before.read(word, 8))):
                yield low


def is_address(core, word):
    return len(word) == 8 and core.leads_somewhere(int.from_bytes(word, "little"))


def is_meant(secret, form, offset, core):
    """Whether a hit is the secret and not chance: 4 bytes are found in any code."""
    if secret.width() == 8 or not isinstance(secret.value, int) or "endian" not in form:
        return True
    segment = core.segment_at(offset)
    return offset % 4 == 0 and (segment is None or segment.flags & elf.PF_W != 0)


def survivors(secrets, before, after):
    """{place: {form: [where]}} of secrets that are in the output, and secrets looked for."""
    looked = [s for s in secrets if s.addresses and not s.stays()]
    strings = [((s.place, form), raw) for s in looked for form, raw in s.forms()]
    found = collections.defaultdict(lambda: collections.defaultdict(list))
    by_place = {s.place: s for s in looked}
    for (place, form), offsets in elf.find(after.path, strings).items():
        for offset in offsets:
            if is_meant(by_place[place], form, offset, after):
                found[place][form].append(after.place(offset))
    for secret in looked:
        for address in own_words(secret, before, after):
            found[secret.place]["word as it was"].append(f"0x{address:x}")
    return {place: dict(forms) for place, forms in found.items()}, looked


def print_survivors(found, what=""):
    for place, forms in sorted(found.items()):
        print(f"   LEFT{what} {place}" + (f"   (known: {KNOWN[place]})" if place in KNOWN else ""))
        for form, where in list(forms.items())[:3]:
            print(f"        {form}: {' '.join(where[:3])}" + (f" and {len(where) - 3} more" if len(where) > 3 else ""))


# ---- answers

COMMANDS = [
    "info",
    "summary",
    "summary --zero-fill",
    "regions",
    "maddress",
    "stacks",
    "stacks --zero-fill",
    "heap",
    "heapstat",
    "heapstat --strings",
    "retained",
    "handles",
    "finalizers",
    "syncblocks",
    "threads",
    "async",
    "malloc",
    "leaks",
    "holders",
    "check",
    "triage",
]


def ask(coremap, command, core):
    """(JSON of an answer, exit status), without what is the file's own."""
    done = run(coremap, *command, "--json", core)
    try:
        answer = json.loads(done.stdout.decode().replace(core, "CORE"))
    except ValueError:
        return {"error": done.stderr.decode(errors="replace").replace(core, "CORE")[-300:]}, done.returncode
    return comparable(command, answer), done.returncode


def more_commands(coremap, core):
    """Questions about the biggest types, addresses in frames, and what a frame points at."""
    heapstat, _ = ask(coremap, ["heapstat"], core)
    types = [row["type"] for row in heapstat.get("types") or []][:3]
    for name in types:
        yield ["objects", "--type", f"^{re.escape(name)}$"]
        yield ["gcroot", "--type", f"^{re.escape(name)}$"]
        objects, _ = ask(coremap, ["objects", "--type", f"^{re.escape(name)}$", "--top", "1"], core)
        yield from (["refs", "--limit", "100000", row["address"]] for row in (objects.get("objects") or [])[:1])
    threads, _ = ask(coremap, ["threads"], core)
    frames = [frame for thread in threads.get("threads") or [] for frame in thread.get("frames") or []]
    addresses = list(dict.fromkeys(frame["ip"] for frame in frames if frame.get("ip")))
    if addresses:
        yield ["ip2method", *addresses[:80]]
    yield from (["refs", "--limit", "100000", frame["sp"]] for frame in frames[:1] if frame.get("sp"))


def wrong_answers(coremap, before, after):
    """Print answers that differ; how many do that may not, and how many are equal."""
    commands = [c.split() for c in COMMANDS] + list(more_commands(coremap, before))
    wrong = equal = 0
    for command in commands:
        (old, old_status), (new, new_status) = ask(coremap, command, before), ask(coremap, command, after)
        found = differences(old, new)
        if old_status != new_status:
            found.append(("exit status", old_status, new_status))
        runtimes = {row["name"] for row in (old.get("core") or {}).get("runtimes") or []}
        paths = collections.defaultdict(list)
        for path, a, b in found:
            if not why_allowed(command[0], path, runtimes, a, b):
                paths[path].append((a, b))
        equal += not paths
        wrong += bool(paths)
        if paths:
            print(f"   DIFFERS {' '.join(command)[:70]}")
        for path, rows in list(paths.items())[:SHOWN]:
            print(f"        {path} ({len(rows)}): {str(rows[0][0])[:90]!r} / {str(rows[0][1])[:90]!r}")
        if len(paths) > SHOWN:
            print(f"        and {len(paths) - SHOWN} more")
    return wrong, equal


# ---- frames


def frames(core, program):
    """What gdb tells of frames, without arguments, which are values, and labels of threads, which libthread_db reads."""
    argv = ["gdb", "-nx", "-batch", "-iex", "set auto-load off", "-iex", "set debuginfod enabled off"]
    done = run(*argv, "-ex", "thread apply all bt 60", program, core)
    lines = []
    for line in done.stdout.decode(errors="replace").splitlines():
        frame = re.match(r"(#\d+)\s+(?:(0x[0-9a-f]+) in )?(.+?) \(", line)
        thread = re.match(r"Thread \d+ .*(LWP \d+)", line)
        if frame:
            lines.append(" ".join(part or "" for part in frame.groups()))
        elif thread:
            lines.append(thread[1])
        elif line.startswith("Backtrace stopped"):
            lines.append(line)
    return lines


def wrong_frames(folder, before, after):
    program = os.path.join(folder, "canary")
    if not shutil.which("gdb") or not os.path.exists(program):
        return 0
    diff = difflib.unified_diff(frames(before, program), frames(after, program), lineterm="", n=0)
    lines = [line for line in diff if not line.startswith(("---", "+++", "@@"))]
    for line in lines[:SHOWN]:
        print(f"   FRAMES {line}")
    return bool(lines)


# ---- texts

# Kinds of memory that hold no names but those that answers print, and the one that does so where no runtime has its symbols there.
NAMELESS = ("Stack", "GCHeap", "AnonRW", "Tls")
BLOCKS = "Malloc"
PRINTING = ("info", "regions", "threads", "heapstat", "stacks", "async", "handles", "perfmap")


def wrong_texts(coremap, core, out):
    """Complaints about texts that are left and are no names."""
    listed = run(coremap, "shrink", "--scrub", "--list-text", "--json", "-o", out + ".texts", core)
    if not os.path.exists(out + ".texts"):
        return ["--list-text writes nothing"]
    os.unlink(out + ".texts")
    printed = "".join(run(coremap, command, "--json", core).stdout.decode(errors="replace") for command in PRINTING)
    answer = json.loads(listed.stdout)
    # A runtime has names in blocks of malloc, and metadata of what was made at run time.
    has_symbols = bool(answer["core"]["runtimes"])
    nameless = NAMELESS + (() if has_symbols else (BLOCKS,))
    before, wrong = elf.Core(core), []
    for row in answer["left_texts"]:
        text = row["text"]
        # How the program was started (AT_EXECFN) is its path. Six letters may be an address. A path may be told as what it leads to.
        words = (text.encode()[i : i + 6] + b"\0\0" for i in range(len(text) - 5))
        if row["kind"] not in nameless or text == before.started_as() or any(is_address(before, word) for word in words):
            continue
        # Or a link of malloc's, which is one mixed with its own place (glibc, PROTECT_PTR): the highest bits are as they were.
        link = int.from_bytes(text.encode()[:8], "little")
        if len(text) == 6 and link >> 36 == int(row["address"], 16) >> 36:
            continue
        # Paths of libraries by which they were loaded, and names of Java's modules that have no frame.
        if re.fullmatch(r"/.*\.so[.0-9]*|(java|jdk)(\.[a-z]+)+", text):
            continue
        if not any(json.dumps(name)[1:-1] in printed for name in (text, os.path.realpath(text))):
            wrong.append(f"--list-text: {text[:60]!r} at {row['address']} ({row['kind']}) is printed by no answer")
    return wrong


# ---- the file


def wrong_file(coremap, core, out, folder):
    """Complaints about the file and what is refused."""
    wrong = []
    mode = stat.S_IMODE(os.stat(out).st_mode)
    if mode != 0o600:
        wrong.append(f"its mode is {mode:o}")
    mine, link, nowhere = (os.path.join(folder, name) for name in ("mine", "link", "nowhere"))
    with open(mine, "w") as file:
        file.write("mine")
    if scrub(coremap, core, mine).returncode == 0 or os.path.getsize(mine) != 4:
        wrong.append("an existing file is overwritten")
    os.symlink(mine, link)
    if scrub(coremap, core, link).returncode == 0 or os.path.getsize(mine) != 4:
        wrong.append("a symlink to a file is followed")
    os.unlink(link)
    os.symlink(nowhere, link)
    if scrub(coremap, core, link).returncode == 0 or os.path.exists(nowhere):
        wrong.append("a symlink to nothing is followed")
    left = set(os.listdir(folder)) - {"mine", "link", os.path.basename(out)}
    if left:
        wrong.append(f"files are left: {' '.join(sorted(left))}")
    return wrong


def prove(coremap, folder, out):
    """Counts of a case or a core: {looked, survive, known, wrong}."""
    core = os.path.join(os.path.abspath(folder), "core") if os.path.isdir(folder) else os.path.abspath(folder)
    secrets = load(folder)
    done = scrub(coremap, core, out)
    if not os.path.exists(out):
        print(f"   NOTHING WRITTEN: status {done.returncode}: {done.stderr.decode(errors='replace')[-500:]}")
        return {"looked": 0, "survive": 0, "known": 0, "wrong": 1}
    before, after = elf.Core(core), elf.Core(out)
    complaints = wrong_sums(done.stdout, after)
    # What isn't found in the core itself would not be found in the output either.
    seen, looked = survivors(secrets, before, before)
    complaints += [f"the search doesn't find {s.place} in the core itself" for s in looked if s.place not in seen]
    found, _ = survivors(secrets, before, after)
    said = done.stdout + done.stderr
    for secret in looked:
        if isinstance(secret.value, str) and secret.value.encode() in said and len(secret.value) > 5:
            found.setdefault(secret.place, {})["told on the screen"] = ["stdout or stderr"]
    print_survivors(found)
    wrong, equal = wrong_answers(coremap, core, out)
    wrong += wrong_frames(folder, core, out)
    complaints += wrong_texts(coremap, core, out)
    complaints += wrong_file(coremap, core, out, os.path.dirname(out))
    again = out + ".again"
    scrub(coremap, out, again)
    if os.path.exists(again):
        twice, _ = survivors(secrets, before, elf.Core(again))
        os.unlink(again)
        print_survivors({p: forms for p, forms in twice.items() if p not in found}, ", scrubbed twice,")
        found = twice | found
    else:
        complaints.append("what was scrubbed can't be scrubbed again")
    for complaint in complaints:
        print(f"   WRONG: {complaint}")
    known = [place for place in found if place in KNOWN]
    counts = dict(looked=len(looked), survive=len(found) - len(known), known=len(known), wrong=wrong + len(complaints))
    print(f"   {counts['looked']} secrets, {counts['survive']} survive, {len(known)} known to; {equal} answers equal, {wrong} not")
    return counts


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("coremap", type=os.path.abspath)
    parser.add_argument("folder")
    parser.add_argument("--keep", metavar="FILE", help="keep what was written")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        out = os.path.join(temporary, "scrubbed")
        counts = prove(options.coremap, options.folder, out)
        if options.keep and os.path.exists(out):
            shutil.copyfile(out, options.keep)
    if os.path.isdir(options.folder):
        with open(os.path.join(options.folder, "proved.json"), "w") as file:
            json.dump(counts, file)
    sys.exit(bool(counts["survive"] or counts["wrong"]))


if __name__ == "__main__":
    main()
