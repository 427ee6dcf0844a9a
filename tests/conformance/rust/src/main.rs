// SPDX-License-Identifier: LGPL-2.1-or-later

//! The conformance script's runner in Rust, by the crate.
//!
//!     conformance ADDRESS

use std::io::{stdin, stdout, BufRead, Write};
use std::sync::mpsc::{channel, Receiver};
use std::thread::spawn;
use std::time::{Duration, Instant};

use mountd1::zvariant::ObjectPath;
use mountd1::Client;
use serde_json::{json, Value};

use crate::json::Json;

#[rustfmt::skip]
mod generated;
mod json;

fn answer(client: &Client, step: &Value) -> Value {
    let call = step["call"].as_str().expect("a method");
    let list = step["arguments"].as_array().expect("a list");
    let patience = step["patience_ms"].as_u64().map(|ms| ms as u32);
    let made = if call == "PluginProperties" {
        let object = list[0].as_str().expect("a path");
        let object = ObjectPath::try_from(object).expect("an object path");
        Some(client.plugin_properties(&object).map(|answer| answer.to_json()))
    } else {
        generated::make(client, call, list, patience)
    };
    match made {
        None => json!({"error": "runner", "message": "the runner has no such method"}),
        Some(Ok(result)) => json!({ "result": result }),
        Some(Err(error)) => {
            json!({"error": format!("{:?}", error.code()), "message": error.to_string()})
        }
    }
}

/// The signals that no step has taken, and where later ones come from.
#[derive(Default)]
struct Received {
    kept: Vec<(&'static str, Value)>,
    later: Option<Receiver<(&'static str, Value)>>,
}

impl Received {
    /// Reads signals on a thread of its own, because the iterator waits for them.
    fn subscribe(&mut self, client: &Client) -> Value {
        let signals = match client.signals() {
            Ok(signals) => signals,
            Err(error) => return json!({"error": "runner", "message": error.to_string()}),
        };
        let (sender, later) = channel();
        self.later = Some(later);
        spawn(move || {
            for one in signals {
                if sender.send(generated::signal(&one)).is_err() {
                    return;
                }
            }
        });
        json!({ "result": null })
    }

    /// Returns the first signal of that name, and removes it.
    fn take(&mut self, name: &str) -> Value {
        let deadline = Instant::now() + Duration::from_secs(10);
        loop {
            if let Some(at) = self.kept.iter().position(|one| one.0 == name) {
                return json!({ "result": self.kept.remove(at).1 });
            }
            let left = deadline.saturating_duration_since(Instant::now());
            match self.later.as_ref().map(|later| later.recv_timeout(left)) {
                Some(Ok(one)) => self.kept.push(one),
                _ => {
                    let message = format!("there was no {name}");
                    return json!({"error": "runner", "message": message});
                }
            }
        }
    }
}

fn main() {
    let address = std::env::args().nth(1).expect("usage: conformance ADDRESS");
    let client = Client::new(&address);
    let mut received = Received::default();
    for line in stdin().lock().lines() {
        let step: Value = serde_json::from_str(&line.expect("a line")).expect("JSON");
        let said = if step.get("signals").is_some() {
            received.subscribe(&client)
        } else if let Some(name) = step["signal"].as_str() {
            received.take(name)
        } else {
            answer(&client, &step)
        };
        println!("{said}");
        stdout().flush().expect("stdout");
    }
}
