use crate::addr::Addr;
use crate::analysis::naming::Names;
use crate::analysis::place::place;
use crate::analysis::region::row;
use crate::commands::whatis::report::{BlockRow, ClaimRow, WhatisReport};
use crate::map::Kind;
use crate::memory::{Fault, Memory};
use crate::report::Shown;
use crate::session::Session;

/// Tell all that is known of `addr`, with `bytes` bytes of what is there.
pub fn whatis(session: &Session<'_>, addr: Addr, bytes: usize) -> WhatisReport {
    let map = session.map();
    let region = map.region_at(addr);
    let next = map.regions.index_at_or_above(addr);
    let mut names = Shown::default();
    let mut row = |r| row(r, &mut names);
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
    let mut byte = [0];
    let readable = match session.process.memory.read(addr, &mut byte) {
        Ok(()) if session.process.space().dumped_in(crate::addr::AddrRange::sized(addr, 1)) == 1 => {
            "in the core".to_owned()
        }
        Ok(()) => "filled in from a file under --symbols".to_owned(),
        Err(Fault { kind, .. }) => kind.text().to_owned(),
    };
    let have = session.process.memory.readable(addr, bytes as u64) as usize;
    let hex = (bytes > 0 && have > 0)
        .then(|| session.process.memory.bytes(addr, have).ok())
        .flatten()
        .map(|b| b.iter().map(|b| format!("{b:02x}")).collect());
    let block = region.filter(|r| r.kind == Kind::Malloc).and_then(|_| session.blocks().1.at(addr));
    WhatisReport {
        address: addr,
        block: block.map(|b| BlockRow { start: b.range.start, size: b.range.len(), used: b.used }),
        offset: region.map(|r| addr.since(r.range.start)),
        place: region.map(|r| place(session, r, addr)),
        region: region.map(&mut row),
        code: Names::new(session).describe(addr),
        evidence,
        losers,
        readable,
        neighbours,
        bytes: hex,
    }
}
