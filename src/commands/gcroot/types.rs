use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use rayon::prelude::*;
use regex::Regex;

use crate::addr::Addr;
use crate::analysis::across::OtherHolder;
use crate::analysis::roots::{RuntimeRoots, name_statics, root_row, with_retained};
use crate::commands::gcroot::report::{GcRootTypesReport, RootGroupRow, StepRow};
use crate::diag::WarningCode;
use crate::limits;
use crate::process::Process;
use crate::report::{ChainRow, Name, RootPathRow};
use crate::runtimes::api::{ObjectNames, RootKind, Tally, TypeIndex};
use crate::runtimes::graph::{FieldKey, Retained, ShapeIndex, Shapes, ShortestPathTree};
use crate::session::Session;

/// Explains what retains the objects of the types whose name matches: their
/// shortest paths from roots, grouped by shape, at most `top` groups.
pub fn gcroot_types(session: &Session<'_>, name: &Regex, top: usize) -> GcRootTypesReport {
    let mut report = GcRootTypesReport::default();
    with_retained(session, |retained, names, runtime_roots| {
        report.roots += runtime_roots.roots.len() as u64;
        report.stacks.merge(&runtime_roots.stacks);
        report.not_read.extend(runtime_roots.not_read.iter().cloned());
        one(session.process, retained, names, runtime_roots, name, top.min(limits::MAX_TOP), &mut report);
    });
    report
}

/// Objects with one path shape.
#[derive(Default)]
struct Group {
    own: Tally,
    retained: u64,
    /// Node numbers of the objects with the shortest and the longest path.
    first: u32,
    last: u32,
}

impl Group {
    /// Adds another group, whose objects are farther from the roots.
    fn append(&mut self, other: Group) {
        if self.own.count == 0 {
            *self = other;
        } else if other.own.count > 0 {
            self.own = self.own.plus(other.own);
            self.retained = self.retained.saturating_add(other.retained);
            self.last = other.last;
        }
    }
}

fn one<'g>(
    process: &Process,
    retained: &Retained<'g>,
    names: &mut ObjectNames<'g>,
    runtime_roots: &RuntimeRoots<'_>,
    name: &Regex,
    top: usize,
    report: &mut GcRootTypesReport,
) {
    let sums = retained.types(0);
    let mut wanted: HashSet<TypeIndex> = HashSet::new();
    let mut found: BTreeSet<Name> = BTreeSet::new();
    for sum in &sums {
        let of = names.of_kind(sum.kind);
        if name.is_match(&of) {
            wanted.insert(sum.kind);
            found.insert(of);
            report.live = report.live.plus(sum.own.count, sum.own.size);
        }
    }
    report.types.extend(found);
    for (kind, tally) in retained.unreachable() {
        if name.is_match(&names.of_kind(kind)) {
            report.unreachable = report.unreachable.plus(tally.count, tally.size);
        }
    }
    if wanted.is_empty() {
        return;
    }
    let statics = names.all_statics();
    let places: HashSet<Addr> = statics.keys().copied().collect();
    let mut shapes = match Shapes::new(retained, &places) {
        Ok(shapes) => shapes,
        Err(e) => return process.diag.partial(WarningCode::Limit, e.to_string()),
    };
    let tree = ShortestPathTree::build(&retained.live, |number, parent, link| shapes.enter(number, parent, link));
    if shapes.is_full() {
        process.diag.partial(WarningCode::Limit, "too many different path shapes: some paths are shown shortened");
    }
    let outermost = retained.outermost(|kind| wanted.contains(&kind));
    let groups = groups(retained, &shapes, &outermost, &wanted);
    let mut all: Vec<(ShapeIndex, Group)> = groups.into_iter().collect();
    all.sort_by_key(|(shape, g)| (Reverse(g.retained), Reverse(g.own.count), *shape));
    report.more += all.len().saturating_sub(top) as u64;
    all.truncate(top);
    let mut view = View { retained, names, runtime_roots, statics, shapes, tree };
    report.groups.extend(all.iter().map(|(shape, group)| view.group(*shape, group)));
}

/// Objects per task of the parallel loop.
const SHARE: u32 = 1 << 18;

/// Groups the objects of the wanted types by path shape.
fn groups(
    retained: &Retained<'_>,
    shapes: &Shapes<'_, '_>,
    outermost: &(impl Fn(u32) -> bool + Sync),
    wanted: &HashSet<TypeIndex>,
) -> BTreeMap<ShapeIndex, Group> {
    let len = retained.live.len() as u32;
    let of_share = |share: u32| {
        let mut groups: HashMap<ShapeIndex, Group> = HashMap::new();
        let mut reader = retained.live.reader();
        // Neighbouring objects usually have the same shape, so their group is
        // kept at hand.
        let (mut shape, mut group) = (ShapeIndex(0), Group::default());
        for number in (share * SHARE).max(1)..((share + 1) * SHARE).min(len) {
            if !retained.kind(number).is_some_and(|kind| wanted.contains(&kind)) {
                continue;
            }
            let own = shapes.of(number);
            if own != shape {
                groups.entry(shape).or_default().append(std::mem::take(&mut group));
                shape = own;
            }
            let kept = if outermost(number) { retained.bytes(number) } else { 0 };
            let size = retained.own(number, &mut *reader);
            group.append(Group { own: Tally { count: 1, size }, retained: kept, first: number, last: number });
        }
        groups.entry(shape).or_default().append(group);
        groups
    };
    let shares: Vec<HashMap<ShapeIndex, Group>> = (0..len.div_ceil(SHARE)).into_par_iter().map(of_share).collect();
    let mut all: BTreeMap<ShapeIndex, Group> = BTreeMap::new();
    for (shape, group) in shares.into_iter().flatten() {
        all.entry(shape).or_default().append(group);
    }
    all.retain(|_, group| group.own.count > 0);
    all
}

