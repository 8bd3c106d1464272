//! The recorded cores. Each is a folder of testdata/cores with the compressed core and `case.json`, which has what
//! tests need to know about it. They are found by listing, so an added core takes part in every test that it declares.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use serde::Deserialize;

/// Purposes of a core (`serves` in case.json), and the file with the expected answers that must be next to it. These
/// come from the process or from the official library.
pub const PURPOSES: &[(&str, Option<&str>)] = &[
    // From the process: threads, mappings, markers.
    ("process", Some("truth.json")),
    ("leaks", Some("truth.json")),
    ("malloc", Some("truth.json")),
    // From the program: what it retains, and how many bytes.
    ("shapes", Some("truth.json")),
    // From the parent process: stacks of its threads, and which of them called fork.
    ("forked", Some("truth.json")),
    // From the program: what its threads wait for.
    ("waits", Some("truth.json")),
    // From the program: what it wrote to stderr as it ended.
    ("ends", Some("truth.json")),
    // From the program: its pointers with tags, and the address of its fault.
    ("tags", Some("truth.json")),
    // From the program: its contexts and their stacks.
    ("fibers", Some("truth.json")),
    // From the allocator or runtime: bytes obtained from the system.
    ("allocators", Some("truth.json")),
    // From the process and /proc: stacks, and mappings by kind.
    ("stacks", Some("truth.txt")),
    // From the official library: segments and native heaps; methods of addresses; stacks of threads.
    ("heaps", Some("official.json")),
    ("methods", Some("official.json")),
    ("threads", Some("official.json")),
    // Only from the words of the code and its data: stubs, and jitted methods by the targets of their precodes.
    ("code", Some("code.json")),
    // From gdb, and from the chain of frame records on the stacks: return addresses, innermost first.
    ("frames", Some("frames.json")),
    // From the program: its threads by name, and its locks with owners and waiters.
    ("locks", Some("truth.json")),
    // From the program: number of heaps of its server GC, and objects that it made.
    ("server", Some("truth.json")),
    // From the VM itself: threads with their frames, states and locks; virtual threads.
    ("jstack", Some("jstack.txt")),
    ("virtual", Some("dump.json")),
    // The expected answers are in the program's source, and restated in the tests.
    ("objects", None),
    ("async", None),
    // From /proc and the file of a single-file program: which assembly each mapping shows.
    ("bundle", Some("truth.json")),
    // From the VM: what it reserved and committed.
    ("java-map", Some("truth.json")),
    // From jcmd: objects of each class.
    ("java-heap", Some("histogram.txt")),
    // From the program and jcmd: arrays with regions of their own, strings with equal texts.
    ("humongous", Some("truth.json")),
    // From the process itself: planted objects and threads; what the collector tracks; obmalloc's blocks.
    ("python", Some("truth.json")),
    ("census", Some("census.txt")),
    ("obmalloc", Some("obmalloc.txt")),
    // From a NativeAOT program: what it planted, and what another reader of its structures found.
    ("nativeaot", Some("truth.json")),
    // From a NativeAOT program: the objects of its static fields.
    ("statics", Some("truth.json")),
    // From a Python process: frame objects of functions that returned.
    ("frame-objects", Some("truth.json")),
    // From a Python process: sums of sys.getsizeof of what its containers retain; its threads.
    ("holdings", Some("truth.json")),
    // From a Go program: MemStats, and its goroutine profile by state, function and line.
    ("go", Some("truth.json")),
    // From the program: its planted objects, and V8's own stack of its main thread.
    ("node", Some("truth.json")),
    // The program's source says what is wrong with it; restated in the tests.
    ("causes", None),
    // From /proc while stopped: smaps and status; pages in RAM by pagemap.
    ("resident", Some("smaps.txt")),
    ("pages", Some("pages.json")),
    // From the runtime's counters and from the program; restated in the tests.
    ("free-regions", None),
    // From the program's source: what keeps its load contexts; what C# holds of Python; restated in the tests.
    ("unloading", None),
    ("two-runtimes", None),
    // From stderr of the program: the exceptions that ended it; restated in the tests.
    ("exceptions", None),
    ("eventpipe", None),
    ("twice", None),
    ("overflow", None),
    // Damaged and moved by the mutation run.
    ("mutants", None),
];

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// Name of the folder.
    #[serde(skip)]
    pub name: String,
    #[serde(skip)]
    pub folder: PathBuf,
    /// How the core was made, in words.
    pub made: String,
    /// Machine as coremap names it, like the fields below.
    pub arch: String,
    pub producer: String,
    pub libc: Option<String>,
    pub runtime: Option<Runtime>,
    /// Commands for which `coremap shrink` retained pages. `None` for a complete core.
    pub shrunk_for: Option<Vec<String>>,
    /// Purposes, see [`PURPOSES`].
    pub serves: Vec<String>,
    /// For a core for methods: whether it has its modules' metadata.
    #[serde(default)]
    pub metadata: bool,
    /// Factor by which the core is slower than others; it gets that many times fewer mutants.
    #[serde(default = "one")]
    pub mutants_one_in: u64,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Runtime {
    pub name: String,
    pub version: String,
    /// For .NET: workstation or server.
    pub gc: Option<String>,
}

