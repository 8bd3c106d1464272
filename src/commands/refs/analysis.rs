//! Finds what points at an address: registers, stacks, handles, fields of
//! objects, module data and all other memory.

use std::collections::{BTreeMap, HashSet};

use crate::addr::{Addr, AddrRange, union};
use crate::analysis::block_graph::with_block_owners;
use crate::analysis::in_object::each_in_object;
use crate::analysis::place::place;
use crate::bytes::printable;
use crate::commands::refs::report::{RefCountRow, RefRow, RefsReport, TargetRow};
use crate::diag::WarningCode;
use crate::limits;
use crate::map::{Kind, Owner, Region};
use crate::memory::pointers::pointers;
use crate::process::Process;
use crate::progress::Progress;
use crate::report::{PointerSource, TargetKind};
use crate::runtimes::api::{ObjectNames, Structure};
use crate::session::Session;
use crate::sums::SaturatingAdd;
use crate::units::exact;

/// Target of the pointers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TargetSpan {
    /// The object or malloc block that contains the address; without one, the
    /// address alone.
    #[default]
    ObjectOrBlock,
    /// The address alone.
    Exact,
    /// This number of bytes from the address on.
    Length(u64),
    /// The region that contains the address.
    Region,
}

/// Options of `refs`.
#[derive(Clone, Debug, Default)]
pub struct RefsOptions {
    /// Target of the pointers.
    pub span: TargetSpan,
    /// Only pointers in regions of these kinds. Empty means all kinds.
    pub kinds: Vec<Kind>,
    /// Maximum number of pointers listed.
    pub limit: usize,
}

/// A word that points at the target.
#[derive(Clone, Copy)]
struct Pointer {
    at: Addr,
    value: Addr,
}

/// Words found in one part of memory.
#[derive(Default)]
struct FoundWords {
    words: Vec<Pointer>,
    total: u64,
    inside: u64,
}

/// Sources of pointers, most informative first. All other memory comes after
/// them, and memory that is no longer used comes last.
const ORDER: [PointerSource; 5] = [
    PointerSource::Register,
    PointerSource::Stack,
    PointerSource::Handle,
    PointerSource::Object,
    PointerSource::Region(Kind::Image),
];

/// Finds what points at `addr`.
pub fn refs(session: &Session<'_>, addr: Addr, options: &RefsOptions, progress: &Progress) -> RefsReport {
    session.process.target().expect_scan();
    let target = target(session, addr, options.span);
    let range = AddrRange::new(target.start, target.end);
    let mut report = RefsReport { address: addr, target, ..RefsReport::default() };
    let wanted = |r: &&Region| match options.kinds.as_slice() {
        // A second view of a page would report every pointer twice.
        [] => r.kind != Kind::DoubleMapped,
        kinds => kinds.contains(&r.kind),
    };
    let within = union(session.map().regions.iter().filter(wanted).map(|r| r.range).collect());
    let mut words: Vec<Pointer> = Vec::new();
    let keep = |share: &mut FoundWords, at, value| {
        if range.contains(at) {
            share.inside += 1;
            return;
        }
        share.total += 1;
        if share.words.len() < limits::MAX_REFS {
            share.words.push(Pointer { at, value });
        }
    };
    report.scanned = pointers(session.process.target(), &within, range, progress, keep, |share: FoundWords| {
        report.inside.add_saturating(share.inside);
        report.total.add_saturating(share.total);
        let room = limits::MAX_REFS.saturating_sub(words.len());
        words.extend(share.words.into_iter().take(room));
    });
    if report.total > words.len() as u64 {
        let (all, listed) = (exact(report.total), exact(words.len() as u64));
        session
            .process
            .diag
            .note(WarningCode::Limit, format!("{all} words point there; only the first {listed} are identified"));
    }
    let mut rows = if options.kinds.is_empty() { registers(session.process, range) } else { Vec::new() };
    report.total.add_saturating(rows.len() as u64);
    rows.extend(words.iter().map(|w| row(session, range, w.at, w.value)));
    objects(session, &mut rows);
    let mut counts: BTreeMap<(usize, PointerSource), u64> = BTreeMap::new();
    for row in &rows {
        *counts.entry((rank(row.from), row.from)).or_default() += 1;
    }
    report.counts = counts.into_iter().map(|((_, from), count)| RefCountRow { from, count }).collect();
    rows.sort_by_key(|r| (rank(r.from), r.address, r.thread));
    rows.truncate(options.limit);
    add_owners(session, &mut report.target, &mut rows);
    report.refs = rows;
    report
}

