//! The section on the managed heap: types, retained memory, equal strings.

use std::collections::{BTreeMap, HashMap};

use crate::commands::report::page::View;
use crate::commands::report::page::html::Html;
use crate::commands::report::page::sections::{command, left_out, rest_row};
use crate::commands::report::page::table::{Cell, Table, percent};
use crate::commands::retained::DominatorNode;
use crate::sums::{SaturatingAdd, SaturatingSum};
use crate::units::{count, exact, human};

pub(super) fn heap(out: &mut Html, view: &View<'_>) {
    types(out, view);
    tree(out, view);
    objects(out, view);
    roots(out, view);
    strings(out, view);
}

fn types(out: &mut Html, view: &View<'_>) {
    let Some(heapstat) = &view.answers.heapstat else { return };
    // Types in two modules may have the same name, so name and MethodTable together identify the retained bytes.
    let mut kept: HashMap<(String, u64), u64> = HashMap::new();
    for row in view.answers.retained.iter().flat_map(|r| &r.types) {
        kept.insert((row.name.to_string(), row.method_table.get()), row.retained);
    }
    let generations: Vec<&'static str> = {
        let mut sums: BTreeMap<&'static str, u64> = BTreeMap::new();
        for part in heapstat.types.iter().flat_map(|t| &t.generations) {
            sums.entry(part.generation).or_default().add_saturating(part.size);
        }
        let mut names: Vec<_> = sums.into_iter().filter(|(_, bytes)| *bytes > 0).collect();
        names.sort_by_key(|&(name, bytes)| (std::cmp::Reverse(bytes), name));
        names.truncate(5);
        names.sort_unstable();
        names.into_iter().map(|(name, _)| name).collect()
    };
    let mut columns = vec![("Type", false), ("Objects", true), ("Bytes", true), ("Share", true), ("Retains", true)];
    columns.extend(generations.iter().map(|name| (*name, true)));
    let mut table = Table::new("types", "Types by size of their objects", &columns);
    table.filter = true;
    let whole = heapstat.total.size;
    for row in &heapstat.types {
        let keeps = kept.get(&(row.name.to_string(), row.method_table.get())).copied();
        let mut cells = vec![
            Cell::Code(row.name.to_string()),
            Cell::Count(Some(row.count)),
            Cell::Size(Some(row.size)),
            Cell::Share((whole > 0).then(|| row.size as f64 / whole as f64)),
            Cell::Size(keeps),
        ];
        cells.extend(generations.iter().map(|name| {
            let parts = row.generations.iter().filter(|part| part.generation == *name);
            Cell::Size(Some(parts.map(|part| part.size).saturating_sum()))
        }));
        table.rows.push(cells);
    }
    if let Some((rows, bytes)) = left_out(view, "heapstat", "types") {
        rest_row(
            &mut table,
            vec![Cell::Text(format!("{} more", exact(rows))), Cell::Text(String::new()), Cell::Size(bytes)],
        );
    }
    rest_row(
        &mut table,
        vec![Cell::Text("all".to_owned()), Cell::Count(Some(heapstat.total.objects)), Cell::Size(Some(whole))],
    );
    out.leaf("h3", &[], "Types");
    let text = "Bytes: size of the objects themselves. Retains: bytes that would be freed with all objects of the type (–: not among the largest).";
    out.leaf("p", &[("class", &"note")], text);
    if heapstat.lost.bytes > 0 {
        let lost = format!("{} could not be walked and are not counted.", human(heapstat.lost.bytes));
        out.leaf("p", &[("class", &"note warn")], lost);
    }
    table.write(out);
    command(out, view, "heapstat");
}

fn tree(out: &mut Html, view: &View<'_>) {
    let Some(tree) = view.answers.dominators.as_ref().filter(|tree| !tree.roots.is_empty()) else { return };
    out.leaf("h3", &[], "Dominator tree");
    let text = format!(
        "The dominator tree of {} of live objects. Freeing an object would free everything below it. Open a row to see its children.",
        human(tree.live)
    );
    out.leaf("p", &[("class", &"note")], text);
    out.open("ul", &[("class", &"tree"), ("id", &"dominators"), ("data-sum", &tree.live)]);
    tree.roots.iter().for_each(|node| node_of(out, node, tree.live));
    if tree.rest > 0 {
        out.leaf("li", &[("data-v", &tree.rest)], format!("{} in smaller entries", human(tree.rest)));
    }
    out.close("ul");
    command(out, view, "retained");
}

