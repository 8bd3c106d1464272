//! The tree behind the treemap: kinds, then owners, then details. Each box has its bytes in three measures, which add
//! up to the totals of `summary`.
//!
//! Regions are places. The use of a place (types in a generation, blocks in malloc's heaps) is counted in objects, not
//! in pages. So it is stored beside the places, and drawn only if it fits into what the core contains of them.

use std::collections::{BTreeMap, HashMap};

use serde::Serialize;

use crate::addr::Addr;
use crate::commands::report::gather::Answers;
use crate::commands::report::pictures::{Family, Look};
use crate::map::Kind;
use crate::map::kind_facts::Grouping;
use crate::report::{ClusterContent, ClusterRow, RegionRow};
use crate::sums::{SaturatingAdd, SaturatingSum};
use crate::units::{count, human, round};

/// Bytes of a box: written, in the core, and address space.
pub(in crate::commands::report) type Measures = [u64; 3];

/// A box of the treemap.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(in crate::commands::report) struct TreemapBox {
    #[serde(rename = "n")]
    pub(in crate::commands::report) name: String,
    /// CSS class of its colour. Empty for the colour of the enclosing box.
    #[serde(rename = "f", skip_serializing_if = "str::is_empty")]
    pub(in crate::commands::report) class: &'static str,
    /// Bytes: written, in the core, and address space.
    #[serde(rename = "b")]
    pub(in crate::commands::report) bytes: Measures,
    /// The places within. They add up to this box.
    #[serde(rename = "c", skip_serializing_if = "Vec::is_empty")]
    pub(in crate::commands::report) children: Vec<TreemapBox>,
    /// Its uses, counted in objects. Drawn instead of the places if they fit.
    #[serde(rename = "u", skip_serializing_if = "Vec::is_empty")]
    pub(in crate::commands::report) contents: Vec<TreemapBox>,
    /// Name for what remains besides the uses.
    #[serde(rename = "r", skip_serializing_if = "str::is_empty")]
    pub(in crate::commands::report) remainder_name: &'static str,
}

impl TreemapBox {
    fn leaf(name: impl Into<String>, bytes: Measures) -> TreemapBox {
        TreemapBox { name: name.into(), bytes, ..TreemapBox::default() }
    }

    /// Boxes to draw within this one by `measure`, largest first.
    pub(in crate::commands::report) fn children_for(&self, measure: usize) -> Vec<TreemapBox> {
        let of = |b: &TreemapBox| b.bytes.get(measure).copied().unwrap_or(0);
        let whole = of(self);
        let used: u64 = self.contents.iter().map(of).fold(0, u64::saturating_add);
        let mut drawn = self.children.clone();
        if used > 0 && used <= whole {
            drawn = self.contents.clone();
            if whole > used {
                drawn.push(TreemapBox::leaf(self.remainder_name, [whole - used; 3]));
            }
        } else if measure == 0 && used > 0 && used <= self.bytes.get(1).copied().unwrap_or(0) {
            // Objects and blocks may include zero pages. They exceed the written bytes, but still explain them.
            drawn = self.contents.clone();
        }
        drawn.retain(|b| of(b) > 0);
        drawn.sort_by(|a, b| of(b).cmp(&of(a)).then_with(|| a.name.cmp(&b.name)));
        drawn
    }
}

/// Builds the tree of all mapped memory, with at most `most` children in each box.
pub(in crate::commands::report) fn build(answers: &Answers, most: usize) -> TreemapBox {
    let stacks = Stacks::of(answers);
    let mut kinds: BTreeMap<Kind, BTreeMap<String, BTreeMap<String, Measures>>> = BTreeMap::new();
    for (at, row) in answers.regions.regions.iter().enumerate() {
        let (owner, detail) = place(row, &stacks);
        let sum = kinds.entry(row.kind).or_default().entry(owner).or_default().entry(detail).or_default();
        add(sum, [answers.written.get(at).copied().unwrap_or(0), row.in_core, row.size]);
    }
    let mut whole = TreemapBox { name: "all memory".to_owned(), ..TreemapBox::default() };
    for (kind, owners) in kinds {
        let owners = owners.into_iter().map(|(name, details)| {
            let title = if kind == Kind::Stack { stacks.counted(&name, details.len()) } else { name.clone() };
            let details = details.into_iter().map(|(name, bytes)| TreemapBox::leaf(name, bytes)).collect();
            let mut owner = with_children(title, details, most);
            // A single detail that repeats its owner is omitted.
            if owner.children.len() == 1 && owner.children.iter().all(|d| d.name.is_empty() || d.name == owner.name) {
                owner.children.clear();
            }
            if kind == Kind::GCHeap {
                (owner.contents, owner.remainder_name) = (types(answers, &name, most), "free and unused");
            }
            owner
        });
        let mut kind_box = with_children(kind.name().to_owned(), owners.collect(), most);
        kind_box.class = Family::of(kind).class();
        (kind_box.contents, kind_box.remainder_name) = contents(answers, kind, most);
        add(&mut whole.bytes, kind_box.bytes);
        whole.children.push(kind_box);
    }
    whole
}

