//! A module: its file, and its metadata if the core or a file proven to be the same has it.
//!
//! Sources: docs/design/datacontracts/Loader.md; src/coreclr/vm: ceeload.h (Module), peassembly.h, peimage.h,
//! peimagelayout.h.

use std::borrow::Cow;
use std::sync::OnceLock;

use crate::addr::Addr;
use crate::bytes::printable;
use crate::diag::was_read;
use crate::image::metadata::{Metadata, MetadataError, find_root};
use crate::image::modules::file_name;
use crate::image::pdb::{Line, Pdb, PdbReference, find_pdb};
use crate::image::pe::{self, PeImage};
use crate::layout::ViewError;
use crate::limits;
use crate::runtimes::coreclr::types::TypeSystem;
use crate::targets::reads::Script;

const CORE_LIBRARY: &str = "System.Private.CoreLib";

/// A module of the runtime.
#[derive(Debug)]
pub struct ModuleInfo<'p> {
    /// Address of the Module.
    pub addr: Addr,
    /// Path of the file. Empty for modules from Reflection.Emit or loaded from bytes.
    pub path: String,
    /// Load address of the image; 0 if there is none.
    pub base: Addr,
    /// Headers of the image.
    image: Option<PeImage>,
    /// Whether the image is mapped flat, as on disk, and not by section.
    flat: bool,
    /// Metadata of the module. `None` if it could not be read.
    pub metadata: Option<Metadata<'p>>,
    /// Reason why there is no metadata.
    pub missing: Option<String>,
    /// Whether the image is in a single-file program.
    bundled: bool,
    simple_name: String,
    pdb: OnceLock<Option<Pdb>>,
}

impl<'p> ModuleInfo<'p> {
    /// A module of which only the address is known, with the reason.
    pub(super) fn unread(addr: Addr, why: &str) -> ModuleInfo<'p> {
        ModuleInfo {
            addr,
            path: String::new(),
            base: Addr::NULL,
            image: None,
            flat: false,
            metadata: None,
            missing: Some(why.to_owned()),
            bundled: false,
            simple_name: String::new(),
            pdb: OnceLock::new(),
        }
    }

    /// Reads the module. Its metadata is read only if `wanted`.
    pub(super) fn read(types: &TypeSystem<'p>, addr: Addr, wanted: bool) -> ModuleInfo<'p> {
        was_read(&format!("module at {addr}"));
        let path = path(types, addr).unwrap_or_default();
        let base = image_base(types, addr).unwrap_or(Addr::NULL);
        let image = if base.is_null() { None } else { pe::read(types.memory, base) };
        let found = match (wanted, &image) {
            (false, _) => Err(NoMetadata::TooMuch),
            (true, Some(image)) => in_image(types, base, image),
            (true, None) if !base.is_null() => Err(NoMetadata::NoHeaders { base }),
            (true, None) => emitted(types, addr).map(|m| (m, false)),
        };
        let (metadata, flat, missing) = match found {
            Ok((metadata, flat)) => (Some(metadata), flat, None),
            Err(why) => (None, false, Some(why.to_string())),
        };
        let of_file = |path: &str| {
            let name = file_name(path);
            name.strip_suffix(".dll").or_else(|| name.strip_suffix(".exe")).unwrap_or(name).to_owned()
        };
        let simple_name = metadata
            .as_ref()
            .and_then(|m| Some(m.assembly()?.name.into_owned()))
            .filter(|n| !n.is_empty())
            .unwrap_or_else(|| of_file(&path));
        let bundled = types.process.bundle.as_ref().is_some_and(|b| b.has(&types.process.modules, base));
        ModuleInfo { addr, path, base, image, flat, metadata, missing, bundled, simple_name, pdb: OnceLock::new() }
    }

    /// Name of the single-file program that contains the module. `None` if the module has a file of its own.
    pub fn container(&self, types: &TypeSystem<'p>) -> Option<String> {
        let bundle = types.process.bundle.as_ref().filter(|_| self.bundled)?;
        Some(printable(file_name(&bundle.program)).into_owned())
    }

    /// Simple name of the assembly.
    pub fn assembly_name(&self) -> &str {
        &self.simple_name
    }

    /// Whether it is the core library, which defines the types of tasks.
    pub fn is_core_library(&self) -> bool {
        self.simple_name == CORE_LIBRARY
    }

    /// Name of the module's file, or of the module itself if it has no file.
    pub fn name(&self) -> Cow<'_, str> {
        if !self.path.is_empty() {
            return Cow::Borrowed(file_name(&self.path));
        }
        match self.metadata.as_ref().and_then(Metadata::module) {
            Some(row) => Cow::Owned(row.name.into_owned()),
            None if self.simple_name.is_empty() => Cow::Owned(format!("module_{}", self.addr)),
            None => Cow::Borrowed(&self.simple_name),
        }
    }

    /// Address of a method's IL. `None` if the method or the module has none.
    pub fn il_address(&self, method_rid: u32) -> Option<Addr> {
        let rva = self.metadata.as_ref()?.method_def(method_rid)?.rva;
        self.rva_address(rva)
    }

    /// Address of an RVA of the image.
    pub fn rva_address(&self, rva: u32) -> Option<Addr> {
        self.image.as_ref().filter(|_| rva != 0)?.rva_to_addr(self.base, rva, self.flat)
    }

    /// Source line of an IL offset. Needs the module's PDB: embedded, or under `--symbols`.
    pub fn line(&self, types: &TypeSystem<'p>, method_rid: u32, il_offset: i64) -> Option<Line> {
        // The special offsets -1 to -3 are passed to the PDB reader as u32.
        self.pdb.get_or_init(|| self.find_pdb(types)).as_ref()?.line(method_rid, il_offset as u32)
    }

    /// Names of a method's local variables by slot. Empty without the module's PDB.
    pub fn local_names(&self, types: &TypeSystem<'p>, method_rid: u32) -> Vec<(u16, String)> {
        let pdb = self.pdb.get_or_init(|| self.find_pdb(types)).as_ref();
        pdb.map(|pdb| pdb.locals(method_rid)).unwrap_or_default()
    }

    fn find_pdb(&self, types: &TypeSystem<'p>) -> Option<Pdb> {
        let reference = PdbReference::read(types.memory, self.base, self.image.as_ref()?, self.flat)?;
        let embedded = reference.embedded_pdb(types.memory).and_then(Result::ok);
        let bytes = embedded.or_else(|| find_pdb(&types.process.symbols, &self.path, &reference))?;
        Pdb::open(bytes).map_err(|e| tracing::debug!(%e, module = %self.path, "no PDB")).ok()
    }
}

