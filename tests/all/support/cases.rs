//! The recorded cores: each is a folder of testdata/cores with the core, packed, and `case.json`,
//! which says what a test needs to know of it. Found by listing, so that a core that is added
//! takes part in every test that it says it serves.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use serde::Deserialize;

/// What a core can serve as (`serves` of case.json), and the file that must lie beside it: what is
/// right, by the process or by the official library.
pub const PURPOSES: &[(&str, Option<&str>)] = &[
    // Of the process: threads, mappings, markers.
    ("process", Some("truth.json")),
    ("leaks", Some("truth.json")),
    ("malloc", Some("truth.json")),
    // Of the program: what it keeps, and how many bytes.
    ("shapes", Some("truth.json")),
    // Of the allocator or runtime: bytes that it has from the system.
    ("allocators", Some("truth.json")),
    // Of the process and /proc: stacks and mappings by kind.
    ("stacks", Some("truth.txt")),
    // Of the official library: segments and native heaps; methods of addresses; stacks of threads.
    ("heaps", Some("official.json")),
    ("methods", Some("official.json")),
    ("threads", Some("official.json")),
    // Of the words of the code and its data alone: stubs, and jitted methods by what their precodes lead to.
    ("code", Some("code.json")),
    // Of gdb, and of the chain of frame records that the stacks themselves are: return addresses, innermost first.
    ("frames", Some("frames.json")),
    // The VM itself: threads with their frames, states and locks; virtual threads.
    ("jstack", Some("jstack.txt")),
    ("virtual", Some("dump.json")),
    // What is right stands in the sources of the program and is restated in the tests.
    ("objects", None),
    ("async", None),
    // Of /proc and the file of a single-file program: which assembly each mapping shows.
    ("bundle", Some("truth.json")),
    // Of the VM: what it reserved and committed.
    ("java-map", Some("truth.json")),
    // The same: objects of each class, by jcmd.
    ("java-heap", Some("histogram.txt")),
    // Of the process itself: planted objects and threads; what the collector tracks; blocks of obmalloc.
    ("python", Some("truth.json")),
    ("census", Some("census.txt")),
    ("obmalloc", Some("obmalloc.txt")),
    // Of a NativeAOT program: what it planted, and what another reader of its structures found.
    ("nativeaot", Some("truth.json")),
    // Of /proc, in the same stop: smaps behind status; which pages were in RAM, by pagemap.
    ("resident", Some("smaps.txt")),
    ("pages", Some("pages.json")),
    // Damaged and moved by the mutation run.
    ("mutants", None),
];

/// A recorded core.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// Of the folder.
    #[serde(skip)]
    pub name: String,
    #[serde(skip)]
    pub folder: PathBuf,
    /// In words.
    pub made: String,
    /// As coremap names it, as are the following.
    pub arch: String,
    pub producer: String,
    pub libc: Option<String>,
    pub runtime: Option<Runtime>,
    /// Commands for which `coremap shrink` kept pages; `None` where it has all that the dump had.
    pub shrunk_for: Option<Vec<String>>,
    /// Of [`PURPOSES`].
    pub serves: Vec<String>,
    /// Of a core for methods: whether it has the metadata of its modules.
    #[serde(default)]
    pub metadata: bool,
    /// It takes so many times as long as others, and gets as many times fewer mutants.
    #[serde(default = "one")]
    pub mutants_one_in: u64,
}

/// What runs in the process beside native code.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Runtime {
    pub name: String,
    pub version: String,
    /// .NET: workstation or server.
    pub gc: Option<String>,
}

fn one() -> u64 {
    1
}

impl Case {
    /// The core as it lies in the repository.
    pub fn packed(&self) -> PathBuf {
        let mut cores = fs::read_dir(&self.folder).unwrap().map(|e| e.unwrap().path());
        cores.find(|p| p.file_stem().is_some_and(|s| s == "core")).unwrap_or_else(|| panic!("{}: no core", self.name))
    }

    /// What packs it: `zst`, `gz`, `xz` or `lz4`.
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

/// All of them, by name.
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

/// Those that serve as this; one at least.
pub fn serving(purpose: &str) -> Vec<&'static Case> {
    assert!(PURPOSES.iter().any(|p| p.0 == purpose), "{purpose}");
    let cases: Vec<_> = all().iter().filter(|c| c.serves(purpose)).collect();
    assert!(!cases.is_empty(), "no core serves as {purpose}");
    cases
}

/// The names of those that serve as this.
pub fn names(purpose: &str) -> impl Iterator<Item = &'static str> {
    serving(purpose).into_iter().map(|c| c.name.as_str())
}

#[track_caller]
pub fn case(name: &str) -> &'static Case {
    all().iter().find(|c| c.name == name).unwrap_or_else(|| panic!("no core {name}"))
}

/// A folder in which each core is a file `NAME.core.ENDING`, a link: what is printed of it then
/// names no folder.
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
            // Another run may look at it just now.
            let new = dir.join(format!("{}-{}", std::process::id(), case.name));
            symlink(target, &new).unwrap();
            fs::rename(&new, &link).unwrap();
        }
        dir
    })
}
