#!/usr/bin/env python3
"""Prove of each rule of `shrink --scrub` that it is needed: without it a secret is left.

usage: rules.py SCRUB INTO [RULE…]

SCRUB is the program examples/scrub.rs, INTO the folder of cases that `run --into` made. For each rule the cores are scrubbed without it,
the smallest first, until one has a secret that is not there otherwise. Prints for each rule which one that is; exit status 1 if for a rule
there is none: then a place for a secret is missing here, or the rule is not needed.
"""
import argparse
import os
import subprocess
import sys
import tempfile

import core as elf
from prove import load, survivors

SHOWN = 3

# Rules whose need no program here can show, and where that is done.
UNIT = "src/scrub/tests.rs, as other rules overwrite these here too"
ELSEWHERE = dict.fromkeys(("values", "alike", "unnamed-texts", "readable", "numbers", "guards", "unknown-notes"), UNIT)


def left(scrub, folder, out, without=()):
    """{(place, form)} of the secrets that are left."""
    core = os.path.join(folder, "core")
    subprocess.run([scrub, *(arg for rule in without for arg in ("--without", rule)), core, out], check=True, stderr=subprocess.DEVNULL)
    found, _ = survivors(load(folder), elf.Core(core), elf.Core(out))
    os.unlink(out)
    return {(place, form) for place, forms in found.items() for form in forms}


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("scrub", type=os.path.abspath)
    parser.add_argument("into")
    parser.add_argument("rules", nargs="*")
    options = parser.parse_args()
    all_rules = subprocess.run([options.scrub, "--rules"], capture_output=True, text=True, check=True).stdout.split()
    folders = [os.path.join(os.path.abspath(options.into), case) for case in os.listdir(options.into)]
    folders = [folder for folder in folders if os.path.exists(os.path.join(folder, "truth.json"))]
    folders.sort(key=lambda folder: os.path.getsize(os.path.join(folder, "core")))
    if not folders:
        print("skipped: no core with secrets is there")
        return
    for rule in [] if options.rules else ELSEWHERE:
        print(f"   {rule}: shown in {ELSEWHERE[rule]}")
    unneeded = []
    with tempfile.TemporaryDirectory() as temporary:
        out = os.path.join(temporary, "scrubbed")
        always = {}
        for rule in options.rules or [rule for rule in all_rules if rule not in ELSEWHERE]:
            for folder in folders:
                if folder not in always:
                    always[folder] = left(options.scrub, folder, out)
                more = sorted(left(options.scrub, folder, out, [rule]) - always[folder])
                if more:
                    places = list(dict.fromkeys(place for place, _ in more))
                    told = ", ".join(places[:SHOWN]) + (f" and {len(places) - SHOWN} more" if len(places) > SHOWN else "")
                    print(f"   {rule}: without it {told} of {os.path.basename(folder)}", flush=True)
                    break
            else:
                print(f"   {rule}: NOTHING is left without it", flush=True)
                unneeded.append(rule)
    print(f"rules: {len(unneeded)} of {len(options.rules or all_rules)} are not needed by any of these cores")
    sys.exit(bool(unneeded))


if __name__ == "__main__":
    main()
