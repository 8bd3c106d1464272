//! malloc's claims for the map.

use crate::addr::AddrRange;
use crate::map::{Base, Claim, Claims, Confidence, Kind, Owner};
use crate::native::malloc::{MallocHeap, Mallocng, MappedChunk, Source};
use crate::units::{count, exact};

/// Claims the heaps and the address space reserved for them.
pub fn claim(heaps: &[MallocHeap], base: &Base, claims: &mut Claims) {
    let first = heaps.iter().find(|h| h.main).and_then(|h| h.arena);
    for h in heaps {
        let which = match (h.main, h.arena) {
            (true, Some(arena)) if first != Some(arena) => {
                format!("main heap of a further C library, arena with bins at {arena}")
            }
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
        // Only memory that cannot be accessed. gdb writes it as read-only.
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

/// Claims the memory of musl's groups and of their metas.
pub fn claim_musl(musl: &Mallocng, claims: &mut Claims) {
    let (context, groups) = (musl.context.start, count(musl.groups.len() as u64, "group"));
    let mut add = |range, detail: String, evidence: String| {
        claims.add(Claim {
            range,
            kind: Kind::Malloc,
            confidence: Confidence::Exact,
            owner: Owner::None,
            detail: detail.into(),
            evidence: evidence.into(),
        });
    };
    for group in musl.outermost() {
        let size = exact(group.stride);
        let detail = match (group.is_single(), group.from) {
            (true, _) => format!("mallocng: one block of {} bytes", exact(group.range.len())),
            (false, Source::Donated) => format!("mallocng: slot of {size} bytes at the end of a module's data"),
            (false, _) => format!("mallocng: group of {} slots of {size} bytes", group.slots),
        };
        let evidence = format!(
            "the group at {} and its meta at {} point to each other, class {}",
            group.range.start, group.meta, group.class
        );
        add(group.range, detail, evidence);
    }
    for &area in &musl.areas {
        let evidence = format!("it begins with the secret of malloc_context at {context}; metas of {groups}");
        add(AddrRange::sized(area, musl.area()), "mallocng: allocator structures".into(), evidence);
    }
}

/// Claims the chunks with their own mappings.
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