fn one() -> u64 {
    1
}

impl Case {
    /// Path of the compressed core in the repository.
    pub fn packed(&self) -> PathBuf {
        let mut cores = fs::read_dir(&self.folder).unwrap().map(|e| e.unwrap().path());
        cores.find(|p| p.file_stem().is_some_and(|s| s == "core")).unwrap_or_else(|| panic!("{}: no core", self.name))
    }

    /// Its compression: `zst`, `gz`, `xz` or `lz4`.
    pub fn ending(&self) -> String {
        self.packed().extension().unwrap().to_str().unwrap().to_owned()
    }

    pub fn serves(&self, purpose: &str) -> bool {
        self.serves.iter().any(|s| s == purpose)
    }

    pub fn is_dotnet(&self) -> bool {
        self.runtime.as_ref().is_some_and(|r| r.name == ".NET")
    }
}

/// All cases, by name.
pub fn all() -> &'static [Case] {
    static ALL: OnceLock<Vec<Case>> = OnceLock::new();
    ALL.get_or_init(|| {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/cores");
        let mut cases: Vec<Case> = fs::read_dir(root).unwrap().map(|e| read(&e.unwrap().path())).collect();
        cases.sort_by(|a, b| a.name.cmp(&b.name));
        cases
    })
}

fn read(folder: &Path) -> Case {
    let text = fs::read_to_string(folder.join("case.json")).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    let case: Case = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    Case { name: folder.file_name().unwrap().to_str().unwrap().to_owned(), folder: folder.to_owned(), ..case }
}

/// Cases with this purpose; at least one.
pub fn serving(purpose: &str) -> Vec<&'static Case> {
    assert!(PURPOSES.iter().any(|p| p.0 == purpose), "{purpose}");
    let cases: Vec<_> = all().iter().filter(|c| c.serves(purpose)).collect();
    assert!(!cases.is_empty(), "no core serves as {purpose}");
    cases
}

/// Names of the cases with this purpose.
pub fn names(purpose: &str) -> impl Iterator<Item = &'static str> {
    serving(purpose).into_iter().map(|c| c.name.as_str())
}

#[track_caller]
pub fn case(name: &str) -> &'static Case {
    all().iter().find(|c| c.name == name).unwrap_or_else(|| panic!("no core {name}"))
}

/// A folder with a link `NAME.core.ENDING` to each core, so that output contains no folder names.
pub fn links() -> &'static Path {
    static LINKS: OnceLock<PathBuf> = OnceLock::new();
    LINKS.get_or_init(|| {
        let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cores");
        fs::create_dir_all(&dir).unwrap();
        for case in all() {
            let (link, target) = (dir.join(format!("{}.core.{}", case.name, case.ending())), case.packed());
            if fs::read_link(&link).is_ok_and(|old| old == target) {
                continue;
            }
            // Replaced atomically, because another run may be using it.
            let new = dir.join(format!("{}-{}", std::process::id(), case.name));
            symlink(target, &new).unwrap();
            fs::rename(&new, &link).unwrap();
        }
        dir
    })
}
