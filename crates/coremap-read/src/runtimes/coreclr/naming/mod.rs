//! Names of types and methods, as .NET's tools print them.
//!
//! `form` analyses a type, `types` writes its name in a style of `style`, and `methods` composes names of methods.
//! `descriptors` names the MethodTable or MethodDesc at an address.

mod descriptors;
mod form;
mod methods;
mod style;
mod text;
mod types;

pub(super) use form::enclosing_chain;
