//! Exports data of a session to files.

mod gcdump;
mod hprof;
mod profiles;
mod retained;
#[cfg(feature = "parquet")]
mod tables;

use crate::commands::export::report::{ExportReport, ExportedRow};
use crate::export::{ExportError, Output};
use crate::progress::Progress;
use crate::report::{ExportFormat, ExportSubject};
use crate::session::Session;

/// Options of `export`.
#[derive(Clone, Debug, Default)]
pub struct ExportOptions {
    /// Format of the files.
    pub format: ExportFormat,
    /// Subject of the stacks, for formats that have stacks.
    pub subject: ExportSubject,
    /// For tables: value of the column `core` in every row. `None` means the core's path.
    pub core_id: Option<String>,
    /// For tables: whether to include the contents of strings.
    pub show_data: bool,
}

/// Destination of the files. A file appears complete or not at all.
pub trait OutputFiles {
    /// Creates the file `name` and lets `fill` write it. `fill` returns the number of rows. `name` is `None` if the
    /// format has only one file.
    ///
    /// # Errors
    /// Errors of `fill`, and of creating the file.
    fn create(
        &mut self,
        name: Option<&str>,
        fill: &mut dyn FnMut(&mut dyn Output) -> Result<u64, ExportError>,
    ) -> Result<ExportedRow, ExportError>;
}

/// Exports what `options` request.
///
/// # Errors
/// Fails if a file cannot be written. Missing data, and data beyond a limit, are listed in the report.
pub fn export(
    session: &Session<'_>,
    options: ExportOptions,
    files: &mut dyn OutputFiles,
    progress: &Progress,
) -> std::io::Result<ExportReport> {
    let (format, subject) = (options.format, options.subject);
    let written = match format {
        #[cfg(feature = "parquet")]
        ExportFormat::Parquet => tables::write(session, options, files, progress),
        #[cfg(not(feature = "parquet"))]
        ExportFormat::Parquet => Err(ExportError::Unfit("this coremap was built without the feature parquet".into())),
        ExportFormat::Gcdump => gcdump::write(session, files, progress),
        ExportFormat::Hprof => hprof::write(session, files, progress),
        _ => profiles::write(session, options, files, progress),
    };
    let of = format.has_subject().then_some(subject);
    match written {
        Ok(report) => Ok(ExportReport { format, of, ..report }),
        Err(ExportError::Unfit(why)) => Ok(ExportReport { format, of, refused: Some(why), ..ExportReport::default() }),
        Err(ExportError::Io(e)) => Err(e),
    }
}
