//! Facts about native memory: stack frames, malloc blocks with their equals, and owners.

use std::collections::HashMap;

use crate::addr::{Addr, AddrRange, union};
use crate::analysis::block_graph::with_block_owners;
use crate::analysis::blocks::alike;
use crate::analysis::in_object::each_in_object;
use crate::analysis::naming::Names;
use crate::analysis::place::place;
use crate::commands::whatis::report::{
    AlikeRow, BlockRow, BufferOwnerRow, BufferRow, FrameAtRow, SmallBlockRow, WhatisRow,
};
use crate::limits;
use crate::map::kind_facts::Contents;
use crate::map::{Kind, Owner};
use crate::memory::pointers::pointers;
use crate::native::malloc::Block;
use crate::progress::Progress;
use crate::report::PointerSource;
use crate::runtimes::api::{FrameKind, ManagedRuntime, ObjectNames, StackFrame, StackWalk};
use crate::session::Session;

/// Adds what native structures show about the addresses.
pub(super) fn add_native(session: &Session<'_>, names: &Names<'_, '_>, rows: &mut [WhatisRow], progress: &Progress) {
    frames(session, names, rows);
    buffers(session, rows);
    let is_malloc = |r: &&mut WhatisRow| r.region.as_ref().is_some_and(|r| r.kind.holds_blocks());
    let mut rows: Vec<&mut WhatisRow> = rows.iter_mut().filter(is_malloc).collect();
    blocks(session, &mut rows);
    rows.retain(|r| r.owner.is_none() && r.block.as_ref().is_some_and(|b| b.used));
    owners(session, &mut rows, progress);
    rows.retain(|row| row.owner.is_none());
    native_owners(session, &mut rows);
}

/// Adds the native holders of blocks that no managed object owns.
fn native_owners(session: &Session<'_>, rows: &mut [&mut WhatisRow]) {
    if rows.is_empty() {
        return;
    }
    with_block_owners(session, |owners| {
        for row in rows {
            let address = row.address;
            if let Some(block) = &mut row.block {
                block.owner = owners.owner(address);
            }
        }
    });
}

/// Adds the objects that own the memory, if a runtime knows them.
fn buffers(session: &Session<'_>, rows: &mut [WhatisRow]) {
    let outside = |r: &&mut WhatisRow| {
        // Finding all buffers walks the heap.
        let kind = r.region.as_ref().map(|region| region.kind);
        kind.is_some_and(|kind| match kind.facts().contents {
            Contents::Blocks | Contents::Unclaimed => true,
            Contents::File => kind != Kind::DoubleMapped,
            // CPython stores the items of small lists apart from the list object.
            Contents::Objects => kind == Kind::PyMalloc,
            Contents::Nothing
            | Contents::Program
            | Contents::FreeHeap
            | Contents::Frames
            | Contents::LoaderHeap
            | Contents::Stubs
            | Contents::Structures
            | Contents::Unwalked => false,
        })
    };
    let mut rows: Vec<&mut WhatisRow> = rows.iter_mut().filter(outside).collect();
    if rows.is_empty() {
        return;
    }
    for runtime in session.runtimes() {
        let Some(heap) = runtime.heap() else { continue };
        let mut names = ObjectNames::new(heap);
        for row in rows.iter_mut().filter(|row| row.owner.is_none()) {
            row.small_block = row.small_block.take().or_else(|| small_block(runtime, row));
            let Some(buffer) = runtime.buffer_of(row.address) else { continue };
            let Some((name, _)) = names.object(buffer.object) else { continue };
            row.owner = Some(BufferOwnerRow {
                kind: PointerSource::Object,
                address: buffer.object,
                name,
                field: Some(buffer.field.into()),
                buffer: Some(BufferRow { start: buffer.range.start, size: buffer.range.len(), memory: buffer.how }),
            });
        }
    }
}

/// Returns the block of a runtime's small-block allocator that contains the address.
fn small_block(runtime: &dyn ManagedRuntime, row: &WhatisRow) -> Option<SmallBlockRow> {
    let blocks = runtime.small_blocks()?;
    let block = blocks.block_at(row.address)?;
    Some(SmallBlockRow {
        allocator: blocks.sums()?.name,
        start: block.range.start,
        size: block.range.len(),
        used: block.used,
        pool: block.pool,
        arena: block.arena,
    })
}

