//! The parallel pass over memory.

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
use crate::targets::{AHEAD, Target};
use crate::words::{HitEncoding, SecretKind};

/// Bytes before a secret that it may be judged by: the fields of a connection string, in UTF-16.
const BEFORE: usize = 2 << 10;

/// Bytes of the longest secret and of what is behind it: a private key in UTF-16.
const AFTER: usize = 32 << 10;

/// Bytes of one task, and of one window of it.
const TASK: u64 = 4 << 20;
const BLOCK: usize = 256 << 10;

/// Tasks whose hits are held at once.
const WAVE: usize = 32;

/// A place where something is that may be a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SecretHit {
    /// Where it begins, with what it is known by.
    pub address: Addr,
    /// The encoding of its text.
    pub encoding: HitEncoding,
    /// What it is.
    pub kind: SecretKind,
    /// Whether more than its form was looked at: a check digit, a checksum, what it decodes to.
    pub checked: bool,
    /// The same for equal secrets, under a key that is made for this scan, told nobody and gone with it.
    hash: u64,
}

/// What a scan comes to beside its hits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Secrets {
    /// Bytes of dumped memory looked at, holes of the file included.
    pub scanned: u64,
    /// Hits of [`limits::MAX_SECRETS`] in one piece of memory that were left out.
    pub dropped: u64,
}

/// A scan for secrets.
pub struct SecretScan {
    /// `None` could only be where the list of words is no good; a test looks.
    finder: Option<Finder>,
    key: RandomState,
}

/// Counts hits that differ, as far as there is room.
#[derive(Default)]
pub(crate) struct Distinct(HashSet<u64>, bool);

impl Distinct {
    /// One more.
    pub(crate) fn add(&mut self, hit: &SecretHit) {
        if self.0.len() < limits::MAX_DISTINCT_SECRETS {
            self.0.insert(hit.hash);
        } else if !self.0.contains(&hit.hash) {
            self.1 = true;
        }
    }

    /// How many differ; `None` where they are more than could be kept.
    pub(crate) fn count(&self) -> Option<u64> {
        (!self.1).then_some(self.0.len() as u64)
    }
}

impl Default for SecretScan {
    fn default() -> SecretScan {
        SecretScan { finder: Finder::new().ok(), key: RandomState::new() }
    }
}

impl SecretScan {
    /// Look at all dumped memory of `target`, and tell `each` hit in the order of addresses.
    pub fn memory(&self, target: &dyn Target, progress: &Progress, mut each: impl FnMut(&SecretHit)) -> Secrets {
        let _phase = target.reads().enter(Phase::Search);
        let reach = Reach { before: BEFORE, after: AFTER, back: 0 };
        let spans = Spans::of(target, reach, BLOCK);
        let near = spans.near_data();
        let scanned = spans.all().iter().map(AddrRange::len).sum();
        progress.start(near.iter().map(AddrRange::len).sum());
        target.expect_scan();
        let mut told = Secrets { scanned, dropped: 0 };
        let mut tasks = near.iter().flat_map(|range| cut(*range, TASK));
        loop {
            let wave: Vec<AddrRange> = tasks.by_ref().take(WAVE).collect();
            if wave.is_empty() {
                return told;
            }
            let task = |(i, task): (usize, &AddrRange)| {
                if let Some(later) = wave.get(i + AHEAD) {
                    target.expect_soon(*later);
                }
                let mut found = Hits::default();
                spans.windows(*task, |window| self.window(window, &mut found));
                progress.add(task.len());
                found
            };
            let found: Vec<Hits> = wave.par_iter().enumerate().map(task).collect();
            for hits in found {
                told.dropped += hits.dropped;
                hits.kept.iter().for_each(&mut each);
            }
        }
    }

    /// What bytes hold that are no memory: their addresses are places in them.
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

/// What one task found.
#[derive(Default)]
struct Hits {
    kept: Vec<SecretHit>,
    dropped: u64,
    scratch: Vec<u8>,
}
