"""The questions, asked through the public Python SDK of the Model Context Protocol (PyPI mcp). `run` starts this in a
virtual environment that has it.

Known answers come from truth.json of testdata, which the programs wrote themselves, or from the official library.
"""
import asyncio
import json
import os
import random
import statistics
import sys
import time

import jsonschema
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

HERE = os.path.dirname(os.path.abspath(__file__))
CORES = os.path.normpath(os.path.join(HERE, "..", "..", "testdata", "cores"))

failed = 0
checked = 0


def check(what, got, want):
    global failed, checked
    checked += 1
    if got != want:
        failed += 1
        print(f"   FAILED {what}: {str(got)[:400]} and not {str(want)[:400]}")


def core(name):
    found = [file for file in os.listdir(os.path.join(CORES, name)) if file.startswith("core.")]
    return f"{name}/{found[0]}"


def truth(name):
    with open(os.path.join(CORES, name, "truth.json")) as file:
        return json.load(file)


# SDKs before 2 write names as JSON has them, later ones as Python does.
def field(of, camel, snake):
    return getattr(of, snake) if hasattr(of, snake) else getattr(of, camel)


class Asked:
    def __init__(self, session, tools):
        self.session, self.tools = session, {tool.name: tool for tool in tools}
        self.sizes, self.times = [], []

    async def tool(self, name, **arguments):
        """The structured answer, which the SDK has validated against the tool's schema; here it is again."""
        begun = time.monotonic()
        result = await self.session.call_tool(name, arguments)
        self.times.append(time.monotonic() - begun)
        answer = field(result, "structuredContent", "structured_content")
        jsonschema.validate(answer, field(self.tools[name], "outputSchema", "output_schema"))
        text = result.content[0].text
        self.sizes.append(len(text))
        check(f"{name}: text and structure", json.loads(text), answer)
        check(f"{name}: at most 8 KiB", len(text) <= arguments.get("max_bytes", 8192), True)
        check(f"{name}: an error is marked", bool(field(result, "isError", "is_error")), answer["error"] is not None)
        return answer

    async def rows(self, name, at, **arguments):
        """All rows of a list, page by page."""
        rows = []
        while True:
            answer = await self.tool(name, **arguments)
            rows += answer["untrusted"]["answer"][at]
            if not answer["cursor"]:
                return rows
            arguments["cursor"] = answer["cursor"]


async def questions(ask):
    """Questions of an incident with known answers."""
    # Which static retains the most memory of the application's own cache?
    found = await ask.tool("why", core=core("dotnet8-objects"), type="LeakyCache$")
    of = found["untrusted"]["answer"]
    check("who keeps the cache", "static Lab.LeakyCache.Instance" in of["text"], True)
    # Which thread holds the lock, and who waits for it?
    found = await ask.rows("triage", "findings", core=core("dotnet8-objects"))
    deadlock = [row for row in found if row["id"] == "deadlock"]
    check("deadlocks", len(deadlock), 1)
    check("threads of the deadlock", all(tid in deadlock[0]["text"] for tid in ("20876", "20877")), True)
    check("it comes first", found[0]["id"], "deadlock")
    # How many blocks of malloc does no pointer reach, and is this one of them?
    blocks = truth("native-leaks")["blocks"]
    for what, want in (("kept", "reached"), ("lost", "unreached")):
        block = next(block for block in blocks if block["what"] == what)
        found = await ask.tool("why", core=core("native-leaks"), address=block["address"])
        check(f"a block that is {what}", found["untrusted"]["answer"]["kept"], want)
    # What has the memory of this Python process?
    found = await ask.rows("triage", "findings", core=core("python313-caught"))
    check("who keeps exceptions", any("__main__.FAILED" in row["text"] for row in found), True)
    # What is this thread of Java waiting for?
    found = await ask.rows("threads", "threads", core=core("java17-threads"))
    names = {row["managed_name"] for row in found}
    check("threads by name", {"dead-1", "dead-2", "parks", "owns"} <= names, True)
    # What changed between two cores of one process?
    found = await ask.tool("diff", old=core("dotnet31-createdump"), new=core("dotnet31-gcore"))
    check("diff", found["status"] in ("done", "partial"), True)
    # Is there any thread named like that? A name that is not there, in a core that was read completely.
    found = await ask.tool("search", core=core("native-leaks"), pattern="no such text anywhere")
    check("absence", (found["status"], found["complete"]), ("nothing-found", True))
    found = await ask.tool("why", core=core("dotnet8-objects"), type="^No.Such.Type$")
    check("unknown is not none", (found["complete"], found["untrusted"]["answer"]["kept"]), (False, "unknown"))
    for tool in ("info", "summary", "heapstat"):
        found = await ask.tool(tool, core=core("dotnet8-objects"))
        check(tool, found["error"], None)
    found = await ask.tool("async", core=core("dotnet31-pending"))
    check("async", len(found["untrusted"]["answer"]["chains"]) > 0, True)
    found = await ask.tool("schema", command="why")
    check("schema", any(row["at"] == "/kept" for row in found["untrusted"]["answer"]["fields"]), True)


