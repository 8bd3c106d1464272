//! The finding on a holder: amount and share, the owner, what it owns and how many.

use crate::addr::Addr;
use crate::analysis::roots::RuntimeRoots;
use crate::causes::holders::Users;
use crate::causes::holders::absent::{Absent, LARGE};
use crate::causes::holders::bounds::bound;
use crate::causes::holders::descent::Holder;
use crate::causes::holders::elements::beneath;
use crate::causes::holders::heaviest::heaviest;
use crate::causes::holders::naming::{Namer, is_local};
use crate::causes::holders::roots::RootName;
use crate::causes::ranking;
use crate::map::Confidence;
use crate::report::{Finding, Severity};
use crate::runtimes::api::TypeRole;
use crate::runtimes::graph::{Parent, TreeNode};
use crate::units::{count, exact, round};

/// Maximum number of types named below the elements, and maximum number of steps of a path.
const TYPES: usize = 2;
const WAY: usize = 6;

/// Minimum number of bytes outside of the heap that a sentence mentions.
const LARGE_OUTSIDE: u64 = 1 << 20;

/// Minimum share of a holder's bytes, in percent, of a type below the elements that is named.
const SHARE: u64 = 10;

pub(super) fn finding(
    namer: &mut Namer<'_, '_, '_, '_>,
    holder: &Holder,
    live: u64,
    rooted: &RuntimeRoots<'_>,
    (absent, not_there): (Absent, &str),
) -> Option<Finding> {
    let (&top, &container) = holder.top.first().zip(holder.container.first())?;
    let complete = rooted.not_read.is_empty();
    let root = root_text(namer, top);
    let field = namer.holder(container).or_else(|| namer.holder(top));
    let kind = namer.type_name(namer.tree.kind(container)).shown();
    let several = match holder.container.len() {
        1 => String::new(),
        count => format!("{} × ", exact(count as u64)),
    };
    let main = holder.elements.by_kind.first().copied();
    // If there are no elements, the variable retains the objects themselves.
    let is_all =
        main.is_some_and(|(of, count, _)| of == namer.tree.kind(container) && count == holder.container.len() as u64);
    let who = match &field {
        Some(field) if is_all => field.clone(),
        Some(field) => format!("{field} ({several}{kind})"),
        None => format!("{several}{kind} of {root}"),
    };
    let what = what(namer, holder);
    let note = main.and_then(|(kind, ..)| {
        let of_kind = |node: &&TreeNode| namer.tree.kind(**node) == kind;
        let sample = holder.elements.sample.iter().filter(of_kind);
        let elements: Vec<Addr> = sample.filter_map(|node| namer.tree.address(*node)).collect();
        namer.runtime.elements_note(kind, &elements)
    });
    let of_collection = || match holder.container.as_slice() {
        [one] => namer.tree.address(*one).and_then(|at| namer.runtime.collection_note(at)),
        _ => None,
    };
    let note = note.into_iter().chain(of_collection()).map(|note| format!(" {note}")).collect::<String>();
    let mut below = beneath(namer, &holder.container);
    below.retain(|(kind, _, bytes)| {
        let large = bytes.saturating_mul(100) >= holder.bytes.saturating_mul(SHARE);
        // Types that a compiler made for a lambda explain nothing.
        large && Some(*kind) != main.map(|main| main.0) && !is_of_a_lambda(&namer.type_name(*kind).to_string())
    });
    let inner: Vec<String> = below
        .into_iter()
        .take(TYPES)
        .map(|(kind, count, bytes)| format!("{} {} ({})", exact(count), namer.type_name(kind).shown(), round(bytes)))
        .collect();
    let inner = if inner.is_empty() { String::new() } else { format!("; in them {}", inner.join(", ")) };
    let heaviest = if holder.owns { heaviest(namer, holder) } else { String::new() };
    let inner = format!("{inner}{heaviest}");
    let verb = match (holder.owns, holder.freed) {
        (true, None) => "retains",
        (true, Some(_)) => "holds",
        (false, _) => "refers to",
    };
    let limited = limited(namer, holder);
    let limit = limited.as_ref().map_or_else(String::new, |limit| format!(" It is at its limit ({limit})."));
    let (buffers, outside) = namer.outside_of(&holder.container);
    let outside = if outside < LARGE_OUTSIDE { 0 } else { outside };
    let inner = match outside {
        0 => inner,
        bytes => format!("{inner}; {} of it outside of the heap, in {}", round(bytes), count(buffers, "buffer")),
    };
    let whole = match (complete, outside) {
        (true, 0) => "live objects",
        (false, 0) => "reached objects",
        (true, _) => "live objects and their buffers",
        (false, _) => "reached objects and their buffers",
    };
    let share = holder.bytes.saturating_mul(100).checked_div(live).unwrap_or(0);
    let (bytes, parts) = (holder.bytes.saturating_sub(absent.untouched), parts(absent, not_there));
    let freed = freed(holder);
    // The finding begins with its bytes.
    let all = if bytes == holder.bytes { String::new() } else { format!("{}, ", round(holder.bytes)) };
    let text = format!("{who} {verb} {what} ({all}{share} % of {whole}){inner}.{freed}{parts}{note}{limit}");
    let severity = if limited.is_some() {
        Severity::Info
    } else {
        ranking::of_holder(bytes.saturating_sub(absent.soft), live.saturating_sub(absent.untouched))
    };
    let address = namer.tree.address(container)?;
    let mut evidence = format!("ownership tree; {}", way(namer, container, &root));
    if !complete {
        evidence.push_str(&format!("; not read: {}", rooted.not_read.join(", ")));
    }
    let finding = Finding::new("retained", severity, text, evidence).about(bytes);
    let finding = finding.known(Confidence::Derived).more(format!("gcroot {address}"));
    // Buffers outside of the heap are malloc blocks.
    let within = if outside.saturating_mul(2) > holder.bytes { "malloc" } else { "managed-heap" };
    let finding = finding.within(within);
    let element = main.map(|main| namer.type_name(main.0).to_string()).unwrap_or_default();
    Some(finding.fingerprinted(format!("{} {element}", field.unwrap_or(root))))
}

