//! Explains what retains a managed object, or native memory that an object owns.

use crate::addr::Addr;
use crate::commands::gcroot::{GcRootReport, gcroot};
use crate::commands::retained::{RetainedOptions, RetainedRow, retained};
use crate::commands::why::analysis::is_all_read;
use crate::commands::why::report::WhyReport;
use crate::map::Confidence;
use crate::report::{Kept, Name, RootPathRow};
use crate::session::Session;
use crate::units::{count, exact, human};

/// Number of objects named at each end of a long path.
const ENDS: usize = 3;

/// Explains the object at `object`.
pub(super) fn explain(session: &Session<'_>, report: &mut WhyReport, object: Addr) {
    let what = report.whatis.object.as_ref().map(|at| {
        let inside = if at.offset == 0 { "is" } else { "is inside" };
        format!("{} {inside} {}, {}", report.address, article(&at.name), human(at.size))
    });
    add_roots(session, report, object);
    let mut text = vec![what.unwrap_or_else(|| format!("{object} is an object")) + "."];
    text.push(kept_text(report, "it"));
    let options = RetainedOptions { object: Some(object), top: 0, ..RetainedOptions::default() };
    let found = retained(session, &options);
    add_missing(report, &found.not_read);
    report.dominators = found.dominators;
    report.retained = found.object.filter(|row| row.name.is_some());
    text.extend(retained_text(report));
    report.text = text.join(" ");
}

/// Explains native memory that a managed object owns.
pub(super) fn explain_owner(session: &Session<'_>, report: &mut WhyReport) {
    let Some(owner) = report.whatis.owner.clone() else { return };
    add_roots(session, report, owner.address);
    let field = owner.field.as_ref().map(|field| format!(", {}", field.shown())).unwrap_or_default();
    let owned = match &owner.buffer {
        Some(buffer) => format!(
            "{} is native memory of {} that {} at {} owns{field}.",
            report.address,
            human(buffer.size),
            article(&owner.name),
            owner.address
        ),
        // A word of the object points there, perhaps by chance.
        None => format!(
            "{} is native memory to which {} at {} points{field}.",
            report.address,
            article(&owner.name),
            owner.address
        ),
    };
    if owner.buffer.is_none() && report.kept == Kept::Reached {
        (report.kept, report.confidence) = (Kept::Perhaps, Some(Confidence::Heuristic));
    }
    report.text = format!("{owned} {}", kept_text(report, "that object"));
}

/// Adds the paths to `object`, and derives from them whether it is retained.
fn add_roots(session: &Session<'_>, report: &mut WhyReport, object: Addr) {
    let found = gcroot(session, object, false);
    report.object = Some(found.object);
    (report.kept, report.confidence) = judge(&found, is_all_read(session, &found.not_read));
    report.evidence = match found.paths.is_empty() {
        false => format!("shortest paths from {} roots, {} objects visited", exact(found.roots), exact(found.visited)),
        true => format!("a search from {} roots, {} objects visited", exact(found.roots), exact(found.visited)),
    };
    add_missing(report, &found.not_read);
    (report.paths, report.more_paths) = (found.paths, found.more);
}

fn add_missing(report: &mut WhyReport, not_read: &[String]) {
    for missing in not_read {
        if !report.not_read.contains(missing) {
            report.not_read.push(missing.clone());
        }
    }
}

fn judge(found: &GcRootReport, is_all_read: bool) -> (Kept, Option<Confidence>) {
    if found.paths.iter().any(|path| path.precise != Some(false)) {
        return (Kept::Reached, Some(Confidence::Derived));
    }
    match (found.paths.is_empty(), is_all_read) {
        (false, _) => (Kept::Perhaps, Some(Confidence::Heuristic)),
        // If the search reached its limit, it visited nothing or there may be more paths.
        (true, true) if found.visited > 0 && !found.more => (Kept::Unreached, Some(Confidence::Derived)),
        (true, _) => (Kept::Unknown, None),
    }
}

