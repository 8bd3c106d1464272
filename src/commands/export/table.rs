//! The table of `export`.

use std::io::{self, Write};

use crate::commands::export::report::{ExportReport, ExportedRow};
use crate::render::document::Document;
use crate::render::{Render, csv_rows};
use crate::report::ExportFormat;
use crate::units::{exact, human};

impl Render for ExportReport {
    fn wants_headline(&self) -> bool {
        false
    }

    fn document(&self) -> Document<'_> {
        let mut doc = Document::default();
        if let Some(why) = &self.refused {
            doc.line(why.clone());
            return doc;
        }
        for file in &self.files {
            doc.line(format!("{}: {} ({} bytes)", file.path, human(file.bytes), exact(file.bytes)));
        }
        for row in &self.figures {
            let size = if row.figure.ends_with("bytes") { format!(" ({})", human(row.value)) } else { String::new() };
            doc.line(format!("{:>15}  {}{size}", exact(row.value), row.figure.replace('_', " ")));
        }
        for limit in &self.limits {
            doc.line(format!("Limit: {limit}"));
        }
        doc.line(opened_with(self.format).to_owned());
        doc
    }

    fn csv(&self, out: &mut dyn Write) -> io::Result<()> {
        csv_rows::<ExportedRow>(&self.files, out)
    }
}

/// Names the programs that open the file.
fn opened_with(format: ExportFormat) -> &'static str {
    match format {
        ExportFormat::Gcdump => {
            "Open it with PerfView, Visual Studio, dotnet-heapview or `dotnet-gcdump report`. It contains types, sizes and \
             references, but no contents of objects."
        }
        ExportFormat::Hprof => "Open it with VisualVM, Eclipse MAT, JDK Mission Control, YourKit or an IDE.",
        ExportFormat::Speedscope => {
            "Open it at https://www.speedscope.app (nothing is uploaded) or with `npx speedscope FILE`."
        }
        ExportFormat::Firefox => "Open it at https://profiler.firefox.com (nothing is uploaded).",
        ExportFormat::Pprof => {
            "Read it with `go tool pprof -top FILE`, view it with `-http=:`, compare two with `-diff_base OLD`."
        }
        ExportFormat::Parquet => {
            "Query it with DuckDB, Spark, pandas or others: `SELECT … FROM 'FOLDER/objects.parquet'` (docs/exports.md)."
        }
        ExportFormat::Folded => "Draw it with flamegraph.pl, inferno, speedscope or others.",
    }
}
