// SPDX-License-Identifier: LGPL-2.1-or-later

//! The values of calls and answers as JSON. Paths are texts, and structs are
//! objects.

use std::collections::HashMap;
use std::fs::File;
use std::os::fd::AsFd;

use mountd1::zvariant::{OwnedFd, OwnedObjectPath, OwnedValue};
use serde_json::{Map, Value};

pub trait Json: Sized {
    /// Panics if the value is of another type, because the script is wrong then.
    fn from_json(value: &Value) -> Self;
    fn to_json(&self) -> Value;

    // A list of bytes is a text.
    fn list_from_json(value: &Value) -> Vec<Self> {
        let list = value.as_array().expect("a list");
        list.iter().map(Self::from_json).collect()
    }
    fn list_to_json(list: &[Self]) -> Value {
        Value::Array(list.iter().map(Json::to_json).collect())
    }
}

/// Returns the argument with that number.
pub fn argument<T: Json>(list: &[Value], number: usize) -> T {
    T::from_json(&list[number])
}

macro_rules! number {
    ($($kind:ty)*) => {$(
        impl Json for $kind {
            fn from_json(value: &Value) -> Self {
                let whole = value.as_i64().expect("a number");
                whole.try_into().expect("a number of that width")
            }
            fn to_json(&self) -> Value {
                Value::from(*self)
            }
        }
    )*};
}
number!(u16 i32 u32 i64 u64);

impl Json for u8 {
    fn from_json(value: &Value) -> Self {
        u8::try_from(value.as_u64().expect("a number")).expect("a byte")
    }
    fn to_json(&self) -> Value {
        Value::from(*self)
    }
    fn list_from_json(value: &Value) -> Vec<Self> {
        value.as_str().expect("a path").as_bytes().to_vec()
    }
    fn list_to_json(list: &[Self]) -> Value {
        Value::from(String::from_utf8_lossy(list).into_owned())
    }
}

impl Json for bool {
    fn from_json(value: &Value) -> Self {
        value.as_bool().expect("a bool")
    }
    fn to_json(&self) -> Value {
        Value::from(*self)
    }
}

impl Json for String {
    fn from_json(value: &Value) -> Self {
        value.as_str().expect("a text").to_owned()
    }
    fn to_json(&self) -> Value {
        Value::from(self.as_str())
    }
}

impl Json for () {
    fn from_json(_: &Value) -> Self {}
    fn to_json(&self) -> Value {
        Value::Null
    }
}

impl Json for OwnedObjectPath {
    fn from_json(value: &Value) -> Self {
        value.as_str().expect("a path").to_owned().try_into().expect("an object path")
    }
    fn to_json(&self) -> Value {
        Value::from(self.as_str())
    }
}

/// As an argument a file that a path names, or a memfd of secrets, which are an
/// object of texts.
impl Json for OwnedFd {
    fn from_json(value: &Value) -> Self {
        if let Some(path) = value.as_str() {
            let file = File::open(path).expect("a file");
            return std::os::fd::OwnedFd::from(file).into();
        }
        mountd1::seal_secrets(&Json::from_json(value)).expect("a memfd")
    }
    fn to_json(&self) -> Value {
        let copy = self.as_fd().try_clone_to_owned();
        let stat = copy.and_then(|fd| File::from(fd).metadata());
        Value::from(if stat.is_ok() { "open" } else { "closed" })
    }
}

impl Json for OwnedValue {
    fn from_json(_: &Value) -> Self {
        unreachable!("no argument of the script is a variant")
    }
    fn to_json(&self) -> Value {
        Value::Null
    }
}

impl<T: Json> Json for Vec<T> {
    fn from_json(value: &Value) -> Self {
        T::list_from_json(value)
    }
    fn to_json(&self) -> Value {
        T::list_to_json(self)
    }
}

impl<T: Json> Json for HashMap<String, T> {
    fn from_json(value: &Value) -> Self {
        let object = value.as_object().expect("an object");
        object.iter().map(|(key, one)| (key.clone(), T::from_json(one))).collect()
    }
    fn to_json(&self) -> Value {
        let mut object = Map::new();
        for (key, one) in self {
            object.insert(key.clone(), one.to_json());
        }
        Value::Object(object)
    }
}

macro_rules! row {
    ($name:ident { $($field:ident),* }) => {
        impl Json for $name {
            fn from_json(value: &Value) -> Self {
                let mut row = $name::default();
                $(row.$field = Json::from_json(
                    &value[stringify!($field).trim_start_matches("r#")]);)*
                row
            }
            fn to_json(&self) -> Value {
                let mut object = serde_json::Map::new();
                $(object.insert(
                    stringify!($field).trim_start_matches("r#").to_owned(),
                    self.$field.to_json());)*
                Value::Object(object)
            }
        }
    };
}

macro_rules! dictionary {
    ($name:ident { $($key:literal $field:ident),* }) => {
        impl Json for $name {
            fn from_json(value: &Value) -> Self {
                let mut keys = $name::default();
                for (key, one) in value.as_object().expect("an object") {
                    match key.as_str() {
                        $($key => keys.$field = Some(Json::from_json(one)),)*
                        _ => panic!("{} has no {key}", stringify!($name)),
                    }
                }
                keys
            }
            fn to_json(&self) -> Value {
                let mut object = serde_json::Map::new();
                $(if let Some(one) = &self.$field {
                    object.insert($key.to_owned(), one.to_json());
                })*
                Value::Object(object)
            }
        }
    };
}

pub(crate) use {dictionary, row};
