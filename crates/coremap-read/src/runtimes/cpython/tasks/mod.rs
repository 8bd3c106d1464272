//! Tasks of asyncio: what each waits for, and the coroutines in between.
//!
//! A task has a coroutine. A coroutine that awaits another one has it on top of its operand stack, and so on down to a
//! pending future (`_PyGen_yf`, Objects/genobject.c). Tasks are ordinary objects; a walk over the heap finds them.
//!
//! | file | contents |
//! |---|---|
//! | `coroutine` | from a coroutine to what it awaits |
//! | `find` | tasks and futures, by their fields or attributes |
//! | `wait_text` | descriptions of what is awaited |

mod coroutine;
mod find;
mod wait_facts;
mod wait_text;

pub(super) use find::task_types;
