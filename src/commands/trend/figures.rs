//! Builds the series of figures: the value of each figure in each sample that has it.

use std::collections::BTreeMap;

use crate::map::Kind;
use crate::report::{Measure, Name, SeriesOf};
use crate::series::{BlockSize, KindFigures, Moment, Rest, Sum};

/// Identity of a series.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    pub(super) of: SeriesOf,
    pub(super) name: Name,
    pub(super) measure: Measure,
}

/// A value in a sample.
#[derive(Clone, Copy, Debug)]
pub(super) struct Value {
    /// Index of the sample.
    pub(super) sample: usize,
    /// Bytes, or a number.
    pub(super) value: u64,
    /// Number of items.
    pub(super) count: Option<u64>,
}

/// The values of each figure, in the order of the samples.
pub(super) type All = BTreeMap<Key, Vec<Value>>;

/// Name of the sum over all objects.
pub(super) const ALL_OBJECTS: &str = "all objects";

/// Builds all series of these samples.
pub(super) fn all(moments: &[&Moment]) -> All {
    let mut all = All::new();
    let mut add =
        |sample: usize, of: SeriesOf, name: Name, measure: Measure, value: Option<u64>, count: Option<u64>| {
            if let Some(value) = value {
                all.entry(Key { of, name, measure }).or_default().push(Value { sample, value, count });
            }
        };
    let kinds = names(moments.iter().map(|m| m.kinds.keys()));
    // A finding whose bytes are those of a kind would be a duplicate.
    let mut findings = names(moments.iter().map(|m| m.findings.keys()));
    findings.retain(|name| !is_a_kind(moments, name));
    let measured = measured(moments);
    let resident = moments.iter().all(|m| m.kernel.rss.is_some());
    for (sample, moment) in moments.iter().enumerate() {
        let total = moment.kinds.values().copied().reduce(KindFigures::plus).unwrap_or_default();
        if resident {
            add(sample, SeriesOf::Total, "all memory".into(), Measure::Rss, moment.kernel.rss, None);
        } else {
            add(sample, SeriesOf::Total, "all memory".into(), measured, of_kind(&total, measured), None);
        }
        add(sample, SeriesOf::Total, "all memory".into(), Measure::Size, Some(total.size), None);
        add(sample, SeriesOf::Threads, "threads".into(), Measure::Count, Some(moment.threads), None);
        for name in &kinds {
            let kind = moment.kinds.get(name).copied().unwrap_or(NO_KIND);
            let count = Some(kind.count);
            let is_reserved = Kind::from_name(name).is_some_and(Kind::is_reserved);
            if !is_reserved {
                add(sample, SeriesOf::Kind, name.clone(), measured, of_kind(&kind, measured), count);
            }
            add(sample, SeriesOf::Kind, name.clone(), Measure::Size, Some(kind.size), count);
        }
        for name in &findings {
            add(sample, SeriesOf::Finding, name.clone(), Measure::Bytes, of_finding(moment, name), None);
        }
    }
    objects(moments, &mut add);
    blocks(moments, &mut add);
    without_twins(all)
}

/// Figures of a kind that is not present.
const NO_KIND: KindFigures =
    KindFigures { count: 0, size: 0, readable: 0, written: Some(0), rss: Some(0), swap: Some(0) };

/// Bytes of a finding: 0 if it is absent, `None` if it has no size.
fn of_finding(moment: &Moment, name: &Name) -> Option<u64> {
    moment.findings.get(name).map_or(Some(0), |bytes| *bytes)
}

/// Whether a finding has the bytes of one kind in every sample.
fn is_a_kind(moments: &[&Moment], finding: &Name) -> bool {
    let kinds = names(moments.iter().map(|m| m.kinds.keys()));
    let measures: [fn(&KindFigures) -> Option<u64>; 4] =
        [|k| k.rss, |k| k.written, |k| Some(k.readable), |k| Some(k.size)];
    kinds.iter().any(|kind| {
        measures.iter().any(|of| {
            moments.iter().all(|m| of_finding(m, finding) == of(&m.kinds.get(kind).copied().unwrap_or(NO_KIND)))
        })
    })
}

type Add<'a> = dyn FnMut(usize, SeriesOf, Name, Measure, Option<u64>, Option<u64>) + 'a;

