//! Diagnostics: what could not be read or understood, as data for the report.
//!
//! A phase that fails adds a warning here and the other phases go on. The first few warnings of a
//! code are stored with their text; the rest are only counted.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

use crate::limits;

/// Effect of a warning on the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The answer is incomplete because data is damaged or lost: exit status 4.
    Lost,
    /// The answer is as complete as this core allows: exit status 0.
    Note,
    /// Either of the two. The message says which.
    Either,
}

/// An enum of warning codes: `Variant = effect, "code", "headline", "meaning"` for each.
macro_rules! codes {
    (
        $(#[$meta:meta])*
        $vis:vis enum $name:ident {
            $($value:ident = $effect:ident, $code:literal, $headline:literal, $meaning:literal;)+
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

            /// The effect on the answer.
            pub const fn effect(self) -> Effect {
                match self {
                    $($name::$value => Effect::$effect,)+
                }
            }

            /// The warning in a few words, for the line that summarises all warnings.
            pub const fn headline(self) -> &'static str {
                match self {
                    $($name::$value => $headline,)+
                }
            }

            /// Meaning of the code, and the remedy, as in docs/warnings.md.
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
        Truncated = Lost, "truncated", "the core file is cut off",
            "The core file ends before all its memory. Check the disk space, `ulimit -c` and the copy, and dump again.";
        Shrank = Lost, "shrank", "the core file became shorter while it was read",
            "The core file became shorter while coremap read it, and the missing bytes count as zero. Wait until it is written, then run again.";
        IoError = Lost, "io-error", "the core file could not be read everywhere",
            "The disk reported an error while coremap read the core, and those bytes count as zero. Copy the core to another disk and run again.";
        ReadFailed = Lost, "read-failed", "some memory could not be read",
            "Some memory could not be read, now or when the core was written. The message says what the answer lacks.";
        ReadCut = Lost, "read-cut", "some memory was not read to its end",
            "Memory that the answer needs reaches past the end of the file or of its mapping. The message says what the answer lacks.";
        Inflate = Lost, "inflate", "the compressed core breaks off",
            "The compressed core is damaged or incomplete, and only the bytes before the damage are used. Copy or compress it again.";
        Headers = Lost, "headers", "the program headers could not be read",
            "The ELF program headers are unreadable, so no memory of the core can be found. Dump or copy the core again.";
        HeadersCut = Lost, "headers-cut", "some program headers are missing",
            "The file lacks some of the program headers that it promises, so their memory is missing. Dump or copy the core again.";
        NotesCut = Lost, "notes-cut", "the notes of the core are cut off",
            "The notes of the core break off, so threads, files or the signal may be missing. Dump or copy the core again.";
        NoThreads = Lost, "no-threads", "the core has no thread registers",
            "The core has no thread registers (NT_PRSTATUS), so there are no stacks. Dump the process again.";
        NoteUnread = Lost, "note-unread", "a note could not be read",
            "A note of the core could not be read. The message says what is missing.";
        NoteShort = Lost, "note-short", "a note is too short",
            "A note of the core is shorter than its type requires and was ignored. Dump the process again.";
        NotesOverlap = Lost, "notes-overlap", "notes overlap",
            "Two note segments share bytes of the file, and only the first counts. The core is damaged or was not written by a dump tool.";
        FilesCount = Lost, "files-count", "the list of mapped files is cut off",
            "The list of mapped files (NT_FILE) has fewer entries than it promises, so some modules have no name.";
        FilesRange = Lost, "files-range", "an entry of the list of mapped files is invalid",
            "An entry of the list of mapped files (NT_FILE) ends before it starts and was ignored.";
        SegmentOverflow = Lost, "segment-overflow", "a segment is out of range",
            "A segment reaches past the end of the address space and was cut. The core is damaged.";
        SegmentFilesz = Lost, "segment-filesz", "a segment has too many bytes in the file",
            "A segment has more bytes in the file than in memory; the surplus was ignored. The core is damaged.";
        SegmentsOverlap = Lost, "segments-overlap", "segments overlap",
            "Segments claim the same addresses, and the first one with bytes counts. The core is damaged.";
        SegmentsShareBytes = Lost, "segments-share-bytes", "segments share bytes of the file",
            "Several segments use the same bytes of the file. Scans read these bytes once, at one of their addresses.";
        Gone = Lost, "gone", "the process changed while it was read",
            "Some memory of the live process could not be read and counts as zero: the process ended or unmapped it. Run again.";
        RanOn = Lost, "ran-on", "the process ran on while it was read",
            "The process was released before all was read (`--stop-at-most`), so the data may be inconsistent. Allow a longer stop.";
        NotStopped = Either, "not-stopped", "threads were not stopped",
            "Some threads ran while they were read, so their registers are missing and data may be inconsistent. Leave out `--no-stop`, or run again.";
        Budget = Lost, "budget", "the work was cut short",
            "The analysis reached its limit of memory or work and skipped the rest. Raise the limit with `--memory SIZE`; the core may also be damaged.";
        Invariant = Lost, "invariant", "the answer contradicts itself",
            "Figures that must agree do not, or a page does not match its core. Please report it, unless the core is damaged.";
        Contradiction = Lost, "contradiction", "claims on memory contradict each other",
            "Two exact claims on the same memory contradict each other. `coremap check` lists them.";
        StackMissing = Lost, "stack-missing", "threads without a stack",
            "No stack was found for some threads: their stack pointer is in no memory that can be a stack, or their stack is not in the core.";
        RegistersAstray = Lost, "registers-astray", "threads have wrong registers",
            "The stack pointers of some threads are in none of the stacks, so their registers in the core are wrong. Stacks come from control blocks; frames are missing. Dump with the kernel or with `coremap dump`.";
        ThreadsUnnumbered = Note, "threads-unnumbered", "threads have no ids of their own",
            "The core has no thread ids, or one id for several threads. `#1` is the first thread in the notes, `#2` the second.";
        KernelFlags = Note, "kernel-flags", "the flags of the segments are the kernel's",
            "The program that wrote the core put the kernel's VM_* bits in place of ELF's segment flags. coremap reads them as such; other programs mistake read for execute.";
        StacksBlank = Note, "stacks-blank", "gdb wrote stacks as zero",
            "gdb could not read some stacks and wrote zeros (gcore with glibc 2.42 or later). Dump with the kernel or with `coremap dump`.";
        HeapWalk = Either, "heap-walk", "some of the managed heap could not be walked",
            "Some of the managed heap is damaged or not in the core, so its objects are missing from counts and lists.";
        Heap = Lost, "heap", "the managed heap has damaged structures",
            "Structures or references of the managed heap are damaged or lead out of the core. The message says what is left out.";
        Frames = Lost, "frames", "marks of threads on their stacks could not be read",
            "The .NET runtime's lists of frames on some stacks break off, so these stacks may lack managed frames or references.";
        Handles = Lost, "handles", "handles point outside the core",
            "Some GC handles point to objects that are not in the core. They are listed without a type.";
        Dotnet = Lost, "dotnet", "structures of .NET could not be read",
            "Structures of the .NET runtime are damaged or not in the core. The message says which, and what is missing.";
        Nativeaot = Lost, "nativeaot", "structures of NativeAOT could not be read",
            "Structures of the NativeAOT runtime are damaged or not in the core. The message says which.";
        Hotspot = Either, "hotspot", "structures of the Java VM could not be read",
            "Structures of the Java VM are damaged or not in the core. The message says which.";
        Cpython = Lost, "cpython", "structures of Python could not be read",
            "Structures of the Python runtime are damaged or not in the core. The message says which.";
        V8Unusable = Either, "v8-unusable", "a V8 could not be read",
            "A V8 (Node.js) is mapped, but coremap cannot read it. The message says why; `--symbols DIR` with the program's file may help.";
        Go = Either, "go", "structures of Go could not be read",
            "Structures of the Go runtime are damaged or not in the core, or names are in a file that is missing. The message says which.";
        DotnetUnusable = Either, "dotnet-unusable", "a .NET runtime could not be read",
            "A .NET runtime is mapped, but coremap cannot read it. The message says why; `--symbols DIR` with the runtime's files may help.";
        NativeaotUnusable = Either, "nativeaot-unusable", "a NativeAOT runtime could not be read",
            "A NativeAOT runtime was found, but coremap cannot read it. The message says why.";
        HotspotUnusable = Either, "hotspot-unusable", "a Java VM could not be read",
            "A Java VM is mapped, but coremap cannot read it. The message says why; `--symbols DIR` with libjvm.so may help.";
        CpythonUnusable = Either, "cpython-unusable", "a Python runtime could not be read",
            "A Python runtime is mapped, but coremap cannot read it. The message says why.";
        GoUnusable = Either, "go-unusable", "a Go runtime could not be read",
            "A Go program was found, but coremap cannot read its runtime. The message says why.";
        Malloc = Lost, "malloc", "malloc's heaps could not be found",
            "The heaps of malloc could not be found, so they count as anonymous memory. The message says why.";
        MallocWalk = Lost, "malloc-walk", "some of malloc's heaps could not be walked",
            "Some of malloc's heaps are damaged or not in the core, so their blocks are missing from the sums.";
        MallocList = Lost, "malloc-list", "a list of free blocks could not be read",
            "A list of malloc's free blocks is damaged, breaks off or could not be found. Its blocks count as used.";
        MallocMmapped = Note, "malloc-mmapped", "malloc counts other large blocks than were found",
            "malloc's own count of blocks with a mapping of their own differs from those found.";
        ScrubUnknown = Note, "scrub-unknown", "objects of a runtime were overwritten as a whole",
            "Scrub does not know the objects of a runtime, so their values and sizes were overwritten as a whole.";
        SmapsCut = Lost, "smaps-cut", "the smaps text is cut off or damaged",
            "The file given with `--smaps` ends within a mapping, or has figures that exceed their mapping. The resident size of that memory is unknown. Save it again.";
        RecordingCut = Lost, "recording-cut", "the recording is cut off",
            "The recording breaks off, so its last samples are missing. The samples before are used.";
        Limit = Either, "limit", "a limit was reached",
            "A list or an analysis reached its limit and leaves out the rest. The message says which limit and how much is missing.";
        Metadata = Note, "metadata", "names of types and methods are missing (--symbols DIR)",
            "The core lacks the metadata of some assemblies, so their types and methods are shown as tokens. Give the program's files with `--symbols DIR`.";
        NativeaotNames = Note, "nativeaot-names", "names of types are missing (--symbols DIR)",
            "The core lacks the metadata of the program, so its types have no names. Give the program's file with `--symbols DIR`.";
        NativeaotData = Note, "nativeaot-data", "the program's writable data is from its file",
            "The core lacks the program's writable data, so it is read from the program's file. Variables there have the values that the program was linked with.";
        Unwind = Note, "unwind", "stacks end early (--symbols DIR)",
            "Stacks end at code that is not in the core. Give the program's files with `--symbols DIR`.";
        UnwindGuess = Note, "unwind-guess", "some frames are guesses",
            "Some frames were found by frame pointers or by scanning the stack, and are marked. `--symbols DIR` with the program's files may help.";
        DotnetVersion = Note, "dotnet-version", "the layout of this .NET version is not proven",
            "The exact .NET version is unknown or has no layout of its own here, so a similar one is used and checked. Results are marked as derived.";
        HeapInGc = Note, "heap-in-gc", "the core was written during a garbage collection",
            "The core was written during a garbage collection, so objects that were being moved may be missing or counted twice. Dump again if it matters.";
        Allocator = Note, "allocator", "blocks of the allocator are not read",
            "The program uses an allocator whose blocks coremap does not read, or none was found. Its memory counts as anonymous.";
        LeaksUnread = Note, "leaks-unread", "blocks of the allocator are not read",
            "The program uses an allocator whose blocks coremap does not read, so leaks among them are not found.";
        LeaksIncomplete = Either, "leaks-incomplete", "some writable memory is not in the core",
            "Some writable memory is not in the core, so blocks called leaked may be referenced from there.";
        SymbolsMismatch = Note, "symbols-mismatch", "files of --symbols are not the same build",
            "A file below `--symbols` is not the build that the core maps, and was not used. Give the files of the same build.";
        SymbolsUnproven = Note, "symbols-unproven", "files of --symbols are used without proof",
            "A file below `--symbols` is used although the core has none of its bytes to compare: its name and size match, or another mapping of the same path does.";
        SymbolsNoProgram = Note, "symbols-no-program", "files of --symbols are no programs",
            "A file below `--symbols` is neither an ELF nor a PE file and was not used.";
        SymbolsAstray = Note, "symbols-astray", "links below --symbols lead out of the folder",
            "A link below `--symbols` leads out of the folder or to nothing, and was not followed. Name a folder that contains both.";
        SmapsDiffers = Note, "smaps-differs", "the smaps file does not match the core",
            "Some mappings differ between the core and the file given with `--smaps`. Save smaps just before the core is written.";
        SmapsPid = Note, "smaps-pid", "the smaps file has another process id",
            "The file given with `--smaps` has another process id than the core. That is normal if one was seen from outside a container.";
        Smaps = Note, "smaps", "--smaps is ignored for a live process",
            "`--smaps` applies to cores only and was ignored: for a live process coremap asks the kernel.";
        LookLacks = Note, "look-lacks", "a sample of the recording lacks something",
            "A sample of the recording lacks an analysis that was skipped because it is slow. The message names the nearest sample that has it.";
        LeftOut = Note, "left-out", "dump left out what takes long",
            "`dump --for all` left out large contents, because the process would be stopped for too long. Name them with `--for` to include them.";
        Pattern = Note, "pattern", "the pattern is restricted",
            "The search pattern has a restriction, for example that it is searched in UTF-8 only. The message says which.";
        Trailing = Note, "trailing", "the file has more bytes after the compressed core",
            "The file continues after the compressed core with bytes that are not compressed. They were ignored.";
        Scrubbed = Note, "scrubbed", "this core was scrubbed",
            "The core was scrubbed: values of the process were overwritten, so texts and numbers in it mean nothing.";
    }
}

impl WarningCode {
    /// Codes about .NET's structures.
    pub const OF_DOTNET: &'static [WarningCode] =
        &[WarningCode::HeapWalk, WarningCode::Heap, WarningCode::Frames, WarningCode::Handles, WarningCode::Dotnet];

    /// Codes about a managed heap whose objects may be moving.
    pub const OF_HEAP: &'static [WarningCode] = &[WarningCode::HeapWalk, WarningCode::Heap, WarningCode::Handles];

    /// Codes about the contents of memory. A core without that memory causes them too.
    pub const OF_CONTENTS: &'static [WarningCode] = &[
        WarningCode::StackMissing,
        WarningCode::RegistersAstray,
        WarningCode::HeapWalk,
        WarningCode::Heap,
        WarningCode::Frames,
        WarningCode::Handles,
        WarningCode::Dotnet,
        WarningCode::Nativeaot,
        WarningCode::Hotspot,
        WarningCode::Cpython,
        WarningCode::V8Unusable,
        WarningCode::DotnetUnusable,
        WarningCode::NativeaotUnusable,
        WarningCode::HotspotUnusable,
        WarningCode::CpythonUnusable,
        WarningCode::Go,
        WarningCode::GoUnusable,
        WarningCode::Malloc,
        WarningCode::MallocWalk,
        WarningCode::MallocList,
        WarningCode::LeaksIncomplete,
    ];
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

/// A problem, or a fact that the reader must know.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, schemars::JsonSchema)]
pub struct Warning {
    /// Stable machine-readable code, e.g. `truncated`.
    #[schemars(with = "String")]
    pub code: WarningCode,
    /// One line of text.
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
    excused: BTreeSet<WarningCode>,
}

#[derive(Default)]
struct Count {
    all: usize,
    partial: bool,
}

/// Collects warnings of all phases. Shared, so that readers with `&self` can report.
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
        debug_assert!(
            warning.code.effect() != if warning.is_partial { Effect::Note } else { Effect::Lost },
            "{warning:?} is not as its code says"
        );
        tracing::debug!(code = warning.code.name(), message = %warning.message, "diagnostic");
        self.with(|inner| {
            let count = inner.counts.entry(warning.code).or_default();
            count.partial |= warning.is_partial;
            let same = |w: &&mut Warning| w.code == warning.code && w.message == warning.message;
            if let Some(known) = inner.kept.iter_mut().find(same) {
                known.is_partial |= warning.is_partial;
                return;
            }
            count.all += 1;
            if count.all <= limits::MAX_WARNINGS_PER_CODE {
                inner.kept.push(warning);
            }
        });
    }

    /// Adds a warning that the answer is incomplete because data is damaged or lost (exit status 4).
    ///
    /// Causes are:
    ///
    /// - the file is cut off, is unreadable, or changes while it is read;
    /// - a header, note or list is invalid, breaks off, or runs in a cycle;
    /// - figures that must agree contradict each other;
    /// - a limit is reached that no sound process reaches;
    /// - the work was cut short (`--stop-at-most`, `--memory`);
    /// - a shrunk or partial core lacks memory that was removed.
    pub fn partial(&self, code: WarningCode, message: impl Into<String>) {
        self.push(Warning::partial(code, message));
    }

    /// Adds a warning about an answer that is as complete as this core allows (exit status 0).
    ///
    /// Causes are:
    ///
    /// - the core is as its producer writes it, and lacks only what this producer always leaves out (file pages, memory
    ///   without access, what `coredump_filter` excludes);
    /// - a name, a module's file or a symbol is missing;
    /// - a version or an allocator is not supported;
    /// - a frame is a guess;
    /// - a list was cut at its stated length.
    pub fn note(&self, code: WarningCode, message: impl Into<String>) {
        self.push(Warning::note(code, message));
    }

    /// Adds a warning that was made elsewhere.
    pub fn add(&self, warning: Warning) {
        self.push(warning);
    }

    /// Makes all warnings of these codes notes, earlier and later ones: their cause is known, and it is no damage.
    pub fn excuse(&self, codes: &[WarningCode]) {
        self.with(|inner| inner.excused.extend(codes));
    }

    /// Makes partial again what [`Diagnostics::excuse`] made notes.
    #[doc(hidden)]
    pub fn excuse_nothing(&self) {
        self.with(|inner| inner.excused.clear());
    }

    /// Whether the answer is incomplete because data is damaged or lost.
    pub fn is_partial(&self) -> bool {
        self.with(|inner| inner.counts.iter().any(|(code, count)| count.partial && !inner.excused.contains(code)))
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
            for warning in &mut out {
                warning.is_partial &= !inner.excused.contains(&warning.code);
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
        d.note(WarningCode::Limit, "the same");
        d.partial(WarningCode::Limit, "the same");
        assert_eq!(d.warnings(), [Warning::partial(WarningCode::Limit, "the same")]);
        // A repetition is not one more, and takes no room from other warnings of the code.
        for _ in 0..100 {
            d.partial(WarningCode::Limit, "the same");
        }
        d.note(WarningCode::Limit, "another");
        assert_eq!(d.warnings().iter().map(|w| w.message.as_str()).collect::<Vec<_>>(), ["the same", "another"]);
    }

    #[test]
    fn what_is_excused_is_a_note() {
        let d = Diagnostics::default();
        d.partial(WarningCode::HeapWalk, "moved");
        d.excuse(WarningCode::OF_HEAP);
        d.partial(WarningCode::Heap, "moved");
        assert!(!d.is_partial() && d.warnings().iter().all(|w| !w.is_partial));
        d.partial(WarningCode::Truncated, "cut");
        assert!(d.is_partial());
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
            let is_plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
            assert!(code.name().bytes().all(is_plain), "{code}");
            assert!(!code.headline().is_empty() && !code.headline().ends_with('.'), "{code}");
            assert!(code.meaning().ends_with('.') && !code.meaning().contains('|'), "{code}");
        }
    }
}
