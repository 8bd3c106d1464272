//! Opens a running process: stops it, and collects its facts.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::sync::Arc;
use std::time::Duration;

use crate::addr::{Addr, AddrRange};
use crate::bytes;
use crate::diag::{Diagnostics, WarningCode};
use crate::limits;
use crate::live::bytes::{AbsentSource, Bytes, LazyFile, MappedPart};
use crate::live::maps::{self, Vma};
use crate::live::refused::Circumstances;
use crate::live::stop::{self, Stop, Stopped};
use crate::live::{AttachOptions, Live, LiveError, cgroup};
use crate::range_map::RangeMap;
use crate::resident::{smaps, status};
use crate::targets::budget::UserLimits;
use crate::targets::residence::{Figure, MappingResidence, PageRuns, Pages, Residence};
use crate::targets::{
    AddressSpace, Arch, CALL_ARGUMENTS, CpuTime, DumpNotes, Facts, FileMapping, Mapping, MappingName, Piece,
    PieceState, ProcessInfo, Producer, Reads, RecordedCall, Registers, Thread,
};

/// Size in bytes of the part of an ELF header up to its machine (`e_ident`, `e_machine`; elf(5)).
const ELF_HEAD: usize = 20;
/// Offsets in the header: `EI_CLASS`, `e_machine`.
const EI_CLASS: usize = 4;
const E_MACHINE: usize = 18;
/// `EI_CLASS` of 32-bit files.
const ELFCLASS32: u8 = 1;

impl Live {
    /// Opens process `pid`. It stays stopped until [`Target::finish`](crate::targets::Target::finish), unless `attach`
    /// says otherwise.
    ///
    /// # Errors
    /// [`LiveError`] with the reason, and the remedy if there is one.
    pub(crate) fn open(
        pid: u32,
        attach: AttachOptions,
        reads: Reads,
        allowed: UserLimits,
        diag: &Diagnostics,
    ) -> Result<Live, LiveError> {
        if pid == std::process::id() {
            return Err(LiveError::Itself { pid });
        }
        let proc = Folder::of(pid)?;
        let arch = machine(&proc)?;
        // Open everything that may be denied before any thread is stopped.
        let mem = proc.open("mem").map_err(|e| refused(pid, e))?;
        let pagemap = proc.open("pagemap").ok();
        // For smaps, the kernel visits each page, which takes a tenth of a second for 10 GB. 24,000 mappings have half
        // a million lines. So it is read before the stop. For a dump, it is read after the stop, because a dump must
        // show a single moment.
        let smaps = || proc.read("smaps").unwrap_or_default();
        let parse = |text: &[u8]| smaps::parse(text).into_residence(proc.path("smaps"));
        let before = (!attach.to_dump).then(|| parse(&smaps()));
        let mut thread_names = names(pid, stop::tids(pid).unwrap_or_default().into_iter());
        let (stop, mut stopped) = if attach.no_stop {
            (None, running(pid, arch)?)
        } else {
            let (stop, stopped) = Stop::begin(pid, arch, attach).map_err(|e| refused(pid, e))?;
            (Some(stop), stopped)
        };
        let some_unstopped = !stopped.unstopped.is_empty();
        // A core can't record that a thread's registers are incomplete.
        if !attach.no_stop && !attach.to_dump {
            add_waiting(pid, arch, &mut stopped, diag);
        }
        if !stopped.unstopped.is_empty() && !attach.no_stop {
            let (count, first) = (stopped.unstopped.len(), stopped.unstopped.first().copied().unwrap_or(0));
            let what = if count == 1 { "1 thread".to_owned() } else { format!("{count} threads") };
            diag.partial(
                WarningCode::NotStopped,
                format!(
                    "{what} did not stop (first: {first}); its registers are missing. A thread that waits for a \
                     hung disk, or in vfork for its child, can't stop"
                ),
            );
        }
        let vmas = maps::parse(&proc.read("maps").map_err(|e| refused(pid, e))?);
        if vmas.is_empty() {
            return Err(LiveError::NoMemory { pid });
        }
        let (smaps, residence) = before.map_or_else(
            || {
                let text = smaps();
                let residence = parse(&text);
                (text, residence)
            },
            |residence| (Vec::new(), residence),
        );
        let (space, parts) = build_space(&proc, &vmas, &residence.mappings);
        let bytes = Arc::new(Bytes::new(pid, mem, pagemap, parts));
        let status_text = proc.read("status").unwrap_or_default();
        let text = String::from_utf8_lossy(&status_text);
        let residence = Residence {
            pages: Some(Arc::new(PagesOf(bytes.clone()))),
            status: status::parse(&status_text),
            cgroup: cgroup::of(pid),
            ..residence
        };
        let mut facts = Facts::new(&format!("/proc/{pid}"), arch, space);
        facts.producer = Producer::Live;
        facts.process = Some(process(&proc, &text));
        facts.auxv = auxv(&proc.read("auxv").unwrap_or_default());
        let tids = stopped.threads.iter().map(|thread| thread.tid).chain(stopped.unstopped.iter().copied());
        let tids = tids.collect::<BTreeSet<u32>>();
        thread_names.retain(|tid, _| tids.contains(tid));
        thread_names.extend(names(pid, tids.into_iter().filter(|tid| !thread_names.contains_key(tid))));
        facts.thread_names = thread_names;
        let threads = stopped.notes;
        let notes = attach
            .to_dump
            .then(|| notes(&proc, DumpNotes { threads, smaps, status: status_text, ..DumpNotes::default() }));
        facts.threads = stopped.threads;
        // A thread's malloc cache is found through its thread pointer.
        facts.threads_lost = some_unstopped;
        facts.cpu = cpu_time(&format!("/proc/{pid}/stat")).map(|time| time.total());
        for thread in &mut facts.threads {
            thread.cpu = cpu_time(&format!("/proc/{pid}/task/{}/stat", thread.tid));
        }
        facts.residence = Some(Arc::new(residence));
        let reads = reads.within(facts.size, allowed);
        // A reader of the core may not have the files, so a dump reads none of them.
        let files = (!attach.to_dump).then_some(MappedFiles { proc, vmas });
        Ok(Live { notes, files, ..Live::new(facts, reads, bytes, stop, attach, allowed.memory) })
    }
}

