//! Every command over a damaged core: an answer that breaks its promise is an
//! error. What is promised are sums, and that each form of the answer can be written.

use std::io::Cursor;
use std::path::Path;
use std::time::Duration;

use coremap::addr::{Addr, AddrRange};
use coremap::commands::export::{ExportedRow, OutputFiles};
use coremap::commands::trend::Source;
use coremap::commands::{
    self, DiffInput, ExportOptions, HandleOptions, HeapStatOptions, LeaksOptions, MallocOptions, PageOptions,
    RefsOptions, RegionOptions, RetainedOptions, SearchOptions, TargetSpan, ThreadOptions, TriageOptions, report,
};
use coremap::diag::WarningCode;
use coremap::export::{ExportError, Output};
use coremap::internals;
use coremap::map::audit;
use coremap::process::{Options, Process};
use coremap::progress::Progress;
use coremap::render::{self, DrawOptions, Render};
use coremap::report::{ExportFormat, ExportSubject, Kept, Part, Verdict as Moves};
use coremap::search::{Encoding, Pattern, PatternOptions};
use coremap::series::{Moment, Recording, RecordingWriter, read_recording};
use coremap::session::Session;
use coremap::shrink;
use regex::Regex;

use crate::support::{Rng, gcdump, hprof};

/// A core as it was opened.
pub struct Opened<'p> {
    session: Session<'p>,
    silent: Progress,
}

