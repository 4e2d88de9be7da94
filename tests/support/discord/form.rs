//! The fields of a body: each is read with its type, and all errors are told together.

use serde_json::{Map, Value, json};

use super::errors;
use super::world::Id;
use crate::support::fake::Refusal;

/// The errors that were found so far, each with the path of its field.
#[derive(Default)]
pub struct Form {
    errors: Vec<(String, &'static str, String)>,
}

/// The path of a field in an object.
pub fn path(at: &str, key: &str) -> String {
    match at.is_empty() {
        true => key.to_owned(),
        false => format!("{at}.{key}"),
    }
}

impl Form {
    pub fn add(&mut self, at: &str, code: &'static str, message: impl Into<String>) {
        self.errors.push((at.to_owned(), code, message.into()));
    }

    pub fn required(&mut self, at: &str) {
        self.add(at, "BASE_TYPE_REQUIRED", "This field is required");
    }

    /// Refuses the body if there were errors.
    pub fn check(self) -> Result<(), Refusal> {
        if self.errors.is_empty() {
            return Ok(());
        }
        let mut tree = json!({});
        for (at, code, message) in self.errors {
            let mut node = &mut tree;
            for part in at.split('.').filter(|part| !part.is_empty()) {
                node = &mut node[part];
            }
            if node["_errors"].is_null() {
                node["_errors"] = json!([]);
            }
            let errors = node["_errors"].as_array_mut().expect("a list");
            errors.push(json!({"code": code, "message": message}));
        }
        Err(errors::invalid_form(tree))
    }

    pub fn text<'a>(
        &mut self,
        body: &'a Map<String, Value>,
        at: &str,
        key: &str,
    ) -> Option<&'a str> {
        let value = present(body, key)?;
        if !value.is_string() {
            let told = format!("Could not interpret \"{value}\" as string.");
            self.add(&path(at, key), "STRING_TYPE_CONVERT", told);
        }
        value.as_str()
    }

    /// A text with so many characters at least and at most.
    pub fn text_of<'a>(
        &mut self,
        body: &'a Map<String, Value>,
        at: &str,
        key: &str,
        (least, most): (usize, usize),
    ) -> Option<&'a str> {
        let text = self.text(body, at, key)?;
        let length = text.chars().count();
        if length > most && least == 0 {
            let told = format!("Must be {most} or fewer in length.");
            self.add(&path(at, key), "BASE_TYPE_MAX_LENGTH", told);
        } else if !(least..=most).contains(&length) {
            let told = format!("Must be between {least} and {most} in length.");
            self.add(&path(at, key), "BASE_TYPE_BAD_LENGTH", told);
        }
        Some(text)
    }

    pub fn int(&mut self, body: &Map<String, Value>, at: &str, key: &str) -> Option<i64> {
        let value = present(body, key)?;
        if !value.is_i64() && !value.is_u64() {
            let told = format!("Value \"{value}\" is not int.");
            self.add(&path(at, key), "NUMBER_TYPE_COERCE", told);
        }
        value.as_i64()
    }

    /// A number that is one of these.
    pub fn choice(
        &mut self,
        body: &Map<String, Value>,
        at: &str,
        key: &str,
        of: &[i64],
    ) -> Option<i64> {
        let value = self.int(body, at, key)?;
        if !of.contains(&value) {
            let told = format!("Value must be one of {of:?}.");
            self.add(&path(at, key), "BASE_TYPE_CHOICES", told);
        }
        Some(value)
    }

    pub fn flag(&mut self, body: &Map<String, Value>, at: &str, key: &str) -> Option<bool> {
        let value = present(body, key)?;
        if !value.is_boolean() {
            let told = "Must be either true or false.";
            self.add(&path(at, key), "BOOLEAN_TYPE_CONVERT", told);
        }
        value.as_bool()
    }

    pub fn list<'a>(
        &mut self,
        body: &'a Map<String, Value>,
        at: &str,
        key: &str,
        most: usize,
    ) -> Option<&'a Vec<Value>> {
        let value = present(body, key)?;
        match value.as_array() {
            None => {
                let told = "Only iterables may be used in a ListType";
                self.add(&path(at, key), "LIST_TYPE_CONVERT", told);
            }
            Some(list) if list.len() > most => {
                let told = format!("Must be {most} or fewer in length.");
                self.add(&path(at, key), "BASE_TYPE_MAX_LENGTH", told);
            }
            Some(_) => {}
        }
        value.as_array()
    }

    pub fn object<'a>(&mut self, value: &'a Value, at: &str) -> Option<&'a Map<String, Value>> {
        if !value.is_object() {
            let told = "Only dictionaries may be used in a DictType";
            self.add(at, "DICT_TYPE_CONVERT", told);
        }
        value.as_object()
    }

    /// An id, which may be a text or a number.
    pub fn id(&mut self, body: &Map<String, Value>, at: &str, key: &str) -> Option<Id> {
        let value = present(body, key)?;
        self.id_of(value, &path(at, key))
    }

    pub fn id_of(&mut self, value: &Value, at: &str) -> Option<Id> {
        let id = match value {
            Value::String(text) => text.parse().ok(),
            number => number.as_u64(),
        };
        if id.is_none() {
            let told = format!("Value {value} is not snowflake.");
            self.add(at, "NUMBER_TYPE_COERCE", told);
        }
        id
    }
}

/// A field that is null counts as absent.
pub fn present<'a>(body: &'a Map<String, Value>, key: &str) -> Option<&'a Value> {
    body.get(key).filter(|value| !value.is_null())
}
