// SPDX-License-Identifier: LGPL-2.1-or-later

use std::sync::Mutex;
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde::de::DeserializeOwned;
use serde::Serialize;
use zbus::blocking::connection::Builder;
use zbus::blocking::{Connection, MessageIterator};
use zbus::zvariant::{DynamicType, ObjectPath, OwnedValue, Type};

use crate::error::{is_in_progress, is_lost};
use crate::{Error, PluginProperties, Result, Signal};

const SERVICE: &str = "org.mountd1";
const OBJECT: &str = "/org/mountd1";
const MANAGER: &str = "org.mountd1.Manager";
const PLUGIN: &str = "org.mountd1.Plugin";
const PROPERTIES: &str = "org.freedesktop.DBus.Properties";

/// The address of mountd's own socket.
pub const SOCKET: &str = "unix:path=/run/mountd/bus";

const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

/// Where a call goes.
struct Target<'a> {
    object: &'a str,
    interface: &'a str,
}

/// Owns a connection to mountd, and makes another one when it is lost. Every
/// method blocks until its answer, and may be called on several threads.
pub struct Client {
    /// How long a call goes on without a mountd that answers.
    pub reconnect: Duration,
    /// How long a call is joined while it is in progress. After that its error
    /// is InProgress, whose message is the id of the operation.
    pub deadline: Duration,
    /// `None` is the system bus.
    address: Option<String>,
    connection: Mutex<Option<Connection>>,
}

impl Client {
    /// Returns a client of mountd's socket, as [`SOCKET`]. The first call
    /// connects.
    pub fn new(address: &str) -> Client {
        Client::with(Some(address.to_owned()))
    }

    /// Returns a client of mountd on the system bus.
    pub fn on_system_bus() -> Client {
        Client::with(None)
    }

    fn with(address: Option<String>) -> Client {
        Client {
            // A start of mountd with ten thousand mounts takes less time.
            reconnect: Duration::from_secs(10),
            deadline: Duration::from_secs(300),
            address,
            connection: Mutex::new(None),
        }
    }

    /// Subscribes on a connection of its own, and returns its signals. The
    /// iterator ends when that connection is lost.
    pub fn signals(&self) -> Result<Signals> {
        let connection = self.connect().map_err(Error::Away)?;
        let received = MessageIterator::from(&connection);
        let none = std::collections::HashMap::<&str, OwnedValue>::new();
        connection
            .call_method(Some(SERVICE), OBJECT, Some(MANAGER), "Subscribe", &(none,))
            .map_err(|error| Error::of("Subscribe", error))?;
        Ok(Signals { received })
    }

    fn connect(&self) -> zbus::Result<Connection> {
        match &self.address {
            Some(address) => Builder::address(address.as_str())?.p2p().build(),
            None => Connection::system(),
        }
    }

    fn connection(&self) -> zbus::Result<Connection> {
        let mut kept = self.connection.lock().unwrap_or_else(|held| held.into_inner());
        if let Some(connection) = kept.as_ref() {
            return Ok(connection.clone());
        }
        let connection = self.connect()?;
        *kept = Some(connection.clone());
        Ok(connection)
    }

    /// Forgets the connection, because it was lost.
    fn drop_connection(&self) {
        *self.connection.lock().unwrap_or_else(|held| held.into_inner()) = None;
    }

    fn try_once<B, R>(&self, to: &Target, method: &str, body: &B) -> zbus::Result<R>
    where
        B: Serialize + DynamicType,
        R: DeserializeOwned + Type,
    {
        let answer = self.connection()?.call_method(
            Some(SERVICE),
            to.object,
            Some(to.interface),
            method,
            body,
        )?;
        let body = answer.body();
        Ok(body.deserialize::<R>()?)
    }

    fn repeat<B, R>(&self, to: &Target, method: &str, body: &B) -> Result<R>
    where
        B: Serialize + DynamicType,
        R: DeserializeOwned + Type,
    {
        let begun = Instant::now();
        // When the first of the tries in a row failed.
        let mut lost: Option<Instant> = None;
        let mut pause = FIRST_PAUSE;
        loop {
            let error = match self.try_once(to, method, body) {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            if is_in_progress(&error) && begun.elapsed() < self.deadline {
                lost = None;
                pause = FIRST_PAUSE;
                continue;
            }
            if !is_lost(&error) {
                return Err(Error::of(method, error));
            }
            self.drop_connection();
            if lost.get_or_insert_with(Instant::now).elapsed() > self.reconnect {
                return Err(Error::Away(error));
            }
            sleep(pause);
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    pub(crate) fn call<B, R>(&self, method: &str, body: &B) -> Result<R>
    where
        B: Serialize + DynamicType,
        R: DeserializeOwned + Type,
    {
        let manager = Target {
            object: OBJECT,
            interface: MANAGER,
        };
        self.repeat(&manager, method, body)
    }

    /// Returns the properties of an object of org.mountd1.Plugin, which GetPlugin
    /// and PluginAdded name. NotSupported if there is no such object.
    pub fn plugin_properties(&self, object: &ObjectPath<'_>) -> Result<PluginProperties> {
        let object = Target {
            object: object.as_str(),
            interface: PROPERTIES,
        };
        self.repeat(&object, "GetAll", &(PLUGIN,))
    }

    pub(crate) fn property<R>(&self, name: &str) -> Result<R>
    where
        R: TryFrom<OwnedValue>,
        zbus::zvariant::Error: From<R::Error>,
    {
        let manager = Target {
            object: OBJECT,
            interface: PROPERTIES,
        };
        let value: OwnedValue = self.repeat(&manager, "Get", &(MANAGER, name))?;
        R::try_from(value)
            .map_err(|error| Error::Contract(zbus::zvariant::Error::from(error).into()))
    }
}

/// The signals of one connection.
pub struct Signals {
    received: MessageIterator,
}

impl Iterator for Signals {
    type Item = Signal;

    fn next(&mut self) -> Option<Signal> {
        loop {
            let message = self.received.next()?.ok()?;
            if let Some(signal) = read(&message) {
                return Some(signal);
            }
        }
    }
}

/// Returns `None` for a message that is no signal of the contract.
fn read(message: &zbus::Message) -> Option<Signal> {
    let header = message.header();
    let member = header.member()?.as_str();
    match header.interface()?.as_str() {
        MANAGER => Signal::read(member, message),
        PROPERTIES if member == "PropertiesChanged" => {
            let body = message.body();
            let (interface, properties, _): (String, PluginProperties, Vec<String>) =
                body.deserialize().ok()?;
            (interface == PLUGIN).then_some(Signal::PluginPropertiesChanged {
                object: header.path()?.to_owned().into(),
                properties: Box::new(properties),
            })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;
    use zbus::zvariant::Value;

    fn changed(interface: &str) -> zbus::Message {
        let properties = HashMap::from([
            ("State", Value::from("healthy")),
            ("Later", Value::from(true)),
        ]);
        let none = Vec::<&str>::new();
        zbus::Message::signal("/org/mountd1/plugin/csi/0", PROPERTIES, "PropertiesChanged")
            .unwrap()
            .build(&(interface, properties, none))
            .unwrap()
    }

    #[test]
    fn properties_of_plugins_are_read() {
        let Some(Signal::PluginPropertiesChanged { object, properties }) = read(&changed(PLUGIN))
        else {
            panic!("is no change of properties");
        };
        assert_eq!(object.as_str(), "/org/mountd1/plugin/csi/0");
        assert_eq!(properties.state.as_deref(), Some("healthy"));
        assert_eq!(properties.node_id, None);
        assert!(read(&changed(MANAGER)).is_none());
    }
}
