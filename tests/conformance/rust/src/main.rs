// SPDX-License-Identifier: LGPL-2.1-or-later

//! The conformance script's runner in Rust, by the crate.
//!
//!     conformance ADDRESS

use std::io::{stdin, stdout, BufRead, Write};

use mountd1::Client;
use serde_json::{json, Value};

#[rustfmt::skip]
mod generated;
mod json;

fn answer(client: &Client, step: &Value) -> Value {
    let call = step["call"].as_str().expect("a method");
    let list = step["arguments"].as_array().expect("a list");
    let patience = step["patience_ms"].as_u64().map(|ms| ms as u32);
    match generated::make(client, call, list, patience) {
        None => json!({"error": "runner", "message": "the runner has no such method"}),
        Some(Ok(result)) => json!({ "result": result }),
        Some(Err(error)) => {
            json!({"error": format!("{:?}", error.code()), "message": error.to_string()})
        }
    }
}

fn main() {
    let address = std::env::args().nth(1).expect("usage: conformance ADDRESS");
    let client = Client::new(&address);
    for line in stdin().lock().lines() {
        let step = serde_json::from_str(&line.expect("a line")).expect("JSON");
        println!("{}", answer(&client, &step));
        stdout().flush().expect("stdout");
    }
}