/// Returns the process ID in a path: `/proc/N`, or a bare number if no file has that name.
pub(crate) fn named(path: &std::path::Path) -> Option<u32> {
    let text = path.to_str()?;
    let number = |text: &str| text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse().ok()).flatten();
    match text.strip_prefix("/proc/") {
        Some(rest) => number(rest.trim_end_matches('/')),
        None => number(text).filter(|_| fs::symlink_metadata(path).is_err()),
    }
}

/// The directory of a process below /proc. If its first thread ended before the others, this is the directory of
/// another thread. The process's own then has no memory: maps is empty, and mem can't be opened.
#[derive(Clone)]
struct Folder {
    pid: u32,
    path: String,
}

impl Folder {
    fn of(pid: u32) -> Result<Folder, LiveError> {
        let own = format!("/proc/{pid}");
        fs::metadata(&own).map_err(|e| refused(pid, e))?;
        if !stop::has_ended(pid, pid) {
            return Ok(Folder { pid, path: own });
        }
        let alive = stop::tids(pid).unwrap_or_default().into_iter().find(|&tid| !stop::has_ended(pid, tid));
        let alive = alive.ok_or(LiveError::Ended { pid })?;
        Ok(Folder { pid, path: format!("{own}/task/{alive}") })
    }

    fn path(&self, name: &str) -> String {
        format!("{}/{name}", self.path)
    }

    fn open(&self, name: &str) -> io::Result<File> {
        File::open(self.path(name))
    }

    fn read(&self, name: &str) -> io::Result<Vec<u8>> {
        let mut out = Vec::new();
        self.open(name)?.take(limits::MAX_PROC_FILE).read_to_end(&mut out)?;
        Ok(out)
    }
}

fn refused(pid: u32, e: io::Error) -> LiveError {
    match e.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => LiveError::Denied { why: Circumstances::of(pid).sentence() },
        Some(libc::ESRCH | libc::ENOENT) => LiveError::NoProcess { pid },
        _ => LiveError::Io { pid, source: e },
    }
}

