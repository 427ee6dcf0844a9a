// SPDX-License-Identifier: LGPL-2.1-or-later

//! Calls mountd, by its socket or by the system bus.
//!
//! Each method of org.mountd1.Manager is a method of [`Client`], with a struct
//! for each dictionary of the contract. A call that mountd answers with
//! InProgress is joined again until it is done or [`Client::deadline`] is over.
//! A call that met the end of mountd is repeated on a new connection, because
//! every call of mountd may be repeated.

#![cfg_attr(test, deny(warnings))]

mod client;
mod error;
mod generated;
mod sealed_secrets;

pub use client::{Client, Signals, SOCKET};
pub use error::{Error, Result};
pub use generated::*;
pub use sealed_secrets::seal_secrets;
pub use zbus::zvariant;