/// Reasons why a module has no metadata.
#[derive(Debug, thiserror::Error)]
enum NoMetadata {
    /// The limit on metadata of all modules together is reached.
    #[error("too much metadata in total")]
    TooMuch,
    /// The PE headers of the image are not in the core.
    #[error("no PE headers at {base} in the core")]
    NoHeaders { base: Addr },
    /// The module has no file, and the runtime has no field for a copy of its metadata.
    #[error("it has no image")]
    NoImage,
    /// The runtime made no copy of the metadata.
    #[error("Reflection.Emit created it without a metadata copy for debuggers")]
    NoCopy,
    /// A structure of the runtime can't be read.
    #[error(transparent)]
    View(#[from] ViewError),
    /// The metadata can't be read.
    #[error(transparent)]
    Metadata(#[from] MetadataError),
}

/// Reads NUL-terminated UTF-16 text. `None` if there is no NUL within the limit.
fn wide_text(types: &TypeSystem<'_>, at: Addr) -> Option<String> {
    let have = types.memory.readable(at, limits::MAX_PATH_BYTES as u64) as usize;
    let bytes = types.memory.look(at, have).ok()?;
    let units: Vec<u16> = bytes.as_chunks::<2>().0.iter().map(|c| u16::from_le_bytes(*c)).collect();
    let text = units.get(..units.iter().position(|&u| u == 0)?)?;
    types.memory.keep_name(at, 2 * (text.len() as u64 + 1), Script::Units(2));
    Some(char::decode_utf16(text.iter().copied()).map(|c| c.unwrap_or(char::REPLACEMENT_CHARACTER)).collect())
}

fn path(types: &TypeSystem<'_>, addr: Addr) -> Option<String> {
    let module = types.view("Module", addr);
    let text = |at: Addr| Some(at).filter(|at| !at.is_null()).and_then(|at| wide_text(types, at));
    let own = module.ptr("Path").ok().and_then(text).filter(|path| !path.is_empty());
    // An assembly in a single-file program has no path in Module. Its PEImage has the path that it would have as a
    // file.
    own.or_else(|| {
        let image = types.view("PEAssembly", module.ptr("PEAssembly").ok()?).ptr("PEImage").ok()?;
        types.view("PEImage", image).ptr("Path").ok().and_then(text)
    })
}

fn image_base(types: &TypeSystem<'_>, addr: Addr) -> Result<Addr, ViewError> {
    let module = types.view("Module", addr);
    if let Ok(base) = module.ptr("Base")
        && !base.is_null()
    {
        return Ok(base);
    }
    let assembly = module.ptr("PEAssembly")?;
    let image = types.view("PEAssembly", assembly).ptr("PEImage")?;
    let layout = types.view("PEImage", image).ptr("LoadedImageLayout")?;
    types.view("PEImageLayout", layout).ptr("Base")
}

/// Finds the metadata of an image, and whether the image is flat. IL-only files are mapped as they are on disk, others
/// by section.
fn in_image<'p>(types: &TypeSystem<'p>, base: Addr, image: &PeImage) -> Result<(Metadata<'p>, bool), NoMetadata> {
    let found =
        |flat| find_root(types.memory, base, image, flat).and_then(|(at, len)| Metadata::at(types.memory, at, len));
    found(false).map(|metadata| (metadata, false)).or_else(|_| Ok((found(true)?, true)))
}

/// Metadata of a Reflection.Emit module: the copy that the runtime stores for debuggers.
fn emitted<'p>(types: &TypeSystem<'p>, addr: Addr) -> Result<Metadata<'p>, NoMetadata> {
    let buffer = types.view("Module", addr).ptr("DynamicMetadata").map_err(|_| NoMetadata::NoImage)?;
    if buffer.is_null() {
        return Err(NoMetadata::NoCopy);
    }
    let view = types.view("DynamicMetadata", buffer);
    // In place from .NET 9 on, through a pointer before.
    let data = if view.has("Data") { view.addr_of("Data") } else { view.ptr("Buffer") };
    let size = view.u32("Size");
    let (size, data) = (size?, data?);
    Ok(Metadata::at(types.memory, data, u64::from(size))?)
}
