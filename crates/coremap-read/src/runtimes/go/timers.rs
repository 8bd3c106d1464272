//! Pending timers, by the function that they will call.
//!
//! Sources: time/sleep.go (`Timer`, `AfterFunc`), runtime/time.go (`timer`, `timeTimer`). Their types have fields with
//! names, so no offsets are needed.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use crate::addr::Addr;
use crate::facts::{Finding, Severity};
use crate::image::file_name;
use crate::map::Confidence;
use crate::runtimes::api::{
    AllocationSite, Heap as _, ManagedRuntime as _, MethodRole, RetainedSizes, TypeIndex, UnwalkedRanges,
};
use crate::runtimes::go::Go;
use crate::runtimes::go::heap::TypedBy;
use crate::runtimes::go::record::Record;
use crate::runtimes::go::types::{TypeKind, Types};
use crate::units::{count, round};

/// Types that contain a timer: before 1.23, and since.
const TYPES: [&str; 3] = ["time.Timer", "time.Ticker", "runtime.timeTimer"];

/// Functions of package time that create timers.
const MAKERS: [&str; 5] = ["time.After", "time.NewTimer", "time.AfterFunc", "time.NewTicker", "time.Tick"];

/// Functions that timers call: one sends the time to a channel, the other starts a function of the program.
const SENDS: &str = "time.sendTime";
const STARTS: &str = "time.goFunc";

/// Minimum number of timers for a finding.
const MANY: usize = 1000;

/// Maximum depth of structs in structs.
const MAX_DEPTH: u32 = 4;

/// Offsets of a timer's fields in an object.
#[derive(Clone, Copy)]
struct Offsets {
    when: u64,
    period: u64,
    function: u64,
    argument: u64,
}

/// What a timer calls: its function, the program's function that this starts, and whether the timer repeats.
type Called = (Arc<str>, Option<Arc<str>>, bool);

/// One kind of timers.
#[derive(Default)]
struct Group {
    timers: Vec<Addr>,
    due: Vec<u64>,
    /// Channels that the functions send the time to.
    channels: HashSet<Addr>,
}

/// Returns a finding for the largest group of pending timers.
pub(super) fn finding(go: &Go<'_>, retained: Option<&dyn RetainedSizes>) -> Option<Finding> {
    let heap = go.objects()?;
    let mut kinds: HashMap<TypeIndex, Option<(Offsets, u64)>> = HashMap::new();
    let mut groups: BTreeMap<Called, Group> = BTreeMap::new();
    let mut walker = heap.walker();
    for part in heap.ranges() {
        walker.walk(part, &mut UnwalkedRanges::default(), &mut |object| {
            let known = kinds.entry(object.kind).or_insert_with(|| {
                let Some(TypedBy::One(of)) = heap.typed_by(object.kind) else { return None };
                let name = go.types().get(of)?;
                let at = TYPES.contains(&&*name.name).then(|| offsets(go.types(), of, 0, MAX_DEPTH)).flatten()?;
                Some((at, name.size))
            });
            let Some((at, size)) = *known else { return };
            let Some(r) = Record::look(go.runtime().memory(), object.addr, size) else { return };
            let when = r.u64(at.when);
            let Some(function) = function_at(go, r.ptr(at.function)).filter(|_| when > 0 && when < FAR) else { return };
            let called = (*function == *STARTS).then(|| function_at(go, r.ptr(at.argument + 8))).flatten();
            let group = groups.entry((function, called, r.u64(at.period) > 0)).or_default();
            group.timers.push(object.addr);
            group.due.push(when);
            group.channels.insert(r.ptr(at.argument + 8));
        });
    }
    let ((function, called, repeats), mut group) = groups.into_iter().max_by_key(|(_, group)| group.timers.len())?;
    if group.timers.len() < MANY {
        return None;
    }
    group.due.sort_unstable();
    let due = group.due.get(group.due.len() / 2).copied().unwrap_or(0);
    let due = go.figures().last_collection.and_then(|last| due.checked_sub(last)).map(|ns| ns / 1_000_000_000);
    let due = due.map_or_else(String::new, |s| format!(", due {s} s after the last collection (median)"));
    let maker = match &called {
        Some(called) => format!(" that call {called}"),
        None => String::new(),
    };
    let place = go.allocation_profile().and_then(|profile| profile.sites.iter().find_map(place));
    let place = place.map_or_else(
        || {
            let waiter = go.waiter_on(&group.channels);
            waiter.map_or_else(String::new, |waiter| format!("; {waiter} waits for one of them"))
        },
        |place| format!(", made in {place}"),
    );
    let what = match (&*function, repeats) {
        (SENDS, false) => "timers (time.After, time.NewTimer: each with a chan time.Time)".to_owned(),
        (SENDS, true) => "tickers (time.NewTicker: each with a chan time.Time)".to_owned(),
        (STARTS, _) => "timers (time.AfterFunc)".to_owned(),
        (function, _) => format!("timers of {function}"),
    };
    let text = format!("{} are pending{maker}{place}{due}.", count_of(group.timers.len() as u64, &what));
    let bytes = retained.map(|sizes| sizes.sum_of(&group.timers));
    let text = bytes.map_or(text.clone(), |bytes| format!("{text} They retain {}.", round(bytes)));
    let evidence = "objects with a timer whose time has not come, by their function";
    let mut finding = Finding::new("timers", Severity::Info, text, evidence).known(Confidence::Exact);
    finding.bytes = bytes;
    Some(finding.within("managed-heap").more("allocations").fingerprinted(&function))
}

/// Upper bound on a timer's time. A stopped timer has no time, or the largest number.
const FAR: u64 = i64::MAX as u64;

fn count_of(n: u64, what: &str) -> String {
    // `count` adds the plural `s`.
    let number = count(n, "");
    format!("{} {what}", number.split(' ').next().unwrap_or_default())
}

/// Offsets of a timer's fields in a value of type `of`.
fn offsets(types: &Types<'_>, of: Addr, base: u64, depth: u32) -> Option<Offsets> {
    let found = types.get(of).filter(|found| found.kind == TypeKind::Struct)?;
    let depth = depth.checked_sub(1)?;
    let field = |name: &str| found.fields.iter().find(|field| &*field.name == name).map(|field| field.offset);
    if let (Some(when), Some(period), Some(function), Some(argument)) =
        (field("when"), field("period"), field("f"), field("arg"))
    {
        let at = |offset: u64| base.saturating_add(offset);
        return Some(Offsets { when: at(when), period: at(period), function: at(function), argument: at(argument) });
    }
    found.fields.iter().find_map(|field| offsets(types, field.of, base.saturating_add(field.offset), depth))
}

/// Returns the name of a closure's function.
fn function_at(go: &Go<'_>, closure: Addr) -> Option<Arc<str>> {
    let entry = Record::look(go.runtime().memory(), closure, 8)?.ptr(0);
    let func = go.all_code().functions()?.at(entry)?;
    Some(func.name.clone())
}

/// Returns the program's function that made the timers of a stack, with its line.
fn place(site: &AllocationSite) -> Option<String> {
    site.frames.iter().find(|frame| MAKERS.contains(&frame.method.name.as_str()))?;
    let own = site.frames.iter().find(|frame| frame.method.role == MethodRole::Program)?;
    let source = &own.position.source;
    let at = source.file.as_deref().zip(source.line);
    let at = at.map_or_else(String::new, |(file, line)| format!(" ({}:{line})", file_name(file)));
    Some(format!("{}{at}", own.method.name))
}
