//! The section on native memory: malloc's heaps, equal blocks, leaks, owners, and memory without a known owner.

use crate::commands::malloc::MallocReport;
use crate::commands::report::page::View;
use crate::commands::report::page::html::Html;
use crate::commands::report::page::sections::{command, left_out, rest_row};
use crate::commands::report::page::table::{Cell, Table};
use crate::commands::report::pictures::boxes::cluster;
use crate::report::ClusterRow;
use crate::sums::SaturatingSum;
use crate::units::{count, exact, human};

pub(super) fn native(out: &mut Html, view: &View<'_>) {
    match &view.answers.malloc {
        Some(malloc) => {
            arenas(out, view, malloc);
            sizes(out, malloc);
            small(out, malloc);
            categories(out, malloc);
            out.leaf("h3", &[], "Used blocks of equal size and content");
            clusters(out, "clusters", &malloc.clusters);
            command(out, view, "malloc");
        }
        None => {
            out.leaf("p", &[("class", &"note")], "No malloc heap with readable blocks was found in this core.");
        }
    }
    leaks(out, view);
    holders(out, view);
    anon(out, view);
}

fn arenas(out: &mut Html, view: &View<'_>, malloc: &MallocReport) {
    let total = &malloc.total;
    let names: Vec<String> = malloc.allocators.iter().map(|a| format!("{} in {}", a.name, a.module)).collect();
    if !names.is_empty() {
        out.leaf("p", &[("class", &"note")], format!("Allocators: {}.", names.join(", ")));
    }
    let text = format!(
        "{} used in {}, {} free in {}; malloc_trim(0) would return {} to the system.",
        human(total.used_bytes),
        count(total.used, "block"),
        human(total.free_bytes.saturating_add(total.top)),
        count(total.free, "chunk"),
        human(total.trimmable)
    );
    out.leaf("p", &[], text);
    let mut table = Table::new(
        "arenas",
        "malloc arenas",
        &[
            ("Arena", false),
            ("Threads", true),
            ("Committed", true),
            ("Used", true),
            ("Free", true),
            ("Top", true),
            ("Other", true),
            ("Trimmable", true),
            ("Confidence", false),
        ],
    );
    for arena in &malloc.arenas {
        let known = arena.used_bytes + arena.free_bytes + arena.top;
        table.rows.push(vec![
            Cell::Code(if arena.main { format!("{} (main)", arena.address) } else { arena.address.to_string() }),
            Cell::Count(arena.attached_threads),
            Cell::Size(Some(arena.committed)),
            Cell::Size(Some(arena.used_bytes)),
            Cell::Size(Some(arena.free_bytes)),
            Cell::Size(Some(arena.top)),
            Cell::Size(Some(arena.committed.saturating_sub(known))),
            Cell::Size(Some(arena.trimmable)),
            Cell::Sure(arena.confidence.name()),
        ]);
    }
    if let Some((rows, bytes)) = left_out(view, "malloc", "arenas") {
        let text = Cell::Text(format!("{} more", exact(rows)));
        rest_row(&mut table, vec![text, Cell::Text(String::new()), Cell::Size(bytes)]);
    }
    if malloc.mmapped.count > 0 {
        let text = format!("{} with a separate mapping", count(malloc.mmapped.count, "block"));
        rest_row(&mut table, vec![Cell::Text(text), Cell::Text(String::new()), Cell::Size(Some(malloc.mmapped.bytes))]);
    }
    for other in &malloc.others {
        rest_row(
            &mut table,
            vec![
                Cell::Text(other.name.clone()),
                Cell::Text(String::new()),
                Cell::Size(Some(other.committed)),
                Cell::Size(Some(other.used.bytes)),
                Cell::Size(Some(other.free.bytes)),
            ],
        );
    }
    rest_row(
        &mut table,
        vec![
            Cell::Text("all".to_owned()),
            Cell::Text(String::new()),
            Cell::Size(Some(total.committed)),
            Cell::Size(Some(total.used_bytes)),
            Cell::Size(Some(total.free_bytes)),
            Cell::Size(Some(total.top)),
        ],
    );
    out.leaf("h3", &[], "Arenas");
    table.write(out);
    let Some(ng) = malloc.mallocng.as_ref().filter(|ng| !ng.classes.is_empty()) else { return };
    let columns = [
        ("Slot size", true),
        ("Groups", true),
        ("Used slots", true),
        ("Used", true),
        ("Requested", true),
        ("Free", true),
    ];
    let mut table = Table::new("classes", "Size classes of mallocng", &columns);
    for class in &ng.classes {
        table.rows.push(vec![
            Cell::Size(Some(class.slot)),
            Cell::Count(Some(class.groups)),
            Cell::Count(Some(class.used)),
            Cell::Size(Some(class.used_bytes)),
            Cell::Size(Some(class.asked)),
            Cell::Size(Some(class.free_bytes)),
        ]);
    }
    table.write(out);
}

