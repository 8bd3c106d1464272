//! What was exported, as a document.

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

/// Who opens it.
fn opened_with(format: ExportFormat) -> &'static str {
    match format {
        ExportFormat::Gcdump => {
            "PerfView, Visual Studio, dotnet-heapview and `dotnet-gcdump report` open it. It has types, sizes and references, \
             and no contents of objects."
        }
        ExportFormat::Hprof => "VisualVM, Eclipse MAT, JDK Mission Control, YourKit and IDEs open it.",
        ExportFormat::Speedscope => {
            "https://www.speedscope.app opens it (nothing is uploaded), and `npx speedscope FILE`."
        }
        ExportFormat::Firefox => "https://profiler.firefox.com opens it (nothing is uploaded).",
        ExportFormat::Pprof => {
            "`go tool pprof -top FILE` reads it, `-http=:` shows it, and `-diff_base OLD` compares two."
        }
        ExportFormat::Parquet => {
            "DuckDB, Spark, pandas and others read it: `SELECT … FROM 'FOLDER/objects.parquet'` (docs/sql.md)."
        }
        ExportFormat::Folded => "flamegraph.pl, inferno, speedscope and others draw it.",
    }
}