type Verdict = Result<(), String>;
type Command = fn(&Opened<'_>, &mut Rng) -> Verdict;

/// Each command of the program, by its name.
pub const COMMANDS: &[(&str, Command)] = &[
    ("info", |o, rng| o.show("info", commands::info(&o.session, rng.below(2) == 0), rng)),
    ("summary", summary),
    ("triage", triage),
    ("regions", |o, rng| o.show("regions", commands::regions(&o.session, &RegionOptions::default(), &o.silent), rng)),
    ("maddress", maddress),
    ("stacks", stacks),
    ("check", |o, rng| o.show("check", commands::check(&o.session), rng)),
    ("heap", |o, rng| o.show("heap", commands::heap(&o.session, true), rng)),
    ("objects", objects),
    ("object", object),
    ("finalizers", |o, rng| o.show("finalizers", commands::finalizers(&o.session), rng)),
    ("syncblocks", |o, rng| o.show("syncblocks", commands::syncblocks(&o.session), rng)),
    ("exceptions", |o, rng| o.show("exceptions", commands::exceptions(&o.session), rng)),
    ("handles", |o, rng| {
        o.show(
            "handles",
            commands::handles(&o.session, &HandleOptions { group: true, ..HandleOptions::default() }),
            rng,
        )
    }),
    ("stackobjects", |o, rng| o.show("stackobjects", commands::stackobjects(&o.session, None), rng)),
    ("threadpool", |o, rng| o.show("threadpool", commands::threadpool(&o.session), rng)),
    ("requests", |o, rng| o.show("requests", commands::requests(&o.session, rng.below(2) == 0), rng)),
    ("timers", |o, rng| o.show("timers", commands::timers(&o.session), rng)),
    ("collections", collections),
    ("allocations", |o, rng| o.show("allocations", commands::allocations(&o.session), rng)),
    ("gcroot", gcroot),
    ("why", why),
    ("retained", retained),
    ("heapstat", heapstat),
    ("malloc", malloc),
    ("leaks", leaks),
    ("holders", |o, rng| o.show("holders", commands::holders(&o.session, Some(100), &o.silent), rng)),
    ("refs", refs),
    ("anon", anon),
    ("search", search),
    ("scan-secrets", secrets),
    ("whatis", whatis),
    ("ip2method", name_code),
    ("perfmap", perfmap),
    ("threads", threads),
    ("async", async_chains),
    ("diff", diff),
    ("record", record),
    ("trend", trend),
    ("report", page),
    ("export", exported),
    ("shrink", shrunk),
];

/// Open the core, look that its sums hold, and run the commands that `takes` wants.
pub fn examine(path: &Path, rng: &mut Rng, ips: &[Addr], takes: impl Fn(&mut Rng, usize) -> bool) -> Verdict {
    examine_with(path, &Options::default(), rng, ips, takes)
}

/// The same for a core that is opened with options.
pub fn examine_with(
    path: &Path,
    options: &Options,
    rng: &mut Rng,
    ips: &[Addr],
    takes: impl Fn(&mut Rng, usize) -> bool,
) -> Verdict {
    let silent = Progress::silent();
    let Ok(process) = Process::open(path, options, &silent) else { return Ok(()) };
    if !ips.is_empty() && rng.below(2) == 0 {
        // As `ip2method` does: without a map.
        let session = Session::new(&process);
        let mut some: Vec<Addr> = (0..6).map(|_| ips[rng.below(ips.len() as u64) as usize]).collect();
        some.extend([
            Addr::new(0),
            Addr::new(u64::MAX),
            Addr::new(rng.next()),
            Addr::new(some[0].get() ^ (1 << rng.below(20))),
        ]);
        return names(&Opened { session, silent }, &some, rng);
    }
    let session = Session::new(&process);
    let broken: Vec<_> = audit::invariants(session.map(), process.facts()).into_iter().filter(|i| !i.ok).collect();
    if !broken.is_empty() {
        return Err(format!("{broken:?}"));
    }
    let opened = Opened { session, silent };
    for (i, (name, command)) in COMMANDS.iter().enumerate() {
        if takes(rng, i) {
            command(&opened, rng).map_err(|why| format!("{name}: {why}"))?;
        }
    }
    Ok(())
}

impl Opened<'_> {
    /// Write the answer in one of its forms.
    fn show<T: Render>(&self, command: &'static str, body: T, rng: &mut Rng) -> Verdict {
        let mut out = Vec::new();
        match rng.below(8) {
            0 => body.csv(&mut out),
            1 => render::write(&body.document(), DrawOptions { width: Some(80), color: true, bars: true }, &mut out),
            2 => render::write(&body.document(), DrawOptions { width: None, color: false, bars: false }, &mut out),
            _ => render::json(&commands::envelope(command, &self.session, body), &mut out),
        }
        .map_err(|e| e.to_string())
    }

    /// The start of a region, of an object or a block, or any number.
    fn some_address(&self, rng: &mut Rng) -> Addr {
        let segments: Vec<_> =
            internals::coreclr(&self.session).into_iter().flat_map(|r| &r.heaps().segments).collect();
        let regions = commands::regions(&self.session, &RegionOptions::default(), &self.silent).regions;
        match rng.below(4) {
            0 if !segments.is_empty() => {
                let objects = segments[rng.below(segments.len() as u64) as usize].start;
                Addr::new(objects.get().wrapping_add(rng.below(4096) & !7))
            }
            1 => Addr::new(rng.next()),
            2 => Addr::new([0, 1, u64::MAX][rng.below(3) as usize]),
            _ => {
                let region = regions.get(rng.below(regions.len() as u64) as usize);
                region.map_or(Addr::new(0), |r| Addr::new(r.start.get().wrapping_add(rng.below(r.size) & !7)))
            }
        }
    }
}

/// Whether segments stand on the same bytes of the file: scans look at these at one of their addresses alone, and say so.
fn shares_bytes(o: &Opened<'_>) -> bool {
    o.session.process.diag.warnings().iter().any(|warning| warning.code == WarningCode::SegmentsShareBytes)
}

fn summary(o: &Opened<'_>, rng: &mut Rng) -> Verdict {
    let sum = commands::summary(&o.session, rng.below(4) == 0, &o.silent);
    if sum.total.size != sum.base.size || sum.total.in_core != sum.base.in_core {
        return Err(format!("kinds {:?}, base {:?}", sum.total, sum.base));
    }
    let (zero, written) = (sum.total.zero.unwrap_or(0), sum.total.written.unwrap_or(sum.total.in_core));
    if !shares_bytes(o) && zero.checked_add(written) != Some(sum.total.in_core) {
        return Err(format!("zero and written are not what the core holds: {:?}", sum.total));
    }
    o.show("summary", sum, rng)
}

