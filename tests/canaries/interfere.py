#!/usr/bin/env python3
"""Non-interference: what is overwritten tells nothing of what was there.

usage: interfere.py SCRUB CASE_DIR|CORE [--words N]

SCRUB is the program examples/scrub.rs. Makes a copy of the case's core in which all secrets, and N random words that scrubbing overwrites,
are others (of a CORE alone only words), and scrubs both, characters of strings by their length alone, as no two runs have one key. What
comes out must be the same, byte for byte: exit status 1 if a word that was changed shows, or one elsewhere differs, as whether that stays
hangs on what was overwritten.
"""
import argparse
import json
import os
import random
import sys
import tempfile

import core as elf
from prove import KNOWN, STALE, is_address, is_meant, load, run

FILL = (0x0DEF_ACED_0DEF_ACED).to_bytes(8, "little")
PAGE = 4096
SHOWN = 12


def change_secrets(secrets, before, changed):
    """Write other secrets over these; how many places that were, and [(first, last offset, whose)]."""
    spans, written = [], bytearray(len(changed))
    replaced, strings = {}, []
    for secret in secrets:
        if not secret.addresses or secret.stays() or secret.place in KNOWN:
            continue
        other = secret.another()
        for i, ((form, old), (_, new)) in enumerate(zip(secret.all_forms(), other.all_forms())):
            if secret.forms() and len(old) >= 4:
                replaced[secret.place, i] = (secret, form, old, new)
                strings.append(((secret.place, i), old))
        for place in secret.addresses if not secret.forms() else ():
            at = before.offset(int(place, 16)) if place.startswith("0x") else None
            old, new = secret.raw(), other.raw()
            if at is not None and changed[at : at + len(old)] == old:
                changed[at : at + len(old)] = new
                spans.append((at, at + len(old), secret.place))
    found = [(offset, key) for key, offsets in elf.find(before.path, strings).items() for offset in offsets]
    # The longest first: its parts are in it.
    for offset, key in sorted(found, key=lambda row: -len(replaced[row[1]][2])):
        secret, form, old, new = replaced[key]
        end = offset + len(old)
        if any(written[offset:end]) or not is_meant(secret, form, offset, before):
            continue
        changed[offset:end] = new
        written[offset:end] = b"\1" * len(old)
        spans.append((offset, end, secret.place))
    return spans


def overwritten_pages(core):
    """(address, offset) of pages that have a word that was overwritten."""
    for segment in core.loads:
        at, end = core.bytes.find(FILL, segment.offset, segment.offset + segment.size), segment.offset + segment.size
        while at >= 0:
            page = at - (at - segment.offset) % PAGE
            yield segment.start + page - segment.offset, page
            at = core.bytes.find(FILL, page + PAGE, end)


def could_be_address(word):
    """Whether a word has the form of an address of a program that is not loaded low."""
    return 1 << 40 <= int.from_bytes(word, "little") < 1 << 47


def change_words(count, before, after, changed):
    """Write something else over words that are overwritten; [(first, last offset, what)]."""
    pages = list(overwritten_pages(after))
    spans = []
    for page, offset in random.choices(pages, k=3 * count) if pages else ():
        words = [i for i in range(0, PAGE, 8) if after.bytes[offset + i : offset + i + 8] == FILL]
        at = before.offset(page + random.choice(words)) if words else None
        # What is a secret's was changed already.
        if len(spans) == count or at is None or changed[at : at + 8] != before.bytes[at : at + 8]:
            continue
        word = bytearray(changed[at : at + 8])
        word[random.randrange(8)] = random.randrange(1, 256)
        # An address of memory that is there stays, of files too that the core lacks: whether a word is one does show.
        if not is_address(before, word) and not could_be_address(word):
            changed[at : at + 8] = word
            spans.append((at, at + 8, "a word at random"))
    return spans


def differing(a, b):
    """Offsets of words in which two files differ."""
    if len(a) != len(b):
        raise SystemExit(f"   INTERFERES: {len(a)} bytes are written, and {len(b)}")
    for page in range(0, len(a), PAGE):
        if a[page : page + PAGE] != b[page : page + PAGE]:
            yield from (w for w in range(page, min(page + PAGE, len(a)), 8) if a[w : w + 8] != b[w : w + 8])


def is_stale(core, old, new):
    """Whether two words of the inputs are addresses of which a text overwrote the first bytes: such a word stays if it could be one of an
    object's, which those bytes decide."""
    return is_address(core, old) and is_address(core, new) and old[STALE:] == new[STALE:]


def interfere(program, original, secrets, words, temporary):
    before = elf.Core(original)
    names = {name: os.path.join(temporary, name) for name in ("same", "changed", "out")}
    # Without holes, as the other.
    with open(names["same"], "wb") as file:
        file.write(before.bytes)

    def scrubbed(name):
        done = run(program, "--by-length", names[name], names["out"])
        os.unlink(names[name])
        if done.returncode:
            raise SystemExit(f"   NOTHING WRITTEN: status {done.returncode}: {done.stderr.decode(errors='replace')[-500:]}")
        core = elf.Core(names["out"])
        os.unlink(names["out"])
        return core

    first = scrubbed("same")
    changed = bytearray(before.bytes)
    spans = change_secrets(secrets, before, changed)
    changed_secrets = len(spans)
    spans += change_words(words, before, first, changed)
    with open(names["changed"], "wb") as file:
        file.write(changed)
    other = scrubbed("changed")
    found = set(differing(first.bytes, other.bytes))
    inputs = {at: before.offset(int(place, 16)) for at in found if (place := first.place(at)).startswith("0x")}
    stale = {at for at, i in inputs.items() if is_stale(before, before.bytes[i : i + 8], changed[i : i + 8])}
    found -= stale
    whose_of = {at: {who for start, end, who in spans if start < inputs[at] + 8 and inputs[at] < end} if at in inputs else {"a note"} for at in found}
    shown = sum(bool(whose) for whose in whose_of.values())
    for at in sorted(found)[:SHOWN]:
        whose = whose_of[at]
        old, new = first.bytes[at : at + 8].hex(), other.bytes[at : at + 8].hex()
        print(f"   INTERFERES {first.place(at)}: {old} / {new} {' '.join(sorted(whose)) or 'where nothing was changed'}")
    counted = f"{shown} of them show, {len(found) - shown} words elsewhere differ, {len(stale)} stale addresses"
    print(f"   {changed_secrets} places of secrets and {len(spans) - changed_secrets} words changed: {counted}")
    return shown, len(found) - shown


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("scrub", type=os.path.abspath)
    parser.add_argument("core", metavar="CASE_DIR|CORE", type=os.path.abspath)
    parser.add_argument("--words", type=int, default=3000)
    options = parser.parse_args()
    case = os.path.isdir(options.core)
    core = os.path.join(options.core, "core") if case else options.core
    with tempfile.TemporaryDirectory() as temporary:
        shown, elsewhere = interfere(options.scrub, core, load(options.core) if case else [], options.words, temporary)
    if case:
        with open(os.path.join(options.core, "interfered.json"), "w") as file:
            json.dump({"differ": shown, "elsewhere": elsewhere}, file)
    sys.exit(bool(shown or elsewhere))


if __name__ == "__main__":
    main()
