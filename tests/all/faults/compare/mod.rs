//! Compares an answer for which one read failed with the undisturbed one: what
//! may be missing, and what would be wrong.

mod commands;

use coremap::addr::AddrRange;
use coremap::map::{Confidence, Kind};
use serde_json::Value;

/// A region's label.
pub(crate) struct Place {
    pub(crate) range: AddrRange,
    pub(crate) kind: Kind,
    pub(crate) confidence: Confidence,
}

/// What a run answered.
pub(crate) struct Answer {
    pub(crate) body: Value,
    pub(crate) places: Vec<Place>,
    pub(crate) partial: bool,
    pub(crate) reads: u64,
}

/// How an answer differs.
#[derive(Default)]
pub(crate) struct Differences {
    /// Anything but warnings.
    pub(crate) differ: bool,
    /// What must not be, in words that are equal for equal mistakes.
    pub(crate) wrong: Vec<String>,
}

/// Warnings of headers and notes, which name what they lost in their own words.
const OPENING: [&str; 3] = ["headers", "notes-cut", "note-unread"];

/// Which phases say that a read of theirs failed, with its address.
pub(crate) fn told(answer: &Answer, whole: &Answer) -> Vec<String> {
    let before = whole.body["warnings"].as_array().unwrap();
    let new = answer.body["warnings"].as_array().unwrap().iter().filter(|w| !before.contains(w));
    new.filter_map(|w| {
        let (code, message) = (w["code"].as_str()?, w["message"].as_str()?);
        if OPENING.contains(&code) {
            return Some(code.to_owned());
        }
        let (phase, rest) = message.split_once(": ").filter(|_| code == "read-failed")?;
        let (address, rest) = rest.split_once(": ")?;
        assert!(address.starts_with("0x") && rest.contains("could not be read there; "), "{message}");
        assert_ne!(phase, "answer", "a phase has no name: {message}");
        Some(phase.to_owned())
    })
    .collect()
}

/// Compare an answer with the undisturbed one.
pub(crate) fn differences(command: &str, answer: &Answer, whole: &Answer) -> Differences {
    let mut out = Differences::default();
    let (a, b) = (&answer.body, &whole.body);
    let without = |body: &Value| {
        let mut body = body.clone();
        body.as_object_mut().unwrap().remove("warnings");
        body
    };
    out.differ = without(a) != without(b);
    envelope(&a["core"], &b["core"], &mut out.wrong);
    labels(&answer.places, &whole.places, &mut out.wrong);
    match command {
        "summary" => commands::summary(a, b, &mut out.wrong),
        "heapstat" => commands::heapstat(a, b, &mut out.wrong),
        _ => commands::threads(a, b, &mut out.wrong),
    }
    out.wrong.sort_unstable();
    out.wrong.dedup();
    out
}

/// What the headers and notes say: equal or unknown.
fn envelope(a: &Value, b: &Value, wrong: &mut Vec<String>) {
    for field in ["path", "size", "packed", "arch", "pid", "truncated"] {
        equal_or_unknown(&a[field], &b[field], &format!("core.{field}"), wrong);
    }
    if a["producer"] != b["producer"] && a["producer"] != "unknown" {
        wrong.push(format!("producer is {} and not {}", a["producer"], b["producer"]));
    }
    no_more(&a["threads"], &b["threads"], "core.threads", wrong);
    let known = b["runtimes"].as_array().unwrap();
    for runtime in a["runtimes"].as_array().unwrap() {
        let Some(same) = known.iter().find(|r| r["base"] == runtime["base"]) else {
            wrong.push(format!("a runtime at {}", runtime["base"]));
            continue;
        };
        // Without the list of files, a library is known by its own name.
        let short = |v: &Value| v["module"].as_str().unwrap_or_default().to_owned();
        if !short(same).ends_with(&short(runtime)) {
            wrong.push(format!("runtime.module is {}", runtime["module"]));
        }
        for field in ["name", "version", "gc"] {
            equal_or_unknown(&runtime[field], &same[field], &format!("runtime.{field}"), wrong);
        }
    }
}

/// Equal, or not known.
pub(crate) fn equal_or_unknown(a: &Value, b: &Value, what: &str, wrong: &mut Vec<String>) {
    if a != b && !a.is_null() && a != "" {
        wrong.push(format!("{what} is {a} and not {b}"));
    }
}

/// A number that is at most the whole one.
pub(crate) fn no_more(a: &Value, b: &Value, what: &str, wrong: &mut Vec<String>) {
    if a.is_null() {
        return;
    }
    if a.as_u64().unwrap() > b.as_u64().unwrap_or(0) {
        wrong.push(format!("{what} is more than the whole: {a}, {b}"));
    }
}

/// Each place has its label, or a coarser one.
fn labels(a: &[Place], b: &[Place], wrong: &mut Vec<String>) {
    let (mut i, mut j) = (0, 0);
    while let (Some(x), Some(y)) = (a.get(i), b.get(j)) {
        if x.range.intersect(&y.range).is_some() && x.kind != y.kind && !coarser(x, y) {
            wrong.push(format!("{} was {}", x.kind.name(), y.kind.name()));
        }
        if x.range.end <= y.range.end {
            i += 1;
        }
        if y.range.end <= x.range.end {
            j += 1;
        }
    }
}

/// Whether a label says less than another, of the same place: that of its mapping
/// alone, or, of the kernel's own image, that it is one.
fn coarser(a: &Place, b: &Place) -> bool {
    use Kind::{
        AnonRO, AnonRW, AnonRWX, AnonRX, GCHeap, GCHeapReserve, GCHeapToBeFreed, HighFrequencyHeap, Image,
        LowFrequencyHeap, MappedFile, NoAccess, SharedMemory, Stack, Vdso,
    };
    let plain = matches!(a.kind, AnonRO | AnonRW | AnonRX | AnonRWX | NoAccess | MappedFile | SharedMemory);
    // Where its control block could not be read, a stack is guessed by its mapping,
    // which the kernel may have joined with a neighbour.
    let guessed = a.kind == Stack && a.confidence == Confidence::Heuristic;
    // The GC's reserve is what its regions lie in, those in use and those that are not.
    let reserve = a.kind == GCHeapReserve && matches!(b.kind, GCHeap | GCHeapToBeFreed);
    // Heaps of a loader allocator are reserved in one piece: without the one, its part
    // is the other's.
    let beside = (a.kind, b.kind) == (LowFrequencyHeap, HighFrequencyHeap);
    plain && a.kind.specificity() < b.kind.specificity()
        || (a.kind, b.kind) == (Image, Vdso)
        || guessed
        || reserve
        || beside
}