fn kept_text(report: &WhyReport, it: &str) -> String {
    let Some(path) = report.paths.first() else {
        return match report.kept {
            Kept::Unreached => format!("No root reaches {it}: a collection would free it."),
            _ => {
                let missing = match report.not_read.as_slice() {
                    [] => "not everything could be read".to_owned(),
                    missing => format!("not read: {}", missing.join(", ")),
                };
                format!("No root that was read reaches {it}, so what keeps {it} is unknown ({missing}).")
            }
        };
    };
    let chain: Vec<_> = path.chain.iter().map(|step| (step.name.as_ref(), step.field.as_ref())).collect();
    let unnamed = Name::from("?");
    let chain: Vec<_> = chain.into_iter().map(|(name, field)| (name.unwrap_or(&unnamed), field)).collect();
    let kept = path_text(&root_text(path), &chain);
    let others = (report.paths.len() as u64).saturating_sub(1);
    let others = match (others, report.more_paths) {
        (0, false) => " and by no other root that was read".to_owned(),
        (0, true) => ", and perhaps by other roots".to_owned(),
        (n, false) => format!(" and by {}", count(n, "more root")),
        (n, true) => format!(" and by at least {}", count(n, "more root")),
    };
    match report.kept {
        Kept::Perhaps => format!("Perhaps kept by {kept}{others}: only words lead to {it} that may be left over."),
        _ => format!("Kept by {kept}{others}."),
    }
}

fn retained_text(report: &WhyReport) -> Option<String> {
    let bytes = report.retained.as_ref()?.retained?;
    // The array of static variables dominates everything that they refer to. That explains nothing.
    let is_variable = |row: &RetainedRow| {
        report.retained.as_ref().is_some_and(|of| {
            of.dominator_field.as_deref().is_some_and(|f| variable(f).is_some()) && of.dominator == Some(row.object)
        })
    };
    let through = report
        .dominators
        .first()
        .filter(|row| !is_variable(row))
        .and_then(|row| Some((row.object, row.name.as_ref()?)));
    let through = through.map(|(at, name)| format!("; it would be freed with {} at {at}", article(name)));
    Some(format!("It retains {}{}.", human(bytes), through.unwrap_or_default()))
}

/// Returns the static or global variable that a link names. The link may also be an element in an array of statics:
/// `static Cache.all` or `[12] (static Cache.all)`. `None` if it names no variable.
fn variable(field: &str) -> Option<&str> {
    if ["static ", "global "].iter().any(|word| field.starts_with(word)) {
        return Some(field);
    }
    let at = field.find(" (static ")?;
    field.get(at + 2..)?.strip_suffix(')')
}

fn article(name: &Name) -> String {
    format!("an object of type {}", name.shown())
}

/// Returns the root of a path in words.
pub(super) fn root_text(path: &RootPathRow) -> String {
    let thread = path.thread.map(|tid| format!(" of thread {tid}")).unwrap_or_default();
    let method = path.frame.as_ref().and_then(|frame| frame.method.as_ref());
    let method = method.map(|method| format!(" in {method}")).unwrap_or_default();
    let name = path.root_name.as_ref().map(|name| format!(" ({name})")).unwrap_or_default();
    format!("{}{thread}{method}{name}", path.root_kind)
}

/// Returns a path in words: its root, then the objects with the fields that lead on. A long path is cut in the middle.
/// If a static variable has a name, the path begins there, because the array that stores it belongs to the runtime.
pub(super) fn path_text(root: &str, chain: &[(&Name, Option<&Name>)]) -> String {
    let named = |(i, step): (usize, &(&Name, Option<&Name>))| Some((i, variable(step.1?)?.to_owned()));
    let (root, chain) = match chain.iter().enumerate().find_map(named) {
        Some((i, name)) => (name, chain.get(i + 1..).unwrap_or_default()),
        None => (root.to_owned(), chain),
    };
    let mut words = vec![root];
    let len = chain.len();
    for (i, (name, field)) in chain.iter().enumerate() {
        if len > 2 * ENDS && (ENDS..len - ENDS).contains(&i) {
            if i == ENDS {
                words.push(format!("… {} …", count((len - 2 * ENDS) as u64, "more object")));
            }
            continue;
        }
        let field = field.map(|f| if f.starts_with(['[', '(']) { format!(" {f}") } else { format!(".{f}") });
        words.push(format!("{}{}", name.shown(), field.unwrap_or_default()));
    }
    words.join(" → ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_begins_with_the_variable() {
        let names = ["Class", "List", "Object[]", "Node"].map(Name::from);
        let [class, list, array, node] = &names;
        let fields = ["static App.all", "[3] (static App.all)", "_items", "[7]"].map(Name::from);
        let [field, element, items, seventh] = &fields;
        assert_eq!(path_text("sticky class", &[(class, Some(field)), (list, None)]), "static App.all → List");
        let path = [(array, Some(element)), (list, Some(items)), (array, Some(seventh)), (node, None)];
        assert_eq!(path_text("StrongHandle", &path), "static App.all → List._items → Object[] [7] → Node");
        assert_eq!(path_text("Stack of thread 5", &[(list, None)]), "Stack of thread 5 → List");
        let long: Vec<_> = (0..20).map(|_| (node, Some(items))).collect();
        assert!(path_text("Stack", &long).contains("→ … 14 more objects … →"));
    }
}