/// Returns the machine type of the process's program. It must be a supported 64-bit machine.
fn machine(proc: &Folder) -> Result<Arch, LiveError> {
    let pid = proc.pid;
    let status = proc.read("status").map_err(|e| refused(pid, e))?;
    // In the status of a kernel thread, there are no memory lines.
    if memchr::memmem::find(&status, b"VmSize:").is_none() {
        return Err(LiveError::NoMemory { pid });
    }
    let mut head = [0; ELF_HEAD];
    // If the program can't be read, assume that its machine is ours.
    if proc.open("exe").and_then(|mut file| file.read_exact(&mut head)).is_ok() {
        if head.get(EI_CLASS) == Some(&ELFCLASS32) {
            return Err(LiveError::Bits32 { pid });
        }
        return match bytes::u16_at(&head, E_MACHINE) {
            Some(goblin::elf::header::EM_X86_64) => Ok(Arch::X86_64),
            Some(goblin::elf::header::EM_AARCH64) => Ok(Arch::Aarch64),
            machine => Err(LiveError::Machine { pid, machine: machine.unwrap_or(0) }),
        };
    }
    Ok(if cfg!(target_arch = "aarch64") { Arch::Aarch64 } else { Arch::X86_64 })
}

/// Builds the address space and the sources of its bytes.
///
/// A dump leaves out file mappings without a changed page, and shared mappings of named files (core(5),
/// coredump_filter). These are readable here, but also left out of the sums, so that a process and its core give the
/// same answer.
fn build_space(proc: &Folder, vmas: &[Vma], residence: &RangeMap<MappingResidence>) -> (AddressSpace, Vec<MappedPart>) {
    let mut mappings = Vec::with_capacity(vmas.len());
    let mut pieces = Vec::with_capacity(vmas.len());
    let mut files = Vec::new();
    let mut parts: Vec<MappedPart> = Vec::with_capacity(vmas.len());
    let mut place = 0;
    let mut opened = HashMap::new();
    for vma in vmas {
        let known = residence.at(vma.range.start).filter(|known| known.range == vma.range);
        let figure = |figure| known.map(|known| known.figures.get(figure));
        let path = vma.path();
        if let Some(path) = path {
            files.push(FileMapping { range: vma.range, offset: vma.offset, path: path.clone() });
        }
        let mapping = mappings.len() as u32;
        mappings.push(Mapping { range: vma.range, perms: vma.perms, whole: vma.range.start });
        let readable = (vma.perms.read || vma.perms.write || vma.perms.exec)
            && !vma.is_closed()
            && !known.is_some_and(|known| known.flags.device);
        // The first mapping of a program file, with the headers, is dumped too. Check this in the file, because reading
        // an absent page would fault it in.
        let is_elf = || {
            let mut magic = [0; goblin::elf::header::SELFMAG];
            let read = path
                .and_then(|path| file(proc, path, vma.inode, vma.range))
                .is_some_and(|file| file.read_exact_at(&mut magic, 0).is_ok());
            read && magic == *goblin::elf::header::ELFMAG
        };
        let anonymous = figure(Figure::Anonymous);
        let state = match readable {
            true if vma.offset == 0 && !vma.shared && anonymous == Some(0) && is_elf() => PieceState::Dumped(place),
            true => state(vma, anonymous, place),
            false => PieceState::NotDumped,
        };
        pieces.push(Piece { range: vma.range, mapping, state });
        if readable {
            let populated = [Figure::Rss, Figure::Swap, Figure::PrivateHugetlb, Figure::SharedHugetlb];
            let populated =
                populated.into_iter().map(figure).try_fold(0u64, |sum, bytes| Some(sum.saturating_add(bytes?)));
            let is_private = known.is_some_and(|known| known.figures.shared() == 0);
            parts.push(MappedPart {
                place,
                range: vma.range,
                absent_source: absent_source(proc, vma, &mut opened),
                populated,
                is_private,
                is_shared: vma.shared,
                is_dumped: matches!(state, PieceState::Dumped(_)),
            });
            place += vma.range.len();
        }
    }
    let pieces = RangeMap::from_sorted(pieces).unwrap_or_default();
    (AddressSpace::new(mappings, pieces).with_files(files), parts)
}