/// What is named and what is not make up all memory, and no finding is larger than all memory.
fn triage(o: &Opened<'_>, rng: &mut Rng) -> Verdict {
    let options = TriageOptions { budget: (rng.below(4) == 0).then_some(Duration::ZERO), show_data: rng.below(2) == 0 };
    let answer = commands::triage(&o.session, &options, &o.silent);
    let unnamed: u64 = answer.unnamed.iter().map(|row| row.bytes).sum();
    // With figures of the kernel, resident and swapped bytes count, and otherwise written ones.
    let all = answer.resident.map_or(answer.written, |rss| rss.saturating_add(answer.swapped.unwrap_or(0)));
    let parts = [answer.named.bytes, answer.described.bytes, answer.unknown.bytes];
    let sum = parts.iter().try_fold(0_u64, |sum, part| sum.checked_add(*part));
    if sum != Some(all) || answer.more_unnamed == 0 && answer.unknown.bytes != unnamed.min(all) {
        return Err(format!("{parts:?} named, described and unknown, {unnamed} unnamed are not all {all}"));
    }
    if answer.written > answer.in_core
        || answer.findings.iter().any(|f| f.share.is_some_and(|s| !(0.0..=1.0).contains(&s)))
    {
        return Err(format!("more than all: {:?}", answer.findings));
    }
    o.show("triage", answer, rng)
}

fn maddress(o: &Opened<'_>, rng: &mut Rng) -> Verdict {
    let regions = commands::regions(&o.session, &RegionOptions::default(), &o.silent);
    drop(commands::maddress::maddress(
        &regions.regions,
        [0, 3, usize::MAX][rng.below(3) as usize],
        (rng.below(2) == 0).then_some(80),
        &mut Vec::new(),
    ));
    Ok(())
}

fn stacks(o: &Opened<'_>, rng: &mut Rng) -> Verdict {
    let doing = commands::doing(&o.session);
    let stacks = commands::stacks(&o.session, &doing, rng.below(4) == 0, &o.silent);
    for s in &stacks.stacks {
        let within = |part: Option<u64>| part.is_none_or(|part| Some(part) <= s.reserved);
        if !within(s.in_use) || !within(s.touched) || !within(Some(s.in_core)) && s.low.is_some() {
            return Err(format!("more of a stack than there is: {s:?}"));
        }
    }
    o.show("stacks", stacks, rng)
}

fn objects(o: &Opened<'_>, rng: &mut Rng) -> Verdict {
    let name = Regex::new("String|Task|Lab").map_err(|e| e.to_string())?;
    let report = commands::objects(&o.session, Some(&name), None);
    if report.more == 0 && report.objects.iter().map(|x| x.size).sum::<u64>() != report.size {
        return Err(format!("objects are not {} bytes together", report.size));
    }
    o.show("objects", report, rng)
}

fn object(o: &Opened<'_>, rng: &mut Rng) -> Verdict {
    for _ in 0..4 {
        let at = o.some_address(rng);
        o.show("object", commands::object(&o.session, at), rng)?;
    }
    Ok(())
}

fn gcroot(o: &Opened<'_>, rng: &mut Rng) -> Verdict {
    let at = o.some_address(rng);
    o.show("gcroot", commands::gcroot(&o.session, at, rng.below(2) == 0), rng)
}

/// It says that nothing keeps an object only if everything was read.
fn why(o: &Opened<'_>, rng: &mut Rng) -> Verdict {
    let at = o.some_address(rng);
    let found = commands::why(&o.session, at, &o.silent);
    if found.kept == Kept::Unreached && (o.session.process.diag.is_partial() || !found.paths.is_empty()) {
        return Err(format!("unreached, but not everything was read: {}", found.text));
    }
    o.show("why", found, rng)?;
    if rng.below(4) == 0 {
        let every = Regex::new(".").map_err(|e| e.to_string())?;
        o.show("why", commands::why_types(&o.session, &every, 10), rng)?;
    }
    Ok(())
}

