//! Diagnostics: what could not be read or understood, as data on the report.
//!
//! A phase that fails adds a warning here and the other phases go on. The first few warnings of a
//! code are stored with their text; the rest are only counted.

use std::collections::BTreeMap;
use std::sync::Mutex;

use crate::limits;

/// An enum of warning codes: `Variant = "code", "headline", "meaning"` for each.
macro_rules! codes {
    (
        $(#[$meta:meta])*
        $vis:vis enum $name:ident {
            $($value:ident = $code:literal, $headline:literal, $meaning:literal;)+
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        $vis enum $name {
            $(#[doc = $meaning] $value,)+
        }

        impl $name {
            /// All codes, most important first.
            pub const ALL: &'static [$name] = &[$($name::$value),+];

            /// The stable code in JSON and on stderr, e.g. `truncated`.
            pub const fn name(self) -> &'static str {
                match self {
                    $($name::$value => $code,)+
                }
            }

            /// The warning in a few words, for the one line that stands for all warnings.
            pub const fn headline(self) -> &'static str {
                match self {
                    $($name::$value => $headline,)+
                }
            }

            /// What the code means and what to do, as docs/warnings.md has it.
            pub const fn meaning(self) -> &'static str {
                match self {
                    $($name::$value => $meaning,)+
                }
            }
        }
    };
}

