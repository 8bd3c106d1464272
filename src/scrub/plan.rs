//! Decides which bytes stay.

use std::collections::{HashMap, HashSet};
use std::sync::Mutex;

use crate::addr::{Addr, AddrRange, WORD, union};
use crate::diag::WarningCode;
use crate::limits;
pub(super) use crate::map::kind_facts::Use;
use crate::map::{Kind, Region};
use crate::native::stacks::ThreadStack;
use crate::phase::Phase;
use crate::process::Process;
use crate::runtimes::api::anatomy::Anatomy;
use crate::scrub::addresses::LOW_END;
use crate::scrub::objects::{self, Objects};
use crate::scrub::{Fill, Kept, Names, Rule, blocks, debuggers, stacks};
use crate::session::Session;
use crate::targets::SecondView;
use crate::targets::byte_set::ByteSet;
use crate::targets::reads::ReadBytes;

/// A part of memory with one use.
#[derive(Clone, Copy, Debug)]
pub(super) struct MemoryPart {
    pub(super) range: AddrRange,
    /// Use of the memory.
    pub(super) used: Use,
    /// Kind of its region.
    pub(super) kind: Kind,
    /// Whether the core has any of its bytes.
    pub(super) is_held: bool,
    /// Whether the program could write to it.
    pub(super) is_writable: bool,
}

/// Level of scrubbing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Level {
    /// Values only.
    #[default]
    Values,
    /// Values, and the program's own names.
    Names,
}

impl Level {
    /// Returns the level's word.
    pub fn word(self) -> &'static str {
        match self {
            Level::Values => "values",
            Level::Names => "names",
        }
    }
}

/// The bytes of a core that stay.
pub struct Plan<'p> {
    pub(super) process: &'p Process,
    /// Parts of mapped memory by address, in whole words, without gaps.
    pub(super) parts: Vec<MemoryPart>,
    /// Seeds of the replacements of long texts, by address.
    pub(super) seeds: Mutex<HashMap<Addr, Option<u64>>>,
    pub(super) read: ReadBytes,
    pub(super) blocks: ByteSet,
    pub(super) objects: Objects<'p>,
    pub(super) stacks: ByteSet,
    pub(super) debuggers: ByteSet,
    /// Addresses of the guards of stacks and pointers. They are never preserved.
    pub(super) guards: Vec<AddrRange>,
    /// Guard values, each with its replacement. Functions copy the stack guard into their frames, and allocators
    /// compare copies.
    pub(super) guard_values: HashMap<u64, u64>,
    /// Mapped memory. A word that points there may be a pointer.
    pub(super) mapped: Vec<(u64, u64)>,
    /// Pages that are mapped twice.
    pub(super) views: Vec<SecondView>,
    /// Start addresses of named code and data at low addresses.
    pub(super) low_symbols: Vec<u64>,
    pub(super) fill: Fill,
    /// The program's own names, if names are overwritten too.
    pub(super) names: Option<Names>,
    /// Rules that are switched off.
    off: Vec<Rule>,
}

