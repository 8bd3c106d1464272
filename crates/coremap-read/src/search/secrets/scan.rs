//! The parallel scan of memory for secrets.

use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};

use rayon::prelude::*;

use crate::addr::{Addr, AddrRange};
use crate::limits;
use crate::phase::Phase;
use crate::progress::Progress;
use crate::search::scan::cut;
use crate::search::secrets::find::Finder;
use crate::search::secrets::text::texts;
use crate::search::spans::Spans;
use crate::search::window::{Reach, Window};
use crate::sums::SaturatingSum;
use crate::targets::{READ_AHEAD_TASKS, Target};
use crate::words::{HitEncoding, SecretKind};

/// Bytes before a secret that its check may need: the fields of a connection string, in UTF-16.
const CONTEXT_BEFORE: usize = 2 << 10;

/// Bytes after a secret's start that its check may need: a private key in UTF-16, and what follows
/// it.
const CONTEXT_AFTER: usize = 32 << 10;

/// Sizes in bytes of a task, and of a window in it.
const TASK: u64 = 4 << 20;
const BLOCK: usize = 256 << 10;

/// Number of tasks whose hits are stored at once.
const WAVE: usize = 32;

/// A possible secret in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SecretHit {
    /// Address of its start, with the keyword.
    pub address: Addr,
    /// Encoding of its text.
    pub encoding: HitEncoding,
    /// Kind of secret.
    pub kind: SecretKind,
    /// Whether more than its form was checked: a check digit, a checksum, or its decoded contents.
    pub checked: bool,
    /// Hash that is equal for equal secrets. Its key is made for this scan, never shown, and
    /// dropped with it.
    hash: u64,
}

/// Totals of a scan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Secrets {
    /// Bytes of dumped memory scanned, including holes of the file.
    pub scanned: u64,
    /// Number of hits left out, because a task had more than [`limits::MAX_SECRETS`].
    pub dropped: u64,
}

/// A scan for secrets.
pub struct SecretScan {
    /// `None` only if the keyword list is invalid. A test checks that it is not.
    finder: Option<Finder>,
    key: RandomState,
}

/// Counts distinct hits, up to a limit.
#[derive(Default)]
pub struct Distinct(HashSet<u64>, bool);

impl Distinct {
    pub fn add(&mut self, hit: &SecretHit) {
        if self.0.len() < limits::MAX_DISTINCT_SECRETS {
            self.0.insert(hit.hash);
        } else if !self.0.contains(&hit.hash) {
            self.1 = true;
        }
    }

    /// Returns the number of distinct hits. `None` if there were more than could be stored.
    pub fn count(&self) -> Option<u64> {
        (!self.1).then_some(self.0.len() as u64)
    }
}

impl Default for SecretScan {
    fn default() -> SecretScan {
        SecretScan { finder: Finder::new().ok(), key: RandomState::new() }
    }
}

impl SecretScan {
    /// Scans all dumped memory of `target`, and calls `each` with each hit by address.
    pub fn memory(&self, target: &dyn Target, progress: &Progress, mut each: impl FnMut(&SecretHit)) -> Secrets {
        let _phase = target.reads().enter(Phase::Search);
        let reach = Reach { before: CONTEXT_BEFORE, after: CONTEXT_AFTER, back: 0 };
        let spans = Spans::of(target, reach, BLOCK);
        let near = spans.near_data();
        let scanned = spans.all().iter().map(AddrRange::len).saturating_sum();
        progress.start(near.iter().map(AddrRange::len).saturating_sum());
        target.expect_scan();
        let mut totals = Secrets { scanned, dropped: 0 };
        let mut tasks = near.iter().flat_map(|range| cut(*range, TASK));
        loop {
            let wave: Vec<AddrRange> = tasks.by_ref().take(WAVE).collect();
            if wave.is_empty() {
                return totals;
            }
            let task = |(i, task): (usize, &AddrRange)| {
                if let Some(later) = wave.get(i + READ_AHEAD_TASKS) {
                    target.expect_soon(*later);
                }
                let mut found = Hits::default();
                spans.windows(*task, |window| self.window(window, &mut found));
                progress.add(task.len());
                found
            };
            let found: Vec<Hits> = wave.par_iter().enumerate().map(task).collect();
            for hits in found {
                totals.dropped += hits.dropped;
                hits.kept.iter().for_each(&mut each);
            }
        }
    }

    /// Scans bytes that are not memory. The hits' addresses are offsets in them.
    pub fn bytes(&self, bytes: &[u8]) -> Vec<SecretHit> {
        let mut hits = Hits::default();
        self.window(&Window { bytes, base: Addr::NULL, starts: 0..bytes.len(), zeros: false }, &mut hits);
        hits.kept
    }

    fn window(&self, window: &Window<'_>, out: &mut Hits) {
        let Some(finder) = self.finder.as_ref().filter(|_| !window.zeros) else { return };
        let mut scratch = std::mem::take(&mut out.scratch);
        texts(window.bytes, &window.starts, &mut scratch, |encoding, first, text| {
            let unit = if encoding == HitEncoding::Utf16 { 2 } else { 1 };
            for found in finder.find(text) {
                let at = first + found.at.start * unit;
                if !window.starts.contains(&at) {
                    continue;
                }
                if out.kept.len() >= limits::MAX_SECRETS {
                    out.dropped += 1;
                    continue;
                }
                out.kept.push(SecretHit {
                    address: window.base.saturating_add(at as u64),
                    encoding,
                    kind: found.kind,
                    checked: found.checked,
                    hash: self.key.hash_one(found.normal(text)),
                });
            }
        });
        out.scratch = scratch;
    }
}

/// Hits of one task.
#[derive(Default)]
struct Hits {
    kept: Vec<SecretHit>,
    dropped: u64,
    scratch: Vec<u8>,
}
