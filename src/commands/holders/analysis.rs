//! Native memory that managed objects point at, by type and field.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, HashSet};

use crate::addr::{Addr, AddrRange, union};
use crate::analysis::heap_notes::warn_in_gc;
use crate::analysis::reach::Reach;
use crate::commands::anon;
use crate::commands::holders::report::{HeldTotal, HolderRow, HoldersReport, OwnedRow};
use crate::diag::WarningCode;
use crate::limits;
use crate::memory::pointers::pointers;
use crate::native::malloc::Block;
use crate::process::Process;
use crate::progress::Progress;
use crate::report::{BufferMemory, Name};
use crate::runtimes::api::{FREE, Link, ManagedRuntime, ObjectNames, RuntimeId, locate};
use crate::session::Session;
use crate::units::exact;

/// Number of rows for which reachable blocks are counted.
const MAX_REACHES: usize = 10;

/// A word of the managed heap that points at native memory.
#[derive(Clone, Copy)]
struct Word {
    at: Addr,
    value: Addr,
}

/// Native memory that a word points at.
#[derive(Clone, Copy)]
enum NativeMemory {
    Malloc(Block),
    Mmap(AddrRange),
}

/// Words of one field of one type.
#[derive(Default)]
struct Group {
    name: Option<Name>,
    field: Option<Name>,
    objects: u64,
    last: Option<Addr>,
    malloc: HashMap<Addr, Block>,
    mmap: HashMap<Addr, u64>,
    first: Option<(Addr, Addr)>,
}

/// Lists types whose objects point at native memory, at most `limit` rows.
pub fn holders(session: &Session<'_>, limit: Option<usize>, progress: &Progress) -> HoldersReport {
    let heap: Vec<AddrRange> =
        union(session.map().regions.iter().filter(|r| r.kind.holds_objects()).map(|r| r.range).collect());
    let survey = anon::survey(session, heap.clone(), progress);
    let mapped: Vec<AddrRange> = survey.blocks.iter().map(|b| b.0).collect();
    let (_, blocks) = session.blocks();
    let held = |value: Addr| {
        let block = blocks.at(value).filter(|b| b.used).map(NativeMemory::Malloc);
        block.or_else(|| {
            mapped
                .binary_search_by_key(&value, |r| r.start)
                .ok()
                .and_then(|i| mapped.get(i))
                .map(|r| NativeMemory::Mmap(*r))
        })
    };
    let mut words: Vec<Word> = Vec::new();
    let mut left_out = 0_u64;
    let keep = |share: &mut Vec<Word>, at, value| {
        if held(value).is_some() {
            share.push(Word { at, value });
        }
    };
    let ends = [
        blocks.hull(),
        AddrRange::new(mapped.first().map_or(Addr::NULL, |r| r.start), mapped.last().map_or(Addr::NULL, |r| r.end)),
    ];
    let ends = ends.iter().filter(|r| !r.is_empty());
    let hull = ends.fold(AddrRange::default(), |a, b| match a.is_empty() {
        true => *b,
        false => AddrRange::new(a.start.min(b.start), a.end.max(b.end)),
    });
    pointers(session.process.target(), &heap, hull, progress, keep, |share: Vec<Word>| {
        let room = limits::MAX_HELD.saturating_sub(words.len());
        left_out += share.len().saturating_sub(room) as u64;
        words.extend(share.into_iter().take(room));
    });
    if left_out > 0 {
        session.process.diag.partial(
            WarningCode::Limit,
            format!("{} more words of the heap point to native memory and are not counted", exact(left_out)),
        );
    }
    let mut groups: BTreeMap<(RuntimeId, u64, Option<u64>), Group> = BTreeMap::new();
    for (id, runtime) in session.runtimes_by_id() {
        group(session.process, runtime, id, &mut words, &held, &mut groups);
    }
    let report = report(groups.into_values().collect(), &Reach::new(session.process, blocks), limit);
    HoldersReport { buffers: owned(session), ..report }
}