impl<'p> Plan<'p> {
    /// Makes a plan from the reads so far of a process whose reads are recorded byte by byte.
    pub fn new(session: &'p Session<'_>, names: &HashSet<String>, fill: Fill, level: Level) -> Plan<'p> {
        // The reads that find these bytes are recorded too, so their structures stay.
        let debuggers = {
            let _phase = session.process.enter(Phase::Modules);
            debuggers::all(session)
        };
        // Reads from here on locate things. They don't decide what stays.
        let mut read = session.process.reads().take_bytes().unwrap_or_default();
        let mut objects = objects::all(session, names);
        for why in &objects.given_up {
            session.process.diag.note(WarningCode::ScrubUnknown, why.clone());
        }
        let places = read.names.drain().chain(objects.named.drain(..)).collect();
        let own_names = (level == Level::Names).then(|| {
            let public: Vec<String> = anatomies(session).flat_map(|anatomy| anatomy.public_names()).collect();
            let notes = session.process.core().map(|core| core.note_bytes(limits::MAX_SHRUNK_NOTES).0);
            Names::new(session, places, &public, &notes.unwrap_or_default())
        });
        let blocks = blocks::all(session, &read);
        let (stacks, guards) = stacks::all(session);
        let views = session.second_views().to_vec();
        let mut low_symbols: Vec<u64> =
            session.symbols().starts_below(Addr::new(LOW_END)).into_iter().map(|at| at.since(Addr::NULL)).collect();
        low_symbols.sort_unstable();
        let guard_values = stacks::guard_values(session.process, &guards);
        let space = session.process.space();
        // NT_FILE alone lists mappings that a dump left out, and stacks point there.
        let files = space.files.iter().map(|file| file.range);
        let modules = session.process.modules.iter().map(|module| module.range);
        let mapped = union(space.mappings.iter().map(|m| m.range).chain(files).chain(modules).collect());
        let mapped = mapped.iter().map(|r| (r.start.since(Addr::NULL), r.end.since(Addr::NULL))).collect();
        Plan {
            process: session.process,
            parts: parts(session),
            seeds: Mutex::default(),
            read,
            blocks,
            objects,
            stacks,
            debuggers,
            guards,
            guard_values,
            mapped,
            views,
            low_symbols,
            fill,
            names: own_names,
            off: Vec::new(),
        }
    }

    /// Returns the replacements of names, if names are overwritten (`Names::table`).
    pub fn table_of_names(&self) -> Option<String> {
        self.names.as_ref().map(Names::table)
    }

    /// Switches a rule off, so that its bytes are preserved. A test that does not notice has no secret where the rule
    /// matters.
    pub fn without(&mut self, rule: Rule) {
        self.off.push(rule);
    }

    pub(super) fn has(&self, rule: Rule) -> bool {
        !self.off.contains(&rule)
    }
}

impl Rule {
    /// Returns the rule that overwrites memory of this use.
    pub(super) fn of(used: Use) -> Rule {
        match used {
            Use::Image => Rule::Images,
            Use::Structures => Rule::Structures,
            Use::Blocks => Rule::Blocks,
            Use::Objects => Rule::Objects,
            Use::Stack => Rule::Stacks,
            Use::Data => Rule::Data,
            Use::Dead => Rule::Dead,
        }
    }
}

impl Kept {
    /// Returns the reason for preserving bytes of memory of this use.
    pub(super) fn of(used: Use) -> Kept {
        match used {
            Use::Image => Kept::ProgramFiles,
            Use::Structures => Kept::RuntimeStructures,
            Use::Blocks => Kept::MallocStructures,
            Use::Objects => Kept::ObjectHeads,
            Use::Stack => Kept::ThreadRecords,
            Use::Data | Use::Dead => Kept::Found,
        }
    }
}

/// Returns the descriptions of objects of all runtimes that have them.
pub(super) fn anatomies<'s>(session: &'s Session<'_>) -> impl Iterator<Item = &'s dyn Anatomy> {
    session.runtimes().into_iter().filter_map(|runtime| runtime.anatomy())
}

/// Divides all memory by use. Objects may be in other memory too (frozen ones in images); their headers are preserved
/// there.
fn parts(session: &Session<'_>) -> Vec<MemoryPart> {
    let dead = union(session.stacks().list.iter().map(ThreadStack::left_over).collect());
    let mut out: Vec<MemoryPart> = Vec::new();
    let mut push = |start: Addr, end: Addr, used: Use, region: &Region| {
        // A word that two regions share belongs to the first.
        let start = out.last().map_or(start, |before| start.max(before.range.end));
        let end = end.align_up(WORD);
        if start < end {
            let range = AddrRange::new(start, end);
            let is_held = session.process.space().dumped_in(range) > 0;
            let is_writable = region.perms.is_some_and(|perms| perms.write);
            out.push(MemoryPart { range, used, kind: region.kind, is_held, is_writable });
        }
    };
    for region in session.map().regions.iter() {
        let used = region.kind.facts().scrub;
        let mut at = region.range.start.align_down(WORD);
        if used == Use::Stack {
            let first = dead.partition_point(|d| d.end <= at);
            for gone in dead.iter().skip(first).take_while(|d| d.start < region.range.end) {
                let Some(gone) = gone.intersect(&region.range) else { continue };
                push(at, gone.start, used, region);
                push(gone.start.align_down(WORD), gone.end, Use::Dead, region);
                at = gone.end.align_down(WORD);
            }
        }
        push(at, region.range.end, used, region);
    }
    out
}
