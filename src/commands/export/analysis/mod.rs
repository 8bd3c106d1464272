//! From a session to files.

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

/// What to write.
#[derive(Clone, Debug, Default)]
pub struct ExportOptions {
    /// The format.
    pub format: ExportFormat,
    /// What stacks are of, where the format has them.
    pub subject: ExportSubject,
    /// Of tables: what the column `core` has in every row; the path of the core where it is not said.
    pub core_id: Option<String>,
    /// Of tables: whether texts of strings are told.
    pub show_data: bool,
}

/// Where files go. They appear whole, or not at all.
pub trait Files {
    /// Make the file `name` and have `fill` write it, which gives how many rows it has. Where the format has one file alone, it has no name.
    ///
    /// # Errors
    /// What `fill` says, and where the file can't be made.
    fn make(
        &mut self,
        name: Option<&str>,
        fill: &mut dyn FnMut(&mut dyn Output) -> Result<u64, ExportError>,
    ) -> Result<ExportedRow, ExportError>;
}

/// Write what `options` ask for.
///
/// # Errors
/// Where a file could not be written. What a core lacks, or has too much of, is told in the report.
pub fn export(
    session: &Session<'_>,
    options: ExportOptions,
    files: &mut dyn Files,
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
