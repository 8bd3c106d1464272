use std::io::{self, Write};

use crate::commands::stackobjects::report::{StackObjectRow, StackObjectsReport};
use crate::render::brief::LISTED_ROWS;
use crate::render::document::{Document, TableBlock, exact_or_dash};
use crate::render::lines::{not_read_line, stack_lines};
use crate::render::{List, Listing, Render, csv_rows};
use crate::report::Name;
use crate::targets::threads::tid_text;

impl Listing for StackObjectsReport {
    fn lists(&mut self) -> Vec<&mut dyn List> {
        vec![&mut self.objects]
    }
}

impl Render for StackObjectsReport {
    fn document(&self) -> Document<'_> {
        let mut doc = Document::default();
        if self.objects.is_empty() {
            doc.line("no object is referred to by a stack");
        } else {
            doc.table(self.table());
        }
        stack_lines(&mut doc, &self.stacks);
        not_read_line(&mut doc, &self.not_read);
        doc
    }

    fn csv(&self, out: &mut dyn Write) -> io::Result<()> {
        csv_rows(&self.objects, out)
    }
}

impl StackObjectsReport {
    fn table(&self) -> TableBlock<'_> {
        let mut table = TableBlock::default()
            .text("Thread")
            .text("At")
            .text("Object")
            .number("Size")
            .optional()
            .type_name("Type")
            .least(24)
            .type_name("Method")
            .least(24)
            .brief(LISTED_ROWS, "reference");
        for row in &self.objects {
            table.rows.push(vec![
                row.tid.map_or_else(|| "?".to_owned(), tid_text),
                row.register.map_or_else(|| row.address.to_string(), str::to_owned),
                row.object.to_string(),
                exact_or_dash(row.size),
                row.name.as_ref().map_or_else(|| "?".to_owned(), Name::shown),
                method(row),
            ]);
        }
        table
    }
}

/// The method of a reference, with how sure it is.
fn method(row: &StackObjectRow) -> String {
    let doubt = if row.precise { "" } else { " (stack word)" };
    format!("{}{doubt}", row.method.as_deref().unwrap_or("-"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_that_may_be_no_reference_is_marked() {
        let row = StackObjectRow { method: Some("Shop.Pay()".to_owned()), ..StackObjectRow::default() };
        assert_eq!(method(&row), "Shop.Pay() (stack word)");
        assert_eq!(method(&StackObjectRow { precise: true, ..row }), "Shop.Pay()");
        assert_eq!(method(&StackObjectRow::default()), "- (stack word)");
    }
}
