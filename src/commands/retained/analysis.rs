use std::cmp::Reverse;
use std::collections::HashMap;

use regex::Regex;

use crate::addr::Addr;
use crate::analysis::across::{OtherHolder, OtherHolders};
use crate::analysis::roots::with_retained;
use crate::commands::retained::native;
use crate::commands::retained::report::{RetainedReport, RetainedRow, RetainedTypeRow, RootSumRow};
use crate::limits;
use crate::report::{Name, ObjectsRow, TypeRow};
use crate::runtimes::api::{Link, ObjectNames, Root, RootKind, TypeIndex, TypeInfo};
use crate::runtimes::graph::Retained;
use crate::session::Session;

/// Options of `retained`.
#[derive(Clone, Debug, Default)]
pub struct RetainedOptions {
    /// List only types whose name matches, and their objects.
    pub name: Option<Regex>,
    /// Report only what this object retains, or the object that contains this address.
    pub object: Option<Addr>,
    /// Maximum number of types, and of objects, listed.
    pub top: usize,
}

/// Computes the memory that would be freed with each type and object, largest first.
pub fn retained(session: &Session<'_>, options: &RetainedOptions) -> RetainedReport {
    session.process.target().expect_scan();
    let mut report = RetainedReport::default();
    with_retained(session, |retained, names, rooted| {
        let (roots, others) = (rooted.roots, &rooted.others);
        let view = View { retained, names, roots, others, statics: HashMap::new(), options };
        view.add_to(&mut report);
        report.stacks.merge(&rooted.stacks);
        report.not_read.extend(rooted.not_read.iter().cloned());
    });
    let most = options.top.min(limits::MAX_TOP);
    report.types.sort_by_key(|t| (Reverse(t.retained), t.method_table));
    report.more_types += report.types.len().saturating_sub(most) as u64;
    report.types.truncate(most);
    report.objects.sort_by_key(|o| (Reverse(o.retained), o.object));
    report.objects.truncate(most);
    report.unreachable_types.sort_by_key(|t| (Reverse(t.size), t.method_table));
    report.unreachable_types.truncate(most);
    let in_block = |at: Addr| session.map().region_at(at).is_some_and(|region| region.kind.holds_blocks());
    if session.runtimes().is_empty() || report.object.is_none() && options.object.is_some_and(in_block) {
        native::add_blocks(session, options, &mut report);
    }
    if let Some(object) = options.object
        && report.object.is_none()
    {
        report.object = Some(RetainedRow { object, ..RetainedRow::default() });
    }
    report
}

struct View<'v, 'g> {
    retained: &'v Retained<'g>,
    names: &'v mut ObjectNames<'g>,
    roots: &'v [Root],
    others: &'v OtherHolders,
    statics: HashMap<Addr, Name>,
    options: &'v RetainedOptions,
}

