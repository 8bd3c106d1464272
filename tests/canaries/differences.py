"""What answers may differ in between a core and what `shrink --scrub` made of it, and why. All else must be equal."""
import re

# (command, path in its JSON with [] for any row, why)
ALLOWED = [
    (".*", r"core\.(path|size|producer|packed|truncated)", "it is another file"),
    ("triage", r"findings\[\]\.(evidence|text)\b.*", "it quotes values"),
]


def why_allowed(command, path):
    for commands, paths, why in ALLOWED:
        if re.fullmatch(commands, command) and re.fullmatch(paths, path):
            return why
    return None


def by_size(answer):
    """Blocks that are filled alike are one cluster, and what fills them changes: compare what there is of each size."""
    if isinstance(answer.get("clusters"), list):
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
