//! Exports a core as tables: the lists of other commands, and every object and reference.

mod heap;

use std::collections::HashMap;

use crate::addr::Addr;
use crate::commands::dotnet::handles::{HandleOptions, handles};
use crate::commands::export::analysis::{ExportOptions, OutputFiles};
use crate::commands::export::report::{ExportReport, ExportedRow, FigureRow};
use crate::commands::{MallocOptions, RegionOptions, ThreadOptions, malloc, regions, stacks, threads};
use crate::export::ExportError;
use crate::export::tables::{Cell, Column, Form, Table};
use crate::progress::Progress;
use crate::report::FrameRow;
use crate::session::Session;

const TOOL: &str = concat!("coremap ", env!("CARGO_PKG_VERSION"));

/// Writes the rows of a table.
type Rows<'r> = dyn FnMut(&mut Table<'_>) -> Result<(), ExportError> + 'r;

/// Destination of the tables, and the value of the column `core`.
struct Tables<'f> {
    files: &'f mut dyn OutputFiles,
    core: String,
    written: Vec<ExportedRow>,
    figures: Vec<FigureRow>,
}

impl Tables<'_> {
    fn write(
        &mut self,
        name: &'static str,
        columns: &'static [Column],
        rows: &mut Rows<'_>,
    ) -> Result<(), ExportError> {
        let row = self.files.create(Some(&format!("{name}.parquet")), &mut |out| {
            let mut table = Table::begin(name, columns, TOOL, out)?;
            rows(&mut table)?;
            table.finish()
        })?;
        self.figures.push(FigureRow { figure: name, value: row.rows });
        self.written.push(row);
        Ok(())
    }
}

fn number(addr: Addr) -> Cell<'static> {
    Cell::Number(Some(addr.get()))
}

/// Writes all tables. `meta` is written last, so a folder that has it is complete.
pub(super) fn write(
    session: &Session<'_>,
    options: ExportOptions,
    files: &mut dyn OutputFiles,
    progress: &Progress,
) -> Result<ExportReport, ExportError> {
    let core = options.core_id.clone().unwrap_or_else(|| name_of(session));
    let mut tables = Tables { files, core, written: Vec::new(), figures: Vec::new() };
    let mut limits = Vec::new();
    of_regions(session, progress, &mut tables)?;
    of_threads(session, progress, &mut tables)?;
    of_malloc(session, progress, &mut tables, &mut limits)?;
    heap::write(session, options.show_data, &mut tables, progress)?;
    of_handles(session, &mut tables)?;
    of_meta(session, &mut tables)?;
    Ok(ExportReport { files: tables.written, figures: tables.figures, limits, ..ExportReport::default() })
}

/// Default value of the column `core`: the path of the file.
fn name_of(session: &Session<'_>) -> String {
    session.process.facts().path.clone()
}

fn of_regions(session: &Session<'_>, progress: &Progress, tables: &mut Tables<'_>) -> Result<(), ExportError> {
    const COLUMNS: &[Column] = &[
        ("core", Form::Text),
        ("start", Form::Rising),
        ("size", Form::Number),
        ("in_core", Form::Number),
        ("kind", Form::Text),
        ("detail", Form::Text),
        ("perms", Form::Text),
        ("file", Form::Text),
        ("confidence", Form::Text),
    ];
    let report = regions(session, &RegionOptions::default(), progress);
    let core = tables.core.clone();
    tables.write("regions", COLUMNS, &mut |table| {
        report.regions.iter().try_for_each(|row| {
            table.row(&[
                core.as_str().into(),
                number(row.start),
                row.size.into(),
                row.in_core.into(),
                row.kind.name().into(),
                (&*row.detail).into(),
                row.perms.as_str().into(),
                row.file.as_deref().into(),
                row.confidence.name().into(),
            ])
        })
    })
}