/// Whether a compiler made a type for a lambda: C#'s `A+<>c__DisplayClass0_0`, Java's `A$$Lambda/0x…`.
fn is_of_a_lambda(name: &str) -> bool {
    name.contains("+<>c") || name.contains(".<>c") || name.contains("$$Lambda")
}

/// How much would be freed with the holder, if others refer to a part of what it owns.
fn freed(holder: &Holder) -> String {
    let Some(freed) = holder.freed else { return String::new() };
    format!(" Without it, {} would be freed: other references lead to the rest.", round(freed))
}

/// Returns the phrase on bytes of a holder that need no action.
fn parts(absent: Absent, not_there: &str) -> String {
    let mut text = String::new();
    if absent.untouched >= LARGE {
        text.push_str(&format!(" {} of it {not_there}.", round(absent.untouched)));
    }
    if absent.soft >= LARGE {
        let soft = round(absent.soft);
        text.push_str(&format!(" {soft} of it only through soft references, which are cleared when memory is short."));
    }
    text
}

/// Returns the elements with their number: those of the program, else the most frequent ones.
fn what(namer: &mut Namer<'_, '_, '_, '_>, holder: &Holder) -> String {
    let all = &holder.elements.by_kind;
    let mut own: Vec<_> = all.iter().filter(|(kind, ..)| namer.role(*kind) == TypeRole::Program).take(TYPES).collect();
    if own.is_empty() {
        own.extend(all.first());
    }
    let text = own.iter().map(|(kind, count, _)| format!("{} {}", exact(*count), namer.type_name(*kind).shown()));
    let text = text.collect::<Vec<_>>().join(", ");
    if text.is_empty() { "objects".to_owned() } else { text }
}

/// Returns the threads that use a holder's memory.
pub(super) fn users(namer: &mut Namer<'_, '_, '_, '_>, holder: &Holder, rooted: &RuntimeRoots<'_>) -> Users {
    let of_thread = |top: &TreeNode| match namer.root(*top) {
        Some(RootName::Thread(tid)) => Some(*tid),
        _ => None,
    };
    // Some threads may have no value.
    let nodes: &[TreeNode] = if holder.top.len() > 1 { &holder.container } else { &holder.top };
    let threads: Option<Vec<u32>> = nodes.iter().map(of_thread).collect();
    match threads {
        Some(mut tids) if tids.len() > 1 => {
            tids.sort_unstable();
            tids.dedup();
            Users { locals: tids, ..Users::default() }
        }
        _ => users_of(namer, holder, rooted),
    }
}