fn add(sum: &mut Measures, more: Measures) {
    for (sum, more) in sum.iter_mut().zip(more) {
        *sum = sum.saturating_add(more);
    }
}

/// Makes a box of its children. The largest remain, the others are merged into one.
fn with_children(name: String, mut children: Vec<TreemapBox>, most: usize) -> TreemapBox {
    let mut whole = TreemapBox { name, ..TreemapBox::default() };
    children.iter().for_each(|b| add(&mut whole.bytes, b.bytes));
    // Sorted by written bytes first, because reserved memory is large but empty.
    children.sort_by(|a, b| b.bytes.cmp(&a.bytes).then_with(|| a.name.cmp(&b.name)));
    let others = children.split_off(most.min(children.len()));
    if !others.is_empty() {
        let mut rest = TreemapBox { name: format!("{} more", others.len()), ..TreemapBox::default() };
        others.iter().for_each(|b| add(&mut rest.bytes, b.bytes));
        children.push(rest);
    }
    whole.children = children;
    whole
}

/// Owner and detail of a region.
fn place(row: &RegionRow, stacks: &Stacks<'_>) -> (String, String) {
    let detail = row.detail.to_string();
    let base = |path: &str| path.rsplit('/').next().unwrap_or(path).to_owned();
    let by_detail = |detail: String| {
        let shorter = detail.strip_prefix(row.kind.name()).map(|rest| rest.trim_start_matches(" of ").to_owned());
        (shorter.filter(|rest| !rest.is_empty()).unwrap_or(detail), String::new())
    };
    match row.kind.facts().group {
        Grouping::Activity => (stacks.does(row.start), detail),
        Grouping::Section => match detail.rsplit_once(' ') {
            Some((file, section)) => (file.to_owned(), section.to_owned()),
            None => (detail, String::new()),
        },
        Grouping::Generation => match detail.rsplit_once(' ') {
            Some((heap, generation)) => (generation.to_owned(), heap.to_owned()),
            None => (detail, String::new()),
        },
        Grouping::Arena if detail.starts_with("mmapped chunk ") => {
            ("chunks with a separate mapping".to_owned(), detail)
        }
        Grouping::Arena if detail.starts_with("arena ") => ("thread arenas".to_owned(), detail),
        Grouping::File => (row.file.as_ref().map_or_else(|| base(&detail), |file| base(file)), String::new()),
        Grouping::Guard => ("stack guards".to_owned(), detail),
        Grouping::Access if detail.is_empty() => (format!("mappings {}", row.perms), row.start.to_string()),
        Grouping::Arena | Grouping::Access | Grouping::Detail => by_detail(detail),
    }
}

/// Stacks by address, with the activity of their threads.
struct Stacks<'a> {
    rows: Vec<(Addr, Addr, &'a str)>,
}

