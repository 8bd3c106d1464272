//! The thread pool for scans.

use std::num::NonZero;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use rayon::{ThreadBuilder, ThreadPoolBuilder};

/// Starts one thread per processor, or as many as `RAYON_NUM_THREADS` says. If the system allows fewer, returns a
/// sentence about that.
pub(crate) fn start() -> Option<String> {
    let given = std::env::var("RAYON_NUM_THREADS").ok().and_then(|n| n.parse().ok()).filter(|&n| n > 0);
    let wanted = given.unwrap_or_else(|| thread::available_parallelism().map_or(1, NonZero::get));
    // Rayon fails permanently if one of its threads cannot be started. So the threads are started here first, and wait
    // for their work.
    let (give, take) = channel::<ThreadBuilder>();
    let take = Arc::new(Mutex::new(take));
    let started = (0..wanted).take_while(|_| {
        let take = take.clone();
        let work = move || {
            let part = take.lock().unwrap_or_else(PoisonError::into_inner).recv();
            if let Ok(part) = part {
                part.run();
            }
        };
        thread::Builder::new().name("scan".into()).spawn(work).is_ok()
    });
    let started = started.count();
    // At a limit: leave room for other threads.
    let kept = if started < wanted { started / 2 } else { started };
    let pool = ThreadPoolBuilder::new().num_threads(kept.max(1));
    let built = if kept == 0 {
        pool.use_current_thread().build_global()
    } else {
        pool.spawn_handler(|part| give.send(part).map_err(|e| std::io::Error::other(e.to_string()))).build_global()
    };
    if let Err(e) = built {
        return Some(format!("the thread pool for scans failed to start: {e}"));
    }
    (started < wanted).then(|| {
        format!(
            "only {started} of {wanted} threads could be started (ulimit -u, pids.max or memory); scans use {} and \
             take longer",
            kept.max(1)
        )
    })
}
