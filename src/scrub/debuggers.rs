//! Bytes that debuggers need and coremap's answers don't: the vdso's file, and glibc's description of its thread
//! structures.

use crate::image::{ModuleKind, symbols};
use crate::map::Kind;
use crate::session::Session;
use crate::targets::byte_set::ByteSet;

/// Libraries that contain the thread library: libc from glibc 2.34 on, libpthread before.
const LIBRARIES: [&str; 2] = ["libc.so", "libpthread"];

/// Symbols that libthread_db looks up before it lists threads (glibc's nptl_db/structs.def): its version, and
/// constants that locate fields.
const SYMBOLS: &[&str] = &[
    "__nptl_last_event",
    "__nptl_nthreads",
    "__nptl_rtld_global",
    "__nptl_version",
    "nptl_version",
    "_thread_db___nptl_last_event",
    "_thread_db___nptl_nthreads",
    "_thread_db___nptl_rtld_global",
    "_thread_db___pthread_keys",
    "_thread_db_const_thread_area",
    "_thread_db_dtv_dtv",
    "_thread_db_dtv_slotinfo_gen",
    "_thread_db_dtv_slotinfo_list_len",
    "_thread_db_dtv_slotinfo_list_next",
    "_thread_db_dtv_slotinfo_list_slotinfo",
    "_thread_db_dtv_slotinfo_map",
    "_thread_db_dtv_t_counter",
    "_thread_db_dtv_t_pointer_val",
    "_thread_db_link_map_l_tls_modid",
    "_thread_db_link_map_l_tls_offset",
    "_thread_db_list_t_next",
    "_thread_db_list_t_prev",
    "_thread_db_pthread_cancelhandling",
    "_thread_db_pthread_dtvp",
    "_thread_db_pthread_eventbuf",
    "_thread_db_pthread_eventbuf_eventmask",
    "_thread_db_pthread_eventbuf_eventmask_event_bits",
    "_thread_db_pthread_list",
    "_thread_db_pthread_nextevent",
    "_thread_db_pthread_report_events",
    "_thread_db_pthread_schedparam_sched_priority",
    "_thread_db_pthread_schedpolicy",
    "_thread_db_pthread_specific",
    "_thread_db_pthread_start_routine",
    "_thread_db_pthread_tid",
    "_thread_db_rtld_global__dl_stack_used",
    "_thread_db_rtld_global__dl_stack_user",
    "_thread_db_rtld_global__dl_tls_dtv_slotinfo_list",
    "_thread_db_sizeof_dtv_slotinfo",
    "_thread_db_sizeof_dtv_slotinfo_list",
    "_thread_db_sizeof_list_t",
    "_thread_db_sizeof_pthread",
    "_thread_db_sizeof_td_eventbuf_t",
    "_thread_db_sizeof_td_thr_events_t",
];

/// Maximum number of bytes preserved of a symbol. Only a table of 64 keys is longer, and none of its fields is read.
const MAX_SYMBOL: u64 = 16;

/// Returns the bytes to preserve.
pub(super) fn all(session: &Session<'_>) -> ByteSet {
    let mut out = ByteSet::default();
    let process = session.process;
    let vdso = session.map().regions.iter().filter(|region| region.kind == Kind::Vdso);
    vdso.for_each(|region| out.add(region.range.start, region.range.len()));
    for module in &process.modules {
        let name = module.path.rsplit('/').next().unwrap_or_default();
        let ModuleKind::Elf(image) = &module.kind else { continue };
        if !LIBRARIES.iter().any(|library| name.starts_with(library)) {
            continue;
        }
        for symbol in SYMBOLS.iter().filter_map(|name| symbols::find(&process.memory, image, name)) {
            out.add(symbol.addr, symbol.size.min(MAX_SYMBOL));
        }
    }
    out
}