fn heapstat(o: &Opened<'_>, rng: &mut Rng) -> Verdict {
    let options = HeapStatOptions { strings: rng.below(4) == 0, ..HeapStatOptions::default() };
    let heap = commands::heapstat(&o.session, &options, &o.silent);
    let (objects, size) = heap.types.iter().fold((0, 0), |sum, t| (sum.0 + t.count, sum.1 + t.size));
    if (objects, size) != (heap.total.objects, heap.total.size) {
        return Err(format!("types are {objects} objects of {size} bytes, in all {:?}", heap.total));
    }
    if let Some(row) = heap.types.iter().find(|t| t.name.is_empty()) {
        return Err(format!("a type without a name: {row:?}"));
    }
    o.show("heapstat", heap, rng)
}

/// Live and unreachable objects are those of the heap, and what is kept is no more.
fn collections(o: &Opened<'_>, rng: &mut Rng) -> Verdict {
    let report = commands::collections(&o.session);
    let bytes = report.types.iter().fold(0_u64, |sum, row| sum.saturating_add(row.sums.bytes));
    if bytes != report.total.bytes || report.total.empty_bytes > report.total.bytes {
        return Err(format!("collections do not add up: {bytes} and {:?}", report.total));
    }
    o.show("collections", report, rng)
}

fn retained(o: &Opened<'_>, rng: &mut Rng) -> Verdict {
    let heap = commands::heapstat(&o.session, &HeapStatOptions::default(), &o.silent);
    let options = RetainedOptions { top: 100, ..RetainedOptions::default() };
    let kept = commands::retained(&o.session, &options);
    let (objects, size) = (kept.live.objects + kept.unreachable.objects, kept.live.size + kept.unreachable.size);
    let all = (heap.total.objects - heap.free.objects, heap.total.size - heap.free.size);
    // Without a runtime, they are malloc blocks.
    if !kept.native && (objects, size) != all {
        return Err(format!("{:?} live and {:?} unreachable, in all {all:?}", kept.live, kept.unreachable));
    }
    if kept.objects.iter().any(|x| x.retained < x.size || x.retained > Some(kept.live.size)) {
        return Err(format!("kept is less than the object or more than all: {:?}", kept.objects));
    }
    let (live, native) = (kept.live.objects, kept.native);
    o.show("retained", kept, rng)?;
    if !native && rng.below(2) == 0 {
        let every = Regex::new(".").map_err(|e| e.to_string())?;
        let ways = commands::gcroot_types(&o.session, &every, usize::MAX);
        if ways.more == 0 && ways.groups.iter().map(|g| g.count).sum::<u64>() != live {
            return Err("not all live objects are in a group".into());
        }
        o.show("gcroot", ways, rng)?;
        let object = Some(o.some_address(rng));
        let one = RetainedOptions { object, top: 10, ..RetainedOptions::default() };
        o.show("retained", commands::retained(&o.session, &one), rng)?;
    }
    Ok(())
}

fn malloc(o: &Opened<'_>, rng: &mut Rng) -> Verdict {
    let options = MallocOptions { chunks: rng.below(4) == 0, limit: Some(100), ..MallocOptions::default() };
    let report = commands::malloc(&o.session, &options, &o.silent);
    for a in &report.arenas {
        let parts = a.used_bytes + a.free_bytes + a.top + a.trimmed + a.overhead + a.foreign + a.unknown;
        if parts != a.committed {
            return Err(format!("parts are {parts} bytes: {a:?}"));
        }
    }
    o.show("malloc", report, rng)
}