/// Adds type, container and holder of the blocks, if the target or a listed word is in a used one.
fn add_owners(session: &Session<'_>, target: &mut TargetRow, rows: &mut [RefRow]) {
    let in_block = |row: &&mut RefRow| row.kind.is_some_and(Kind::holds_blocks) && !row.from.is_dead();
    let is_block = target.what == TargetKind::Block;
    if !is_block && !rows.iter_mut().any(|row| in_block(&row)) {
        return;
    }
    with_block_owners(session, |owners| {
        target.owner = owners.owner(target.start).filter(|_| is_block);
        for row in rows.iter_mut().filter(in_block) {
            row.owner = row.address.and_then(|at| owners.owner(at)).map(|owner| owner.line());
        }
    });
}

/// Selects the addresses that [`refs`] finds a pointer to, in one pass over all memory.
pub(in crate::commands) fn pointed_at(session: &Session<'_>, addrs: &[Addr], progress: &Progress) -> HashSet<Addr> {
    let range_of = |addr: &Addr| {
        let target = target(session, *addr, TargetSpan::ObjectOrBlock);
        (*addr, AddrRange::new(target.start, target.end))
    };
    let targets: Vec<(Addr, AddrRange)> = addrs.iter().map(range_of).collect();
    let hull = |all: AddrRange, one: AddrRange| AddrRange::new(all.start.min(one.start), all.end.max(one.end));
    let Some(values) = targets.iter().map(|(_, range)| *range).reduce(hull) else { return HashSet::new() };
    let within = session.map().regions.iter().filter(|region| region.kind != Kind::DoubleMapped);
    let within = union(within.map(|region| region.range).collect());
    let in_registers = targets.iter().filter(|(_, range)| !registers(session.process, *range).is_empty());
    let mut found: HashSet<Addr> = in_registers.map(|(addr, _)| *addr).collect();
    // `refs` doesn't list pointers inside the target.
    let keep = |share: &mut HashSet<Addr>, at: Addr, value: Addr| {
        let hit = targets.iter().filter(|(_, range)| range.contains(value) && !range.contains(at));
        share.extend(hit.map(|(addr, _)| *addr));
    };
    pointers(session.process.target(), &within, values, progress, keep, |share: HashSet<Addr>| found.extend(share));
    found
}

fn rank(from: PointerSource) -> usize {
    if from.is_dead() {
        return ORDER.len() + 1;
    }
    ORDER.iter().position(|o| *o == from).unwrap_or(ORDER.len())
}

/// Describes the target of the pointers.
fn target(session: &Session<'_>, addr: Addr, span: TargetSpan) -> TargetRow {
    let region = session.map().region_at(addr);
    let mut out = TargetRow {
        start: addr,
        end: addr.saturating_add(1),
        what: TargetKind::Address,
        kind: region.map(|r| r.kind),
        name: None,
        detail: region.map(|r| place(session, r, addr)).unwrap_or_default(),
        owner: None,
    };
    match (span, region) {
        (TargetSpan::Length(length), _) => {
            (out.end, out.what) = (addr.saturating_add(length.max(1)), TargetKind::Range)
        }
        (TargetSpan::Region, Some(region)) => {
            (out.start, out.end, out.what) = (region.range.start, region.range.end, TargetKind::Region);
            out.detail = printable(&region.detail).into_owned();
        }
        (TargetSpan::ObjectOrBlock, Some(region)) if region.kind.holds_blocks() => {
            if let Some(block) = session.blocks().1.at(addr) {
                (out.start, out.end) = (block.range.start, block.range.end);
                out.what = if block.used { TargetKind::Block } else { TargetKind::FreeBlock };
            }
        }
        (TargetSpan::ObjectOrBlock, Some(region)) if region.kind.holds_objects() => {
            for heap in session.runtimes().into_iter().filter_map(|runtime| runtime.heap()) {
                let mut names = ObjectNames::new(heap);
                let object = names.containing(addr);
                let object = object.and_then(|at| names.object(at).map(|(name, size)| (at, name, size)));
                if let Some((object, name, size)) = object {
                    (out.start, out.end, out.what) = (object, object.saturating_add(size.max(1)), TargetKind::Object);
                    out.name = Some(name);
                }
            }
        }
        _ => {}
    }
    out
}