fn sizes(out: &mut Html, malloc: &MallocReport) {
    if malloc.sizes.is_empty() {
        return;
    }
    let most = malloc.sizes.iter().map(|s| s.used_bytes.saturating_add(s.free_bytes)).max().unwrap_or(0).max(1) as f64;
    let mut table = Table::new(
        "sizes",
        "Blocks by size",
        &[
            ("Up to", true),
            ("Used blocks", true),
            ("Used", true),
            ("Free blocks", true),
            ("Free", true),
            ("Used of all", false),
        ],
    );
    for row in &malloc.sizes {
        let all = row.used_bytes.saturating_add(row.free_bytes) as f64;
        table.rows.push(vec![
            Cell::Size(Some(row.size_class)),
            Cell::Count(Some(row.used)),
            Cell::Size(Some(row.used_bytes)),
            Cell::Count(Some(row.free)),
            Cell::Size(Some(row.free_bytes)),
            Cell::Bars(vec![all / most, row.used_bytes as f64 / most]),
        ]);
    }
    let total = &malloc.total;
    rest_row(
        &mut table,
        vec![
            Cell::Text("all".to_owned()),
            Cell::Count(Some(total.used)),
            Cell::Size(Some(total.used_bytes)),
            Cell::Count(Some(total.free)),
            Cell::Size(Some(total.free_bytes)),
        ],
    );
    out.leaf("h3", &[], "Blocks by size");
    table.write(out);
}

fn small(out: &mut Html, malloc: &MallocReport) {
    let Some(small) = &malloc.pymalloc else { return };
    let text = format!(
        "{} in {}: {} used, {} free in pools in use, {} in free pools.",
        human(small.committed),
        count(small.arenas, "arena"),
        human(small.bytes_used),
        human(small.bytes_free),
        human(small.bytes_free_pools)
    );
    out.leaf("h3", &[], format!("Small blocks: {}", small.name)).leaf("p", &[], text);
    let columns = [("Block", true), ("Used blocks", true), ("Used", true), ("Free blocks", true), ("Free", true)];
    let mut table = Table::new("small", "Small blocks by size", &columns);
    for class in small.classes.iter().filter(|c| c.pools > 0) {
        table.rows.push(vec![
            Cell::Size(Some(class.size)),
            Cell::Count(Some(class.blocks_used)),
            Cell::Size(Some(class.size.saturating_mul(class.blocks_used))),
            Cell::Count(Some(class.blocks_free)),
            Cell::Size(Some(class.size.saturating_mul(class.blocks_free))),
        ]);
    }
    table.write(out);
}

fn categories(out: &mut Html, malloc: &MallocReport) {
    let Some(noted) = &malloc.categories else { return };
    let columns = [("Category", false), ("Blocks", true), ("Bytes", true), ("Requested", true)];
    let mut table = Table::new("categories", "Used blocks by category", &columns);
    for row in &noted.categories {
        table.rows.push(vec![
            Cell::Text(row.name.clone()),
            Cell::Count(Some(row.blocks.count)),
            Cell::Size(Some(row.blocks.bytes)),
            Cell::Size(Some(row.asked)),
        ]);
    }
    rest_row(
        &mut table,
        vec![
            Cell::Text("no category".to_owned()),
            Cell::Count(Some(noted.others.count)),
            Cell::Size(Some(noted.others.bytes)),
        ],
    );
    out.leaf("h3", &[], format!("Used blocks by category: {}", noted.whose));
    table.write(out);
}

