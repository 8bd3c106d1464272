//! `whatis`: each address is checked only for what its region may contain, so an address in an image does not cause a
//! walk of malloc's heaps. A pass over memory serves all addresses at once.

mod content;
mod managed;
mod native;
mod text;

use crate::addr::{Addr, AddrRange};
use crate::analysis::naming::{Code, Names};
use crate::analysis::place::place;
use crate::analysis::region::row;
use crate::commands::ip2method;
use crate::commands::whatis::report::{ClaimRow, WhatisReport, WhatisRow};
use crate::memory::{Fault, Memory};
use crate::progress::Progress;
use crate::report::Shown;
use crate::session::Session;

/// Describes each of `addrs`, and shows `bytes` bytes from it on.
pub fn whatis(session: &Session<'_>, addrs: &[Addr], bytes: usize, progress: &Progress) -> WhatisReport {
    let names = Names::new(session);
    let mut shown = Shown::default();
    let mut rows: Vec<WhatisRow> = addrs.iter().map(|&addr| of_map(session, &names, &mut shown, addr, bytes)).collect();
    managed::add_managed(session, &mut rows);
    native::add_native(session, &names, &mut rows, progress);
    content::add_contents(session, &mut rows);
    if rows.iter().any(|r| r.method.is_some() || r.descriptor.is_some()) {
        names.note_missing();
    }
    WhatisReport { first: rows.first().cloned().unwrap_or_default(), results: rows }
}

/// Describes an address by the map, and by the code at it.
fn of_map(session: &Session<'_>, names: &Names<'_, '_>, shown: &mut Shown, addr: Addr, bytes: usize) -> WhatisRow {
    let map = session.map();
    let region = map.region_at(addr);
    let next = map.regions.index_at_or_above(addr);
    let mut row = |r| row(r, shown);
    let neighbours = match region {
        Some(_) => Vec::new(),
        None => {
            next.checked_sub(1).into_iter().chain([next]).filter_map(|i| map.regions.get(i)).map(&mut row).collect()
        }
    };
    let evidence = region.map(|r| match r.claim {
        Some(i) => map.claims[i as usize].evidence.to_string(),
        None => map.base.at(addr).map(|e| map.base.label(e).3.to_owned()).unwrap_or_default(),
    });
    let winner = region.and_then(|r| r.claim).map(|i| i as usize);
    let losers = map
        .claims_at(addr)
        .into_iter()
        .filter(|(i, _)| Some(*i) != winner)
        .map(|(_, c)| ClaimRow {
            start: c.range.start,
            end: c.range.end,
            kind: c.kind,
            detail: crate::bytes::printable(&c.detail).into_owned(),
            confidence: c.confidence,
            evidence: crate::bytes::printable(&c.evidence).into_owned(),
        })
        .collect();
    let have = session.process.memory.readable(addr, bytes as u64) as usize;
    let bytes = (bytes > 0 && have > 0).then(|| session.process.memory.bytes(addr, have).ok()).flatten();
    WhatisRow {
        address: addr,
        offset: region.map(|r| addr.since(r.range.start)),
        place: region.map(|r| place(session, r, addr)),
        region: region.map(&mut row),
        code: names.describe(addr),
        method: matches!(names.code(addr), Code::Managed(..)).then(|| ip2method::row(names, addr)),
        evidence,
        losers,
        readable: readable(session, addr),
        neighbours,
        text: bytes.as_deref().and_then(text::beginning),
        bytes: bytes.map(|b| b.iter().map(|b| format!("{b:02x}")).collect()),
        ..WhatisRow::default()
    }
}

/// Whether the byte at `addr` can be read, or why not.
fn readable(session: &Session<'_>, addr: Addr) -> String {
    match session.process.memory.read(addr, &mut [0]) {
        Ok(()) if session.process.space().dumped_in(AddrRange::sized(addr, 1)) == 1 => "in the core".to_owned(),
        Ok(()) => "from a file under --symbols".to_owned(),
        Err(Fault { kind, .. }) => kind.text().to_owned(),
    }
}