codes! {
    /// Code of a warning. The order is the order of importance.
    pub enum WarningCode {
        Truncated = "truncated", "the core file is cut off",
            "The core file ends before all its memory. Check the disk space, `ulimit -c` and the copy, and dump again.";
        Shrank = "shrank", "the core file became shorter while it was read",
            "The core file became shorter while coremap read it, and the missing bytes count as zero. Wait until it is written, then run again.";
        IoError = "io-error", "the core file could not be read everywhere",
            "The disk reported an error while coremap read the core, and those bytes count as zero. Copy the core to another disk and run again.";
        ReadFailed = "read-failed", "some memory could not be read",
            "Some memory could not be read, now or when the core was written. The message says what the answer lacks.";
        ReadCut = "read-cut", "some memory was not read to its end",
            "Memory that the answer needs reaches past the end of the file or of its mapping. The message says what the answer lacks.";
        Inflate = "inflate", "the compressed core breaks off",
            "The compressed core is damaged or incomplete, and only the bytes before the damage are used. Copy or compress it again.";
        Headers = "headers", "the program headers could not be read",
            "The ELF program headers are unreadable, so no memory of the core can be found. Dump or copy the core again.";
        HeadersCut = "headers-cut", "some program headers are missing",
            "The file lacks some of the program headers that it promises, so their memory is missing. Dump or copy the core again.";
        NotesCut = "notes-cut", "the notes of the core are cut off",
            "The notes of the core break off, so threads, files or the signal may be missing. Dump or copy the core again.";
        NoThreads = "no-threads", "the core has no thread registers",
            "The core has no thread registers (NT_PRSTATUS), so there are no stacks. Dump the process again.";
        NoteUnread = "note-unread", "a note could not be read",
            "A note of the core could not be read. The message says what is missing.";
        NoteShort = "note-short", "a note is too short",
            "A note of the core is shorter than its type requires and was ignored. Dump the process again.";
        NotesOverlap = "notes-overlap", "notes overlap",
            "Two note segments share bytes of the file, and only the first counts. The core is damaged or was not written by a dump tool.";
        FilesCount = "files-count", "the list of mapped files is cut off",
            "The list of mapped files (NT_FILE) has fewer entries than it promises, so some modules have no name.";
        FilesRange = "files-range", "an entry of the list of mapped files is invalid",
            "An entry of the list of mapped files (NT_FILE) ends before it starts and was ignored.";
        SegmentOverflow = "segment-overflow", "a segment is out of range",
            "A segment reaches past the end of the address space and was cut. The core is damaged.";
        SegmentFilesz = "segment-filesz", "a segment has too many bytes in the file",
            "A segment has more bytes in the file than in memory; the surplus was ignored. The core is damaged.";
        SegmentsOverlap = "segments-overlap", "segments overlap",
            "Segments claim the same addresses, and the first one with bytes counts. The core is damaged.";
        SegmentsShareBytes = "segments-share-bytes", "segments share bytes of the file",
            "Several segments use the same bytes of the file. Scans read these bytes once, at one of their addresses.";
        Gone = "gone", "the process changed while it was read",
            "Some memory of the live process could not be read and counts as zero: the process ended or unmapped it. Run again.";
        RanOn = "ran-on", "the process ran on while it was read",
            "The process was released before all was read (`--stop-at-most`), so the data may be inconsistent. Allow a longer stop.";
        NotStopped = "not-stopped", "threads were not stopped",
            "Some threads ran while they were read, so their registers are missing and data may be inconsistent. Leave out `--no-stop`, or run again.";
        Budget = "budget", "the work was cut short",
            "The analysis reached its limit of memory or work and skipped the rest. Raise the limit with `--memory SIZE`; the core may also be damaged.";
        Invariant = "invariant", "the answer contradicts itself",
            "Figures that must agree do not, or a page does not match its core. Please report it, unless the core is damaged.";
        Contradiction = "contradiction", "claims on memory contradict each other",
            "Two exact claims on the same memory contradict each other. `coremap check` lists them.";
        StackMissing = "stack-missing", "threads without a stack",
            "No stack was found for some threads: their stack pointer is in no memory that can be a stack, or their stack is not in the core.";
        StacksBlank = "stacks-blank", "gdb wrote stacks as zero",
            "gdb could not read some stacks and wrote zeros (gcore with glibc 2.42 or later). Dump with the kernel or with `coremap dump`.";
        HeapWalk = "heap-walk", "some of the managed heap could not be walked",
            "Some of the managed heap is damaged or not in the core, so its objects are missing from counts and lists.";
        Heap = "heap", "the managed heap has damaged structures",
            "Structures or references of the managed heap are damaged or lead out of the core. The message says what is left out.";
        Handles = "handles", "handles point outside the core",
            "Some GC handles point to objects that are not in the core. They are listed without a type.";
        Dotnet = "dotnet", "structures of .NET could not be read",
            "Structures of the .NET runtime are damaged or not in the core. The message says which, and what is missing.";
        Nativeaot = "nativeaot", "structures of NativeAOT could not be read",
            "Structures of the NativeAOT runtime are damaged or not in the core. The message says which.";
        Hotspot = "hotspot", "structures of the Java VM could not be read",
            "Structures of the Java VM are damaged or not in the core. The message says which.";
        Cpython = "cpython", "structures of Python could not be read",
            "Structures of the Python runtime are damaged or not in the core. The message says which.";
        DotnetUnusable = "dotnet-unusable", "a .NET runtime could not be read",
            "A .NET runtime is mapped, but coremap cannot read it. The message says why; `--symbols DIR` with the runtime's files may help.";
        NativeaotUnusable = "nativeaot-unusable", "a NativeAOT runtime could not be read",
            "A NativeAOT runtime was found, but coremap cannot read it. The message says why.";
        HotspotUnusable = "hotspot-unusable", "a Java VM could not be read",
            "A Java VM is mapped, but coremap cannot read it. The message says why; `--symbols DIR` with libjvm.so may help.";
        CpythonUnusable = "cpython-unusable", "a Python runtime could not be read",
            "A Python runtime is mapped, but coremap cannot read it. The message says why.";
        Malloc = "malloc", "malloc's heaps could not be found",
            "The heaps of malloc could not be found, so they count as anonymous memory. The message says why.";
        MallocWalk = "malloc-walk", "some of malloc's heaps could not be walked",
            "Some of malloc's heaps are damaged or not in the core, so their blocks are missing from the sums.";
        MallocList = "malloc-list", "a list of free blocks could not be read",
            "A list of malloc's free blocks is damaged, breaks off or could not be found. Its blocks count as used.";
        MallocMmapped = "malloc-mmapped", "malloc counts other large blocks than were found",
            "malloc's own count of blocks with a mapping of their own differs from those found.";
        ScrubUnknown = "scrub-unknown", "some objects could not be scrubbed exactly",
            "Objects could not be read while scrubbing, so more was overwritten than necessary. Nothing private remains because of it.";
        SmapsCut = "smaps-cut", "the smaps file is cut off",
            "The file given with `--smaps` ends within a mapping, so the resident size of all later memory is unknown. Save it again.";
        RecordingCut = "recording-cut", "the recording is cut off",
            "The recording breaks off, so its last samples are missing. The samples before are used.";
        Limit = "limit", "a limit was reached",
            "A list or an analysis reached its limit and leaves out the rest. The message says which limit and how much is missing.";
        Metadata = "metadata", "names of types and methods are missing (--symbols DIR)",
            "The core lacks the metadata of some assemblies, so their types and methods are shown as tokens. Give the program's files with `--symbols DIR`.";
        NativeaotNames = "nativeaot-names", "names of types are missing (--symbols DIR)",
            "The core lacks the metadata of the program, so its types have no names. Give the program's file with `--symbols DIR`.";
        Unwind = "unwind", "stacks end early (--symbols DIR)",
            "Stacks end at code that is not in the core. Give the program's files with `--symbols DIR`.";
        UnwindGuess = "unwind-guess", "some frames are guesses",
            "Some frames were found by frame pointers or by scanning the stack, and are marked. `--symbols DIR` with the program's files may help.";
        DotnetVersion = "dotnet-version", "the layout of this .NET version is not proven",
            "The exact .NET version is unknown or has no layout of its own here, so a similar one is used and checked. Results are marked as derived.";
        HeapInGc = "heap-in-gc", "the core was written during a garbage collection",
            "The core was written during a garbage collection, so objects that were being moved may be missing or counted twice. Dump again if it matters.";
        Allocator = "allocator", "blocks of the allocator are not read",
            "The program uses an allocator whose blocks coremap does not read, or none was found. Its memory counts as anonymous.";
        LeaksUnread = "leaks-unread", "blocks of the allocator are not read",
            "The program uses an allocator whose blocks coremap does not read, so leaks among them are not found.";
        LeaksIncomplete = "leaks-incomplete", "some writable memory is not in the core",
            "Some writable memory is not in the core, so blocks called leaked may be referenced from there.";
        SymbolsMismatch = "symbols-mismatch", "files of --symbols are not the same build",
            "A file below `--symbols` is not the build that the core maps, and was not used. Give the files of the same build.";
        SymbolsUnproven = "symbols-unproven", "files of --symbols are used without proof",
            "A file below `--symbols` is used although the core has none of its bytes to compare: its name and size match, or another mapping of the same path does.";
        SymbolsNoProgram = "symbols-no-program", "files of --symbols are no programs",
            "A file below `--symbols` is neither an ELF nor a PE file and was not used.";
        SymbolsAstray = "symbols-astray", "links below --symbols lead out of the folder",
            "A link below `--symbols` leads out of the folder or to nothing, and was not followed. Name a folder that contains both.";
        SmapsDiffers = "smaps-differs", "the smaps file does not match the core",
            "Some mappings differ between the core and the file given with `--smaps`. Save smaps just before the core is written.";
        SmapsPid = "smaps-pid", "the smaps file has another process id",
            "The file given with `--smaps` has another process id than the core. That is normal if one was seen from outside a container.";
        Smaps = "smaps", "--smaps is ignored for a live process",
            "`--smaps` applies to cores only and was ignored: for a live process coremap asks the kernel.";
        LookLacks = "look-lacks", "a sample of the recording lacks something",
            "A sample of the recording lacks an analysis that was skipped because it is slow. The message names the nearest sample that has it.";
        LeftOut = "left-out", "dump left out what takes long",
            "`dump --for all` left out large contents, because the process would be stopped for too long. Name them with `--for` to include them.";
        Pattern = "pattern", "the pattern is restricted",
            "The search pattern has a restriction, for example that it is searched in UTF-8 only. The message says which.";
        Trailing = "trailing", "the file has more bytes after the compressed core",
            "The file continues after the compressed core with bytes that are not compressed. They were ignored.";
        Scrubbed = "scrubbed", "this core was scrubbed",
            "The core was scrubbed: values of the process were overwritten, so texts and numbers in it mean nothing.";
    }
}