fn clusters(out: &mut Html, id: &'static str, clusters: &[ClusterRow]) {
    let columns = [("Blocks", false), ("Count", true), ("Bytes", true), ("Each", true), ("Example", false)];
    let mut table = Table::new(id, "Blocks of equal size and content", &columns);
    table.filter = id == "clusters";
    for row in clusters.iter().take(60) {
        table.rows.push(vec![
            Cell::Text(cluster(row)),
            Cell::Count(Some(row.count)),
            Cell::Size(Some(row.bytes)),
            Cell::Size(Some(row.size)),
            Cell::Address(row.example),
        ]);
    }
    if let Some(rest) = clusters.get(60..).filter(|rest| !rest.is_empty()) {
        rest_row(
            &mut table,
            vec![
                Cell::Text(format!("{} more", exact(rest.len() as u64))),
                Cell::Count(Some(rest.iter().map(|r| r.count).saturating_sum())),
                Cell::Size(Some(rest.iter().map(|r| r.bytes).saturating_sum())),
            ],
        );
    }
    table.write(out);
}

fn leaks(out: &mut Html, view: &View<'_>) {
    let Some(leaks) = &view.answers.leaks else { return };
    out.leaf("h3", &[], "Unreachable malloc blocks");
    let complete = if leaks.complete {
        ""
    } else {
        " Not proof of a leak: some memory is missing from this core and may contain pointers to them."
    };
    let text = format!(
        "{} of {} in {} are unreachable.{complete}",
        human(leaks.leaked.bytes),
        human(leaks.used.bytes),
        count(leaks.leaked.count, "block")
    );
    out.leaf("p", &[], text);
    if !leaks.clusters.is_empty() {
        clusters(out, "leaks", &leaks.clusters);
    }
    command(out, view, "leaks");
}

fn holders(out: &mut Html, view: &View<'_>) {
    let Some(holders) = view.answers.holders.as_ref() else { return };
    if !holders.buffers.is_empty() {
        let columns = [("Type", false), ("Field", false), ("Memory", false), ("Objects", true), ("Bytes", true)];
        let mut table = Table::new("buffers", "Native memory that objects own", &columns);
        for row in &holders.buffers {
            table.rows.push(vec![
                Cell::Code(row.name.to_string()),
                Cell::Code(row.field.to_string()),
                Cell::Text(row.memory.to_string()),
                Cell::Count(Some(row.objects)),
                Cell::Size(Some(row.bytes)),
            ]);
        }
        out.leaf("h3", &[], "Native memory that objects own");
        table.write(out);
    }
    if !holders.holders.is_empty() {
        let columns = [
            ("Type", false),
            ("Field", false),
            ("Objects", true),
            ("malloc blocks", true),
            ("Bytes", true),
            ("Mappings", true),
        ];
        let mut table = Table::new("holders", "Types whose objects point at native memory", &columns);
        table.filter = true;
        for row in &holders.holders {
            let name = |name: &Option<crate::report::Name>| name.as_ref().map(ToString::to_string).unwrap_or_default();
            table.rows.push(vec![
                Cell::Code(name(&row.name)),
                Cell::Code(name(&row.field)),
                Cell::Count(Some(row.objects)),
                Cell::Count(Some(row.malloc.count)),
                Cell::Size(Some(row.malloc.bytes)),
                Cell::Size(Some(row.mmap.bytes)),
            ]);
        }
        out.leaf("h3", &[], "Types whose objects point at native memory");
        table.write(out);
        command(out, view, "holders");
    }
}

fn anon(out: &mut Html, view: &View<'_>) {
    let anon = &view.answers.anon;
    if anon.clusters.is_empty() {
        return;
    }
    let columns = [
        ("Blocks", true),
        ("Each", true),
        ("Bytes", true),
        ("Written", true),
        ("Content", false),
        ("Owner (guess)", false),
        ("Example", false),
    ];
    let mut table = Table::new("anon", "Anonymous memory with no known owner", &columns);
    for row in &anon.clusters {
        table.rows.push(vec![
            Cell::Count(Some(row.count)),
            Cell::Size(Some(row.size)),
            Cell::Size(Some(row.bytes)),
            Cell::Size(Some(row.written)),
            Cell::Text(row.filled_with.clone().unwrap_or_default()),
            Cell::Text(row.owner.clone().unwrap_or_default()),
            Cell::Address(row.example),
        ]);
    }
    out.leaf("h3", &[], "Anonymous memory with no known owner");
    let text = format!(
        "{} in {}; owners are guessed from the pointers to it.",
        human(anon.size),
        count(anon.regions, "mapping")
    );
    out.leaf("p", &[("class", &"note")], text);
    table.write(out);
    command(out, view, "anon");
}
