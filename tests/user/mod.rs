//! The library as another crate sees it: every form of call, and an operator and an element of the
//! user's own.

mod device;
mod host;
mod macros;
mod own;
mod ready_made;
mod sizes;
mod tagged;

pub(crate) use own::Gcd;