/// Returns the state of a readable mapping: whether a dump would contain it.
fn state(vma: &Vma, anonymous: Option<u64>, place: u64) -> PieceState {
    let Some(path) = vma.path() else { return PieceState::Dumped(place) };
    let is_deleted = path.ends_with(" (deleted)");
    let dumped = match MappingName::of(path) {
        MappingName::Anonymous(_) => true,
        // A file without a name can't be read from anywhere else.
        _ if vma.shared => is_deleted,
        _ => anonymous != Some(0),
    };
    if dumped { PieceState::Dumped(place) } else { PieceState::InFile(place) }
}

/// Returns the source of a mapping's absent pages. `files`: files of earlier mappings, by path and inode.
fn absent_source(proc: &Folder, vma: &Vma, files: &mut HashMap<(Arc<str>, u64), Arc<LazyFile>>) -> AbsentSource {
    match vma.path() {
        // The kernel's code. Its pages are mapped on first execution. They are the same in every process, including
        // ours.
        None if &*vma.name == "[vdso]" => match own_vdso(vma.range.len()) {
            Some(start) => AbsentSource::InFile(Arc::new(LazyFile::new(|| File::open("/proc/self/mem").ok())), start),
            None => AbsentSource::Kernel,
        },
        None => AbsentSource::Zero,
        Some(path) if matches!(MappingName::of(path), MappingName::Anonymous(_)) => AbsentSource::Zero,
        Some(path) if matches!(MappingName::of(path), MappingName::Kernel(_)) => AbsentSource::Kernel,
        Some(path) => {
            let lazy = files.entry((path.clone(), vma.inode)).or_insert_with(|| {
                let (proc, path, inode, range) = (proc.clone(), path.clone(), vma.inode, vma.range);
                Arc::new(LazyFile::new(move || file(&proc, &path, inode, range)))
            });
            AbsentSource::InFile(lazy.clone(), vma.offset)
        }
    }
}

/// Returns the start of our own `[vdso]`, if it has the same length.
fn own_vdso(len: u64) -> Option<u64> {
    let own = maps::parse(&fs::read("/proc/self/maps").ok()?);
    own.iter().find(|vma| &*vma.name == "[vdso]" && vma.range.len() == len).map(|vma| vma.range.start.get())
}

/// Opens the file of a mapping. There are three ways: through the kernel's link to it, which takes a capability; by its
/// path as the process sees it; as the process's program, which works after the file was deleted. In the last two cases
/// the inode must match.
fn file(proc: &Folder, path: &str, inode: u64, range: AddrRange) -> Option<File> {
    let link = format!("/proc/{}/map_files/{:x}-{:x}", proc.pid, range.start.get(), range.end.get());
    let is_regular = |file: &File| file.metadata().is_ok_and(|meta| meta.is_file());
    // Don't compare the device: with overlayfs and btrfs, maps and stat(2) show different ones.
    let is_same = |file: &File| file.metadata().is_ok_and(|meta| meta.is_file() && meta.ino() == inode);
    let by_name = |name: &str| proc.open(name).ok().filter(is_same);
    let linked = File::open(link).ok().filter(is_regular);
    linked.or_else(|| by_name(&format!("root{path}"))).or_else(|| by_name("exe"))
}

/// Opens the files of mappings.
pub(super) struct MappedFiles {
    proc: Folder,
    vmas: Vec<Vma>,
}

impl MappedFiles {
    pub(super) fn open(&self, mapping: AddrRange) -> Option<File> {
        let index = self.vmas.binary_search_by_key(&mapping.start, |vma| vma.range.start).ok()?;
        let vma = self.vmas.get(index).filter(|vma| vma.range == mapping)?;
        let path = vma.path().filter(|path| path.starts_with('/'))?;
        file(&self.proc, path, vma.inode, vma.range)
    }
}

/// Reads the threads of a process that is not stopped.
fn running(pid: u32, arch: Arch) -> Result<Stopped, LiveError> {
    let tids = stop::tids(pid).map_err(|e| refused(pid, e))?;
    let mut out = Stopped { threads: Vec::new(), unstopped: Vec::new(), notes: BTreeMap::new() };
    for tid in tids {
        match waiting(pid, tid, arch) {
            Some((thread, _)) => out.threads.push(thread),
            None => out.unstopped.push(tid),
        }
    }
    Ok(out)
}

