//! What malloc claims in the map.

use crate::map::{Base, Claim, Claims, Confidence, Kind, Owner};
use crate::native::malloc::{MallocHeap, MappedChunk};
use crate::units::exact;

/// Claim the heaps and what is reserved for them.
pub fn claim(heaps: &[MallocHeap], base: &Base, claims: &mut Claims) {
    for h in heaps {
        let which = match (h.main, h.arena) {
            (true, _) => "main heap (brk)".to_owned(),
            (false, Some(arena)) => format!("arena {arena}"),
            (false, None) => "arena".to_owned(),
        };
        let mut add = |range, kind, confidence, detail: String| {
            claims.add(Claim {
                range,
                kind,
                confidence,
                owner: Owner::None,
                detail: detail.into(),
                evidence: h.evidence.as_str().into(),
            });
        };
        add(h.range, Kind::Malloc, h.confidence, which.clone());
        // Only what really can't be touched: gdb writes it as read-only.
        for e in base.entries.overlapping(h.reserve) {
            let untouchable = e.file.is_none() && e.perms.is_some_and(|p| !p.write && !p.exec);
            if let Some(range) = e.range.intersect(&h.reserve)
                && untouchable
            {
                add(range, Kind::NoAccess, Confidence::Derived, format!("reserved by malloc {which}"));
            }
        }
    }
}

/// Claim the chunks with a mapping of their own.
pub fn claim_mapped(chunks: &[MappedChunk], claims: &mut Claims) {
    for c in chunks {
        claims.add(Claim {
            range: c.range,
            kind: Kind::Malloc,
            confidence: c.confidence,
            owner: Owner::None,
            detail: format!("mmapped chunk {} ({} bytes)", c.chunk, exact(c.size)).into(),
            evidence: c.evidence().into(),
        });
    }
}