/// Lists native memory that objects own according to their runtime, most bytes first.
fn owned(session: &Session<'_>) -> Vec<OwnedRow> {
    let mut out: Vec<OwnedRow> = Vec::new();
    for runtime in session.runtimes() {
        let (buffers, Some(heap)) = (runtime.buffers(), runtime.heap()) else { continue };
        let mut names = ObjectNames::new(heap);
        let mut rows: BTreeMap<(Name, &str, BufferMemory), (OwnedRow, u64)> = BTreeMap::new();
        for buffer in buffers {
            let Some((name, _)) = names.object(buffer.object) else { continue };
            let key = (name.clone(), buffer.field, buffer.how);
            let (row, most) = rows.entry(key).or_insert_with(|| {
                let field = buffer.field.into();
                (OwnedRow { name, field, memory: buffer.how, ..OwnedRow::default() }, 0)
            });
            let bytes = buffer.range.len();
            row.objects += 1;
            row.bytes = row.bytes.saturating_add(bytes);
            if bytes > *most {
                (row.object, *most) = (buffer.object, bytes);
            }
        }
        out.extend(rows.into_values().map(|(row, _)| row));
    }
    out.sort_by_key(|row| (Reverse(row.bytes), row.object));
    out
}

/// Groups the words of one runtime's objects by type and field.
fn group(
    process: &Process,
    runtime: &dyn ManagedRuntime,
    id: RuntimeId,
    words: &mut [Word],
    held: &dyn Fn(Addr) -> Option<NativeMemory>,
    groups: &mut BTreeMap<(RuntimeId, u64, Option<u64>), Group>,
) {
    let Some(heap) = runtime.heap() else { return };
    let mut names = ObjectNames::new(heap);
    warn_in_gc(process, runtime, heap);
    locate(
        heap,
        words,
        |w| w.at,
        |word, _, object| {
            let (true, Some(what)) = (object.kind != FREE, held(word.value)) else { return };
            let Some(info) = names.heap.type_info(object.kind) else { return };
            let offset = word.at.since(object.addr);
            let field = info.elements.is_none().then_some(offset);
            let group = groups.entry((id, info.address.get(), field)).or_insert_with(|| Group {
                name: names.object(object.addr).map(|(name, _)| name),
                field: field.and_then(|_| names.link(object.addr, Link::Field(offset))),
                ..Group::default()
            });
            group.objects += u64::from(group.last != Some(object.addr));
            group.last = Some(object.addr);
            group.first = group.first.or(Some((object.addr, word.value)));
            match what {
                NativeMemory::Malloc(block) => drop(group.malloc.insert(block.range.start, block)),
                NativeMemory::Mmap(range) => drop(group.mmap.insert(range.start, range.len())),
            }
        },
    );
}

fn report(groups: Vec<Group>, reach: &Reach<'_>, limit: Option<usize>) -> HoldersReport {
    let mut total = HeldTotal::default();
    let (mut malloc, mut mmap) = (HashSet::new(), HashSet::new());
    let mut rows: Vec<(HolderRow, Vec<Block>)> = Vec::new();
    for group in groups {
        let mut row = HolderRow {
            name: group.name,
            field: group.field,
            objects: group.objects,
            object: group.first.map(|f| f.0).unwrap_or_default(),
            block: group.first.map(|f| f.1).unwrap_or_default(),
            ..HolderRow::default()
        };
        for (start, block) in &group.malloc {
            row.malloc.add(block.size);
            row.sizes.entry(block.size).or_default().add(block.size);
            if malloc.insert(*start) {
                total.malloc.add(block.size);
            }
        }
        for (start, size) in &group.mmap {
            row.mmap.add(*size);
            if mmap.insert(*start) {
                total.mmap.add(*size);
            }
        }
        rows.push((row, group.malloc.into_values().collect()));
    }
    rows.sort_by_key(|(r, _)| (Reverse(r.malloc.bytes.saturating_add(r.mmap.bytes)), r.object));
    for (row, blocks) in rows.iter_mut().take(MAX_REACHES) {
        row.reaches = (!blocks.is_empty()).then(|| reach.sum(blocks.iter().map(|b| b.id)));
    }
    let all = rows.len();
    let holders: Vec<HolderRow> = rows.into_iter().map(|(r, _)| r).take(limit.unwrap_or(usize::MAX)).collect();
    HoldersReport { more: (all - holders.len()) as u64, holders, total, buffers: Vec::new() }
}
