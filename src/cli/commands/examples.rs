//! An example of each command, and the meaning of columns that are not self-explanatory. Both are in its help, its
//! manual page and docs/commands.md.

pub(super) struct Example {
    pub name: &'static str,
    line: &'static str,
    /// What it does.
    does: &'static str,
    /// Columns and their meaning.
    pub columns: &'static [(&'static str, &'static str)],
}

const fn example(
    name: &'static str,
    line: &'static str,
    does: &'static str,
    columns: &'static [(&'static str, &'static str)],
) -> Example {
    Example { name, line, does, columns }
}

const CONFIDENCE: (&str, &str) =
    ("Confidence", "exact (read from structures), derived (computed from them) or heuristic (a guess)");
const ACTIVITY: (&str, &str) = ("Activity", "the function a thread is in ← the code that called it");

pub(super) const EXAMPLES: &[Example] = &[
    example("triage", "coremap triage --budget 10s core", "explain where the memory went, within ten seconds", &[]),
    example("explore", "coremap explore core", "browse a core; Enter opens, Esc goes back, ? shows help, q quits", &[]),
    example(
        "top",
        "coremap top --every 10s 4711",
        "watch the memory of process 4711, refreshed every ten seconds",
        &[],
    ),
    example("info", "coremap info core", "show which process this was, and what the core lacks", &[]),
    example(
        "summary",
        "coremap summary --zero-fill core",
        "show sizes by kind, and how many bytes are in pages that are not all zero",
        &[
            ("Size", "address space"),
            ("In core", "bytes that the core contains"),
            ("Written", "bytes in the core, except pages that are all zero"),
        ],
    ),
    example(
        "regions",
        "coremap regions --kind AnonRW --sort size --top 20 core",
        "list the 20 largest mappings without a known owner",
        &[CONFIDENCE, ("Detail", "what the region is, and its owner")],
    ),
    example("maddress", "coremap maddress --summary core", "print the total of each kind, as SOS does", &[]),
    example(
        "stacks",
        "coremap stacks --zero-fill --sort touched core",
        "sort stacks by their high-water mark",
        &[
            ("In use", "bytes from the stack pointer to the highest address of the stack"),
            (
                "Touched",
                "high-water mark (with --zero-fill): bytes from the lowest non-zero page to the highest address",
            ),
            CONFIDENCE,
            ACTIVITY,
        ],
    ),
    example(
        "threads",
        "coremap threads --managed --group core",
        "merge identical managed stacks, most threads first",
        &[],
    ),
    example(
        "stackobjects",
        "coremap stackobjects --tid 4712 core",
        "list the objects that the stack of thread 4712 refers to",
        &[
            ("At", "address of the reference, or the register that has it"),
            (
                "Method",
                "method of the frame; (stack word): a word that equals the object's address, perhaps from an earlier call",
            ),
        ],
    ),
    example("async", "coremap async core", "show pending async methods, and what they wait for", &[]),
    example(
        "threadpool",
        "coremap threadpool core",
        "show limits and workers of the thread pools, and what is queued",
        &[("Runs", "the method that queued items run, or their type")],
    ),
    example(
        "requests",
        "coremap requests core",
        "list requests in flight by method",
        &[
            ("Method ← caller", "the program's innermost method, and its method that called it"),
            ("Waits for", "what ends the wait: a lock, a timer, a call to a peer"),
        ],
    ),
    example(
        "timers",
        "coremap timers core",
        "list active timers by what they call",
        &[
            ("Due ms", "milliseconds from the start of the timer, or from its last call, to the next call"),
            ("For", "the async method or static variable that the call is for, or the type of its argument"),
        ],
    ),
    example("heap", "coremap heap --loader core", "show segments of the managed heap, and the loader heaps", &[]),
    example(
        "heapstat",
        "coremap heapstat --generation loh --min 1MB core",
        "count the objects of at least 1 MB on the large object heap, by type",
        &[("MT", "address of the MethodTable, as in SOS"), ("TotalSize", "bytes of all objects of the type")],
    ),
    example(
        "allocations",
        "coremap allocations --top 10 core",
        "show the ten stacks of a Go program whose objects use most memory",
        &[("In use", "estimate from the profile's samples, as of the end of the last collection")],
    ),
    example(
        "objects",
        "coremap objects --type 'Order$' --sort size --top 10 core",
        "list the ten largest objects of a type",
        &[],
    ),
    example("object", "coremap object 0x7f4e2cc08dd0 core", "show one object with its fields", &[]),
    example("gcroot", "coremap gcroot --type 'Order$' core", "show what keeps the objects of a type alive", &[]),
    example(
        "retained",
        "coremap retained --top 10 core",
        "list the ten types and ten objects that retain the most",
        &[("Retained", "its own bytes, and those of objects that only it keeps alive")],
    ),
    example(
        "collections",
        "coremap collections core",
        "show which collections have most empty slots",
        &[
            ("Fill %", "elements, as a share of the slots of the collections' arrays"),
            ("Empty", "collections without an element; for one collection, bytes of slots without an element"),
            ("Held by", "field of the program's nearest object that retains them, or static variable"),
        ],
    ),
    example(
        "handles",
        "coremap handles --group core",
        "count handles by kind and type",
        &[("Secondary", "the object that a dependent handle keeps alive with the primary one")],
    ),
    example(
        "finalizers",
        "coremap finalizers core",
        "list objects that wait for their finalizer",
        &[("State", "registered: still alive; ready: waiting for the finalizer thread")],
    ),
    example(
        "syncblocks",
        "coremap syncblocks core",
        "list locks with owners and waiters",
        &[("Held", "how often the owner entered it"), ("In Wait", "threads in Monitor.Wait on it")],
    ),
    example(
        "exceptions",
        "coremap exceptions core",
        "list the exceptions on the heap",
        &[("Thrown", "whether it was ever thrown; the runtime allocates some in advance")],
    ),
    example(
        "malloc",
        "coremap malloc --sort count --top 10 core",
        "list the ten largest groups of similar blocks, by count",
        &[
            ("Trim", "bytes that malloc_trim would return to the system"),
            ("Frag %", "free bytes, as a share of the arena"),
            ("Begins with", "first word of the blocks: a symbol, a fill pattern or a number"),
        ],
    ),
    example("search", "coremap search password core --context", "find a text, and show the text around it", &[]),
    example("whatis", "coremap whatis 0x7f42d256e000 core", "explain what is at an address", &[]),
    example("why", "coremap why 0x7f42d256e000 core", "explain what keeps an address in use", &[]),
    example("shell", "coremap shell core", "open a core once, and ask many questions", &[]),
    example("mcp", "coremap mcp --root /var/cores", "serve the cores in a folder to an AI assistant", &[]),
    example("refs", "coremap refs 0x7f42d256e010 core", "find pointers to a block or an object", &[]),
    example(
        "leaks",
        "coremap leaks --top 10 core",
        "list the ten largest groups of leaked blocks",
        &[("Unreachable", "blocks of this size that no pointer reaches")],
    ),
    example(
        "holders",
        "coremap holders --top 10 core",
        "list the managed types that own the most native memory",
        &[
            ("Alone", "native memory that only this row reaches, through malloc blocks too"),
            ("Shared", "what other rows reach too: do not add it up"),
            ("State", "live, dead (a collection frees it), queued (its finalizer is due)"),
        ],
    ),
    example(
        "anon",
        "coremap anon core",
        "explain mappings without a known owner; similar ones are merged",
        &[("Owner", "who points there: a guess")],
    ),
    example("ip2method", "coremap ip2method --short 0x7f8e3e84433c core", "find the method of an address", &[]),
    example("symbolicate", "coremap symbolicate perf.txt core", "add names to the output of perf script", &[]),
    example("perfmap", "coremap perfmap core", "print the symbol map of JIT code for perf", &[]),
    example("diff", "coremap diff old.core new.core", "show what grew from one core to the next", &[]),
    example(
        "dump",
        "coremap dump --pid 4711 --for threads,heap -o small.core",
        "write a small core of process 4711, which continues afterwards",
        &[],
    ),
    example(
        "record",
        "coremap record --pid 4711 --every 10s --for 1h",
        "take a sample every ten seconds for one hour, to read with trend",
        &[],
    ),
    example(
        "trend",
        "coremap trend coremap-4711-20260714T101500Z.jsonl",
        "show what grows, and how certain it is",
        &[
            ("Verdict", "grows, jumped (one step), unclear, settled (it stopped growing), shrinks, steady"),
            ("Measure", "rss, written, readable or size (memory); bytes (objects, blocks)"),
        ],
    ),
    example("report", "coremap report -o page.html core", "write a page to read in a browser", &[]),
    example("export", "coremap export --to gcdump core -o app.gcdump", "write a heap that PerfView opens", &[]),
    example(
        "shrink",
        "coremap shrink --for threads core -o small.core",
        "write a small core that contains only what `threads` reads",
        &[],
    ),
    example(
        "scan-secrets",
        "coremap scan-secrets core",
        "count secrets before you share a core",
        &[
            ("Distinct", "how many distinct values there are"),
            (
                "Confidence",
                "derived: a check digit, a checksum or the decoded content matches; heuristic: only the form matches",
            ),
        ],
    ),
    example("check", "coremap check core", "check that the memory map of a core is consistent", &[]),
    example("schema", "coremap schema summary", "print the JSON Schema of summary", &[]),
    example("completions", "coremap completions bash", "print completions for bash", &[]),
    example("man", "coremap man --dir man1", "write all manual pages into the folder man1", &[]),
];