impl std::fmt::Display for WarningCode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}

impl serde::Serialize for WarningCode {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// One thing that went wrong or that the reader must know.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, schemars::JsonSchema)]
pub struct Warning {
    /// Stable machine-readable code, e.g. `truncated`.
    #[schemars(with = "String")]
    pub code: WarningCode,
    /// One line for people.
    pub message: String,
    /// Whether the answer is incomplete because data is damaged or lost (exit status 4).
    #[serde(skip)]
    pub is_partial: bool,
}

impl Warning {
    /// A warning about an answer that is incomplete because data is damaged or lost: see [`Diagnostics::partial`].
    pub fn partial(code: WarningCode, message: impl Into<String>) -> Warning {
        Warning { code, message: message.into(), is_partial: true }
    }

    /// A warning about an answer that is as complete as this core allows: see [`Diagnostics::note`].
    pub fn note(code: WarningCode, message: impl Into<String>) -> Warning {
        Warning { code, message: message.into(), is_partial: false }
    }
}

#[derive(Default)]
struct Inner {
    kept: Vec<Warning>,
    counts: BTreeMap<WarningCode, Count>,
}

/// Warnings of one code.
#[derive(Default)]
struct Count {
    all: usize,
    partial: bool,
}

/// Collects warnings from all phases; shared, so that readers behind `&self`
/// can report.
#[derive(Default)]
pub struct Diagnostics {
    inner: Mutex<Inner>,
}

impl Diagnostics {
    fn with<R>(&self, f: impl FnOnce(&mut Inner) -> R) -> R {
        let mut guard = match self.inner.lock() {
            Ok(guard) => guard,
            // A panic elsewhere must not hide what was found so far.
            Err(poisoned) => poisoned.into_inner(),
        };
        f(&mut guard)
    }

