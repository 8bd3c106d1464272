//! Names of types and methods, as .NET's tools show them.
//!
//! `form` tells what a type is made of, `types` writes it in one of the styles of
//! `style`, and `methods` puts the names of methods together; `descriptors` names what an address is.

mod descriptors;
mod form;
mod methods;
mod style;
mod text;
mod types;

pub(super) use form::enclosing_chain;
