//! Native memory that managed objects point at: type and field, and the holder of the objects.

use crate::map::Confidence;
use crate::report::{Finding, Severity};
use crate::units::{count, exact, round};

/// Minimum size in bytes for a finding.
const LARGE: u64 = 16 << 20;

/// Native memory of the objects of one type.
#[derive(Clone, Copy)]
pub(crate) struct Owned<'o> {
    pub(crate) r#type: &'o str,
    pub(crate) field: Option<&'o str>,
    pub(crate) objects: u64,
    pub(crate) blocks: u64,
    pub(crate) bytes: u64,
    /// Written bytes of all blocks. Some of the owner's blocks may not be written.
    pub(crate) written: u64,
    /// Whether the objects point at a first block that leads to the others.
    pub(crate) behind: bool,
    /// The program's field or variable that retains one of the objects.
    pub(crate) holder: Option<&'o str>,
}

pub(crate) fn finding(owned: &Owned<'_>) -> Option<Finding> {
    if owned.bytes < LARGE {
        return None;
    }
    let field = owned.field.map_or_else(String::new, |field| format!(".{field}"));
    let holder = owned.holder.map_or_else(String::new, |holder| format!(", which {holder} retains"));
    let who = match owned.field {
        Some(_) => {
            let verb = if owned.behind { "leads to" } else { "points at" };
            format!("{}{field} of {} {verb} them", owned.r#type, count(owned.objects, "object"))
        }
        None => format!("{} lead to them", count(owned.objects, &format!("{} object", owned.r#type))),
    };
    let text =
        format!("{} of native memory in {}: {who}{holder}.", round(owned.bytes), count(owned.blocks, "malloc block"));
    let evidence = format!("words of {} objects that are addresses of used blocks", exact(owned.objects));
    let evidence = if owned.behind { format!("{evidence}, and words of these blocks") } else { evidence };
    let finding = Finding::new("native-owner", Severity::Info, text, evidence).about(owned.bytes.min(owned.written));
    let print = format!("{}{field}", owned.r#type);
    Some(finding.known(Confidence::Derived).more("holders").within("malloc").fingerprinted(print))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn an_owner_is_a_type_with_its_field_and_who_holds_the_objects() {
        let owned = Owned {
            r#type: "Tile",
            field: Some("pixels"),
            objects: 1300,
            blocks: 1300,
            bytes: 60 << 20,
            written: 50 << 20,
            behind: false,
            holder: Some("Store.decoded"),
        };
        assert_eq!(finding(&owned).unwrap().bytes, Some(50 << 20));
        let chained = finding(&Owned { behind: true, ..owned }).unwrap().text;
        assert!(chained.contains("Tile.pixels of 1,300 objects leads to them, which"), "{chained}");
        assert_eq!(
            finding(&owned).unwrap().text,
            "60 MiB of native memory in 1,300 malloc blocks: Tile.pixels of 1,300 objects points at them, which \
             Store.decoded retains."
        );
        let behind = Owned { r#type: "Connection", field: None, objects: 40, ..owned };
        assert_eq!(
            finding(&behind).unwrap().text,
            "60 MiB of native memory in 1,300 malloc blocks: 40 Connection objects lead to them, which Store.decoded \
             retains."
        );
        assert!(finding(&Owned { bytes: 1 << 20, ..owned }).is_none());
    }
}
