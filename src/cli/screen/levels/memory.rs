//! The lists of the map: kinds, owners within one kind, and regions.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use coremap::map::Kind;
use coremap::map::kind_facts::{Contents, Subject};
use coremap::program::units::{exact, human};
use coremap::report::{Name, RegionRow};

use crate::cli::screen::level::{Column, Level, Opens, Row, Sort, at};
use crate::cli::screen::levels::View;
use crate::cli::screen::look::Map;

/// Maximum number of rows of a list. Smaller rows are merged, because a map may have a million regions.
const MOST: usize = 20_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cli::screen) enum Measure {
    /// Resident bytes.
    Resident,
    /// Bytes in pages that are not all zero.
    Written,
    /// Bytes in the core; for a running process, bytes that a core would contain.
    InCore,
    Mapped,
}

impl Measure {
    /// Measures that are known for a map, most useful first.
    pub(in crate::cli::screen) fn known(map: &Map) -> Vec<Measure> {
        let scanned = map.regions.regions.iter().all(|region| region.written.is_some());
        let mut all = Vec::new();
        all.extend(map.summary.rss.is_some().then_some(Measure::Resident));
        all.extend(scanned.then_some(Measure::Written));
        all.extend([Measure::InCore, Measure::Mapped]);
        all
    }

    /// Returns the column title.
    pub(in crate::cli::screen) fn name(self) -> &'static str {
        match self {
            Measure::Resident => "RSS",
            Measure::Written => "Written",
            Measure::InCore => "In core",
            Measure::Mapped => "Mapped",
        }
    }

    fn bytes(self, sum: &Sum) -> Option<u64> {
        match self {
            Measure::Resident => sum.rss,
            Measure::Written => sum.written,
            Measure::InCore => Some(sum.in_core),
            Measure::Mapped => Some(sum.size),
        }
    }
}

/// Sum over several regions.
#[derive(Clone, Copy, Debug)]
struct Sum {
    count: u64,
    size: u64,
    in_core: u64,
    /// `None` if it is unknown for any of the regions.
    written: Option<u64>,
    rss: Option<u64>,
}

impl Default for Sum {
    fn default() -> Sum {
        Sum { count: 0, size: 0, in_core: 0, written: Some(0), rss: Some(0) }
    }
}

impl Sum {
    fn add(&mut self, region: &RegionRow) {
        self.count += 1;
        self.size = self.size.saturating_add(region.size);
        self.in_core = self.in_core.saturating_add(region.in_core);
        let plus = |(sum, more): (u64, u64)| sum.saturating_add(more);
        self.written = self.written.zip(region.written).map(plus);
        self.rss = self.rss.zip(region.rss).map(plus);
    }

    fn of<'a>(regions: impl Iterator<Item = &'a RegionRow>) -> Sum {
        let mut sum = Sum::default();
        regions.for_each(|region| sum.add(region));
        sum
    }
}

pub(super) fn level(map: &Map, view: View<'_>) -> Option<Level> {
    let known = Measure::known(map);
    let usual = known.first().copied().unwrap_or(Measure::InCore);
    let list = List { measure: view.measure.filter(|measure| known.contains(measure)).unwrap_or(usual) };
    let regions = || map.regions.regions.iter();
    let asked = view.path.last().and_then(|key| regions().find(|region| at(region.start) == *key));
    if let Some(region) = asked.filter(|region| has_objects(region)) {
        return Some(asked_of(region));
    }
    let level = match view.path {
        [] if view.grouping == 1 => list.of_regions(regions().collect(), true),
        [] => list.of_kinds(map),
        [kind, rest @ ..] => {
            let kind = Kind::from_name(kind)?;
            let inside: Vec<&RegionRow> = regions().filter(|region| region.kind == kind).collect();
            let mut owners: BTreeMap<&Name, Vec<&RegionRow>> = BTreeMap::new();
            for &region in &inside {
                owners.entry(owner(region)).or_default().push(region);
            }
            match rest {
                // If all regions have one owner, or each has its own, a list of owners would be useless.
                [] if owners.len() == 1 || owners.len() == inside.len() => list.of_regions(inside, false),
                [] => list.of_owners(owners),
                [name, ..] => {
                    let (_, of_one) = owners.into_iter().find(|(owner, _)| ***owner == **name)?;
                    list.of_regions(of_one, false)
                }
            }
        }
    };
    Some(level.with_shares())
}

