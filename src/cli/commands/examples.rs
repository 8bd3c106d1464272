//! An example of each command, and what the columns of its table mean that do not say it themselves:
//! the end of its help and of its manual page.

/// What stands below a command's options.
pub(super) struct Example {
    /// The command.
    pub name: &'static str,
    /// A line that is worth a try.
    line: &'static str,
    /// What it does.
    does: &'static str,
    /// Columns, each with what it means.
    columns: &'static [(&'static str, &'static str)],
}

const fn example(
    name: &'static str,
    line: &'static str,
    does: &'static str,
    columns: &'static [(&'static str, &'static str)],
) -> Example {
    Example { name, line, does, columns }
}

const KNOWN: (&str, &str) = ("Known", "how sure: exact (structures say so), derived (from them), heuristic (a guess)");
const DOES: (&str, &str) = ("Does", "the function a thread is in ← whose code called for it");

pub(super) const EXAMPLES: &[Example] = &[
    example("triage", "coremap triage --budget 10s core", "what has the memory, within ten seconds", &[]),
    example(
        "explore",
        "coremap explore core",
        "look around in all of it: Enter goes in, Esc out, ? helps, q leaves",
        &[],
    ),
    example("top", "coremap top --every 10s 4711", "the memory of process 4711, and what grows", &[]),
    example("info", "coremap info core", "which process this was, and what the dump lacks", &[]),
    example(
        "summary",
        "coremap summary --zero-fill core",
        "sizes by kind, and what of them was ever written",
        &[
            ("Size", "address space; In core: what of it the dump holds"),
            ("Written", "of what is in the core, pages that are not zero"),
        ],
    ),
    example(
        "regions",
        "coremap regions --kind AnonRW --sort size --top 20 core",
        "the largest mappings that nothing claims",
        &[KNOWN, ("Detail", "what it is, and whose")],
    ),
    example("maddress", "coremap maddress --summary core", "the sums in the words of SOS", &[]),
    example(
        "stacks",
        "coremap stacks --zero-fill --sort touched core",
        "stacks by how deep they ever were",
        &[
            ("In use", "from the stack pointer to the top"),
            ("Touched", "from the lowest page that is not zero to the top: the high-water mark"),
            KNOWN,
            DOES,
        ],
    ),
    example(
        "threads",
        "coremap threads --managed --group core",
        "equal managed stacks, those of most threads first",
        &[],
    ),
    example("async", "coremap async core", "async methods that are not done, and what they wait for", &[]),
    example("heap", "coremap heap --loader core", "segments of the managed heap, and the loader's memory", &[]),
    example(
        "heapstat",
        "coremap heapstat --generation loh --min 1MB core",
        "types of large objects",
        &[("MT", "address of the MethodTable, as in SOS"), ("TotalSize", "bytes of all objects of the type")],
    ),
    example(
        "objects",
        "coremap objects --type 'Order$' --sort size --top 10 core",
        "the ten biggest objects of a type",
        &[],
    ),
    example("object", "coremap object 0x7f4e2cc08dd0 core", "one object with its fields", &[]),
    example("gcroot", "coremap gcroot --type 'Order$' core", "what keeps the objects of a type alive", &[]),
    example(
        "retained",
        "coremap retained --top 10 core",
        "what would be freed with what",
        &[("Retained", "bytes that would be freed with it: its own, and those that only it keeps")],
    ),
    example(
        "handles",
        "coremap handles --group core",
        "handles by kind and type",
        &[("Secondary", "the object that a dependent handle keeps with the first one")],
    ),
    example(
        "finalizers",
        "coremap finalizers core",
        "what waits for its finalizer",
        &[("State", "registered: alive; ready: its finalizer is due")],
    ),
    example(
        "syncblocks",
        "coremap syncblocks core",
        "locks with owners and waiters",
        &[("Held", "how often its owner took it"), ("In Wait", "threads in Monitor.Wait on it")],
    ),
    example(
        "exceptions",
        "coremap exceptions core",
        "exceptions on the heap",
        &[("Thrown", "whether it ever was: the runtime keeps some ready")],
    ),
    example(
        "malloc",
        "coremap malloc --sort count --top 10 core",
        "blocks that are alike, the most numerous first",
        &[
            ("Trim", "what malloc_trim would give back to the system"),
            ("Frag %", "free bytes of all of the arena"),
            ("Begins with", "the first word of the blocks: a symbol, a fill or a number"),
        ],
    ),
    example("search", "coremap search --context password core", "where a text is, with what stands around it", &[]),
    example("whatis", "coremap whatis 0x7f42d256e000 core", "all that is known of an address", &[]),
    example("refs", "coremap refs 0x7f42d256e010 core", "who points at a block or an object", &[]),
    example(
        "leaks",
        "coremap leaks --top 10 core",
        "blocks that nothing points at",
        &[("Leaked", "blocks of this size that no pointer reaches")],
    ),
    example(
        "holders",
        "coremap holders --top 10 core",
        "which managed types hold native memory",
        &[("Reaches", "bytes that can be reached from these blocks, by other ways too")],
    ),
    example(
        "anon",
        "coremap anon core",
        "mappings that nothing claims, alike ones together",
        &[("Owner", "whose pointers lead there: a guess")],
    ),
    example("ip2method", "coremap ip2method --short 0x7f8e3e84433c core", "the method that an address is of", &[]),
    example("symbolicate", "coremap symbolicate perf.txt core", "perf's text with names for its addresses", &[]),
    example("perfmap", "coremap perfmap core", "jitted code, in the form of perf's map files", &[]),
    example("diff", "coremap diff old.core new.core", "what grew from one dump to the next", &[]),
    example(
        "dump",
        "coremap dump --pid 4711 --for threads,heap -o small.core",
        "a small core of a process, which goes on",
        &[],
    ),
    example(
        "record",
        "coremap record --pid 4711 --every 10s --for 1h",
        "what has the memory, each ten seconds of an hour, for trend",
        &[],
    ),
    example(
        "trend",
        "coremap trend coremap-4711-20260714T101500Z.jsonl",
        "what grows, and how sure that is",
        &[
            ("Verdict", "grows, jumped (one step), unclear, settled (it has stopped), shrinks, steady"),
            ("Measure", "rss, written, readable or size of kinds, bytes of objects and blocks"),
        ],
    ),
    example("report", "coremap report -o page.html core", "a page to look at, and to give to others", &[]),
    example("export", "coremap export --to gcdump core -o app.gcdump", "a heap that PerfView opens", &[]),
    example("shrink", "coremap shrink --for threads core -o small.core", "a core small enough to send", &[]),
    example(
        "scan-secrets",
        "coremap scan-secrets core",
        "what to look at before a core is handed on",
        &[
            ("Different", "how many of these places differ in what they hold"),
            ("Known", "derived (a check digit, a checksum or what it decodes to fits), heuristic (its form alone)"),
        ],
    ),
    example("check", "coremap check core", "whether the map adds up", &[]),
    example("schema", "coremap schema summary", "the JSON Schema of an answer", &[]),
    example("completions", "coremap completions bash", "completions, to be kept where bash looks for them", &[]),
    example("man", "coremap man --dir man1", "all manual pages", &[]),
];

impl Example {
    /// The end of the help.
    pub(super) fn text(&self) -> String {
        let mut text = format!("Example: {}\n  {}", self.does, self.line);
        if !self.columns.is_empty() {
            let width = self.columns.iter().map(|(title, _)| title.len()).max().unwrap_or(0);
            text.push_str("\n\nColumns:");
            for (title, means) in self.columns {
                text.push_str(&format!("\n  {title:width$}  {means}"));
            }
        }
        text
    }

    /// The words of its line.
    #[cfg(test)]
    pub(super) fn words(&self) -> Vec<String> {
        self.line.split(' ').map(|word| word.trim_matches('\'').to_owned()).collect()
    }
}
