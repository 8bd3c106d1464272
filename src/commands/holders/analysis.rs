//! Native memory that managed objects point at, by type and field.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, HashSet};

use crate::addr::{Addr, AddrRange, union};
use crate::analysis::heap_notes::warn_in_gc;
use crate::analysis::reach::Reach;
use crate::commands::anon;
use crate::commands::holders::across::across;
use crate::commands::holders::report::{HeldByState, HeldTotal, HolderRow, HoldersReport, OwnedRow};
use crate::commands::holders::shares::{Shares, Sources};
use crate::commands::holders::states::States;
use crate::diag::WarningCode;
use crate::limits;
use crate::map::Kind;
use crate::memory::pointers::pointers;
use crate::native::malloc::Block;
use crate::progress::Progress;
use crate::report::{BufferMemory, HolderState, Name};
use crate::runtimes::api::{FREE, Heap, Link, ManagedRuntime, Object, ObjectNames, RuntimeId, locate};
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

/// Native memory at which a word points.
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
    finalizable: Option<u64>,
    of_runtime: bool,
}

/// Key of a group: runtime, type, field, state of the objects, and whether they represent structures of the runtime
/// itself.
type GroupKey = (RuntimeId, u64, Option<u64>, Option<HolderState>, bool);

/// Lists types whose objects point at native memory, at most `limit` rows.
pub fn holders(session: &Session<'_>, limit: Option<usize>, progress: &Progress) -> HoldersReport {
    session.process.target().expect_scan();
    let heap: Vec<AddrRange> =
        union(session.map().regions.iter().filter(|r| r.kind.holds_objects()).map(|r| r.range).collect());
    // malloc blocks may also point at anonymous mappings.
    let of_malloc = session.map().regions.iter().filter(|r| r.kind == Kind::Malloc).map(|r| r.range);
    let survey = anon::survey(session, union(heap.iter().copied().chain(of_malloc).collect()), progress);
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
    let mut located: Vec<(RuntimeId, Vec<(Word, Object)>)> = Vec::new();
    for (id, runtime) in session.runtimes_by_id() {
        let Some(heap) = runtime.heap() else { continue };
        warn_in_gc(session.process, runtime, heap);
        let mut of_objects = Vec::new();
        locate(
            heap,
            &mut words,
            |w| w.at,
            |word, _, object| {
                if object.kind != FREE {
                    of_objects.push((*word, *object));
                }
            },
        );
        located.push((id, of_objects));
    }
    let mut states = States::read(session, located.iter().map(|(id, of)| (*id, of.iter().map(|(_, o)| o.addr))));
    let mut groups: BTreeMap<GroupKey, Group> = BTreeMap::new();
    for (id, of_objects) in &located {
        let of_runtime = session.runtimes_by_id().into_iter().find(|(of, _)| of == id);
        if let Some((runtime, heap)) = of_runtime.and_then(|(_, runtime)| Some((runtime, runtime.heap()?))) {
            group(runtime, heap, *id, of_objects, &held, &mut states, &mut groups);
        }
    }
    let images: Vec<AddrRange> = session.runtimes().iter().filter_map(|runtime| runtime.image()).collect();
    let reach = Reach::new(session.process, blocks);
    let report = report(groups, &Shares::new(&reach, &mapped, &images), limit);
    HoldersReport { buffers: owned(session), across: across(session), ..report }
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

/// Groups the words of one runtime's objects by type, field and state.
fn group(
    runtime: &dyn ManagedRuntime,
    heap: &dyn Heap,
    id: RuntimeId,
    of_objects: &[(Word, Object)],
    held: &dyn Fn(Addr) -> Option<NativeMemory>,
    states: &mut States,
    groups: &mut BTreeMap<GroupKey, Group>,
) {
    let mut names = ObjectNames::new(heap);
    for (word, object) in of_objects {
        let (Some(what), Some(info)) = (held(word.value), names.heap.type_info(object.kind)) else { continue };
        let offset = word.at.since(object.addr);
        let field = info.elements.is_none().then_some(offset);
        let of_runtime = field.is_some() && runtime.is_own_structure(word.value);
        let (state, finalizable) = states.of(id, object.addr);
        let group = groups.entry((id, info.address.get(), field, state, of_runtime)).or_insert_with(|| Group {
            name: names.object(object.addr).map(|(name, _)| name),
            field: field.and_then(|_| names.link(object.addr, Link::Field(offset))),
            finalizable: finalizable.map(|_| 0),
            of_runtime,
            ..Group::default()
        });
        if group.last != Some(object.addr) {
            group.objects += 1;
            group.finalizable = group.finalizable.zip(finalizable).map(|(n, is)| n + u64::from(is));
        }
        group.last = Some(object.addr);
        group.first = group.first.or(Some((object.addr, word.value)));
        match what {
            NativeMemory::Malloc(block) => drop(group.malloc.insert(block.range.start, block)),
            NativeMemory::Mmap(range) => drop(group.mmap.insert(range.start, range.len())),
        }
    }
}

fn report(groups: BTreeMap<GroupKey, Group>, shares: &Shares<'_>, limit: Option<usize>) -> HoldersReport {
    let mut total = HeldTotal::default();
    let (mut malloc, mut mmap) = (HashSet::new(), HashSet::new());
    let mut rows: Vec<(HolderRow, Sources)> = Vec::new();
    for ((.., state, _), group) in groups {
        // C++ objects of the runtime are recognised by their vtables.
        let first = |block: &Block| shares.begins_in_image(block);
        let of_runtime = group.of_runtime || !group.malloc.is_empty() && group.malloc.values().all(first);
        let mut row = HolderRow {
            name: group.name,
            field: group.field,
            objects: group.objects,
            object: group.first.map(|f| f.0).unwrap_or_default(),
            block: group.first.map(|f| f.1).unwrap_or_default(),
            finalizable: group.finalizable,
            of_runtime,
            state,
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
        let blocks = group.malloc.into_values().collect();
        let mappings = group.mmap.into_keys().filter_map(|start| shares.mapping_at(start)).collect();
        rows.push((row, Sources { blocks, mappings, of_runtime }));
    }
    // Sort live rows first: memory that objects in several states reach is alive if one of them is.
    let direct = |r: &HolderRow| r.malloc.bytes.saturating_add(r.mmap.bytes);
    rows.sort_by_key(|(r, _)| (r.of_runtime, rank(r.state), Reverse(direct(r)), r.object));
    let (mut rows, sources): (Vec<HolderRow>, Vec<Sources>) = rows.into_iter().unzip();
    let division = shares.divide(&sources);
    let mut by_state: BTreeMap<u8, HeldByState> = BTreeMap::new();
    let mut reached = HeldTotal::default();
    for ((row, new), alone) in rows.iter_mut().zip(&division.new).zip(&division.alone) {
        row.alone = *alone;
        reached.merge(new);
        if row.of_runtime {
            continue;
        }
        let all = HeldByState { state: row.state, reached: HeldTotal::default(), finalizable: Some(true) };
        let sum = by_state.entry(rank(row.state)).or_insert(all);
        sum.reached.merge(new);
        sum.finalizable = sum.finalizable.zip(row.finalizable).map(|(all, n)| all && n == row.objects);
    }
    let mut order: Vec<usize> = (0..rows.len()).collect();
    let credit = |i: usize| division.credit.get(i).map_or(0, HeldTotal::bytes);
    let key = |i: usize| rows.get(i).map(|r| (r.of_runtime, Reverse(credit(i)), Reverse(direct(r)), r.object));
    order.sort_by_key(|&i| key(i));
    let mut counted: Vec<(usize, HeldTotal, Option<usize>)> = Vec::new();
    for &i in order.iter().take(MAX_REACHES) {
        let Some(source) = sources.get(i).filter(|source| !source.is_empty()) else { continue };
        let (sum, sharer) = shares.reached(i, source, &division);
        counted.push((i, sum, sharer));
    }
    let names: Vec<String> = rows.iter().map(HolderRow::place).collect();
    for (i, sum, sharer) in counted {
        let Some(row) = rows.get_mut(i) else { continue };
        row.reaches = (sum.malloc.count > 0).then_some(sum.malloc);
        row.reaches_mmap = Some(sum.mmap);
        row.shared = Some(sum.without(&row.alone));
        row.shared_with = sharer.and_then(|sharer| names.get(sharer)).cloned();
    }
    let all = rows.len();
    let mut rows: Vec<Option<HolderRow>> = rows.into_iter().map(Some).collect();
    let holders: Vec<HolderRow> = order
        .into_iter()
        .take(limit.unwrap_or(usize::MAX))
        .filter_map(|i| rows.get_mut(i).and_then(Option::take))
        .collect();
    HoldersReport {
        more: (all - holders.len()) as u64,
        holders,
        total,
        reached,
        by_state: by_state.into_values().collect(),
        ..HoldersReport::default()
    }
}

/// Returns the rank of a state. Memory reached from several states counts for the lowest rank.
fn rank(state: Option<HolderState>) -> u8 {
    match state {
        Some(HolderState::Live) => 0,
        Some(HolderState::Queued) => 1,
        None => 2,
        Some(HolderState::Unreached) => 3,
        Some(HolderState::Dead) => 4,
    }
}
