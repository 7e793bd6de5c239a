//! Verbs for servers, browsers and object stores.

#[cfg(feature = "serve")]
pub(crate) mod pull;
#[cfg(feature = "objects")]
pub(crate) mod push;
#[cfg(feature = "serve")]
pub(crate) mod serve;
#[cfg(feature = "serve")]
pub(crate) mod token;
#[cfg(feature = "serve")]
pub(crate) mod view;
