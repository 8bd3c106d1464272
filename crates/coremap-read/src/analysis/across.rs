//! Names for roots that are fields of another runtime's objects.

use std::collections::{BTreeMap, HashMap};

use crate::addr::Addr;
use crate::analysis::roots::{path_row, room};
use crate::report::{ChainRow, Name, RootPathRow};
use crate::runtimes::api::{Link, ManagedRuntime, OTHER_RUNTIME, ObjectNames, Root, RuntimeId, locate};
use crate::runtimes::graph::{Graph, PathSearch};
use crate::session::Session;

/// Maximum number of kinds of holders whose owner is searched for. Each search reads the other heap.
const MAX_OWNERS: usize = 8;

/// Fields of one type in another runtime that reference objects.
#[derive(Clone, Debug)]
pub struct OtherHolder {
    /// Runtime of the holders.
    pub id: RuntimeId,
    /// Name and version of that runtime.
    pub runtime: String,
    /// Type of the holders.
    pub name: Option<Name>,
    /// Field with the reference. `None` for elements of an array.
    pub field: Option<Name>,
    /// Number of holders.
    pub objects: u64,
    /// One of the holders.
    pub example: Addr,
    /// Root of the example: a static variable, else the kind of the root. `None` if no root reaches it.
    pub owner: Option<String>,
}

impl OtherHolder {
    /// Type and field: `PyHandle.raw`.
    pub fn place(&self) -> String {
        let name = self.name.as_ref().map_or_else(|| "an object".to_owned(), Name::shown);
        match &self.field {
            Some(field) => format!("{name}.{}", field.trim_start_matches('.')),
            None => name,
        }
    }

    /// Owner, field and runtime: `static Scores.results → PyHandle.raw (.NET 11.0.0)`.
    pub fn text(&self) -> String {
        let owner = self.owner.as_ref().map_or_else(String::new, |owner| format!("{owner} → "));
        format!("{owner}{} ({})", self.place(), self.runtime)
    }
}

/// Holders of one runtime's objects in other runtimes.
#[derive(Clone, Debug, Default)]
pub struct OtherHolders {
    /// Holders by runtime, type and field, most frequent first.
    pub all: Vec<OtherHolder>,
    by_field: HashMap<Addr, usize>,
}

impl OtherHolders {
    /// Finds the objects of other runtimes that have the fields of `roots`. Without such roots nothing is read.
    pub fn of(session: &Session<'_>, roots: &[Root]) -> OtherHolders {
        let mut fields: Vec<Addr> =
            roots.iter().filter(|root| root.kind == OTHER_RUNTIME).map(|root| root.address).collect();
        fields.sort_unstable();
        fields.dedup();
        let mut found: Vec<(OtherHolder, Vec<Addr>)> = Vec::new();
        if fields.is_empty() {
            return OtherHolders::default();
        }
        for (id, runtime) in session.runtimes_by_id() {
            let Some(heap) = runtime.heap() else { continue };
            let mut names = ObjectNames::new(heap);
            let mut here: BTreeMap<(u64, Option<u64>), (OtherHolder, Vec<Addr>)> = BTreeMap::new();
            locate(
                heap,
                &mut fields,
                |at| *at,
                |at, _, object| {
                    let Some(info) = heap.type_info(object.kind) else { return };
                    let offset = info.elements.is_none().then(|| at.since(object.addr));
                    let (holder, of) = here.entry((info.address.get(), offset)).or_insert_with(|| {
                        let holder = OtherHolder {
                            id,
                            runtime: runtime.label(),
                            name: names.object(object.addr).map(|(name, _)| name),
                            field: offset.and_then(|offset| names.link(object.addr, Link::Field(offset))),
                            objects: 0,
                            example: object.addr,
                            owner: None,
                        };
                        (holder, Vec::new())
                    });
                    holder.objects = holder.objects.saturating_add(1);
                    of.push(*at);
                },
            );
            found.extend(here.into_values());
        }
        found.sort_by_key(|(holder, _)| (std::cmp::Reverse(holder.objects), holder.example));
        let mut out = OtherHolders::default();
        for (index, (mut holder, of)) in found.into_iter().enumerate() {
            if index < MAX_OWNERS {
                holder.owner = path_to(session, holder.id, holder.example).as_ref().map(owner);
            }
            out.by_field.extend(of.into_iter().map(|at| (at, index)));
            out.all.push(holder);
        }
        out
    }

    /// Index in `all` of the holder that has the field at `field`.
    pub fn index_at(&self, field: Addr) -> Option<usize> {
        self.by_field.get(&field).copied()
    }

    /// The holder that has the field at `field`.
    pub fn at(&self, field: Addr) -> Option<&OtherHolder> {
        self.all.get(self.index_at(field)?)
    }
}

/// Prepends to a path that begins in another runtime's object the path to that object.
pub fn prepend(session: &Session<'_>, row: &mut RootPathRow) {
    for (id, runtime) in session.runtimes_by_id() {
        let Some(heap) = runtime.heap() else { continue };
        let mut names = ObjectNames::new(heap);
        let Some(holder) = names.containing(row.root_address) else { continue };
        let link = names.link(holder, Link::Field(row.root_address.since(holder)));
        let label = |link: &str| Name::from(format!("{link} (object of another runtime)"));
        let field = link.map(|link| label(&link));
        match path_to(session, id, holder) {
            Some(mut path) => {
                if let Some(last) = path.chain.last_mut() {
                    last.field = field;
                }
                path.chain.append(&mut row.chain);
                *row = path;
            }
            None => {
                let name = names.object(holder).map(|(name, _)| name);
                row.chain.insert(0, ChainRow { object: holder, name, field });
            }
        }
        return;
    }
}

/// A shortest path to an object of one runtime.
fn path_to(session: &Session<'_>, id: RuntimeId, object: Addr) -> Option<RootPathRow> {
    let runtime: &dyn ManagedRuntime = session.runtime(id)?;
    let heap = runtime.heap()?;
    let roots = session.roots(id);
    let found = PathSearch::new(Graph::new(heap), object, &room(session)).run(&roots.all, 1).ok()?;
    let path = found.paths.first()?;
    Some(path_row(&mut ObjectNames::new(heap), runtime, path))
}

/// The static variable at the start of a path, else what the root represents, else its kind.
fn owner(path: &RootPathRow) -> String {
    let fields = path.chain.iter().filter_map(|step| step.field.as_deref());
    let statics = fields.filter_map(|field| field.split_once('(')?.1.strip_suffix(')'));
    let of_static = statics.map(str::to_owned).find(|name| name.contains("static "));
    of_static.or_else(|| path.root_name.clone()).unwrap_or_else(|| path.root_kind.clone())
}
