// SPDX-License-Identifier: LGPL-2.1-or-later

use std::fmt;

use crate::Code;

const PREFIX: &str = "org.mountd1.Error.";
const BUS_PREFIX: &str = "org.freedesktop.DBus.Error.";

pub type Result<T> = std::result::Result<T, Error>;

#[derive(Debug)]
pub enum Error {
    /// An answer of mountd, or of the bus, that is an error.
    Answer {
        code: Code,
        /// The call that failed.
        method: String,
        /// The whole name, as org.mountd1.Error.Busy.
        name: String,
        message: String,
    },
    /// mountd does not answer: it is not there, or it went away and did not
    /// come back in time.
    Away(zbus::Error),
    /// An answer does not follow the contract, or a value cannot be sent.
    Contract(zbus::Error),
}

impl Error {
    /// The code of an answer; `Unavailable` if there was no answer.
    pub fn code(&self) -> Code {
        match self {
            Error::Answer { code, .. } => *code,
            Error::Away(_) => Code::Unavailable,
            Error::Contract(_) => Code::Internal,
        }
    }

    pub(crate) fn of(method: &str, error: zbus::Error) -> Error {
        let zbus::Error::MethodError(name, message, _) = &error else {
            return if is_lost(&error) {
                Error::Away(error)
            } else {
                Error::Contract(error)
            };
        };
        Error::Answer {
            code: code_of(name.as_str()),
            method: method.to_owned(),
            name: name.to_string(),
            message: message.clone().unwrap_or_default(),
        }
    }
}

/// Whether mountd went away before it answered. The call may have been done or
/// not.
pub(crate) fn is_lost(error: &zbus::Error) -> bool {
    match error {
        zbus::Error::MethodError(name, _, _) => matches!(
            name.as_str().strip_prefix(BUS_PREFIX),
            Some("Disconnected" | "NoReply" | "NameHasNoOwner")
        ),
        zbus::Error::InputOutput(_)
        | zbus::Error::Connection(_, _)
        | zbus::Error::Handshake(_) => true,
        _ => false,
    }
}

pub(crate) fn is_in_progress(error: &zbus::Error) -> bool {
    matches!(error, zbus::Error::MethodError(name, _, _)
        if name.as_str() == "org.mountd1.Error.InProgress")
}

/// Says which error an error of the bus, or of mountd's own D-Bus library, means
/// to a caller.
fn code_of(name: &str) -> Code {
    if let Some(name) = name.strip_prefix(PREFIX) {
        return Code::from_name(name).unwrap_or(Code::Internal);
    }
    match name.strip_prefix(BUS_PREFIX) {
        Some("AccessDenied") => Code::PermissionDenied,
        Some("InvalidArgs" | "InvalidSignature") => Code::InvalidArgument,
        Some("UnknownMethod" | "UnknownInterface" | "UnknownObject" | "UnknownProperty") => {
            Code::NotSupported
        }
        Some("LimitsExceeded") => Code::ResourceExhausted,
        _ => Code::Unavailable,
    }
}

impl fmt::Display for Error {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Answer {
                code,
                method,
                message,
                ..
            } => write!(to, "{method}: {code:?}: {message}"),
            Error::Away(error) => write!(to, "mountd does not answer: {error}"),
            Error::Contract(error) => write!(to, "not by the contract: {error}"),
        }
    }
}

impl std::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_have_codes() {
        assert_eq!(code_of("org.mountd1.Error.Busy"), Code::Busy);
        assert_eq!(code_of("org.mountd1.Error.Later"), Code::Internal);
        let old = "org.freedesktop.DBus.Error.UnknownMethod";
        assert_eq!(code_of(old), Code::NotSupported);
        assert_eq!(code_of("com.example.Other"), Code::Unavailable);
    }
}
