//! Active timers, from the lists of TimerQueue.
//!
//! Source: System.Private.CoreLib, Timer.cs (TimerQueue, TimerQueueTimer).

use std::collections::HashMap;
use std::convert::Infallible;

use crate::addr::Addr;
use crate::facts::TimerRow;
use crate::limits;
use crate::memory::walk::Walks;
use crate::phase::Phase;
use crate::progress::Progress;
use crate::runtimes::clr_gc::is_library;
use crate::runtimes::coreclr::CoreClr;
use crate::runtimes::coreclr::pending::THREAD;
use crate::runtimes::coreclr::tasks::core_static_address;
use crate::runtimes::coreclr::threads::short;

const QUEUE: &str = "System.Threading.TimerQueue";
const INSTANCES: &str = "<Instances>k__BackingField";

/// Lists of a TimerQueue, and fields of a TimerQueueTimer, with their names up to .NET Core 3.1.
const LISTS: [[&str; 2]; 2] = [["_shortTimers", "m_shortTimers"], ["_longTimers", "m_longTimers"]];
const NEXT: [&str; 2] = ["_next", "m_next"];
const DUE: [&str; 2] = ["_dueTime", "m_dueTime"];
const PERIOD: [&str; 2] = ["_period", "m_period"];
const CALLBACK: [&str; 2] = ["_timerCallback", "m_timerCallback"];
const STATE: [&str; 2] = ["_state", "m_state"];

/// A due time or period that is none (Timeout.UnsignedInfinite).
const NEVER: u32 = u32::MAX;

/// Maximum number of queues: one per processor.
const MAX_QUEUES: u64 = 4096;

/// Offsets in an array of references: number of elements, first element, and distance.
const LENGTH: u64 = 8;
const DATA: u64 = 16;
const ELEMENT: u64 = 8;

impl CoreClr<'_> {
    /// Active timers of all queues. `None` if the queues could not be read; empty if no timer was ever made.
    pub(super) fn read_timers(&self) -> Option<Vec<TimerRow>> {
        let types = self.types();
        if types.core_class(QUEUE).is_none() {
            // The class is loaded with the first timer. If no class is found, the core lacks their names.
            return types.core_class(THREAD).map(|_| Vec::new());
        }
        let memory = types.memory;
        let queues = memory.ptr(core_static_address(types, QUEUE, INSTANCES)?).ok()?;
        if queues.is_null() {
            return Some(Vec::new());
        }
        let count = memory.u32(queues.checked_add(LENGTH)?).ok()?;
        let walks = Walks::new(Phase::Tasks, limits::MAX_ASYNC_STEPS);
        let mut out = Vec::new();
        for i in 0..u64::from(count).min(MAX_QUEUES) {
            let Ok(queue) = memory.ptr(queues.saturating_add(DATA + ELEMENT * i)) else { break };
            for list in LISTS {
                let first = self.reference_in(queue, list).unwrap_or(Addr::NULL);
                let end = walks.begin_own_set().follow(first, |timer| {
                    out.push(self.timer(timer));
                    Ok::<_, Infallible>(self.reference_in(timer, NEXT).unwrap_or(Addr::NULL))
                });
                // A list that is damaged gives the timers before the damage.
                end.ok();
            }
        }
        self.name_reasons(&mut out);
        Some(out)
    }

    fn reference_in(&self, object: Addr, names: [&str; 2]) -> Option<Addr> {
        names.iter().find_map(|name| self.object_in(object, name))
    }

    fn timer(&self, timer: Addr) -> TimerRow {
        let number = |names: [&str; 2]| {
            let field = names.iter().find_map(|name| self.field_of(timer, name))?;
            self.types().memory.u32(field).ok()
        };
        let state = self.reference_in(timer, STATE);
        TimerRow {
            address: timer,
            due_ms: number(DUE).filter(|&ms| ms != NEVER).map(u64::from),
            period_ms: number(PERIOD).filter(|&ms| ms != NEVER && ms != 0).map(u64::from),
            callback: self.reference_in(timer, CALLBACK).and_then(|delegate| self.delegate_method(delegate)),
            state,
            state_type: state.and_then(|state| self.type_name_of(state)),
            awaited_by: None,
            held_by: None,
        }
    }

    /// Adds who waits for the timers' states, and the static variables that refer to them.
    fn name_reasons(&self, timers: &mut [TimerRow]) {
        if timers.iter().all(|timer| timer.state.is_none()) {
            return;
        }
        let tasks = self.tasks(&Progress::silent());
        let statics = self.statics_by_object();
        for timer in timers {
            let Some(state) = timer.state else { continue };
            timer.awaited_by = tasks.index_of(state).and_then(|task| self.own_caller(tasks, task));
            timer.held_by = statics.get(&state).cloned();
            // A method of the program is known by its short name everywhere.
            timer.callback = timer.callback.take().map(|name| if is_library(&name) { name } else { short(&name) });
        }
    }

    /// Names of static variables by the object that they refer to.
    fn statics_by_object(&self) -> HashMap<Addr, String> {
        use crate::runtimes::api::Heap as _;
        let statics = self.object_heap().map(|heap| heap.statics()).unwrap_or_default();
        let memory = self.types().memory;
        let object = |(at, name): (Addr, std::sync::Arc<str>)| {
            memory.ptr(at).ok().filter(|object| !object.is_null()).map(|object| (object, name.to_string()))
        };
        statics.into_iter().filter_map(object).collect()
    }
}