fn registers(process: &Process, target: AddrRange) -> Vec<RefRow> {
    let mut out = Vec::new();
    for thread in process.threads() {
        for (register, value) in thread.registers.iter().filter(|(_, value)| target.contains(Addr::new(*value))) {
            out.push(RefRow {
                value: Addr::new(value),
                offset: Addr::new(value).since(target.start),
                from: PointerSource::Register,
                thread: Some(thread.tid),
                register: Some(register),
                ..RefRow::default()
            });
        }
    }
    out
}

/// Describes a word by its region.
pub(in crate::commands) fn row(session: &Session<'_>, target: AddrRange, at: Addr, value: Addr) -> RefRow {
    let mut out = RefRow { address: Some(at), value, offset: value.since(target.start), ..RefRow::default() };
    // Every dumped byte has a region; a word without one would be a bug of the
    // map.
    let Some(region) = session.map().region_at(at) else { return out };
    out.kind = Some(region.kind);
    out.from = PointerSource::Region(region.kind);
    out.detail = place(session, region, at);
    if let (Kind::Stack, Owner::Thread(tid)) = (region.kind, region.owner) {
        out.thread = Some(tid);
        out.from = if session.is_left_over(region, at) { PointerSource::StackLeftOver } else { PointerSource::Stack };
    }
    out
}

/// Adds the objects, handles and malloc blocks that contain the words.
pub(in crate::commands) fn objects(session: &Session<'_>, rows: &mut [RefRow]) {
    rows.sort_by_key(|r| r.address);
    in_blocks(session, rows);
    if rows.iter().any(|r| r.kind == Some(Kind::HandleTable)) {
        in_handles(session, rows);
    }
    if rows.iter().any(|r| r.kind.is_some_and(Kind::holds_objects)) {
        in_objects(session, rows);
    }
}

/// Adds the kind of handle to words in handle tables.
fn in_handles(session: &Session<'_>, rows: &mut [RefRow]) {
    let runtimes = session.runtimes();
    for row in rows.iter_mut().filter(|row| row.kind == Some(Kind::HandleTable)) {
        let Some(at) = row.address else { continue };
        let found = runtimes.iter().find_map(|runtime| runtime.structure(at, Kind::HandleTable));
        if let Some(Structure::Handle { address, kind, .. }) = found
            && address == at
        {
            row.from = PointerSource::Handle;
            row.detail = format!("{kind} handle");
        }
    }
}

/// Adds the block to words in malloc's heaps.
fn in_blocks(session: &Session<'_>, rows: &mut [RefRow]) {
    let mut here = rows.iter_mut().filter(|r| r.kind.is_some_and(Kind::holds_blocks)).peekable();
    if here.peek().is_none() {
        return;
    }
    let (_, blocks) = session.blocks();
    for row in here {
        let Some((at, block)) = row.address.and_then(|at| Some((at, blocks.at(at)?))) else { continue };
        let (start, size) = (block.range.start, exact(block.range.len()));
        row.from = if block.used { row.from } else { PointerSource::FreeBlock };
        row.detail = format!("{start}+{:#x}, a block of {size} bytes", at.since(start));
    }
}

/// Adds the object to words on managed heaps. `rows` is sorted by address.
fn in_objects(session: &Session<'_>, rows: &mut [RefRow]) {
    // Registers have no address and are in no object.
    each_in_object(
        session,
        rows,
        |row| row.address.unwrap_or_default(),
        |row, found| {
            if found.is_free() {
                row.from = PointerSource::FreeObjectSpace;
                return;
            }
            row.from = PointerSource::Object;
            row.object = Some(found.object.addr);
            row.name = Some(found.name());
            row.field = found.field();
            row.detail = found.part.generation.name.to_owned();
        },
    );
}