fn objects(moments: &[&Moment], add: &mut Add<'_>) {
    let types = names(moments.iter().filter_map(|m| m.types.as_ref()).map(|t| t.types.keys()));
    for (sample, moment) in moments.iter().enumerate() {
        let Some(objects) = &moment.types else { continue };
        let (bytes, count) = (Some(objects.total.bytes), Some(objects.total.count));
        add(sample, SeriesOf::Type, ALL_OBJECTS.into(), Measure::Bytes, bytes, count);
        for name in &types {
            let sum = known(objects.types.get(name), &objects.rest);
            add(sample, SeriesOf::Type, name.clone(), Measure::Bytes, sum.map(|s| s.bytes), sum.map(|s| s.count));
        }
    }
}

fn blocks(moments: &[&Moment], add: &mut Add<'_>) {
    // Block sizes of different allocators cannot be compared.
    let allocator = moments.iter().rev().find_map(|m| m.malloc.as_ref()).map(|b| b.allocator.clone());
    let with = moments.iter().enumerate();
    let with: Vec<_> = with
        .filter_map(|(sample, m)| {
            Some((sample, m.malloc.as_ref().filter(|b| Some(&b.allocator) == allocator.as_ref())?))
        })
        .collect();
    let mut sizes: Vec<BlockSize> = with.iter().flat_map(|(_, b)| b.sizes.keys().copied()).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let mut classes: Vec<u64> = with.iter().flat_map(|(_, b)| b.classes.keys().copied()).collect();
    classes.sort_unstable();
    classes.dedup();
    for (sample, blocks) in with {
        let mut sum = |of, name: String, measure, sum: Option<Sum>| {
            add(sample, of, name.into(), measure, sum.map(|s| s.bytes), sum.map(|s| s.count));
        };
        sum(SeriesOf::Malloc, "in use".to_owned(), Measure::Bytes, Some(blocks.used));
        sum(SeriesOf::Malloc, "free".to_owned(), Measure::Free, Some(blocks.free));
        for class in &classes {
            let in_class = blocks.classes.get(class).copied().unwrap_or_default();
            sum(SeriesOf::MallocClass, class.to_string(), Measure::Bytes, Some(in_class));
        }
        for size in &sizes {
            let name = format!("{}{}", size.size, if size.mmapped { MMAPPED } else { "" });
            sum(SeriesOf::MallocSize, name, Measure::Bytes, known(blocks.sizes.get(size), &blocks.rest));
        }
    }
}

/// Suffix for sizes of blocks with a separate mapping.
pub(super) const MMAPPED: &str = " mmapped";

/// The sum of a row: 0 if it is absent from a complete list, `None` if the list is incomplete.
fn known(listed: Option<&Sum>, rest: &Rest) -> Option<Sum> {
    listed.copied().or_else(|| (rest.rows == 0).then(Sum::default))
}

fn names<'m>(of: impl Iterator<Item = impl Iterator<Item = &'m Name>>) -> Vec<Name> {
    let mut all: Vec<Name> = of.flatten().cloned().collect();
    all.sort();
    all.dedup();
    all
}

/// The most useful measure of kinds that all samples have.
fn measured(moments: &[&Moment]) -> Measure {
    let all = |of: fn(&KindFigures) -> Option<u64>| moments.iter().all(|m| m.kinds.values().all(|k| of(k).is_some()));
    if all(|k| k.rss) {
        Measure::Rss
    } else if all(|k| k.written) {
        Measure::Written
    } else {
        Measure::Readable
    }
}

fn of_kind(kind: &KindFigures, measure: Measure) -> Option<u64> {
    match measure {
        Measure::Rss => kind.rss,
        Measure::Written => kind.written,
        Measure::Readable => Some(kind.readable),
        _ => None,
    }
}

/// Removes series of sizes whose values equal those of another measure in every sample.
fn without_twins(all: All) -> All {
    let same = |key: &Key, values: &[Value]| {
        let others = all.range(Key { measure: Measure::Rss, ..key.clone() }..key.clone());
        others.filter(|(other, _)| other.of == key.of && other.name == key.name).any(|(_, other)| {
            other.len() == values.len()
                && other.iter().zip(values).all(|(a, b)| (a.sample, a.value) == (b.sample, b.value))
        })
    };
    let twins: Vec<Key> =
        all.iter().filter(|(k, v)| k.measure == Measure::Size && same(k, v)).map(|(k, _)| k.clone()).collect();
    let mut all = all;
    all.retain(|key, _| !twins.contains(key));
    all
}
