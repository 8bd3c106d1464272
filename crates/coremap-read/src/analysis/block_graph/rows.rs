//! Holders and lost groups as rows of reports.

use std::cmp::Reverse;

use crate::analysis::block_graph::facts::{HolderFact, LostFact, NativeHolders, Part};
use crate::map::Confidence;
use crate::report::{NativeHeldRow, NativeTypeRow};
use crate::units::exact;

/// Minimum number of lists in a table that a description mentions.
const HEADS: u64 = 64;

/// Maximum number of characters of a text that are shown.
const SHOWN: usize = 8;

impl NativeHolders {
    /// Returns holders and lost groups, most bytes first.
    pub fn rows(&self) -> Vec<NativeHeldRow> {
        let held = self.holders.iter().map(HolderFact::row);
        let mut out: Vec<NativeHeldRow> = held.chain(self.lost.iter().map(LostFact::row)).collect();
        out.sort_by_key(|row| Reverse(row.bytes));
        out
    }
}

impl HolderFact {
    /// Returns the container, or how elements are linked, in words.
    pub fn structure(&self) -> Option<String> {
        match (&self.container, self.linked) {
            (Some(container), _) => Some(container.name.to_owned()),
            (None, Some((offset, heads))) if heads >= HEADS => Some(format!(
                "{} lists in a table, linked by the word at +{offset} (a hash table with chains, or lists)",
                exact(heads)
            )),
            (None, Some((offset, _))) => Some(format!("list, linked by the word at +{offset}")),
            (None, None) => None,
        }
    }

    fn row(&self) -> NativeHeldRow {
        let elements = self.elements.as_ref();
        NativeHeldRow {
            bytes: self.bytes,
            blocks: self.blocks,
            elements: self.container.as_ref().and_then(|found| found.count).or(elements.map(|part| part.count)),
            structure: self.structure(),
            element_types: types(&self.classes, elements),
            holder: self.root.clone().filter(|_| self.alone),
            reached_from: self.root.as_ref().filter(|_| !self.alone).map(|root| root.name.clone()),
            threads: self.threads,
            lost: false,
            doubt: None,
            path: self.chain.iter().map(Part::words).collect(),
            texts: texts(&self.texts),
            example: None,
            confidence: Confidence::Derived,
        }
    }
}

impl LostFact {
    fn row(&self) -> NativeHeldRow {
        let structure = match (self.cycle, self.linked) {
            (true, _) => Some("cycle: the blocks of a group lead only to each other".to_owned()),
            (false, Some(offset)) => Some(format!("list, linked by the word at +{offset}")),
            (false, None) if self.blocks >= self.groups.saturating_mul(2) => Some("tree".to_owned()),
            (false, None) => None,
        };
        let head = Part { what: self.head.clone(), count: self.groups, bytes: self.bytes };
        NativeHeldRow {
            bytes: self.bytes,
            blocks: self.blocks,
            elements: Some(self.groups),
            structure,
            element_types: types(&self.classes, Some(&head)),
            lost: true,
            doubt: self.hidden.clone(),
            path: vec![head.words()],
            texts: texts(&self.texts),
            example: Some(self.example),
            confidence: Confidence::Derived,
            ..NativeHeldRow::default()
        }
    }
}

/// Returns the classes; if there are none, the elements.
fn types(classes: &[Part], elements: Option<&Part>) -> Vec<NativeTypeRow> {
    let row = |part: &Part| NativeTypeRow { name: part.what.clone(), count: part.count, size: part.bytes };
    match classes {
        [] => elements.map(row).into_iter().collect(),
        classes => classes.iter().map(row).collect(),
    }
}

fn texts(all: &[String]) -> Vec<String> {
    let mut out: Vec<String> = all.iter().map(|text| text.chars().take(SHOWN).collect()).collect();
    out.dedup();
    out
}