/// Whether objects of a managed runtime are in a region.
fn has_objects(region: &RegionRow) -> bool {
    region.kind.facts().subject == Subject::ManagedHeap && region.kind.facts().contents == Contents::Objects
}

/// Lists the commands for a region of a managed heap.
fn asked_of(region: &RegionRow) -> Level {
    let start = at(region.start);
    let ask = |key: &str, name: &str, words: &[&str]| Row {
        key: key.to_owned(),
        name: name.to_owned(),
        command: Some(words.iter().map(|&word| word.to_owned()).collect()),
        opens: Opens::Command,
        ..Row::default()
    };
    let rows = vec![
        ask("types", "Objects by type", &["heapstat", "--region", &start]),
        ask("objects", "List of the objects", &["objects", "--region", &start]),
        ask("whatis", "What the region is, with the evidence", &["whatis", &start]),
    ];
    let note = format!("{} - {}, {}", region.start, region.end, region.detail);
    Level { noun: "question", name: "Question", rows, sort: Sort::Given, note: Some(note), ..Level::default() }
}

/// Owner of a region: its file, or else its detail.
fn owner(region: &RegionRow) -> &Name {
    region.file.as_ref().unwrap_or(&region.detail)
}

/// File name of a path.
fn last_part(path: &str) -> &str {
    path.strip_prefix('/').and_then(|rest| rest.rsplit('/').next()).filter(|name| !name.is_empty()).unwrap_or(path)
}

struct List {
    measure: Measure,
}

impl List {
    /// Columns for the other measures.
    fn columns(&self, counted: bool) -> Vec<Column> {
        let count = counted.then(|| Column::number("Regions", 5));
        let sums = [(Measure::InCore, 3), (Measure::Mapped, 4)];
        let sums = sums.into_iter().filter(|(measure, _)| *measure != self.measure);
        sums.map(|(measure, rank)| Column::number(measure.name(), rank)).chain(count).collect()
    }

    fn cells(&self, sum: &Sum, counted: bool) -> Vec<String> {
        let count = counted.then(|| exact(sum.count));
        let sums = [(Measure::InCore, sum.in_core), (Measure::Mapped, sum.size)];
        let sums = sums.into_iter().filter(|(measure, _)| *measure != self.measure);
        sums.map(|(_, bytes)| human(bytes)).chain(count).collect()
    }

    fn row(&self, key: &str, sum: &Sum) -> Row {
        Row {
            key: key.to_owned(),
            name: key.to_owned(),
            bytes: self.measure.bytes(sum),
            count: Some(sum.count),
            about: figures(sum),
            ..Row::default()
        }
    }

    fn of_kinds(&self, map: &Map) -> Level {
        let mut written: BTreeMap<Kind, Option<u64>> = BTreeMap::new();
        for region in &map.regions.regions {
            let sum = written.entry(region.kind).or_insert(Some(0));
            *sum = sum.zip(region.written).map(|(sum, more)| sum.saturating_add(more));
        }
        let row = |kind: &coremap::commands::summary::KindRow| {
            let name = kind.kind.name();
            let written = written.get(&kind.kind).copied().flatten();
            let sum =
                Sum { count: kind.count, size: kind.size, in_core: kind.in_core, written, rss: kind.resident.rss };
            let mut row = self.row(name, &sum);
            row.cells = self.cells(&sum, true);
            row.about.push(("largest", human(kind.largest)));
            let figures = [
                ("PSS", kind.resident.pss),
                ("private dirty", kind.resident.private_dirty),
                ("shared", kind.resident.shared),
                ("swap", kind.resident.swap),
                ("huge pages", kind.resident.huge),
                ("RSS estimated", kind.resident.rss_estimated.filter(|bytes| *bytes > 0)),
            ];
            row.about.extend(figures.into_iter().filter_map(|(what, bytes)| Some((what, human(bytes?)))));
            row.opens = Opens::Level;
            row.command = Some(vec!["regions".into(), "--kind".into(), name.into()]);
            row
        };
        Level {
            noun: "kind",
            measure: self.measure.name(),
            name: "Kind",
            columns: self.columns(true),
            rows: map.summary.kinds.iter().map(row).collect(),
            ..Level::default()
        }
    }

