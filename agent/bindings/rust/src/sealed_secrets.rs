// SPDX-License-Identifier: LGPL-2.1-or-later

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Seek, Write};

use rustix::fs::{fcntl_add_seals, memfd_create, MemfdFlags, SealFlags};
use zbus::zvariant::OwnedFd;

/// Returns a memfd with key, NUL, value, NUL, and so on, its offset at 0 and with
/// all seals, for the option "secrets". `InvalidInput` if a key is empty or a
/// text holds a NUL; the error never contains the secret.
pub fn seal_secrets(secrets: &HashMap<String, String>) -> io::Result<OwnedFd> {
    for (key, value) in secrets {
        // The memfd's format separates texts by NUL.
        if key.is_empty() || key.contains('\0') || value.contains('\0') {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "a secret has an empty key or contains a NUL byte",
            ));
        }
    }
    // CLOEXEC, because programs that the agent starts must not get the secrets.
    // Without ALLOW_SEALING the file could get no seals (memfd_create(2)).
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    // File has no buffer, so no other copy of the secrets is made.
    let mut file = File::from(memfd_create("mountd-secrets", flags)?);
    for (key, value) in secrets {
        for text in [key.as_str(), "\0", value.as_str(), "\0"] {
            file.write_all(text.as_bytes())?;
        }
    }
    file.rewind()?;
    // Seals come after the writes, because WRITE refuses all writes (fcntl(2)).
    fcntl_add_seals(
        &file,
        SealFlags::SEAL | SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE,
    )?;
    Ok(std::os::fd::OwnedFd::from(file).into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::fcntl_get_seals;
    use rustix::io::{fcntl_getfd, FdFlags};
    use std::io::Read;

    fn secrets(list: &[(&str, &str)]) -> HashMap<String, String> {
        let texts = list.iter().map(|(key, value)| (key.to_string(), value.to_string()));
        texts.collect()
    }

    #[test]
    fn secrets_are_sealed_in_a_memfd() {
        let fd = seal_secrets(&secrets(&[("user", "bob"), ("password", "")])).unwrap();
        assert_eq!(fcntl_getfd(&fd).unwrap(), FdFlags::CLOEXEC);
        assert_eq!(
            fcntl_get_seals(&fd).unwrap(),
            SealFlags::SEAL | SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE
        );
        let mut file = File::from(std::os::fd::OwnedFd::from(fd));
        let mut content = String::new();
        file.read_to_string(&mut content).unwrap();
        let texts: Vec<&str> = content.split('\0').collect();
        let read = secrets(&[(texts[0], texts[1]), (texts[2], texts[3])]);
        assert_eq!(read, secrets(&[("user", "bob"), ("password", "")]));
        assert_eq!(texts[4..], [""]);
        file.rewind().unwrap();
        assert!(file.write(b"x").is_err());
    }

    #[test]
    fn secrets_that_the_format_cannot_hold_are_refused() {
        for list in [("", "hidden"), ("key", "hid\0den"), ("k\0ey", "hidden")] {
            let error = seal_secrets(&secrets(&[list])).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
            assert!(!error.to_string().contains("hid"));
        }
    }
}
