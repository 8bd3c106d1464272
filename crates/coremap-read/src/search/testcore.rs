//! Small cores for tests: PT_LOADs in any file order, with holes.

use crate::host::FileAt;

use crate::core::open::Core;
use crate::diag::Diagnostics;
use crate::progress::Progress;

pub(super) type Fallible<T = ()> = Result<T, Box<dyn std::error::Error>>;

/// A PT_LOAD, with address and bytes.
pub(super) struct Load {
    pub(super) addr: u64,
    pub(super) bytes: Vec<u8>,
    /// Whether to write no byte, so that the file has a hole.
    pub(super) hole: bool,
}

pub(super) fn load(addr: u64, bytes: &[u8]) -> Load {
    Load { addr, bytes: bytes.to_vec(), hole: false }
}

pub(super) fn hole(addr: u64, len: usize) -> Load {
    Load { addr, bytes: vec![0; len], hole: true }
}

/// Creates a core of `loads`, in the given order in the file, aligned to `align`.
pub(super) fn core(loads: &[Load], align: u64) -> Fallible<Core> {
    let file = tempfile::NamedTempFile::new()?;
    let mut header = Vec::new();
    header.extend_from_slice(b"\x7fELF\x02\x01\x01");
    header.resize(16, 0);
    header.extend_from_slice(&4u16.to_le_bytes());
    header.extend_from_slice(&62u16.to_le_bytes());
    header.extend_from_slice(&1u32.to_le_bytes());
    header.extend_from_slice(&0u64.to_le_bytes());
    header.extend_from_slice(&64u64.to_le_bytes());
    header.extend_from_slice(&0u64.to_le_bytes());
    header.extend_from_slice(&0u32.to_le_bytes());
    for half in [64u16, 56, u16::try_from(loads.len())?, 0, 0, 0] {
        header.extend_from_slice(&half.to_le_bytes());
    }
    let mut offset = (64 + 56 * loads.len() as u64).next_multiple_of(align);
    for load in loads {
        let len = load.bytes.len() as u64;
        header.extend_from_slice(&1u32.to_le_bytes());
        header.extend_from_slice(&6u32.to_le_bytes());
        for word in [offset, load.addr, 0, len, len, 1] {
            header.extend_from_slice(&word.to_le_bytes());
        }
        if !load.hole {
            file.as_file().write_all_at(&load.bytes, offset)?;
        }
        offset = (offset + len).next_multiple_of(align);
    }
    if file.as_file().metadata()?.len() < offset {
        file.as_file().set_len(offset)?;
    }
    file.as_file().write_all_at(&header, 0)?;
    Ok(Core::open(file.path(), &Diagnostics::default(), &Progress::silent())?)
}