    fn of_owners(&self, owners: BTreeMap<&Name, Vec<&RegionRow>>) -> Level {
        let mut sums: Vec<(&Name, Sum, Vec<&RegionRow>)> =
            owners.into_iter().map(|(owner, of)| (owner, Sum::of(of.iter().copied()), of)).collect();
        sums.sort_by_key(|(_, sum, _)| Reverse(self.measure.bytes(sum)));
        let rest = sums.split_off(sums.len().min(MOST));
        let row = |(owner, sum, of): &(&Name, Sum, Vec<&RegionRow>)| match of.as_slice() {
            [one] => Row { cells: self.cells(sum, true), ..self.region(one, false) },
            _ => {
                let mut row = self.row(owner, sum);
                row.name = if owner.is_empty() { "(no known owner)".to_owned() } else { last_part(owner).to_owned() };
                if row.name != ***owner {
                    row.about.insert(0, ("file", owner.to_string()));
                }
                row.cells = self.cells(sum, true);
                row.opens = Opens::Level;
                row
            }
        };
        let mut rows: Vec<Row> = sums.iter().map(row).collect();
        rows.extend(self.rest(rest.iter().flat_map(|(_, _, of)| of.iter().copied()), true));
        let columns = self.columns(true);
        Level { noun: "owner", measure: self.measure.name(), name: "Owner", columns, rows, ..Level::default() }
    }

    fn of_regions(&self, mut regions: Vec<&RegionRow>, kinds: bool) -> Level {
        regions.sort_by_key(|region| (Reverse(self.measure.bytes(&Sum::of([*region].into_iter()))), region.start));
        let rest = regions.split_off(regions.len().min(MOST));
        let mut rows: Vec<Row> = regions.iter().map(|region| self.region(region, kinds)).collect();
        rows.extend(self.rest(rest.iter().copied(), false).map(|mut row| {
            row.cells.extend(vec![String::new(); if kinds { 3 } else { 2 }]);
            row
        }));
        let mut columns = self.columns(false);
        columns.push(Column::text("Perms", 6));
        columns.push(Column::text("Start", 5));
        if kinds {
            columns.push(Column::text("Kind", 2));
        }
        let (noun, name) = ("region", "Detail");
        Level { noun, measure: self.measure.name(), name, columns, rows, ..Level::default() }
    }

    fn region(&self, region: &RegionRow, kinds: bool) -> Row {
        let sum = Sum::of([region].into_iter());
        let start = at(region.start);
        let mut row = self.row(&start, &sum);
        let named = [Some(&region.detail), region.file.as_ref()].into_iter().flatten().find(|name| !name.is_empty());
        row.name = named.map_or_else(|| start.clone(), |name| name.to_string());
        row.cells = self.cells(&sum, false);
        row.cells.extend([region.perms.clone(), start.clone()]);
        if kinds {
            row.cells.push(region.kind.name().to_owned());
        }
        row.about.insert(0, ("range", format!("{} - {}", region.start, region.end)));
        row.about.insert(1, ("kind", format!("{} ({})", region.kind, region.confidence.name())));
        row.about.push(("perms", region.perms.clone()));
        let estimated = region.rss_estimated.filter(|bytes| *bytes > 0);
        row.about.extend(estimated.map(|bytes| ("RSS estimated", human(bytes))));
        if let Some(file) = region.file.as_ref().filter(|file| **file != region.detail) {
            row.about.push(("file", file.to_string()));
        }
        row.opens = if has_objects(region) { Opens::Questions } else { Opens::Command };
        row.command = Some(vec!["whatis".into(), start]);
        row
    }

    /// The row for regions beyond the longest list.
    fn rest<'a>(&self, regions: impl Iterator<Item = &'a RegionRow>, counted: bool) -> Option<Row> {
        let sum = Sum::of(regions);
        (sum.count > 0).then(|| Row {
            name: format!("{} more smaller regions", exact(sum.count)),
            cells: self.cells(&sum, counted),
            ..self.row("(rest)", &sum)
        })
    }
}

fn figures(sum: &Sum) -> Vec<(&'static str, String)> {
    let exactly = |bytes: u64| format!("{} bytes", exact(bytes));
    let mut about = vec![("mapped", exactly(sum.size)), ("in core", exactly(sum.in_core))];
    about.extend(sum.written.map(|written| ("written", exactly(written))));
    about.extend(sum.rss.map(|rss| ("RSS", exactly(rss))));
    about
}
