//! The heap profile: which code allocated, as the runtime samples it.
//!
//! Source: runtime/mprof.go (`bucket`, `memRecord`). The runtime samples one allocation per `MemProfileRate` bytes.
//! Each record has a stack and its counts at the end of the last collection (`active`). Counts of three more cycles
//! follow. Only programs that can read the profile are sampled; in all others the linker turns it off.

use crate::addr::Addr;
use crate::limits;
use crate::memory::Memory;
use crate::memory::walk::Walks;
use crate::phase::Phase;
use crate::runtimes::api::{AllocationCounts, AllocationProfile, AllocationSite};
use crate::runtimes::go::code::Code;
use crate::runtimes::go::record::Record;
use crate::runtimes::go::runtime::Runtime;
use crate::runtimes::go::shape::Shape;

/// `bucket.typ` of the heap profile.
pub(in crate::runtimes::go) const MEMORY: u64 = 1;

/// Bytes between samples, unless the program sets another rate.
const RATE: u64 = 512 << 10;

/// Bytes of the head of a record; its addresses follow.
const HEAD: u64 = 48;

/// A record of a profile.
pub(in crate::runtimes::go) struct Bucket {
    pub(in crate::runtimes::go) next: Addr,
    pub(in crate::runtimes::go) kind: u64,
    /// Size of the sampled objects in bytes.
    size: u64,
    pcs: Vec<Addr>,
}

impl Bucket {
    /// Returns the record at an address. `None` if its fields are implausible.
    pub(in crate::runtimes::go) fn look(
        memory: &dyn Memory,
        shape: &Shape,
        at: Addr,
        is_code: impl Fn(Addr) -> bool,
    ) -> Option<Bucket> {
        let b = &shape.bucket;
        let head = Record::look(memory, at, HEAD).filter(|_| !at.is_null() && at.is_aligned(8))?;
        let (kind, count) = (head.u64(b.typ), head.u64(b.nstk));
        if !(1..=3).contains(&kind) || !(1..=limits::MAX_GO_BUCKET_FRAMES).contains(&count) || head.u64(b.hash) == 0 {
            return None;
        }
        let words = Record::look(memory, at.checked_add(HEAD)?, count * 8)?;
        let pcs: Vec<Addr> = (0..count).map(|i| words.ptr(8 * i)).collect();
        let sound = pcs.first().is_some_and(|pc| is_code(*pc));
        sound.then(|| Bucket { next: head.ptr(b.allnext), kind, size: head.u64(b.size), pcs })
    }
}

/// Reads the profile from the first record of its list.
pub(in crate::runtimes::go) fn read(runtime: &Runtime<'_>, code: &Code<'_>, first: Addr) -> AllocationProfile {
    let (memory, shape) = (runtime.memory(), runtime.shape());
    let walks = Walks::new(Phase::Objects, limits::MAX_GO_BUCKETS);
    let mut out = AllocationProfile { rate: RATE, rate_is_default: true, ..AllocationProfile::default() };
    let end = walks.begin().follow(first, |at| {
        let bucket = Bucket::look(memory, shape, at, |pc| runtime.is_code(pc)).ok_or("is no record")?;
        let len = HEAD.saturating_add(8 * bucket.pcs.len() as u64);
        memory.keep(at, len);
        let record = at.checked_add(len).and_then(|at| Record::read(memory, at, shape.record.size));
        let sampled = counts(shape, &record.ok_or("is not in the core")?, bucket.size);
        let frames = bucket.pcs.iter().flat_map(|pc| frames(code, *pc)).collect();
        out.sites.push(AllocationSite { sampled, scaled: sampled.scaled(RATE), frames, addresses: bucket.pcs });
        Ok::<_, &str>(bucket.next)
    });
    out.broken = end.err().map(|why| format!("the list of the heap profile's records {why}"));
    out.sites.sort_by_key(|site| std::cmp::Reverse((site.scaled.inuse_bytes, site.scaled.alloc_bytes)));
    out
}

fn counts(shape: &Shape, r: &Record<'_>, size: u64) -> AllocationCounts {
    let s = &shape.record;
    let (allocs, frees) = (r.u64(s.allocs), r.u64(s.frees));
    let bytes = |at: Option<u64>, objects: u64| at.map_or(objects.saturating_mul(size), |at| r.u64(at));
    let (alloc_bytes, free_bytes) = (bytes(s.alloc_bytes, allocs), bytes(s.free_bytes, frees));
    AllocationCounts {
        inuse_objects: allocs.saturating_sub(frees),
        inuse_bytes: alloc_bytes.saturating_sub(free_bytes),
        alloc_objects: allocs,
        alloc_bytes,
    }
}

fn frames(code: &Code<'_>, pc: Addr) -> Vec<crate::runtimes::api::Activation> {
    let place = code.place(pc, false);
    let all = place.iter().flat_map(|place| &place.all).filter(|(_, id)| !code.is_wrapper(*id));
    all.map(|(activation, _)| activation.clone()).collect()
}
