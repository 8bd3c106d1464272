//! Tasks of asyncio: what each waits for, and the coroutines in between.
//!
//! A task has a coroutine; a coroutine that awaits another one has it at the top of its operands, and so on to a future
//! that is not done (`_PyGen_yf`, Objects/genobject.c). Tasks are objects like others: a walk over the heap finds them.
//!
//! | file | does |
//! |---|---|
//! | `coroutine` | from a coroutine to what it awaits |
//! | `find` | tasks and futures, by their fields or attributes |
//! | `words` | what is waited for, in words |

mod coroutine;
mod find;
mod words;
