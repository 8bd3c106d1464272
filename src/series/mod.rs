//! Rows of looks at one process: what a look keeps, the file that looks are kept in, and what becomes of a figure from
//! look to look.
//!
//! | file | holds |
//! |---|---|
//! | `shape` | whether a row of values grows, or is noise |

pub mod shape;