impl<'a> Stacks<'a> {
    fn of(answers: &'a Answers) -> Stacks<'a> {
        let rows = answers.stacks.stacks.iter();
        let mut rows: Vec<_> =
            rows.filter_map(|s| Some((s.low?, s.high?, s.does.as_deref().unwrap_or_default()))).collect();
        rows.sort_unstable();
        Stacks { rows }
    }

    fn does(&self, at: Addr) -> String {
        let next = self.rows.partition_point(|(low, ..)| *low <= at);
        let found = next.checked_sub(1).and_then(|i| self.rows.get(i)).filter(|(_, high, _)| at < *high);
        found.map_or("", |(_, _, does)| does).to_owned()
    }

    /// Formats a group of stacks: `22 threads: Monitor.Wait`.
    fn counted(&self, does: &str, stacks: usize) -> String {
        let what = if does.is_empty() { "unknown activity" } else { does };
        format!("{}: {what}", count(stacks as u64, "thread"))
    }
}

/// Uses of a kind, and the name for what remains.
fn contents(answers: &Answers, kind: Kind, most: usize) -> (Vec<TreemapBox>, &'static str) {
    if kind == Kind::Malloc {
        blocks(answers, most)
    } else if kind == Kind::PyMalloc {
        small_blocks(answers)
    } else if kind.is_anonymous() {
        (anonymous(answers, kind, most), "other mappings")
    } else {
        Default::default()
    }
}

/// Used malloc blocks, and the name for what remains.
fn blocks(answers: &Answers, most: usize) -> (Vec<TreemapBox>, &'static str) {
    let Some(malloc) = &answers.malloc else { return Default::default() };
    // Blocks of other allocators have another kind.
    let shown = || malloc.clusters.iter().filter(|c| c.allocator.is_none()).take(most);
    let mut blocks: Vec<TreemapBox> = shown().map(|c| TreemapBox::leaf(cluster(c), [c.bytes; 3])).collect();
    let title: u64 = shown().map(|c| c.bytes).saturating_sum();
    match malloc.libc.used_bytes.checked_sub(title) {
        Some(0) => {}
        Some(rest) => blocks.push(TreemapBox::leaf("other used blocks", [rest; 3])),
        None => return Default::default(),
    }
    (blocks, "free blocks and malloc structures")
}

/// Used blocks of obmalloc by size, and the name for what remains.
fn small_blocks(answers: &Answers) -> (Vec<TreemapBox>, &'static str) {
    let Some(small) = answers.malloc.as_ref().and_then(|m| m.pymalloc.as_ref()) else {
        return Default::default();
    };
    let classes = small.classes.iter().filter(|c| c.blocks_used > 0).map(|c| {
        let name = format!("{} of {} bytes", count(c.blocks_used, "block"), c.size);
        TreemapBox::leaf(name, [c.blocks_used.saturating_mul(c.size); 3])
    });
    (classes.collect(), "free blocks, free pools and headers")
}

/// Equal blocks in anonymous memory of one kind.
fn anonymous(answers: &Answers, kind: Kind, most: usize) -> Vec<TreemapBox> {
    let regions = &answers.regions.regions;
    let of_kind = |at: Addr| {
        let next = regions.partition_point(|r| r.start <= at);
        next.checked_sub(1).and_then(|i| regions.get(i)).is_some_and(|r| r.kind == kind)
    };
    let clusters = answers.anon.clusters.iter().filter(|c| of_kind(c.example)).take(most).map(|c| {
        let with = c.filled_with.as_deref().map_or(String::new(), |with| format!(", {with}"));
        // The table shows the whole path from the root.
        let owner = c.owner.as_deref().and_then(|owner| owner.split([' ', ',']).next());
        let owner = owner.filter(|o| *o != "data").map_or(String::new(), |owner| format!(", of {owner}?"));
        let name = format!("{} of {}{with}{owner}", count(c.count, "block"), round(c.size));
        TreemapBox::leaf(name, [c.written, c.in_core, c.bytes])
    });
    clusters.collect()
}

/// Describes equal blocks in words.
pub(in crate::commands::report) fn cluster(row: &ClusterRow) -> String {
    let blocks = format!("{} of {}", count(row.count, "block"), human(row.size));
    let what = match (row.kind, row.fill, &row.symbol) {
        (_, _, Some(symbol)) => format!(", each begins with a pointer to {symbol}"),
        (ClusterContent::Zero, ..) => ", all zero".to_owned(),
        (ClusterContent::Fill, Some(byte), _) => format!(", filled with byte {byte:#04x}"),
        (ClusterContent::Word, ..) if row.count > 1 => ", each begins with the same word".to_owned(),
        _ => String::new(),
    };
    let category = row.category.as_deref().map_or(String::new(), |category| format!(" ({category})"));
    format!("{blocks}{what}{category}")
}

/// Types of the objects in one generation.
fn types(answers: &Answers, generation: &str, most: usize) -> Vec<TreemapBox> {
    let Some(heapstat) = &answers.heapstat else { return Vec::new() };
    let mut sums: HashMap<&str, u64> = HashMap::new();
    for row in heapstat.types.iter().filter(|row| &*row.name != "Free") {
        for part in row.generations.iter().filter(|part| part.generation == generation) {
            sums.entry(&*row.name).or_default().add_saturating(part.size);
        }
    }
    let types =
        sums.into_iter().filter(|(_, bytes)| *bytes > 0).map(|(name, bytes)| TreemapBox::leaf(name, [bytes; 3]));
    let all = with_children(String::new(), types.collect(), most);
    all.children
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uses_are_drawn_where_they_fit_and_the_rest_is_told() {
        let contents = vec![TreemapBox::leaf("a type", [30; 3])];
        let children = vec![TreemapBox::leaf("heap 0", [20, 40, 90])];
        let gen0 =
            TreemapBox { bytes: [20, 40, 90], contents, children, remainder_name: "free", ..TreemapBox::default() };
        let names = |measure| gen0.children_for(measure).into_iter().map(|b| (b.name, b.bytes)).collect::<Vec<_>>();
        // 30 bytes of objects do not fit into 20 written bytes, but into the 40 in the core: 10 of them are zeros.
        assert_eq!(names(0), [("a type".to_owned(), [30; 3])]);
        let nowhere = TreemapBox { bytes: [20, 25, 90], ..gen0.clone() };
        assert_eq!(nowhere.children_for(0).first().map(|b| b.name.as_str()), Some("heap 0"));
        assert_eq!(names(1), [("a type".to_owned(), [30; 3]), ("free".to_owned(), [10; 3])]);
        assert_eq!(names(2), [("free".to_owned(), [60; 3]), ("a type".to_owned(), [30; 3])]);
    }

    #[test]
    fn what_is_too_much_becomes_one_box_and_no_byte_is_lost() {
        let children = (1..=10).map(|n| TreemapBox::leaf(n.to_string(), [n, n, n])).collect();
        let whole = with_children("all".into(), children, 3);
        assert_eq!(whole.bytes, [55; 3]);
        assert_eq!(whole.children.last().map(|b| (b.name.as_str(), b.bytes)), Some(("7 more", [28; 3])));
        assert_eq!(whole.children.iter().map(|b| b.bytes.iter().sum::<u64>()).sum::<u64>(), 165);
    }
}