impl Example {
    pub(super) fn text(&self) -> String {
        let mut text = self.line();
        if !self.columns.is_empty() {
            text.push_str("\n\nColumns:");
            let width = self.columns.iter().map(|(title, _)| title.len()).max().unwrap_or(0);
            text.extend(self.columns.iter().map(|(title, means)| format!("\n  {title:width$}  {means}")));
        }
        text
    }

    /// The example: what it does, and the line to type.
    pub(super) fn line(&self) -> String {
        format!("Example: {}\n  {}", self.does, self.line)
    }

    pub(super) fn markdown(&self) -> String {
        format!("Example: {}\n\n```sh\n{}\n```\n\n", self.does, self.line)
    }

    /// The columns as Markdown. `None` if they are self-explanatory.
    pub(super) fn columns_in_markdown(&self) -> Option<String> {
        let lines = self.columns.iter().map(|(title, means)| format!("- **{title}**: {means}\n"));
        (!self.columns.is_empty()).then(|| std::iter::once("\nColumns:\n\n".to_owned()).chain(lines).collect())
    }

    /// The words of its line.
    #[cfg(test)]
    pub(super) fn words(&self) -> Vec<String> {
        self.line.split(' ').map(|word| word.trim_matches('\'').to_owned()).collect()
    }
}