/// Adds the stack frames that contain the addresses.
fn frames(session: &Session<'_>, names: &Names<'_, '_>, rows: &mut [WhatisRow]) {
    let mut walks: HashMap<u32, Option<StackWalk>> = HashMap::new();
    for row in rows {
        let Some(region) = session.map().region_at(row.address) else { continue };
        let (Kind::Stack, Owner::Thread(thread)) = (region.kind, region.owner) else { continue };
        if session.is_left_over(region, row.address) {
            continue;
        }
        let walk = || session.walk_tid(&session.walker(session.stacks()), thread);
        let walk = walks.entry(thread).or_insert_with(walk);
        let found = walk.as_ref().and_then(|w| frame(w, region.range, row.address));
        row.frame = found.map(|(index, frame, end)| {
            let place = || session.map().region_at(frame.ip).map(|r| place(session, r, frame.ip));
            let code = names.describe(frame.code()).or_else(place);
            FrameAtRow { thread, index: index as u64, sp: frame.sp, end, ip: frame.ip, code }
        });
    }
}

/// Returns the frame that contains `addr`, with its index and its end. A frame extends from its stack pointer to its
/// caller's, both on this stack. The outermost frame has no caller, so its end is unknown.
fn frame(walk: &StackWalk, stack: AddrRange, addr: Addr) -> Option<(usize, &StackFrame, Addr)> {
    let real = walk.frames.iter().enumerate().filter(|(_, f)| !matches!(f.kind, FrameKind::Mark(_)));
    let callers = real.clone().skip(1);
    real.zip(callers).find_map(|((index, frame), (_, caller))| {
        let range = AddrRange::new(frame.sp, caller.sp.max(frame.sp));
        (stack.covers(&range) && range.contains(addr)).then_some((index, frame, caller.sp))
    })
}

/// Adds the malloc blocks that contain the addresses, and the number of equal blocks.
fn blocks(session: &Session<'_>, rows: &mut [&mut WhatisRow]) {
    let mut known: HashMap<Addr, AlikeRow> = HashMap::new();
    for row in rows {
        let all = &session.blocks().1;
        let Some(block) = all.at(row.address) else { continue };
        let make = || alike_row(session, block);
        // Each needs a pass over all blocks, so the number is limited.
        let room = known.len() < limits::MAX_ALIKE_QUERIES || known.contains_key(&block.range.start);
        let cluster = (block.used && room).then(|| known.entry(block.range.start).or_insert_with(make).clone());
        row.block = Some(BlockRow {
            start: block.range.start,
            size: block.range.len(),
            used: block.used,
            cluster,
            owner: None,
        });
    }
}

fn alike_row(session: &Session<'_>, block: Block) -> AlikeRow {
    let found = alike(session, block);
    AlikeRow {
        size: found.size,
        count: found.count,
        bytes: found.bytes,
        kind: found.kind,
        first_word: found.first_word,
        fill: found.fill,
        symbol: found.symbol,
        category: found.category,
    }
}

/// A word of the managed heap that points into the block of a row.
struct Word {
    at: Addr,
    /// Index of the row, and whether the word points to the start of its block.
    row: usize,
    start: bool,
}

/// Adds the objects whose fields point to the start of a block, or else into it.
fn owners(session: &Session<'_>, rows: &mut [&mut WhatisRow], progress: &Progress) {
    rows.sort_by_key(|r| r.block.as_ref().map(|b| b.start));
    let ranges: Vec<AddrRange> =
        rows.iter().filter_map(|r| r.block.as_ref()).map(|b| AddrRange::sized(b.start, b.size)).collect();
    let heap = union(session.map().regions.iter().filter(|r| r.kind.holds_objects()).map(|r| r.range).collect());
    let (Some(first), Some(last), false) = (ranges.first(), ranges.last(), heap.is_empty()) else { return };
    let keep = |share: &mut Vec<Word>, at, value| {
        let row = ranges.partition_point(|r| r.end <= value);
        if let Some(range) = ranges.get(row).filter(|r| r.contains(value) && share.len() < limits::MAX_REFS) {
            share.push(Word { at, row, start: value == range.start });
        }
    };
    let mut words: Vec<Word> = Vec::new();
    let hull = AddrRange::new(first.start, last.end);
    pointers(session.process.target(), &heap, hull, progress, keep, |share: Vec<Word>| {
        let room = limits::MAX_REFS.saturating_sub(words.len());
        words.extend(share.into_iter().take(room));
    });
    words.sort_by_key(|w| w.at);
    let mut found: Vec<(&Word, Option<BufferOwnerRow>)> = words.iter().map(|w| (w, None)).collect();
    each_in_object(
        session,
        &mut found,
        |(word, _)| word.at,
        |(_, owner), object| {
            if !object.is_free() {
                let (address, name, field) = (object.object.addr, object.name(), object.field());
                *owner = Some(BufferOwnerRow { kind: PointerSource::Object, address, name, field, buffer: None });
            }
        },
    );
    for row in rows {
        // Several addresses may be in one block.
        let range = row.block.as_ref().map(|b| AddrRange::sized(b.start, b.size));
        let mine = found.iter().filter(|(w, owner)| owner.is_some() && ranges.get(w.row).copied() == range);
        row.owner = mine.min_by_key(|(w, _)| (!w.start, w.at)).and_then(|(_, owner)| owner.clone());
    }
}