/// Reason why a thread waits in the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wait {
    /// A vfork(2) whose child has neither called exec nor ended.
    Vfork,
    /// Another call, or a page fault.
    Other,
}

/// Reads a thread that waits in the kernel, without stopping it. /proc/PID/task/TID/syscall has its instruction and
/// stack pointers and the arguments of its system call, but no other registers. `None` if the thread runs.
fn waiting(pid: u32, tid: u32, arch: Arch) -> Option<(Thread, Wait)> {
    let text = fs::read_to_string(format!("/proc/{pid}/task/{tid}/syscall")).ok()?;
    let call = SystemCall::parse(&text)?;
    let registers = Registers::in_call(arch, call.ip, call.sp, call.number, &call.arguments)?;
    let arguments = call.arguments.get(..CALL_ARGUMENTS).and_then(|words| words.try_into().ok());
    let recorded = Some(RecordedCall { number: call.number, arguments });
    Some((Thread { tid, signal: 0, registers, thread_pointer: None, cpu: None, call: recorded }, call.wait(arch)))
}

/// A line of /proc/PID/task/TID/syscall.
#[derive(Debug, PartialEq, Eq)]
struct SystemCall {
    /// Number of the call. `None` if the thread waits outside of a call, as in a page fault.
    number: Option<u64>,
    arguments: Vec<u64>,
    sp: Addr,
    ip: Addr,
}

/// `vfork` and `clone` of x86_64 (asm/unistd_64.h).
const X86_64_VFORK: u64 = 58;
const X86_64_CLONE: u64 = 56;
/// `clone` of aarch64 (asm-generic/unistd.h). Its vfork is a clone.
const AARCH64_CLONE: u64 = 220;

impl SystemCall {
    /// Parses `NUMBER ARG… SP PC` or `-1 SP PC`. `None` for `running`, and for a thread without user memory.
    fn parse(text: &str) -> Option<SystemCall> {
        let mut words = text.split_whitespace();
        let number = words.next()?.parse::<i64>().ok()?;
        let words: Option<Vec<u64>> =
            words.map(|word| u64::from_str_radix(word.strip_prefix("0x")?, 16).ok()).collect();
        let words = words?;
        let [arguments @ .., sp, ip] = words.as_slice() else { return None };
        (*sp != 0).then(|| SystemCall {
            number: u64::try_from(number).ok(),
            arguments: arguments.to_vec(),
            sp: Addr::new(*sp),
            ip: Addr::new(*ip),
        })
    }

    fn wait(&self, arch: Arch) -> Wait {
        let flags = self.arguments.first().copied().unwrap_or(0);
        let is_vfork = match (arch, self.number) {
            (Arch::X86_64, Some(X86_64_VFORK)) => true,
            (Arch::X86_64, Some(X86_64_CLONE)) | (Arch::Aarch64, Some(AARCH64_CLONE)) => {
                flags & libc::CLONE_VFORK as u64 != 0
            }
            _ => false,
        };
        if is_vfork { Wait::Vfork } else { Wait::Other }
    }
}

/// Adds the threads that did not stop but whose position in the kernel is known. Warns about each kind.
fn add_waiting(pid: u32, arch: Arch, stopped: &mut Stopped, diag: &Diagnostics) {
    let (mut vfork, mut other) = (Vec::new(), Vec::new());
    stopped.unstopped.retain(|&tid| {
        let Some((thread, wait)) = waiting(pid, tid, arch) else { return true };
        match wait {
            Wait::Vfork => vfork.push(tid),
            Wait::Other => other.push(tid),
        }
        stopped.threads.push(thread);
        false
    });
    stopped.threads.sort_by_key(|thread| (thread.tid != pid, thread.tid));
    let known = "of its registers, only the instruction pointer, the stack pointer and the call's arguments are known";
    for (tids, why) in [
        (&vfork, "waits in vfork until its child calls exec or ends, and can't be stopped"),
        (&other, "waits in the kernel and can't be stopped, as for a hung disk"),
    ] {
        let Some(first) = tids.first() else { continue };
        let who = match tids.len() {
            1 => format!("thread {first}"),
            more => format!("each of {more} threads (first: {first})"),
        };
        diag.partial(WarningCode::NotStopped, format!("{who} {why}; {known}"));
    }
}

