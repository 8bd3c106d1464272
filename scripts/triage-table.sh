#!/bin/sh
# Makes a table of what `coremap triage` names, a row a core, in Markdown: what was written, how much of it findings
# name, and the first of them. docs/causes.md has the one that was made last.
#   scripts/triage-table.sh PROGRAM CORE...
# A core in a folder of its own is named by the folder. Needs jq.
set -eu
program=$1
shift
echo "| core | written, MiB | named, % | first finding | its bytes, MiB |"
echo "|---|---:|---:|---|---:|"
for core; do
    name=$(basename "$core")
    case $name in core | core.*) name=$(basename "$(dirname "$core")") ;; esac
    "$program" triage --json "$core" 2>/dev/null | jq -r --arg name "$name" '
        def mib: . / 1048576 * 10 | round / 10;
        .findings[0] as $first
        | "| \($name) | \(.written | mib) | \(.named.share * 1000 | round / 10) | \($first.id) | \($first.bytes // 0 | mib) |"'
done