/// Returns the threads whose frames or own fields refer to a collection, or to an object of the program that has it.
fn users_of(namer: &mut Namer<'_, '_, '_, '_>, holder: &Holder, rooted: &RuntimeRoots<'_>) -> Users {
    let [container] = holder.container.as_slice() else { return Users::default() };
    let mut objects: Vec<Addr> = namer.tree.address(*container).into_iter().collect();
    let mut at = *container;
    // Users refer to a queue of the library, but not to the list inside it.
    let mut inside = true;
    while let Some(Parent::Object(up)) = namer.tree.parent(at).filter(|_| objects.len() < OWNERS) {
        inside &= namer.link(at).is_some_and(|link| !is_local(&link));
        match namer.role(namer.tree.kind(up)) {
            TypeRole::Program => objects.extend(namer.tree.address(up)),
            TypeRole::Library | TypeRole::Collection if inside => objects.extend(namer.tree.address(up)),
            TypeRole::Library | TypeRole::Collection | TypeRole::Part | TypeRole::ListNode | TypeRole::Hub => {}
        }
        at = up;
    }
    let mut tids: Vec<u32> =
        rooted.roots.iter().filter(|root| objects.contains(&root.object)).filter_map(|root| root.thread).collect();
    tids.sort_unstable();
    tids.dedup();
    Users { tids, objects, locals: Vec::new() }
}

/// Maximum number of objects by which users of a collection are recognised.
const OWNERS: usize = 3;

/// Returns the root of a path in words.
pub(super) fn root_text(namer: &Namer<'_, '_, '_, '_>, node: TreeNode) -> String {
    match namer.root(node) {
        Some(RootName::Static(name) | RootName::Other(name)) => name.to_string(),
        Some(RootName::Frame(Some(tid), Some(method))) => format!("a variable of {method} in thread {tid}"),
        Some(RootName::Frame(Some(tid), None)) => format!("a word on the stack of thread {tid}"),
        Some(RootName::Frame(None, _)) => "a stack".to_owned(),
        Some(RootName::Thread(tid)) => format!("thread {tid}"),
        Some(RootName::Kind(kind)) => format!("a root ({kind})"),
        Some(RootName::Unnamed) => "a static variable without a name".to_owned(),
        None => "an unknown root".to_owned(),
    }
}

/// Returns the path from the root to a node. A long path is cut in the middle.
fn way(namer: &mut Namer<'_, '_, '_, '_>, node: TreeNode, root: &str) -> String {
    let mut steps = Vec::new();
    let mut at = node;
    while let Some(Parent::Object(up)) = namer.tree.parent(at) {
        let link = if steps.len() < WAY { namer.link(at).unwrap_or_default() } else { String::new() };
        let kind = if steps.len() < WAY { namer.type_name(namer.tree.kind(at)).shown() } else { String::new() };
        steps.push(format!("{link} ({kind})"));
        at = up;
    }
    let more = steps.len().saturating_sub(WAY);
    steps.truncate(WAY);
    if more > 0 {
        steps.push("…".to_owned());
    }
    steps.push(root.to_owned());
    steps.reverse();
    steps.join(" → ")
}

/// Returns the limit of the collection: a field of it, or of the program's object that has it.
fn limited(namer: &mut Namer<'_, '_, '_, '_>, holder: &Holder) -> Option<String> {
    let [container] = holder.container.as_slice() else { return None };
    let count = holder.elements.count();
    let mut objects = vec![namer.tree.address(*container)?];
    let mut at = *container;
    while let Some(Parent::Object(up)) = namer.tree.parent(at) {
        let kind = namer.tree.kind(up);
        if namer.role(kind) == TypeRole::Program {
            objects.extend(namer.tree.address(up));
            break;
        }
        at = up;
    }
    bound(namer.runtime, &objects, count)
}
