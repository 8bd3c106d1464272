//! Position of an address in its region, as text: variable or section of a file, distance from a thread's stack
//! pointer, offset in an arena.

use crate::addr::Addr;
use crate::bytes::printable;
use crate::map::{Kind, Owner, Region};
use crate::session::Session;

/// Formats a position: `app orders+0x8`, `libc.so.6 .text+0x1234`, `thread 17, SP+0x80`, `arena 0x7f… +0x40`.
pub fn place(session: &Session<'_>, region: &Region, addr: Addr) -> String {
    if let Owner::Module(i) = region.owner
        && let Some(module) = session.process.modules.get(i as usize)
    {
        if let Some(variable) = session.symbols().resolve_data(addr).filter(|s| s.sized && s.module == Some(i as usize))
        {
            let offset = if variable.offset == 0 { String::new() } else { format!("+{:#x}", variable.offset) };
            return format!("{} {}{offset}", printable(module.name()), printable(&variable.name));
        }
        return match module.section_at(addr) {
            Some(s) => {
                format!("{} {}+{:#x}", printable(module.name()), printable(&s.name), addr.since(s.range.start))
            }
            None => format!("{}+{:#x}", printable(&region.detail), addr.since(region.range.start)),
        };
    }
    if region.kind == Kind::Stack {
        let detail = printable(&region.detail);
        return match session.sp_in(region) {
            Some(sp) if addr >= sp => format!("{detail}, SP+{:#x}", addr.since(sp)),
            Some(sp) => format!("{detail}, SP-{:#x} (below SP: no longer in use)", sp.since(addr)),
            None => format!("{detail}, {:#x} below the top", region.range.end.since(addr)),
        };
    }
    let offset = addr.since(region.range.start);
    if region.detail.is_empty() {
        format!("{}+{offset:#x}", region.range.start)
    } else {
        format!("{}+{offset:#x}", printable(&region.detail))
    }
}