fn leaks(o: &Opened<'_>, rng: &mut Rng) -> Verdict {
    if rng.below(2) == 0 {
        o.show("holders", commands::holders_of_blocks(&o.session, Some(50)), rng)?;
    }
    let options = LeaksOptions { blocks: rng.below(2) == 0, groups: rng.below(2) == 0, limit: Some(100) };
    let report = commands::leaks(&o.session, &options, &o.silent);
    let (leaked, reachable) = (report.leaked, report.reachable);
    if (leaked.count + reachable.count, leaked.bytes + reachable.bytes) != (report.used.count, report.used.bytes) {
        return Err(format!("{leaked:?} leaked, {reachable:?} reachable of {:?}", report.used));
    }
    if report.direct.bytes > leaked.bytes {
        return Err(format!("{:?} leaked directly of {leaked:?}", report.direct));
    }
    o.show("leaks", report, rng)
}

fn refs(o: &Opened<'_>, rng: &mut Rng) -> Verdict {
    let span = [
        TargetSpan::Region,
        TargetSpan::ObjectOrBlock,
        TargetSpan::Exact,
        TargetSpan::Length(rng.next() >> rng.below(64)),
    ];
    let span = span[rng.below(4) as usize];
    let options = RefsOptions { span, kinds: Vec::new(), limit: 100 };
    let report = commands::refs(&o.session, o.some_address(rng), &options, &o.silent);
    let counted: u64 = report.counts.iter().map(|c| c.count).sum();
    // Beyond a limit it is not told what the words are of, and that is said.
    let limited = o
        .session
        .process
        .diag
        .warnings()
        .iter()
        .any(|w| w.code == WarningCode::Limit && w.message.contains("words point there"));
    if counted > report.total || counted != report.total && !limited {
        return Err(format!("{counted} words counted, {} in all", report.total));
    }
    o.show("refs", report, rng)
}

fn anon(o: &Opened<'_>, rng: &mut Rng) -> Verdict {
    let report = commands::anon(&o.session, &o.silent);
    let blocks: u64 = report.clusters.iter().map(|c| c.bytes).sum();
    if blocks > report.size {
        return Err(format!("{blocks} bytes in blocks of {}", report.size));
    }
    o.show("anon", report, rng)
}

fn search(o: &Opened<'_>, rng: &mut Rng) -> Verdict {
    let options = PatternOptions { ignore_case: true, regex: true, hex: false, encoding: Encoding::Both };
    let pattern = Pattern::new("coremap-mark.r|lib[a-z]+[.]so", options).map_err(|e| e.to_string())?;
    let options = SearchOptions { kinds: Vec::new(), limit: Some(100), context: true };
    let hits = commands::search(&o.session, "", &pattern, &options, &o.silent);
    if hits.scanned > o.session.process.space().dumped_total() {
        return Err(format!(
            "{} bytes scanned, the core holds {}",
            hits.scanned,
            o.session.process.space().dumped_total()
        ));
    }
    o.show("search", hits, rng)
}

/// Sums hold, and each kind has a region for each place.
fn secrets(o: &Opened<'_>, rng: &mut Rng) -> Verdict {
    let report = commands::scan_secrets(&o.session, &o.silent);
    for row in &report.secrets {
        let in_regions: u64 = row.regions.iter().map(|r| r.count).sum();
        if in_regions != row.count || row.checked > row.count || row.distinct.is_some_and(|n| n > row.count) {
            return Err(format!("{row:?}"));
        }
    }
    o.show("scan-secrets", report, rng)
}

fn whatis(o: &Opened<'_>, rng: &mut Rng) -> Verdict {
    let some: Vec<Addr> = (0..4).map(|_| o.some_address(rng)).collect();
    o.show("whatis", commands::whatis(&o.session, &some, 64, &o.silent), rng)
}

fn name_code(o: &Opened<'_>, rng: &mut Rng) -> Verdict {
    let regions = commands::regions(&o.session, &RegionOptions::default(), &o.silent).regions;
    let ips: Vec<Addr> = regions.iter().take(20).map(|r| r.start).chain([o.some_address(rng)]).collect();
    names(o, &ips, rng)
}