fn node_of(out: &mut Html, node: &DominatorNode, live: u64) {
    let run = if node.run > 1 { format!(" ×{}", exact(node.run)) } else { String::new() };
    let share = if live > 0 { percent(node.retained as f64 / live as f64) } else { String::new() };
    out.open("li", &[("data-v", &node.retained)]);
    let write = |out: &mut Html| {
        out.leaf("b", &[], human(node.retained)).leaf("span", &[("class", &"quiet")], format!(" {share} "));
        out.leaf("span", &[("class", &"code")], format!("{}{run}", node.name));
        out.leaf("span", &[("class", &"quiet")], format!(" {}", node.object));
    };
    if node.children.is_empty() {
        write(out);
    } else {
        // A node that retains most of the heap is open: the interesting object is where that ends.
        let most = node.retained.saturating_mul(2) >= live;
        out.open("details", if most { &[("open", &"")] } else { &[] }).open("summary", &[]);
        write(out);
        out.close("summary").open("ul", &[]);
        node.children.iter().for_each(|child| node_of(out, child, live));
        if node.rest > 0 {
            out.leaf("li", &[("class", &"quiet")], format!("{} in smaller entries", human(node.rest)));
        }
        out.close("ul").close("details");
    }
    out.close("li");
}

fn objects(out: &mut Html, view: &View<'_>) {
    let Some(retained) = view.answers.retained.as_ref().filter(|r| !r.objects.is_empty()) else { return };
    let mut table = Table::new(
        "objects",
        "Objects by retained size",
        &[("Object", false), ("Type", false), ("Own bytes", true), ("Retains", true), ("Retained by", false)],
    );
    table.filter = true;
    for row in retained.objects.iter().take(100) {
        let by = match (&row.dominator_type, &row.dominator_field, &row.root_kind) {
            (Some(name), Some(field), _) => format!("{name} through {field}"),
            (Some(name), None, _) => name.to_string(),
            (None, _, Some(root)) => root.clone(),
            (None, _, None) => String::new(),
        };
        table.rows.push(vec![
            Cell::Address(row.object),
            Cell::Code(row.name.as_ref().map(ToString::to_string).unwrap_or_default()),
            Cell::Size(row.size),
            Cell::Size(row.retained),
            Cell::Text(by),
        ]);
    }
    out.leaf("h3", &[], "Objects by retained size");
    table.write(out);
    command(out, view, "gcroot ADDRESS");
}

fn roots(out: &mut Html, view: &View<'_>) {
    let Some(retained) = view.answers.retained.as_ref().filter(|r| !r.roots.is_empty()) else { return };
    let columns = [("Retained by roots of one kind only", false), ("Roots", true), ("Bytes", true)];
    let mut table = Table::new("roots", "Bytes retained by roots", &columns);
    for row in &retained.roots {
        table.rows.push(vec![
            Cell::Text(row.root_kind.clone()),
            Cell::Count(Some(row.count)),
            Cell::Size(Some(row.retained)),
        ]);
    }
    table.foot.push(vec![
        Cell::Text("roots of several kinds".to_owned()),
        Cell::Text(String::new()),
        Cell::Size(Some(retained.several)),
    ]);
    table.foot.push(vec![
        Cell::Text(format!("all {}", count(retained.live.objects, "live object"))),
        Cell::Text(String::new()),
        Cell::Size(Some(retained.live.size)),
    ]);
    let dead = retained.unreachable.objects;
    let what = match retained.not_read.as_slice() {
        [] => count(dead, "unreachable object"),
        not_read => format!("{} not reached (not read: {})", count(dead, "object"), not_read.join(", ")),
    };
    table.foot.push(vec![
        Cell::Text(format!("{what}, in addition")),
        Cell::Text(String::new()),
        Cell::Size(Some(retained.unreachable.size)),
    ]);
    out.leaf("h3", &[], "Roots");
    table.write(out);
    command(out, view, "retained");
}

fn strings(out: &mut Html, view: &View<'_>) {
    let Some(strings) = view.answers.heapstat.as_ref().and_then(|heap| heap.strings.as_ref()) else { return };
    if strings.duplicates.is_empty() {
        return;
    }
    out.leaf("h3", &[], "Equal strings");
    let text = format!(
        "{} with {} different texts, unreachable ones included. Sharing equal strings would save {}.{}",
        count(strings.total.objects, "string"),
        exact(strings.distinct),
        human(strings.wasted),
        if view.show_data { "" } else { " Their texts are hidden (--show-data includes them)." }
    );
    out.leaf("p", &[("class", &"note")], text);
    let mut columns = vec![("Strings", true), ("Characters", true), ("Wasted", true), ("Example", false)];
    if view.show_data {
        columns.push(("Text", false));
    }
    let mut table = Table::new("strings", "Equal strings", &columns);
    for row in strings.duplicates.iter().take(50) {
        let mut cells = vec![
            Cell::Count(Some(row.count)),
            Cell::Count(Some(u64::from(row.length))),
            Cell::Size(Some(row.wasted)),
            Cell::Address(row.example),
        ];
        if view.show_data {
            cells.push(Cell::Code(row.value.clone()));
        }
        table.rows.push(cells);
    }
    table.write(out);
    command(out, view, "heapstat --strings");
}
