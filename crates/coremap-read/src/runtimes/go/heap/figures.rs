//! Figures of the collector, with the names of `runtime.MemStats`.
//!
//! Source: runtime/mstats.go (`readmemstats_m`), mgcpacer.go. Sums over spans and objects are counted here; the other
//! figures are fields.

use crate::runtimes::go::heap::bits::Liveness;
use crate::runtimes::go::heap::spans::SpanUse;
use crate::runtimes::go::record::Record;
use crate::runtimes::go::runtime::Runtime;

/// Size in bytes of the last field of `mstats` that is read.
const AFTER_LAST: u64 = 8;

/// Figures of the collector.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::runtimes::go) struct Figures {
    /// Name and value, in the order of `runtime.MemStats`.
    pub(in crate::runtimes::go) all: Vec<(&'static str, u64)>,
    /// Bytes of objects that are allocated and not known to be dead.
    pub(in crate::runtimes::go) heap_alloc: u64,
    /// The limit on memory (GOMEMLIMIT). `None` if there is none.
    pub(in crate::runtimes::go) limit: Option<u64>,
    /// Growth in per cent before the next collection (GOGC). Negative if collections are off.
    pub(in crate::runtimes::go) percent: Option<i32>,
    /// Bytes that the last collection marked.
    pub(in crate::runtimes::go) marked: Option<u64>,
    /// Number of collections.
    pub(in crate::runtimes::go) collections: Option<u32>,
    /// Monotonic time of the last collection, in nanoseconds.
    pub(in crate::runtimes::go) last_collection: Option<u64>,
    /// Number of spans whose bits are not in the core.
    pub(in crate::runtimes::go) unread: u64,
}

impl Figures {
    pub(in crate::runtimes::go) fn read(runtime: &Runtime<'_>) -> Figures {
        let mut out = Figures::default();
        let (memory, shape, globals) = (runtime.memory(), runtime.shape(), &runtime.proof.globals);
        let controller = globals.controller.and_then(|at| Record::read(memory, at, shape.controller.size));
        let c = &shape.controller;
        let field = |offset: u64| controller.as_ref().map(|r| r.u64(offset));
        let s = &shape.stats;
        let stats = globals.stats.and_then(|at| Record::read(memory, at, s.last_nanotime.checked_add(AFTER_LAST)?));
        let (mut objects, mut bytes) = (0u64, 0u64);
        let liveness = Liveness::new(runtime);
        for span in runtime.proof.spans.all.iter().filter(|span| span.usage == SpanUse::Objects) {
            match liveness.of(span) {
                Some(bits) => {
                    let count = bits.count();
                    objects = objects.saturating_add(count);
                    bytes = bytes.saturating_add(count.saturating_mul(span.elem));
                }
                None => out.unread += 1,
            }
        }
        let spans = &runtime.proof.spans;
        let idle = field(c.free).zip(field(c.released)).map(|(free, released)| free.saturating_add(released));
        let known = out.unread == 0;
        let all = [
            ("HeapAlloc", known.then_some(bytes)),
            ("TotalAlloc", field(c.total_alloc)),
            ("HeapObjects", known.then_some(objects)),
            ("HeapInuse", Some(spans.bytes_of(SpanUse::Objects))),
            ("HeapIdle", idle),
            ("HeapReleased", field(c.released)),
            ("StackInuse", Some(spans.bytes_of(SpanUse::Stacks))),
            ("NextGC", field(c.goal)),
            ("LastGC", stats.as_ref().map(|r| r.u64(s.last_unix))),
            ("PauseTotalNs", stats.as_ref().map(|r| r.u64(s.pause_total))),
            // No statistics are found before the first collection.
            ("NumGC", Some(stats.as_ref().map_or(0, |r| u64::from(r.u32(s.numgc))))),
            ("NumForcedGC", Some(stats.as_ref().map_or(0, |r| u64::from(r.u32(s.numforced))))),
        ];
        out.all = all.into_iter().filter_map(|(name, value)| Some((name, value?))).collect();
        out.heap_alloc = bytes;
        out.limit = field(c.limit).filter(|limit| *limit < i64::MAX as u64);
        out.percent = controller.as_ref().map(|r| r.u32(c.percent) as i32);
        out.marked = field(c.marked);
        out.last_collection = stats.as_ref().map(|r| r.u64(s.last_nanotime)).filter(|last| *last > 0);
        out.collections = stats.as_ref().map(|r| r.u32(s.numgc));
        out
    }

    /// A figure by its name.
    pub(in crate::runtimes::go) fn get(&self, name: &str) -> Option<u64> {
        self.all.iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
    }
}