struct View<'v, 'g> {
    retained: &'v Retained<'g>,
    names: &'v mut ObjectNames<'g>,
    runtime_roots: &'v RuntimeRoots<'v>,
    statics: HashMap<Addr, Name>,
    shapes: Shapes<'v, 'g>,
    tree: ShortestPathTree<'v>,
}

impl View<'_, '_> {
    fn group(&mut self, shape: ShapeIndex, group: &Group) -> RootGroupRow {
        let steps = self.shapes.steps(shape);
        let longest = self.tree.path(group.last);
        let mut met: HashMap<ShapeIndex, u64> = HashMap::new();
        for &number in &longest {
            *met.entry(self.shapes.of(number)).or_default() += 1;
        }
        let mut root_name = None;
        let mut chain: Vec<StepRow> = Vec::new();
        for (i, &step) in steps.iter().enumerate().skip(1) {
            let Some(kind) = self.shapes.get(step).and_then(|s| s.kind) else { continue };
            let next = steps.get(i + 1).and_then(|&next| self.shapes.get(next)).map(|next| next.by);
            if let Some(FieldKey::Static(place)) = next {
                root_name = self.statics.get(&place).cloned();
            }
            let loops = self.shapes.get(step).map(|s| s.loops.clone()).unwrap_or_default();
            let through = loops.into_iter().filter_map(|by| self.names.key(kind, by, &self.statics)).collect();
            let repeats = met.get(&step).map_or(0, |n| n.saturating_sub(1));
            chain.push(StepRow {
                name: self.names.of_kind(kind),
                field: next.and_then(|by| self.names.key(kind, by, &self.statics)),
                repeats,
                through: if repeats > 0 { through } else { Vec::new() },
            });
        }
        let (kind, example) = self.example(group.first);
        // Up to the first repetition, the steps are those of the example, whose fields may say more.
        for (step, row) in chain.iter_mut().zip(&example.chain) {
            let more = |own: &Name| row.field.clone().filter(|field| field.starts_with(&**own));
            if let Some(field) = step.field.as_ref().and_then(more).filter(|_| row.name.as_ref() == Some(&step.name)) {
                step.field = Some(field);
            }
            if step.repeats > 0 {
                break;
            }
        }
        // A repeated step ends in the last of its objects, which is an array with thread-local variables.
        if let Some(step) = chain.first_mut().filter(|step| step.repeats > 0) {
            let last = example.chain.get(usize::try_from(step.repeats).unwrap_or(usize::MAX));
            let variable = last.and_then(|row| row.field.as_ref()?.split_once(" ("));
            if let (Some(field), Some((_, variable))) = (&step.field, variable) {
                // Objects of other threads are in the same group.
                let variable = variable.trim_end_matches(')').split(" of thread ").next().unwrap_or_default();
                step.field = Some(format!("{field} ({variable})").into());
            }
        }
        let root_name = root_name.or_else(|| example.root_name.as_deref().map(Name::from));
        RootGroupRow {
            count: group.own.count,
            size: group.own.size,
            retained: group.retained,
            root_kind: kind.map_or("", RootKind::name).to_owned(),
            root_name,
            chain,
            longest: longest.len().saturating_sub(1) as u64,
            example,
        }
    }

    /// Returns a shortest path to an object, and the kind of its root.
    fn example(&mut self, number: u32) -> (Option<RootKind>, RootPathRow) {
        let way = self.tree.path(number);
        let kind = way.first().and_then(|&n| self.retained.live.root_node(n)).map(|s| s.kind);
        let objects: Vec<Addr> =
            way.iter().filter_map(|&n| self.retained.live.object(n)).take(limits::MAX_PATH).collect();
        let first = objects.first().copied().unwrap_or_default();
        let root = self.runtime_roots.roots.iter().find(|r| r.object == first && Some(r.kind) == kind);
        let mut chain: Vec<ChainRow> = Vec::new();
        for (i, &object) in objects.iter().enumerate() {
            let link = objects.get(i + 1).and_then(|next| self.names.reader.link(object.get(), next.get()));
            let field = link.and_then(|link| self.names.link(object, link));
            chain.push(ChainRow { object, name: self.names.object(object).map(|(name, _)| name), field });
        }
        if let Some(root) = root {
            name_statics(self.names, root, &mut chain);
        }
        let row = match root {
            Some(root) => {
                let other = self.runtime_roots.others.at(root.address).map(OtherHolder::text);
                let row = root_row(self.runtime_roots.runtime, root, chain);
                RootPathRow { root_name: row.root_name.or(other), ..row }
            }
            // A frozen object is its own root.
            None => RootPathRow {
                root_kind: kind.map_or("", RootKind::name).to_owned(),
                root_address: first,
                chain,
                ..RootPathRow::default()
            },
        };
        (kind, row)
    }
}