fn of_threads(session: &Session<'_>, progress: &Progress, tables: &mut Tables<'_>) -> Result<(), ExportError> {
    const THREADS: &[Column] = &[
        ("core", Form::Text),
        ("tid", Form::Rising),
        ("name", Form::Text),
        ("managed_id", Form::Number),
        ("managed_name", Form::Text),
        ("role", Form::Text),
        ("state", Form::Text),
        ("waits_for", Form::Number),
        ("stack_reserved", Form::Number),
        ("stack_touched", Form::Number),
    ];
    const FRAMES: &[Column] = &[
        ("core", Form::Text),
        ("tid", Form::Rising),
        ("number", Form::Number),
        ("ip", Form::Number),
        ("sp", Form::Number),
        ("kind", Form::Text),
        ("method", Form::Text),
        ("module", Form::Text),
        ("offset", Form::Number),
        ("trust", Form::Text),
        ("file", Form::Text),
        ("line", Form::Number),
    ];
    let report = threads(session, ThreadOptions::default());
    let stacks = stacks(session, &HashMap::new(), true, progress);
    let sizes: HashMap<u32, (Option<u64>, Option<u64>)> =
        stacks.stacks.iter().filter_map(|row| Some((row.tid?, (row.reserved, row.touched)))).collect();
    let core = tables.core.clone();
    tables.write("threads", THREADS, &mut |table| {
        report.threads.iter().try_for_each(|row| {
            let (reserved, touched) = sizes.get(&row.tid).copied().unwrap_or_default();
            table.row(&[
                core.as_str().into(),
                u64::from(row.tid).into(),
                row.name.as_deref().into(),
                row.managed_id.map(u64::from).into(),
                row.managed_name.as_deref().into(),
                row.role.into(),
                row.state.as_deref().into(),
                row.waits_for.as_ref().map(|wait| wait.object.get()).into(),
                reserved.into(),
                touched.into(),
            ])
        })
    })?;
    let core = tables.core.clone();
    tables.write("frames", FRAMES, &mut |table| {
        for thread in &report.threads {
            for (place, row) in (0_u64..).zip(&thread.frames) {
                table.row(&[
                    core.as_str().into(),
                    u64::from(thread.tid).into(),
                    place.into(),
                    row.ip.map(|ip| ip.get()).into(),
                    number(row.sp),
                    row.kind.name().into(),
                    Some(FrameRow::name(row).as_str()).filter(|_| row.method.is_some() || row.frame.is_some()).into(),
                    row.module.as_deref().into(),
                    row.offset.into(),
                    row.trust.name().into(),
                    row.file.as_deref().into(),
                    row.line.map(u64::from).into(),
                ])?;
            }
        }
        Ok(())
    })
}

fn of_malloc(
    session: &Session<'_>,
    progress: &Progress,
    tables: &mut Tables<'_>,
    limits: &mut Vec<String>,
) -> Result<(), ExportError> {
    const COLUMNS: &[Column] = &[
        ("core", Form::Text),
        ("address", Form::Rising),
        ("size", Form::Number),
        ("asked", Form::Number),
        ("state", Form::Text),
        ("place", Form::Text),
        ("arena", Form::Number),
    ];
    let report = malloc(session, &MallocOptions { chunks: true, limit: None, ..MallocOptions::default() }, progress);
    let chunks = report.chunks.unwrap_or_default();
    let all = report.chunks_total.unwrap_or(0);
    if all > chunks.len() as u64 {
        limits.push(format!("the table malloc_chunks contains {} of {all} chunks", chunks.len()));
    }
    let core = tables.core.clone();
    tables.write("malloc_chunks", COLUMNS, &mut |table| {
        chunks.iter().try_for_each(|row| {
            table.row(&[
                core.as_str().into(),
                number(row.address),
                row.size.into(),
                row.asked.into(),
                row.state.name().into(),
                row.r#where.name().into(),
                row.arena.map(|arena| arena.get()).into(),
            ])
        })
    })
}

fn of_handles(session: &Session<'_>, tables: &mut Tables<'_>) -> Result<(), ExportError> {
    const COLUMNS: &[Column] = &[
        ("core", Form::Text),
        ("address", Form::Rising),
        ("kind", Form::Text),
        ("object", Form::Number),
        ("secondary", Form::Number),
        ("type", Form::Text),
    ];
    let report = handles(session, &HandleOptions::default());
    let core = tables.core.clone();
    tables.write("handles", COLUMNS, &mut |table| {
        report.handles.iter().try_for_each(|row| {
            table.row(&[
                core.as_str().into(),
                number(row.address),
                row.kind.name().into(),
                number(row.object),
                row.secondary.map(|object| object.get()).into(),
                row.name.as_deref().into(),
            ])
        })
    })
}

fn of_meta(session: &Session<'_>, tables: &mut Tables<'_>) -> Result<(), ExportError> {
    const COLUMNS: &[Column] = &[
        ("core", Form::Text),
        ("path", Form::Text),
        ("size", Form::Number),
        ("pid", Form::Number),
        ("program", Form::Text),
        ("arch", Form::Text),
        ("producer", Form::Text),
        ("runtimes", Form::Text),
        ("warnings", Form::Number),
        ("partial", Form::Number),
        ("coremap", Form::Text),
    ];
    let process = session.process;
    let facts = process.facts();
    let runtimes: Vec<String> = session.runtimes().iter().map(|runtime| runtime.label()).collect();
    let core = tables.core.clone();
    tables.write("meta", COLUMNS, &mut |table| {
        table.row(&[
            core.as_str().into(),
            facts.path.as_str().into(),
            facts.size.into(),
            process.pid().map(u64::from).into(),
            facts.process.as_ref().map(|info| info.name.as_str()).into(),
            facts.arch.name().into(),
            facts.producer.name().into(),
            runtimes.join(", ").as_str().into(),
            (process.diag.warnings().len() as u64).into(),
            u64::from(process.diag.is_partial()).into(),
            env!("CARGO_PKG_VERSION").into(),
        ])
    })
}
