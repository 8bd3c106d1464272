//! What points at the blocks of a cluster, and which of these is most likely
//! the owner.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashSet};

use crate::addr::Addr;
use crate::commands::anon::analysis::Cluster;
use crate::commands::anon::report::{BlockClusterRow, OwnerRow};
use crate::commands::gcroot::{GcRootReport, gcroots};
use crate::commands::refs::RefRow;
use crate::map::Kind;
use crate::report::{ChainRow, Name, PointerSource, RootPathRow};
use crate::session::Session;
use crate::units::exact;

/// Maximum number of owners listed.
const MAX_LISTED: usize = 5;

/// Minimum share of the blocks that an owner points at, in percent.
const MIN_SHARE_PERCENT: u64 = 80;

/// Prefix of the names of static variables.
const STATIC: &str = "static ";

/// Maximum number of steps shown of a path. Of a longer one, both ends are
/// shown.
const MAX_STEPS: usize = 4;

/// Properties shared by words that one owner may have written.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    from: PointerSource,
    name: Option<String>,
    field: Option<String>,
    module: Option<String>,
}

#[derive(Default)]
struct Group<'r> {
    blocks: BTreeSet<Addr>,
    objects: HashSet<Addr>,
    example: Option<&'r RefRow>,
}

/// Groups the words of `rows` that point at the starts of the blocks.
pub(super) fn of(cluster: &Cluster, rows: &[RefRow]) -> Vec<OwnerRow> {
    let starts: HashSet<Addr> = cluster.blocks.iter().map(|b| b.start).collect();
    let mut groups: BTreeMap<Key, Group<'_>> = BTreeMap::new();
    for row in rows.iter().filter(|r| starts.contains(&r.value)) {
        let module =
            (row.kind == Some(Kind::Image)).then(|| row.detail.split(' ').next().unwrap_or_default().to_owned());
        let key = Key {
            from: row.from,
            name: row.name.as_ref().map(|n| n.to_string()),
            field: row.field.as_ref().map(|f| without_index(f)),
            module,
        };
        let group = groups.entry(key).or_default();
        group.blocks.insert(row.value);
        group.objects.extend(row.object);
        group.example = group.example.or(Some(row));
    }
    let mut out: Vec<OwnerRow> = groups
        .into_iter()
        .map(|(key, group)| OwnerRow {
            from: key.from,
            name: group.example.and_then(|r| r.name.clone()),
            field: key.field.filter(|f| !f.is_empty()).map(Name::from),
            module: key.module,
            blocks: group.blocks.len() as u64,
            objects: group.objects.len() as u64,
            example: group.example.and_then(|r| r.address),
            object: group.example.and_then(|r| r.object),
            root: None,
        })
        .collect();
    out.sort_by_key(|o| (o.from.is_dead(), Reverse(o.blocks), o.objects));
    out.truncate(MAX_LISTED);
    out
}

/// Adds the path from a root to the first owner of each cluster, if that is a
/// single object.
pub(super) fn add_roots(session: &Session<'_>, clusters: &mut [BlockClusterRow]) {
    let single = |c: &BlockClusterRow| c.owners.first().filter(|o| o.objects == 1).and_then(|o| o.object);
    let objects: Vec<Addr> = clusters.iter().filter_map(single).collect();
    if objects.is_empty() {
        return;
    }
    let mut reports = gcroots(session, &objects, false).into_iter();
    for cluster in clusters.iter_mut().filter(|c| single(c).is_some()) {
        if let (Some(owner), Some(report)) = (cluster.owners.first_mut(), reports.next()) {
            owner.root = root(&report);
        }
    }
}

/// Describes what retains an object.
fn root(report: &GcRootReport) -> Option<String> {
    // A static variable explains more than a stack that refers to it at the
    // moment.
    let says = |p: &&RootPathRow| {
        let field = |c: &ChainRow| c.field.as_ref().is_some_and(|f| f.contains(STATIC));
        (!p.chain.iter().any(field), p.root_kind.starts_with("Stack"), p.chain.len())
    };
    let path = report.paths.iter().min_by_key(says)?;
    let thread = path.thread.map(|t| format!(" of thread {t}")).unwrap_or_default();
    let mut steps: Vec<String> = path
        .chain
        .iter()
        .filter_map(|c| Some(format!("{}{}", c.name.as_ref()?.shown(), dotted(c.field.as_deref()?))))
        .collect();
    if steps.len() > MAX_STEPS {
        steps.splice(MAX_STEPS / 2..steps.len() - MAX_STEPS / 2, ["…".to_owned()]);
    }
    Some(match steps.is_empty() {
        true => format!("{}{thread}", path.root_kind),
        false => format!("{}{thread}: {}", path.root_kind, steps.join(" -> ")),
    })
}

fn dotted(field: &str) -> String {
    if field.starts_with(['[', '(']) { field.to_owned() } else { format!(".{field}") }
}

/// Returns `[17].name` as `name`, since all elements of an array have one
/// owner.
fn without_index(field: &str) -> String {
    match field.strip_prefix('[').and_then(|f| f.split_once(']')) {
        Some((_, rest)) => rest.trim_start_matches('.').to_owned(),
        None => field.to_owned(),
    }
}

/// Returns the owner if it points at most blocks.
pub(super) fn guess(row: &BlockClusterRow) -> Option<String> {
    let owner = row.owners.first().filter(|o| !o.from.is_dead())?;
    if owner.blocks.saturating_mul(100) < row.count.saturating_mul(MIN_SHARE_PERCENT) {
        return None;
    }
    let what = match (&owner.name, &owner.module) {
        (Some(name), _) => {
            let field = owner.field.as_ref().map(|f| dotted(f)).unwrap_or_default();
            match (owner.objects, owner.object) {
                (1, Some(object)) => format!("{}{field} at {object}", name.shown()),
                (n, _) => format!("{}{field} of {} objects", name.shown(), exact(n)),
            }
        }
        (None, Some(module)) => format!("data of {module}"),
        (None, None) => format!("{} at {}", owner.from, owner.example?),
    };
    let root = owner.root.as_ref().map(|r| format!(", retained by {r}")).unwrap_or_default();
    let (blocks, count) = (exact(owner.blocks), exact(row.count));
    Some(match row.count {
        1 => format!("{what}{root}"),
        _ => format!("{what} ({blocks} of {count} blocks){root}"),
    })
}