impl View<'_, '_> {
    fn add_to(mut self, report: &mut RetainedReport) {
        let (retained, options) = (self.retained, self.options);
        let live = &retained.live;
        let total = retained.total;
        report.live = report.live.plus(total.count, total.size);
        let mut several = total.size;
        for source in &live.root_nodes {
            let bytes = retained.bytes(source.number);
            several = several.saturating_sub(bytes);
            let root_kind = source.kind.name().to_owned();
            report.roots.push(RootSumRow { root_kind, count: source.roots, retained: bytes });
        }
        report.several = report.several.saturating_add(several);
        for (kind, tally) in retained.unreachable() {
            report.unreachable = ObjectsRow::plus(report.unreachable, tally.count, tally.size);
            if options.object.is_none()
                && let Some((info, name)) = self.picked(kind)
            {
                report.unreachable_types.push(TypeRow {
                    method_table: info.address,
                    name: name.to_string().into(),
                    count: tally.count,
                    size: tally.size,
                    ..TypeRow::default()
                });
            }
        }
        let within = match options.object {
            None => 0,
            Some(addr) => {
                let find = |at: Addr| Some((at, live.numbers_of(&[at]).first().copied().flatten()?));
                let Some((at, number)) = find(addr).or_else(|| find(self.names.containing(addr)?)) else { return };
                self.name_statics();
                report.object = Some(self.row(number, at));
                if number == 0 {
                    return;
                }
                report.dominators = self.dominators(number);
                number
            }
        };
        let mut picked: Vec<Option<bool>> = Vec::new();
        for sum in retained.types(within) {
            let pick = self.picked(sum.kind);
            let at = sum.kind.0 as usize;
            picked.resize(picked.len().max(at + 1), None);
            if let Some(entry) = picked.get_mut(at) {
                *entry = Some(pick.is_some());
            }
            let Some((info, name)) = pick else { continue };
            report.types.push(RetainedTypeRow {
                method_table: info.address,
                name,
                count: sum.own.count,
                size: sum.own.size,
                retained: sum.retained,
            });
        }
        let most = options.top.min(limits::MAX_TOP);
        // In a list, each node dominates the next, so only the first is shown.
        let first = |number, kind| retained.kind(retained.dominator(number)) != Some(kind);
        let top = retained.top(most, |number, kind| {
            (if within == 0 { first(number, kind) } else { retained.dominator(number) == within })
                && picked.get(kind.0 as usize).copied().flatten() == Some(true)
        });
        self.name_statics();
        for number in top {
            if let Some(at) = live.object(number) {
                let row = self.row(number, at);
                report.objects.push(row);
            }
        }
    }

    /// Returns a type and its name, if the name matches.
    fn picked(&mut self, kind: TypeIndex) -> Option<(TypeInfo, Name)> {
        let info = self.names.heap.type_info(kind)?;
        let name = self.names.of_kind(kind);
        self.options.name.as_ref().is_none_or(|re| re.is_match(&name)).then_some((info, name))
    }

    fn name_statics(&mut self) {
        if self.statics.is_empty() {
            self.statics = self.names.all_statics();
        }
    }

    fn dominators(&mut self, number: u32) -> Vec<RetainedRow> {
        let mut out = Vec::new();
        let mut at = self.retained.dominator(number);
        while out.len() < limits::MAX_SHOWN_DOMINATORS
            && let Some(addr) = self.retained.live.object(at)
        {
            out.push(self.row(at, addr));
            at = self.retained.dominator(at);
        }
        out
    }

    fn row(&mut self, number: u32, object: Addr) -> RetainedRow {
        let live = &self.retained.live;
        let name = self.names.object(object).map(|(name, _)| name);
        let size = self.names.node(object).map(|n| n.counted_size);
        let title = self.names.heap.title(object);
        let mut row = RetainedRow { object, name, title, size, ..RetainedRow::default() };
        if number == 0 {
            return row;
        }
        row.retained = Some(self.retained.bytes(number));
        let up = self.retained.dominator(number);
        if let Some(dominator) = live.object(up) {
            row.dominator = Some(dominator);
            row.dominator_type = self.names.object(dominator).map(|(name, _)| name);
            row.dominator_title = self.names.heap.title(dominator);
            row.dominator_field = self.field(dominator, object);
            return row;
        }
        let kind = live.root_node(up).map(|s| s.kind);
        row.root_kind = Some(kind.map_or("several", RootKind::name).to_owned());
        for root in self.roots.iter().filter(|r| r.object == object) {
            if row.root_address.is_none() {
                (row.root_address, row.thread) = (Some(root.address), root.thread);
                row.root_name = self.others.at(root.address).map(OtherHolder::text);
            }
            let name = root.kind.name().to_owned();
            if !row.root_kinds.contains(&name) {
                row.root_kinds.push(name);
            }
        }
        row
    }

    /// Name of the field, element or static variable through which `holder` refers to `object`.
    fn field(&mut self, holder: Addr, object: Addr) -> Option<Name> {
        let link = self.names.reader.link(holder.get(), object.get())?;
        let field = self.names.link(holder, link)?;
        let place = match link {
            Link::Field(offset) => self.statics.get(&holder.saturating_add(offset)),
            _ => None,
        };
        Some(place.map_or_else(|| field.clone(), |name| format!("{field} ({name})").into()))
    }
}