    fn push(&self, warning: Warning) {
        tracing::debug!(code = warning.code.name(), message = %warning.message, "diagnostic");
        self.with(|inner| {
            let count = inner.counts.entry(warning.code).or_default();
            count.all += 1;
            count.partial |= warning.is_partial;
            let same = |w: &&mut Warning| w.code == warning.code && w.message == warning.message;
            match inner.kept.iter_mut().find(same) {
                Some(known) => known.is_partial |= warning.is_partial,
                None if count.all <= limits::MAX_WARNINGS_PER_CODE => inner.kept.push(warning),
                None => {}
            }
        });
    }

    /// The answer is incomplete because data is damaged or lost (exit status 4).
    ///
    /// That is: the file is cut off, unreadable or changes while it is read; a header, note or list is
    /// invalid, breaks off or runs in a cycle; figures that must agree contradict each other; a limit is
    /// reached that no sound process reaches; the work was cut short (`--stop-at-most`, `--memory`); a
    /// shrunk or partial core is asked for memory that was removed.
    pub fn partial(&self, code: WarningCode, message: impl Into<String>) {
        self.push(Warning::partial(code, message));
    }

    /// Worth knowing, but the answer is as complete as this core allows (exit status 0).
    ///
    /// That is: the core is as its producer writes it, and what it lacks is what the producer always leaves
    /// out (file pages, memory without access, what `coredump_filter` excludes); a name, a module's file or
    /// a symbol is missing; a version or an allocator is not supported; a frame is a guess; a list was cut at
    /// its stated length.
    pub fn note(&self, code: WarningCode, message: impl Into<String>) {
        self.push(Warning::note(code, message));
    }

    /// Adds a warning that was made elsewhere.
    pub fn add(&self, warning: Warning) {
        self.push(warning);
    }

    /// Whether the answer is incomplete because data is damaged or lost.
    pub fn is_partial(&self) -> bool {
        self.with(|inner| inner.counts.values().any(|count| count.partial))
    }

    /// All warnings in the order they were added, then one line per code with more warnings than are stored.
    pub fn warnings(&self) -> Vec<Warning> {
        self.with(|inner| {
            let mut out = inner.kept.clone();
            for (&code, count) in &inner.counts {
                if count.all > limits::MAX_WARNINGS_PER_CODE {
                    let more = count.all - limits::MAX_WARNINGS_PER_CODE;
                    let message = format!("{more} more like this");
                    out.push(Warning { code, message, is_partial: count.partial });
                }
            }
            out
        })
    }
}

/// Logs (`-vv`) that some data of the process was read. Each is read once: `tests/all/once.rs` counts.
pub(crate) fn was_read(what: &str) {
    tracing::debug!(what, "read");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_of_a_code_are_counted_not_kept() {
        let d = Diagnostics::default();
        for i in 0..100 {
            d.note(WarningCode::Limit, format!("number {i}"));
        }
        let w = d.warnings();
        assert_eq!(w.len(), limits::MAX_WARNINGS_PER_CODE + 1);
        assert_eq!(w[limits::MAX_WARNINGS_PER_CODE].message, "92 more like this");
        assert!(!d.is_partial());
        d.partial(WarningCode::Truncated, "lost");
        assert!(d.is_partial());
        assert!(d.warnings().iter().any(|w| w.code == WarningCode::Truncated && w.is_partial));
    }

    #[test]
    fn the_same_warning_is_kept_once() {
        let d = Diagnostics::default();
        d.note(WarningCode::Heap, "the same");
        d.partial(WarningCode::Heap, "the same");
        assert_eq!(d.warnings(), [Warning::partial(WarningCode::Heap, "the same")]);
    }

    #[test]
    fn a_code_is_a_string_in_json() -> Result<(), serde_json::Error> {
        let warning = Warning::partial(WarningCode::Truncated, "cut");
        assert_eq!(serde_json::to_string(&warning)?, r#"{"code":"truncated","message":"cut"}"#);
        Ok(())
    }

    #[test]
    fn codes_are_unique_and_their_texts_plain() {
        let mut names = std::collections::BTreeSet::new();
        for code in WarningCode::ALL {
            assert!(names.insert(code.name()), "{code}");
            assert!(code.name().bytes().all(|b| b.is_ascii_lowercase() || b == b'-'), "{code}");
            assert!(!code.headline().is_empty() && !code.headline().ends_with('.'), "{code}");
            assert!(code.meaning().ends_with('.') && !code.meaning().contains('|'), "{code}");
        }
    }
}
