//! The section on threads: their activity and their stacks.

use std::collections::HashMap;
use std::fmt::Display;

use crate::commands::report::page::View;
use crate::commands::report::page::html::Html;
use crate::commands::report::page::sections::{command, left_out, rest_row};
use crate::commands::report::page::svg;
use crate::commands::report::page::table::{Cell, Table};
use crate::report::{StackState, ThreadRow};
use crate::targets::threads::tid_text;
use crate::units::{count, exact};

pub(super) fn threads(out: &mut Html, view: &View<'_>) {
    flames(out, view);
    groups(out, view);
    rows(out, view);
}

fn flames(out: &mut Html, view: &View<'_>) {
    out.leaf("h3", &[], "Merged stacks");
    out.leaf(
        "p",
        &[("class", &"note")],
        "Outermost frames are on top. Width is the number of threads. Consecutive frames without symbols are merged (…).",
    );
    let several = view.flames.len() > 1;
    if several {
        // Two radio buttons and a style rule switch between the pictures, without a script.
        for (at, (title, _)) in view.flames.iter().enumerate() {
            let id = flame_id(title);
            let input = format!("show-{id}");
            let shown = [("type", &"radio" as &dyn Display), ("name", &"flames"), ("id", &input), ("class", &"show")];
            let mut attributes = shown.to_vec();
            if at == 0 {
                attributes.push(("checked", &""));
            }
            out.open("input", &attributes);
            out.leaf("label", &[("for", &input)], title);
        }
    }
    for (title, merged) in view.flames {
        let id = flame_id(title);
        out.open("div", &[("class", &format!("flames of-{id}"))]);
        if !merged.common.is_empty() {
            let common = merged.common.join(" › ");
            out.leaf("p", &[("class", &"note")], format!("Common outermost frames: {common}"));
        }
        let dropped = svg::flame(out, id, title, merged, view.limits.flames);
        out.leaf("p", &[("class", &"line"), ("aria-live", &"polite"), ("data-of", &id)], "");
        if dropped > 0 {
            let text =
                format!("{} too narrow to draw are counted in the frames above.", count(dropped as u64, "frame"));
            out.leaf("p", &[("class", &"note")], text);
        }
        out.close("div");
    }
    command(out, view, "threads --group");
}

/// Id of a picture; the style sheet refers to it.
fn flame_id(title: &str) -> &'static str {
    if title.starts_with("managed") { "flame-managed" } else { "flame" }
}

fn groups(out: &mut Html, view: &View<'_>) {
    let stacks = &view.answers.stacks;
    let most = stacks.groups.iter().map(|g| g.reserved).max().unwrap_or(0).max(1) as f64;
    let mut table = Table::new(
        "groups",
        "Threads by activity",
        &[
            ("Threads", true),
            ("Activity", false),
            ("Reserved", true),
            ("Touched", true),
            ("In use", true),
            ("Reserved, touched, in use", false),
        ],
    );
    table.filter = true;
    for group in &stacks.groups {
        let part = |bytes: u64| bytes as f64 / most;
        table.rows.push(vec![
            Cell::Count(Some(group.count)),
            Cell::Text(group.does.clone().unwrap_or_else(|| "unknown".to_owned())),
            Cell::Size(Some(group.reserved)),
            Cell::Size(group.touched),
            Cell::Size(Some(group.in_use)),
            Cell::Bars(vec![part(group.reserved), part(group.touched.unwrap_or(0)), part(group.in_use)]),
        ]);
    }
    if let Some((rows, bytes)) = left_out(view, "stacks", "groups") {
        rest_row(
            &mut table,
            vec![Cell::Text(String::new()), Cell::Text(format!("{} more", exact(rows))), Cell::Size(bytes)],
        );
    }
    out.leaf("h3", &[], "Threads by activity");
    table.write(out);
}

fn rows(out: &mut Html, view: &View<'_>) {
    let stacks = &view.answers.stacks;
    let threads: HashMap<u32, &ThreadRow> = view.answers.threads.threads.iter().map(|t| (t.tid, t)).collect();
    let mut sorted: Vec<_> = stacks.stacks.iter().collect();
    sorted.sort_by_key(|s| (std::cmp::Reverse(s.crashed), std::cmp::Reverse(s.touched), s.tid));
    let most = sorted.iter().filter_map(|s| s.reserved).max().unwrap_or(0).max(1) as f64;
    let mut table = Table::new(
        "stacks",
        "Threads and their stacks",
        &[
            ("Thread", true),
            ("Name", false),
            ("Activity", false),
            ("State", false),
            ("Reserved", true),
            ("Touched", true),
            ("In use", true),
            ("Reserved, touched, in use", false),
            ("Confidence", false),
        ],
    );
    table.filter = true;
    for stack in sorted {
        let thread = stack.tid.and_then(|tid| threads.get(&tid));
        let managed = thread.and_then(|t| t.managed_name.clone());
        let part = |bytes: Option<u64>| bytes.unwrap_or(0) as f64 / most;
        let mut state: Vec<String> = Vec::new();
        if stack.crashed {
            let signal = thread.and_then(|t| t.signal_name.clone());
            state.push(format!("crashed{}", signal.map_or(String::new(), |s| format!(" by {s}"))));
        }
        state.extend(thread.and_then(|t| t.role).map(str::to_owned));
        state.extend(thread.and_then(|t| t.waits_for.as_ref()).map(|wait| match wait.owner_tid {
            Some(owner) => format!("waits for thread {}", tid_text(owner)),
            None => format!("waits: {}", wait.kind),
        }));
        let used_by = stack.used_by.map(|tid| format!("used by thread {}", tid_text(tid)));
        let does = stack.does.clone().or(used_by);
        let unused = match stack.state {
            StackState::Cached => Some("cached after its thread ended".to_owned()),
            StackState::Fiber => Some("fiber that waits".to_owned()),
            StackState::Inherited => Some("copied from the parent by fork".to_owned()),
            _ => None,
        };
        table.rows.push(vec![
            Cell::Id(stack.tid),
            Cell::Text(managed.or_else(|| stack.name.clone()).unwrap_or_default()),
            Cell::Text(does.or(unused).unwrap_or_else(|| "unknown".to_owned())),
            Cell::Text(state.join(", ")),
            Cell::Size(stack.reserved),
            Cell::Size(stack.touched),
            Cell::Size(stack.in_use),
            Cell::Bars(vec![part(stack.reserved), part(stack.touched), part(stack.in_use)]),
            stack.confidence.map_or(Cell::Text(String::new()), |c| Cell::Sure(c.name())),
        ]);
    }
    if let Some((rows, bytes)) = left_out(view, "stacks", "stacks") {
        let blank = || Cell::Text(String::new());
        let more = vec![blank(), Cell::Text(format!("{} more", exact(rows))), blank(), blank(), Cell::Size(bytes)];
        rest_row(&mut table, more);
    }
    let total = &stacks.total;
    let blank = || Cell::Text(String::new());
    rest_row(
        &mut table,
        vec![
            Cell::Text(String::new()),
            Cell::Text(format!("all {}", count(total.count, "stack"))),
            blank(),
            blank(),
            Cell::Size(Some(total.reserved)),
            Cell::Size(total.touched),
            Cell::Size(Some(total.in_use)),
        ],
    );
    out.leaf("h3", &[], "Threads and their stacks");
    table.write(out);
    command(out, view, "stacks --zero-fill");
}