/// An answer or a reason for each address, and a text that keeps its lines.
fn names(o: &Opened<'_>, ips: &[Addr], rng: &mut Rng) -> Verdict {
    let report = commands::ip2method(&o.session, ips);
    for row in &report.results {
        if row.found == row.reason.is_some() || row.found == row.method.is_none() {
            return Err(format!("neither an answer nor a reason: {row:?}"));
        }
    }
    o.show("ip2method", report, rng)?;
    let text: String = ips.iter().map(|ip| format!("\t{:16x} [unknown] ([unknown])\n", ip.get())).collect();
    let mut out = Vec::new();
    let options = coremap::symbolicate::Options::default();
    let named = commands::symbolicate(&o.session, &mut text.as_bytes(), &mut out, false, &options);
    named.map_err(|e| e.to_string())?;
    let lines = out.iter().filter(|b| **b == b'\n').count();
    if lines != ips.len() {
        return Err(format!("{lines} lines of {}: {}", ips.len(), String::from_utf8_lossy(&out)));
    }
    Ok(())
}

fn perfmap(o: &Opened<'_>, rng: &mut Rng) -> Verdict {
    let map = commands::perfmap(&o.session);
    if !map.entries.is_sorted_by_key(|e| e.start) || map.entries.iter().any(|e| e.name.contains('\n')) {
        return Err("the map is not in order".into());
    }
    o.show("perfmap", map, rng)
}

fn threads(o: &Opened<'_>, rng: &mut Rng) -> Verdict {
    let options = ThreadOptions { group: rng.below(2) == 0, ..ThreadOptions::default() };
    let threads = commands::threads(&o.session, options);
    let all = o.session.process.threads().len();
    if threads.threads.len() != all {
        return Err(format!("{} threads, the core has {all}", threads.threads.len()));
    }
    o.show("threads", threads, rng)
}

fn async_chains(o: &Opened<'_>, rng: &mut Rng) -> Verdict {
    let chains = commands::async_chains(&o.session, rng.below(2) == 0, &o.silent);
    if chains.total != chains.chains.iter().map(|c| c.count).sum::<u64>() {
        return Err(format!("{} chains, by kind they are others: {:?}", chains.total, chains.chains));
    }
    o.show("async", chains, rng)
}

/// With itself: nothing changed.
fn diff(o: &Opened<'_>, rng: &mut Rng) -> Verdict {
    let moment = looked(o);
    let core = commands::side(o.session.process);
    let side = DiffInput { core: &core, moment: &moment };
    let report = commands::diff(side, side);
    if report.total.delta != 0 || report.kinds.iter().any(|k| k.delta != 0 || k.delta_count != 0) {
        return Err(format!("a core differs from itself: {:?}", report.total));
    }
    o.show("diff", report, rng)
}

/// A page of it: whatever names a damaged core has, they are text in it.
fn page(o: &Opened<'_>, _: &mut Rng) -> Verdict {
    let page = commands::report(&o.session, PageOptions { show_data: true }, &o.silent);
    match page.html.matches("<script").count() {
        2 => report::read_page(&page.html).map(drop).map_err(|e| e.to_string()),
        scripts => Err(format!("{scripts} scripts in a page")),
    }
}

/// A heap as a graph: what is written is what `heapstat` counts, and reads back.
fn exported(o: &Opened<'_>, rng: &mut Rng) -> Verdict {
    let mut file = InMemory::default();
    if rng.below(2) == 0 {
        let formats = [
            ExportFormat::Hprof,
            ExportFormat::Speedscope,
            ExportFormat::Firefox,
            ExportFormat::Pprof,
            ExportFormat::Folded,
        ];
        let format = formats[rng.below(formats.len() as u64) as usize];
        let subject = ExportSubject::ALL[rng.below(ExportSubject::ALL.len() as u64) as usize];
        let options = ExportOptions { format, subject, ..ExportOptions::default() };
        let report = commands::export(&o.session, options, &mut file, &o.silent).map_err(|e| e.to_string())?;
        if format == ExportFormat::Hprof && !report.files.is_empty() {
            hprof::read(file.0.get_ref());
        }
        return if report.files.is_empty() == report.refused.is_some() {
            Ok(())
        } else {
            Err("a file, and none".into())
        };
    }
    let report =
        commands::export(&o.session, ExportOptions::default(), &mut file, &o.silent).map_err(|e| e.to_string())?;
    if report.files.is_empty() {
        return Ok(());
    }
    let dump = gcdump::read(file.0.get_ref());
    let heapstat = commands::heapstat(&o.session, &HeapStatOptions::default(), &o.silent);
    let objects = dump.nodes.iter().filter(|node| !dump.is_root(node)).count() as u64;
    let free = heapstat.free.objects;
    if !shares_bytes(o) && objects + free != heapstat.total.objects {
        return Err(format!("{objects} objects in the file and {free} free, {:?} on the heap", heapstat.total));
    }
    Ok(())
}

