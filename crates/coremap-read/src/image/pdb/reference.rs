//! A PE file's reference to its PDB in the debug directory, and the file that matches it.
//!
//! PE/COFF specification (debug directory); dotnet/runtime, docs/design/specs/PE-COFF.md
//! (CodeView entry of a portable PDB, embedded PDB, PDB checksum).

use std::fs::File;
use std::io::Read;

use super::{PdbError, PdbId};
use crate::addr::Addr;
use crate::bytes::{get, text, u16_at, u32_at, until_nul};
use crate::image::metadata::Metadata;
use crate::image::pe::{DEBUG_DIRECTORY, PeImage};
use crate::image::symbol_dirs::{Opened, SymbolDirs};
use crate::limits;
use crate::memory::Memory;
use crate::targets::reads::Script;

/// Size of IMAGE_DEBUG_DIRECTORY.
const ENTRY_BYTES: usize = 28;

/// Types of entries: IMAGE_DEBUG_TYPE_CODEVIEW, and two that only .NET has.
const CODEVIEW: u32 = 2;
const EMBEDDED_PORTABLE_PDB: u32 = 17;
const PDB_CHECKSUM: u32 = 19;

/// Minor version of a CodeView entry for a portable PDB: "PM".
const PORTABLE: u16 = 0x504d;

/// A checksum of the whole PDB, computed with zeros for its id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checksum {
    /// Algorithm, such as `SHA256`.
    pub algorithm: String,
    /// Value of the checksum.
    pub bytes: Vec<u8>,
}

/// A module's reference to its PDB.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PdbReference {
    /// Id of the portable PDB. `None` if the module has a Windows PDB or only an embedded
    /// one.
    pub id: Option<PdbId>,
    /// Path that the compiler wrote the PDB to. Often just a name.
    pub path: String,
    /// Address and length in bytes of the compressed PDB in the module.
    pub embedded: Option<(Addr, u32)>,
    /// Checksums of the PDB.
    pub checksums: Vec<Checksum>,
}

impl PdbReference {
    /// Reads the debug directory of the image at `base`. `None` if it has no entry for a
    /// PDB, or can't be read.
    pub fn read(memory: &dyn Memory, base: Addr, image: &PeImage, flat: bool) -> Option<PdbReference> {
        let directory = image.directory(DEBUG_DIRECTORY)?;
        let len = (directory.size as usize).min(limits::MAX_DEBUG_ENTRIES * ENTRY_BYTES);
        let table = memory.bytes(image.rva_to_addr(base, directory.rva, flat)?, len).ok()?;
        let mut out = PdbReference::default();
        for entry in table.chunks_exact(ENTRY_BYTES) {
            out.take(memory, base, image, flat, entry);
        }
        (out != PdbReference::default()).then_some(out)
    }

    /// Reads one entry. Skips it if it can't be read.
    fn take(&mut self, memory: &dyn Memory, base: Addr, image: &PeImage, flat: bool, entry: &[u8]) -> Option<()> {
        let (stamp, minor) = (u32_at(entry, 4)?, u16_at(entry, 10)?);
        let (kind, size, rva) = (u32_at(entry, 12)?, u32_at(entry, 16)?, u32_at(entry, 20)?);
        let addr = image.rva_to_addr(base, rva, flat).filter(|_| rva != 0)?;
        let small = |len: u32| memory.bytes(addr, (len as usize).min(limits::MAX_NAME)).ok();
        match kind {
            CODEVIEW => {
                let data = small(size)?;
                if !data.starts_with(b"RSDS") || self.id.is_some() {
                    return None;
                }
                let guid = get(&data, 4, 16)?;
                if minor == PORTABLE {
                    let mut id = [0; 20];
                    let stamp = stamp.to_le_bytes();
                    id.iter_mut().zip(guid.iter().chain(&stamp)).for_each(|(to, from)| *to = *from);
                    self.id = Some(PdbId(id));
                }
                self.path = text(data.get(24..)?);
                memory.keep_name(addr.saturating_add(24), data.len() as u64 - 24, Script::Utf8);
            }
            EMBEDDED_PORTABLE_PDB => self.embedded = Some((addr, size)),
            PDB_CHECKSUM => {
                let data = small(size)?;
                let bytes = data.get(until_nul(&data).len() + 1..)?.to_vec();
                self.checksums.push(Checksum { algorithm: text(&data), bytes });
            }
            _ => {}
        }
        Some(())
    }

    /// Returns the file name of the PDB.
    pub fn name(&self) -> &str {
        self.path.rsplit(['/', '\\']).next().unwrap_or_default()
    }

    /// Decompresses the PDB in the module itself. `None` if there is none.
    ///
    /// # Errors
    /// Fails if it can't be read or decompressed, or is larger than [`limits::MAX_PDB`].
    pub fn embedded_pdb(&self, memory: &dyn Memory) -> Option<Result<Vec<u8>, PdbError>> {
        let (addr, size) = self.embedded?;
        Some(unpack(memory, addr, size))
    }
}

/// Decompresses an embedded PDB: "MPDB", the uncompressed length, then a deflate stream.
fn unpack(memory: &dyn Memory, addr: Addr, size: u32) -> Result<Vec<u8>, PdbError> {
    if u64::from(size) > limits::MAX_PDB {
        return Err(PdbError::TooLarge(size.into()));
    }
    let data = memory.bytes(addr, size as usize).map_err(|_| PdbError::Inflate)?;
    let len = u32_at(&data, 4).filter(|_| data.starts_with(b"MPDB")).ok_or(PdbError::Inflate)?;
    if u64::from(len) > limits::MAX_PDB {
        return Err(PdbError::TooLarge(len.into()));
    }
    let packed = data.get(8..).ok_or(PdbError::Inflate)?;
    let mut out = Vec::new();
    flate2::read::DeflateDecoder::new(packed)
        .take(u64::from(len))
        .read_to_end(&mut out)
        .map_err(|_| PdbError::Inflate)?;
    if out.len() as u64 == u64::from(len) { Ok(out) } else { Err(PdbError::Inflate) }
}

/// Finds the PDB for `reference` under `dirs`: next to the module's path, or by name.
/// Only a file with the same id is accepted.
pub fn find_pdb(dirs: &SymbolDirs, module_path: &str, reference: &PdbReference) -> Option<Vec<u8>> {
    let id = reference.id?;
    let (folder, file) = module_path.rsplit_once('/').unwrap_or(("", module_path));
    let own = file.rsplit_once('.').map_or(file, |(stem, _)| stem).to_owned() + ".pdb";
    let mut tried = Vec::new();
    for name in [reference.name(), &own] {
        for place in dirs.places(&format!("{folder}/{name}"), name) {
            if tried.contains(&place) {
                continue;
            }
            let Opened::File(file) = dirs.look(&place) else { continue };
            let bytes = read_capped(file);
            tried.push(place);
            if let Some(bytes) = bytes.filter(|b| Metadata::parse(&b[..]).is_ok_and(|m| m.pdb_id() == Some(id.0))) {
                return Some(bytes);
            }
        }
    }
    None
}

/// Reads a file of at most [`limits::MAX_PDB`] bytes.
fn read_capped(file: File) -> Option<Vec<u8>> {
    let len = file.metadata().ok()?.len();
    if len > limits::MAX_PDB {
        return None;
    }
    let mut out = Vec::new();
    file.take(limits::MAX_PDB).read_to_end(&mut out).ok()?;
    Some(out)
}