async def second_calls(ask):
    """Times of further questions to an open core."""
    for name, first, second in (
        ("heapstat", {}, {"top": 50}),
        ("why", {"type": "CacheEntry$"}, {"type": "HandleTarget$"}),
        ("threads", {}, {"managed": True}),
    ):
        await ask.tool(name, core=core("dotnet8-objects"), **first)
        begun = time.monotonic()
        await ask.tool(name, core=core("dotnet8-objects"), **second)
        print(f"   second {name}: {1000 * (time.monotonic() - begun):.0f} ms")


async def broken(ask, count):
    """Calls that no client should make. Each is an answer or an error of the protocol, and the session goes on."""
    rng = random.Random(69)
    values = [None, True, -1, 1 << 70, 1.5, "", "x" * 5000, "../core", "/etc/passwd", "\0", "--pid=1", [], {}, [[1]], {"a": 1}]
    errors = 0
    for _ in range(count):
        tool = rng.choice(list(ask.tools.values()))
        names = list(field(tool, "inputSchema", "input_schema")["properties"])
        arguments = {name: rng.choice(values) for name in rng.sample(names, rng.randint(0, len(names)))}
        if rng.random() < 0.5:
            arguments["core"] = core("native-leaks")
        try:
            result = await ask.session.call_tool(tool.name, arguments)
            errors += bool(field(result, "isError", "is_error"))
        except Exception as e:  # The SDK raises errors of the protocol.
            errors += 1
            check("an error of the protocol", "closed" in str(e).lower(), False)
    check("most broken calls are errors", errors > count / 2, True)
    answer = await ask.tool("info", core=core("native-leaks"))
    check("the server still answers", answer["status"], "done")
    print(f"   {count} broken calls: {errors} errors")


async def main(coremap, count):
    server = StdioServerParameters(command=coremap, args=["mcp", "--root", CORES])
    async with stdio_client(server) as (read, write), ClientSession(read, write) as session:
        await session.initialize()
        tools = (await session.list_tools()).tools
        ask = Asked(session, tools)
        check("number of tools", 8 <= len(tools) <= 10, True)
        check("read-only", all(field(tool.annotations, "readOnlyHint", "read_only_hint") for tool in tools), True)
        prompts = (await session.list_prompts()).prompts
        got = await session.get_prompt(prompts[0].name, {"core": core("native-leaks")})
        check("a prompt", core("native-leaks") in got.messages[0].content.text, True)
        await questions(ask)
        await second_calls(ask)
        await broken(ask, count)
        times, sizes = sorted(ask.times), sorted(ask.sizes)
        print(
            f"   {len(sizes)} answers: {statistics.median(sizes):.0f} bytes (median), {sizes[-1]} at most; "
            f"{1000 * statistics.median(times):.0f} ms (median), {times[-1]:.1f} s at most"
        )
    print(f"agents: {checked} checks, {failed} failed")
    sys.exit(failed > 0)


asyncio.run(main(sys.argv[1], int(sys.argv[2])))