/// A file that is none.
#[derive(Default)]
struct InMemory(Cursor<Vec<u8>>);

impl OutputFiles for InMemory {
    fn create(
        &mut self,
        _: Option<&str>,
        fill: &mut dyn FnMut(&mut dyn Output) -> Result<u64, ExportError>,
    ) -> Result<ExportedRow, ExportError> {
        let rows = fill(&mut self.0)?;
        Ok(ExportedRow { path: String::new(), bytes: self.0.get_ref().len() as u64, rows })
    }
}

/// A look as a recording keeps it: what is written is read again, and its sums are the summary's.
fn record(o: &Opened<'_>, _: &mut Rng) -> Verdict {
    let (recording, moment) = (recording(o), looked(o));
    let summary = commands::summary(&o.session, false, &o.silent);
    let size: u64 = moment.kinds.values().map(|k| k.size).sum();
    if size != summary.total.size {
        return Err(format!("{size} bytes in kinds, the summary has {}", summary.total.size));
    }
    let mut text = Vec::new();
    let written = RecordingWriter::begin(&mut text, &recording).and_then(|mut writer| writer.add(moment.clone()));
    written.map_err(|e| e.to_string())?;
    let back = read_recording(text.as_slice()).map_err(|e| e.to_string())?;
    let threads = back.recording.moments.first().map(|m| (m.threads, m.kinds.len()));
    if back.lacks.is_some() || threads != Some((moment.threads, moment.kinds.len())) {
        return Err(format!("read back: {:?}, {threads:?}", back.lacks));
    }
    Ok(())
}

/// Five looks at what does not change: nothing grows.
fn trend(o: &Opened<'_>, rng: &mut Rng) -> Verdict {
    let mut recording = recording(o);
    let moment = looked(o);
    recording.moments = (0..5).map(|look| Moment { look, seconds: look as f64, ..moment.clone() }).collect();
    let source = Source { path: "same".into(), is_recording: true, recording };
    let report = commands::trend(&[source], None).map_err(|e| e.to_string())?;
    if let Some(moves) = report.series.iter().find(|row| row.verdict != Moves::Steady || row.change != 0) {
        return Err(format!("{moves:?}"));
    }
    o.show("trend", report, rng)
}

fn looked(o: &Opened<'_>) -> Moment {
    commands::record::moment(&o.session, &[Part::Types, Part::Malloc], &o.silent)
}

fn recording(o: &Opened<'_>) -> Recording {
    let subject = commands::record::subject(&o.session);
    Recording { subject, coremap: "0".into(), every: None, parts: Vec::new(), moments: Vec::new() }
}

/// Writing what is kept of a core: any pages.
fn shrunk(o: &Opened<'_>, _: &mut Rng) -> Verdict {
    let starts = commands::regions(&o.session, &RegionOptions::default(), &o.silent).regions;
    let keep: Vec<AddrRange> = starts.iter().take(64).map(|r| AddrRange::sized(r.start, r.size.min(4096))).collect();
    // A note that claims the whole file (COREMAP_SEED=9000712) is written whole.
    let mut out = tempfile::tempfile().map_err(|e| e.to_string())?;
    shrink::write(o.session.process, &keep, &mut out).map(drop).map_err(|e| e.to_string())
}