/// Returns the fields of a stat file after the name (proc(5)). The name is the second field, and may contain anything.
fn stat_fields(path: &str) -> Vec<i64> {
    let text = fs::read(path).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let rest = text.rsplit(')').next().unwrap_or_default();
    rest.split_whitespace().map(|field| field.parse::<i64>().unwrap_or(0)).collect()
}

/// Returns a field by its number in proc(5). Numbers start at 3. 0 if the field is missing.
fn stat_field(fields: &[i64], number: usize) -> i64 {
    number.checked_sub(3).and_then(|index| fields.get(index)).copied().unwrap_or(0)
}

/// Returns the processor time (utime, stime) from the stat file of a process or thread. `None` if it cannot be read.
fn cpu_time(path: &str) -> Option<CpuTime> {
    let fields = stat_fields(path);
    let tick = 1_000_000 / rustix::param::clock_ticks_per_second().max(1);
    let time = |number| {
        let ticks = u64::try_from(stat_field(&fields, number)).unwrap_or(0);
        Duration::from_micros(ticks.saturating_mul(tick))
    };
    (!fields.is_empty()).then(|| CpuTime { user: time(14), system: time(15) })
}

/// Adds data of the process and its threads that only stat has (proc(5)).
fn notes(proc: &Folder, mut notes: DumpNotes) -> DumpNotes {
    let (fields, field) = (|path: String| stat_fields(&path), stat_field);
    let of_process = fields(format!("/proc/{}/stat", proc.pid));
    notes.group = field(&of_process, 5) as u32;
    notes.session = field(&of_process, 6) as u32;
    notes.flags = field(&of_process, 9) as u64;
    notes.nice = field(&of_process, 19) as i8;
    for (tid, thread) in &mut notes.threads {
        let path = format!("/proc/{}/task/{tid}/stat", proc.pid);
        let time = cpu_time(&path).unwrap_or_default();
        (thread.user, thread.system) = (time.user, time.system);
        let of_thread = fields(path);
        thread.pending = field(&of_thread, 31) as u64;
    }
    notes
}

fn process(proc: &Folder, status: &str) -> ProcessInfo {
    let field = |key: &str| status.lines().find_map(|line| line.strip_prefix(key)).map(str::trim);
    let number = |key| field(key).and_then(|text| text.split_whitespace().next()?.parse().ok()).unwrap_or(0);
    let line = proc.read("cmdline").unwrap_or_default();
    let words: Vec<String> = line.split(|&b| b == 0).map(|word| String::from_utf8_lossy(word).into_owned()).collect();
    ProcessInfo {
        pid: proc.pid,
        ppid: number("PPid:"),
        uid: number("Uid:"),
        gid: number("Gid:"),
        name: field("Name:").unwrap_or_default().to_owned(),
        args: words.join(" ").trim_end().to_owned(),
    }
}

/// Returns pairs of words up to AT_NULL.
fn auxv(raw: &[u8]) -> Vec<(u64, u64)> {
    let pair = |pair: &[u8; 16]| Some((bytes::u64_at(pair, 0)?, bytes::u64_at(pair, 8)?));
    raw.as_chunks::<16>().0.iter().filter_map(pair).take_while(|&(key, _)| key != 0).collect()
}

/// Returns thread names (pthread_setname_np), by thread ID.
fn names(pid: u32, tids: impl Iterator<Item = u32>) -> BTreeMap<u32, String> {
    tids.filter_map(|tid| {
        let name = fs::read(format!("/proc/{pid}/task/{tid}/comm")).ok()?;
        Some((tid, String::from_utf8_lossy(name.trim_ascii_end()).into_owned()))
    })
    .collect()
}

/// The pages that pagemap reports.
struct PagesOf(Arc<Bytes>);

impl Pages for PagesOf {
    fn pages(&self, range: AddrRange) -> Option<PageRuns> {
        self.0.pages(range)
    }
}
